/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the names of an array's modes and indices as label files in memory. */
#include "format/arrays/array_labels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "base/files/fd.h"
#include "base/num.h"
#include "base/setting.h"
#include "format/arrays/dense.h"
#include "format/file_read.h"
#include "format/mode_names.h"

/* A line of a file of names. */
struct name {
    const char *text;
    size_t n;
    uint64_t line; /* number of the line, from 1 */
};

static int compare_names(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    if (c != 0 || x->n != y->n)
        return c != 0 ? c : x->n < y->n ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

/* Checks that no name of an index occurs twice. text: n names, each with a newline. */
static int check_twice(const char *from, const char *text, uint64_t n, struct ts_err *err)
{
    struct name *name = calloc(n > 0 ? n : 1, sizeof *name);
    int rc = name == NULL ? ts_no_memory(err, from) : 0;
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        name[i].text = text;
        name[i].n = strcspn(text, "\n");
        name[i].line = i + 1;
        text += name[i].n + 1;
    }
    if (rc == 0)
        qsort(name, n, sizeof *name, compare_names);
    for (uint64_t i = 1; rc == 0 && i < n; i++)
        if (name[i].n > 0 && name[i].n == name[i - 1].n &&
            memcmp(name[i].text, name[i - 1].text, name[i].n) == 0)
            rc = ts_fail(err, TS_EFORMAT, "%s:%" PRIu64 ": the name of line %" PRIu64 " again",
                         from, name[i].line, name[i - 1].line);
    free(name);
    return rc;
}

/* Keeps n lines of text, each with its newline, as the labels of a mode. from: the source of the
 * text, for messages. */
static int keep(struct ts_tensor *t, uint32_t mode, const char *from, const char *text,
                size_t bytes, uint64_t n, struct ts_err *err)
{
    struct ts_mode *m = &t->mode[mode];
    struct ts_disk_labels head = {
        .version = TS_FORMAT_VERSION, .mode = mode, .n_labels = n, .text_bytes = bytes
    };
    XXH3_state_t *state = XXH3_createState();
    char *path = strdup(from);
    const int fd = memfd_create("labels", MFD_CLOEXEC);
    int rc = state == NULL || path == NULL ? ts_no_memory(err, from) : 0;
    memcpy(head.magic, TS_LABELS_MAGIC, sizeof head.magic);
    if (rc == 0 && (fd < 0 || ts_fd_write(fd, &head, sizeof head, 0) < 0 ||
                    ts_fd_write(fd, text, bytes, sizeof head) < 0))
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be kept in memory", from);
    if (rc == 0) {
        XXH3_64bits_reset(state);
        XXH3_64bits_update(state, &head, sizeof head);
        XXH3_64bits_update(state, text, bytes);
        m->disk.labels_hash = XXH3_64bits_digest(state);
        m->disk.labels_bytes = sizeof head + bytes;
        m->disk.n_labels = n;
        m->labels_path = path;
        m->labels_fd = fd;
    } else {
        free(path);
        ts_fd_close(fd);
    }
    XXH3_freeState(state);
    return rc;
}

/* ---- names from a file ---- */

/* Drops a byte order mark and the carriage returns before line ends, and adds a newline to the
 * last line if it lacks one. `text` has room for one more byte. Returns the number of bytes left,
 * and sets *n to the number of lines. */
static size_t tidy(char *text, size_t bytes, uint64_t *n)
{
    size_t from = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, to = 0;
    *n = 0;
    for (; from < bytes; from++) {
        if (text[from] == '\r' && from + 1 < bytes && text[from + 1] == '\n')
            continue;
        *n += text[from] == '\n';
        text[to++] = text[from];
    }
    if (to > 0 && text[to - 1] != '\n') {
        text[to++] = '\n';
        (*n)++;
    }
    return to;
}

