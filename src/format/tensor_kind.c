/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the kind of tensor at a path, and opens it. */
#include "format/tensor_kind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/open_dir.h"
#include "base/setting.h"
#include "format/arrays/array_index.h"
#include "format/arrays/array_labels.h"
#include "format/arrays/dense.h"
#include "format/shard.h"

static int refuse_unrooted(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    const char *colon = strrchr(path, ':');
    const char *set = colon + 1 + strspn(colon + 1, "/");
    (void)ret;
    return ts_fail(err, TS_EARG, "%s: datasets of HDF5 are named from the root: like %.*s:/%s",
                   path, (int)(colon - path), path, *set != '\0' ? set : "data");
}

typedef int open_fn(const char *path, struct ts_tensor **ret, struct ts_err *err);

/* Functions that open each kind of array. A path that is no array is opened as a directory of
 * shards. */
static open_fn *const openers[TS_N_ARRAYS] = {
    [TS_ARRAY_NPY] = ts_dense_npy,         [TS_ARRAY_TEXT] = ts_dense_text,
    [TS_ARRAY_HDF5] = ts_dense_hdf5,       [TS_ARRAY_RAW] = ts_dense_raw,
    [TS_ARRAY_UNROOTED] = refuse_unrooted,
};

/* Whether the path leads to another file than `before` now. The file is opened twice, to find its
 * kind and to read it, and may be replaced in between. */
static int is_moved(const char *path, const struct ts_file_id *before)
{
    struct ts_file_id now;
    return ts_file_id_of(path, &now) ? !ts_file_id_same(before, &now) : errno == ENOENT;
}

/* Opens an array with its index and its names. An HDF5 file may hold several arrays, and has no
 * names. */
static int open_index_too(enum ts_array_kind kind, const char *path, struct ts_tensor **ret,
                          struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    int rc = openers[kind](path, &t, err);
    if (rc == 0)
        rc = ts_array_index_read(t->dense, err);
    if (rc == 0 && kind != TS_ARRAY_HDF5)
        rc = ts_array_labels_read(t, err);
    if (rc == 0)
        *ret = t;
    else
        ts_tensor_close(t);
    return rc;
}

/* Tries once to open the path, whose file may be replaced meanwhile. index 1: also reads the index
 * and the names of an array, and opens a path that is no array as a directory of shards. */
static int open_once(const char *path, int index, struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_file_id before;
    const int there = ts_file_id_of(path, &before);
    const enum ts_array_kind kind = ts_array_kind(path);
    int rc;
    if (kind < TS_N_ARRAYS)
        rc = index ? open_index_too(kind, path, ret, err) : openers[kind](path, ret, err);
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

int ts_tensor_is_unweighted(const struct ts_tensor *t, const char *use, struct ts_err *err)
{
    return ts_tensor_weighted(t)
               ? ts_fail(err, TS_EARG,
                         "%s: its cells have weights, which %s does not use; "
                         "least squares with " TS_SET_OBSERVED " and tstream score do",
                         t->path, use)
               : 0;
}
