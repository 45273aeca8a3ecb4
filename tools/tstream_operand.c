/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the only tensor or decomposition of a directory, for a command without an operand. */
#include "tools/tstream_operand.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common/tool.h"

static int ends_with(const char *name, const char *suffix)
{
    const size_t n = strlen(name), k = strlen(suffix);
    return n > k && strcmp(name + n - k, suffix) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists at most `most` directories of the current directory whose names end with the suffix, sorted
 * by name. */
static int list_names(const char *suffix, char **name, int most)
{
    DIR *d = opendir(".");
    struct dirent *e;
    struct stat st;
    int n = 0;
    while (d != NULL && n < most && (e = readdir(d)) != NULL)
        if (ends_with(e->d_name, suffix) && e->d_name[0] != '.' && stat(e->d_name, &st) == 0 &&
            S_ISDIR(st.st_mode) && (name[n] = strdup(e->d_name)) != NULL)
            n++;
    if (d != NULL)
        closedir(d);
    qsort(name, (size_t)n, sizeof *name, by_name);
    return n;
}

int tstream_operand(const char *operand, const char *suffix, const char *what, char **ret,
                    struct ts_err *err)
{
    char *name[16], list[400] = "";
    int n, rc = 0;
    if (operand != NULL) {
        *ret = tool_operand(operand, suffix);
        return *ret == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", operand) : 0;
    }
    n = list_names(suffix, name, 16);
    if (n == 1) {
        *ret = name[0];
        return 0;
    }
    for (int i = 0; i < n; i++) {
        const size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i == 0 ? "" : ", ", name[i]);
        free(name[i]);
    }
    rc = n == 0 ? ts_fail(err, TS_EARG, "which %s? There is no *%s in the current directory", what,
                          suffix)
                : ts_fail(err, TS_EARG, "which %s? There are %s", what, list);
    return rc;
}

int tstream_operand_work(const struct ts_cmd *cmd, const char *operand, const void *args,
                         int (*work)(const struct ts_cmd *cmd, const void *args, const char *path,
                                     struct ts_err *err))
{
    struct ts_err err;
    char *path;
    int rc;
    tool_catch_signals();
    if (tstream_operand(operand, ".tsh", "tensor", &path, &err) < 0)
        return tool_fail(cmd, &err);
    rc = work(cmd, args, path, &err);
    free(path);
    return rc < 0 ? tool_fail(cmd, &err) : 0;
}

char *tstream_operand_swap(const char *tensor, const char *suffix)
{
    size_t end = strlen(tensor), start;
    char *s;
    if (ts_array_name_cells(tensor) > 0)
        end = ts_array_name_cells(tensor);
    while (end > 1 && tensor[end - 1] == '/')
        end--;
    for (start = end; start > 0 && tensor[start - 1] != '/'; start--)
        ;
    if (end - start > 4 &&
        (strncmp(tensor + end - 4, ".tsh", 4) == 0 || strncmp(tensor + end - 4, ".npy", 4) == 0))
        end -= 4;
    s = malloc(end - start + strlen(suffix) + 1);
    if (s != NULL) {
        memcpy(s, tensor + start, end - start);
        strcpy(s + (end - start), suffix);
    }
    return s;
}