static int take_file(struct ts_tensor *t, uint32_t mode, const char *path, char *text, size_t bytes,
                     struct ts_err *err)
{
    const uint64_t dim = t->mode[mode].disk.dim;
    const char *nul = memchr(text, '\0', bytes);
    uint64_t n, line = 1;
    size_t left;
    int rc;
    for (const char *at = text; nul != NULL && at < nul; at++)
        line += *at == '\n';
    if (nul != NULL)
        return ts_fail(err, TS_EFORMAT, "%s:%" PRIu64 ": a name with a NUL byte", path, line);
    left = tidy(text, bytes, &n);
    if (n != dim)
        return ts_fail(err, TS_EFORMAT,
                       "%s: %" PRIu64 " name%s for the %" PRIu64 " %s of " TS_NTH_MODE "%s", path,
                       n, ts_num_plural(n), dim, dim == 1 ? "index" : "indices", mode + 1,
                       n == dim + 1 ? " (is the first line a header? Then take it out)" : "");
    rc = check_twice(path, text, n, err);
    return rc < 0 ? rc : keep(t, mode, path, text, left, n, err);
}

/* Reads the names of a mode from a file, which may be absent. */
static int read_file(struct ts_tensor *t, uint32_t mode, const char *path, struct ts_err *err)
{
    uint64_t size = 0, again = 0;
    char *text = NULL;
    int rc = ts_file_read_small(path, 0, NULL, &size, err);
    if (rc <= 0)
        return rc;
    text = malloc(size + 1);
    rc = text == NULL ? ts_no_memory(err, path) : ts_file_read_small(path, size, text, &again, err);
    if (rc == 1)
        rc = again > size ? ts_fail(err, TS_EIO, "%s: it grew while it was read", path)
                          : take_file(t, mode, path, text, again, err);
    free(text);
    return rc;
}

int ts_array_labels_read(struct ts_tensor *t, struct ts_err *err)
{
    const char *file = t->dense->array.file;
    const char *name = strrchr(file, '/');
    const char *dot = strrchr(name != NULL ? name + 1 : file, '.');
    const size_t stem = dot != NULL && dot > file ? (size_t)(dot - file) : strlen(file);
    int rc = 0;
    for (uint32_t m = 0; rc == 0 && m < t->order; m++) {
        char *path = malloc(stem + sizeof ".mode16.map");
        if (path == NULL)
            return ts_no_memory(err, file);
        sprintf(path, "%.*s.mode%" PRIu32 ".map", (int)stem, file, m + 1);
        rc = read_file(t, m, path, err);
        free(path);
    }
    return rc;
}

/* ---- names from a program ---- */

int ts_array_labels_give(struct ts_tensor *t, uint32_t mode, const char *const *name,
                         struct ts_err *err)
{
    const uint64_t dim = t->mode[mode].disk.dim;
    size_t bytes = 0, at = 0;
    char *text;
    int rc;
    for (uint64_t i = 0; i < dim; i++) {
        if (name[i] != NULL && strchr(name[i], '\n') != NULL)
            return ts_fail(err, TS_EARG, "%s: label %" PRIu64 " of " TS_NTH_MODE " has a line end",
                           t->path, i, mode + 1);
        bytes += (name[i] != NULL ? strlen(name[i]) : 0) + 1;
    }
    text = malloc(bytes);
    if (text == NULL)
        return ts_no_memory(err, t->path);
    for (uint64_t i = 0; i < dim; i++) {
        const size_t n = name[i] != NULL ? strlen(name[i]) : 0;
        memcpy(text + at, n > 0 ? name[i] : "", n);
        text[at + n] = '\n';
        at += n + 1;
    }
    rc = keep(t, mode, t->path, text, bytes, dim, err);
    free(text);
    return rc;
}

int ts_array_mode_name(struct ts_tensor *t, uint32_t mode, const char *name, struct ts_err *err)
{
    if (name == NULL || *name == '\0')
        return 0;
    if (strlen(name) > TS_MODE_NAME_MAX || strchr(name, '\n') != NULL)
        return ts_fail(err, TS_EARG,
                       "the name of " TS_NTH_MODE " has more than %u bytes, or a line end",
                       mode + 1, TS_MODE_NAME_MAX);
    for (uint32_t m = 0; m < t->order; m++)
        if (t->name[m] != NULL && strcmp(t->name[m], name) == 0)
            return ts_fail(err, TS_EARG, "two modes are called %s", name);
    t->name[mode] = strdup(name);
    return t->name[mode] == NULL ? ts_no_memory(err, name) : 0;
}
