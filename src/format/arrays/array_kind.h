/* SPDX-License-Identifier: BSD-3-Clause */
/* array_kind.h - the kinds of dense arrays that a path can name, in the order in which a path is
 * tested for them.
 *
 *   threads  pure
 *   errors   none: a file that cannot be read is no array
 */
#ifndef TS_FORMAT_ARRAY_KIND_H
#define TS_FORMAT_ARRAY_KIND_H

enum ts_array_kind {
    TS_ARRAY_NPY,
    TS_ARRAY_TEXT,
    TS_ARRAY_HDF5,
    TS_ARRAY_RAW,
    TS_ARRAY_UNROOTED, /* file.h5:set: the dataset path lacks its leading slash */
    TS_N_ARRAYS,       /* no array: a directory of shards, or an unknown file */
};

enum ts_array_kind ts_array_kind(const char *path);

/* Whether the path names a dense array. */
int ts_tensor_is_array(const char *path);

#endif
