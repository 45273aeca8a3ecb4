/* SPDX-License-Identifier: BSD-3-Clause */
/* array_kind.c - finds the kind of dense array at a path from its name and its first bytes. */
#include "format/arrays/array_kind.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/arrays/array_name.h"

#define HEAD_BYTES 4096 /* bytes that are read: comments may be before the first word of text */

static int is_npy(const char *name, const uint8_t *head, size_t n)
{
    (void)name;
    return n >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

static int is_comment(const uint8_t *at, size_t n)
{
    return at[0] == '#' || (n > 1 && at[0] == '/' && at[1] == '/');
}

static int is_text(const char *name, const uint8_t *head, size_t n)
{
    size_t at = 0;
    (void)name;
    while (at < n && (isspace(head[at]) || is_comment(head + at, n - at))) {
        const int all = !isspace(head[at]);
        while (all && at + 1 < n && head[at] != '\n')
            at++;
        at++;
    }
    return n - at >= 7 && memcmp(head + at, "tensor", 6) == 0 && isspace(head[at + 6]);
}

static int is_hdf5(const char *name, const uint8_t *head, size_t n)
{
    return n == 0 ? ts_array_name_dataset(name) > 0
                  : n >= 8 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0;
}

static ssize_t read_head(const char *path, uint8_t *head)
{
    struct stat st;
    ssize_t n;
    int fd;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    n = pread(fd, head, HEAD_BYTES, 0);
    close(fd);
    return n;
}

/* Whether the name is like file.h5:set: an HDF5 file and a dataset path without the leading
 * slash. */
static int is_unrooted(const char *name, const uint8_t *head, size_t n)
{
    const char *colon = strrchr(name, ':');
    char *file = n == 0 && colon != NULL ? strndup(name, (size_t)(colon - name)) : NULL;
    uint8_t first[HEAD_BYTES];
    const ssize_t got = file != NULL ? read_head(file, first) : -1;
    (void)head;
    free(file);
    return got > 0 && is_hdf5(name, first, (size_t)got);
}

static int is_raw(const char *name, const uint8_t *head, size_t n)
{
    (void)head;
    return n == 0 && ts_array_name_cells(name) > 0;
}

/* For each kind: a function that returns whether an array is of this kind, by its name or by the
 * first n bytes of the file. n is 0 if the file does not exist. */
static int (*const is_kind[TS_N_ARRAYS])(const char *name, const uint8_t *head, size_t n) = {
    [TS_ARRAY_NPY] = is_npy, [TS_ARRAY_TEXT] = is_text,         [TS_ARRAY_HDF5] = is_hdf5,
    [TS_ARRAY_RAW] = is_raw, [TS_ARRAY_UNROOTED] = is_unrooted,
};

enum ts_array_kind ts_array_kind(const char *path)
{
    uint8_t head[HEAD_BYTES];
    struct stat st;
    ssize_t n = 0;
    int i = 0;
    if (stat(path, &st) == 0) {
        n = read_head(path, head);
        if (n <= 0)
            return TS_N_ARRAYS;
    }
    while (i < TS_N_ARRAYS && !is_kind[i](path, head, (size_t)n))
        i++;
    return (enum ts_array_kind)i;
}

int ts_tensor_is_array(const char *path)
{
    return ts_array_kind(path) < TS_N_ARRAYS;
}
