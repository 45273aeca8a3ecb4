/* SPDX-License-Identifier: BSD-3-Clause */
/* array_kind.h - the kinds of dense arrays that lie at a path, in the order in which they are
 * tried.
 *
 *   threads  pure
 *   errors   none: what cannot be read is no array
 */
#ifndef TS_FORMAT_ARRAY_KIND_H
#define TS_FORMAT_ARRAY_KIND_H

enum ts_array_kind {
    TS_ARRAY_NPY,
    TS_ARRAY_TEXT,
    TS_ARRAY_HDF5,
    TS_ARRAY_RAW,
    TS_ARRAY_UNROOTED, /* file.h5:set, a dataset that is not named from the root */
    TS_N_ARRAYS,       /* no array: a directory of shards, or nothing known */
};

enum ts_array_kind ts_array_kind(const char *path);

/* Whether a dense array lies at the path. */
int ts_tensor_is_array(const char *path);

#endif
