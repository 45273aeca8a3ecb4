/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_kind.h - the kinds of tensors that a command opens, a table: directories of shards, and
 * dense arrays.
 *
 * A kind is known by what lies at the path: a directory, or how a file begins. What comes of it is
 * a struct ts_tensor; `dense` of it tells which it is (dense.h). Whoever can do nothing with a
 * dense array opens the directory (ts_tensor_open), or refuses with ts_tensor_is_sparse.
 *
 *   owner    the caller closes what is opened (ts_tensor_close)
 *   errors   0 or a negative ts_code with one sentence; on failure *ret is not touched
 */
#ifndef TS_FORMAT_TENSOR_KIND_H
#define TS_FORMAT_TENSOR_KIND_H

#include "format/arrays/array_kind.h"
#include "format/tensor.h"

int ts_tensor_open_any(const char *path, struct ts_tensor **ret, struct ts_err *err);

/* Opens dense arrays only, and ignores an index beside them (array_index.h). */
int ts_tensor_open_array(const char *path, struct ts_tensor **ret, struct ts_err *err);

/* Partitions that a pass over the mode gives (stream/weighted.h). */
uint64_t ts_tensor_partitions(const struct ts_tensor *t, uint32_t mode);

/* 0; or TS_EARG where it is dense: what does not work for such a tensor, like "scores". */
int ts_tensor_is_sparse(const struct ts_tensor *t, const char *use, struct ts_err *err);

/* 0; or TS_EARG where its cells have weights, which this, like "a fit", does not use. */
int ts_tensor_is_unweighted(const struct ts_tensor *t, const char *use, struct ts_err *err);

#endif
