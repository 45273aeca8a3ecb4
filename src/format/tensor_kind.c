/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kind of tensor lies at a path. */
#include "format/tensor_kind.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/open_dir.h"
#include "base/setting.h"
#include "format/array_index.h"
#include "format/array_name.h"
#include "format/dense.h"
#include "format/shard.h"

#define HEAD_BYTES 16

struct kind {
    /* Whether it is this one: by its name, or by the first n bytes of a file, of which there are none where the name is no file's. */
    int (*is)(const char *name, const uint8_t *head, size_t n);
    int (*open)(const char *path, struct ts_tensor **ret, struct ts_err *err);
};

static int is_npy(const char *name, const uint8_t *head, size_t n)
{
    (void)name;
    return n >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

static int is_text(const char *name, const uint8_t *head, size_t n)
{
    (void)name;
    return n >= 7 && memcmp(head, "tensor", 6) == 0 && isspace(head[6]);
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

/* A name like file.h5:set, of a dataset that is not named from the root. */
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

static int refuse_unrooted(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    const char *colon = strrchr(path, ':');
    const char *set = colon + 1 + strspn(colon + 1, "/");
    (void)ret;
    return ts_fail(err, TS_EARG, "%s: datasets of HDF5 are named from the root: like %.*s:/%s",
                   path, (int)(colon - path), path, *set != '\0' ? set : "data");
}

static int is_raw(const char *name, const uint8_t *head, size_t n)
{
    (void)head;
    return n == 0 && ts_array_name_cells(name) > 0;
}

/* Of arrays; everything else is a directory of shards, or refused as one. */
static const struct kind kinds[] = {
    { is_npy, ts_dense_npy }, { is_text, ts_dense_text },       { is_hdf5, ts_dense_hdf5 },
    { is_raw, ts_dense_raw }, { is_unrooted, refuse_unrooted },
};

static const struct kind *kind_of(const char *path)
{
    uint8_t head[HEAD_BYTES];
    struct stat st;
    ssize_t n = 0;
    if (stat(path, &st) == 0) {
        n = read_head(path, head);
        if (n <= 0)
            return NULL;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].is(path, head, (size_t)n))
            return &kinds[i];
    return NULL;
}

/* The kind is found by one open and used by another: whether the name has changed its file since. */
static int is_moved(const char *path, const struct ts_file_id *before)
{
    struct ts_file_id now;
    return ts_file_id_of(path, &now) ? !ts_file_id_same(before, &now) : errno == ENOENT;
}

static int open_index_too(const struct kind *k, const char *path, struct ts_tensor **ret,
                          struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    int rc = k->open(path, &t, err);
    if (rc == 0)
        rc = ts_array_index_read(t->dense, err);
    if (rc == 0)
        *ret = t;
    else
        ts_tensor_close(t);
    return rc;
}

/* index: an array's index is read, and what is no array is opened as a directory of shards. */
static int open_once(const char *path, int index, struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_file_id before;
    const int there = ts_file_id_of(path, &before);
    const struct kind *k = kind_of(path);
    int rc;
    if (k != NULL)
        rc = index ? open_index_too(k, path, ret, err) : k->open(path, ret, err);
    else if (index)
        rc = ts_tensor_open(path, ret, err);
    else if (!there && !ts_file_id_of(path, &before))
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot open", path);
    else
        rc = ts_fail(err, TS_EARG, "%s: not an array of cells that is known here", path);
    return rc < 0 && there && is_moved(path, &before) ? ts_open_dir_fail(path, err) : rc;
}

static int open_whole(const char *path, int index, struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_err why;
    int rc = open_once(path, index, ret, &why);
    for (int tries = 1; ts_open_dir_stale(rc, &why) && tries < TS_OPEN_DIR_TRIES; tries++)
        rc = open_once(path, index, ret, &why);
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

int ts_tensor_open_any(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    return open_whole(path, 1, ret, err);
}

int ts_tensor_open_array(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    return open_whole(path, 0, ret, err);
}

int ts_tensor_is_array(const char *path)
{
    return kind_of(path) != NULL;
}

uint64_t ts_tensor_partitions(const struct ts_tensor *t, uint32_t mode)
{
    uint64_t n = 0;
    if (t->dense != NULL)
        return ts_dense_partitions(t->dense);
    for (uint64_t i = 0; i < t->mode[mode].disk.n_shards; i++)
        n += ts_shard_partitions(&t->mode[mode].shard[i]);
    return n;
}

int ts_tensor_is_sparse(const struct ts_tensor *t, const char *use, struct ts_err *err)
{
    return t->dense == NULL
               ? 0
               : ts_fail(err, TS_EARG, "%s: %s not possible with a dense tensor", t->path, use);
}

int ts_tensor_is_unweighted(const struct ts_tensor *t, const char *what, struct ts_err *err)
{
    return ts_tensor_weighted(t)
               ? ts_fail(err, TS_EARG,
                         "%s: its cells have weights, which %s does not use; "
                         "least squares with " TS_SET_OBSERVED " and tstream score do",
                         t->path, what)
               : 0;
}
