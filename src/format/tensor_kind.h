/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_kind.h - opens tensors of any kind: directories of shards and dense arrays.
 *
 * The kind follows from the path: a directory, or a file with known first bytes. The result is a
 * struct ts_tensor, whose member `dense` is NULL for a directory (dense.h). Commands that do not
 * support dense arrays call ts_tensor_open, or ts_tensor_is_sparse to refuse them.
 *
 *   owner    the caller owns the tensor and closes it (ts_tensor_close)
 *   errors   0 or a negative ts_code with one sentence; on failure *ret is not touched
 */
#ifndef TS_FORMAT_TENSOR_KIND_H
#define TS_FORMAT_TENSOR_KIND_H

#include "format/arrays/array_kind.h"
#include "format/tensor.h"

int ts_tensor_open_any(const char *path, struct ts_tensor **ret, struct ts_err *err);

/* Opens dense arrays only, and ignores an index beside them (array_index.h). */
int ts_tensor_open_array(const char *path, struct ts_tensor **ret, struct ts_err *err);

/* Returns the number of partitions in a pass over the mode (stream/weighted.h). */
uint64_t ts_tensor_partitions(const struct ts_tensor *t, uint32_t mode);

/* Returns 0, or TS_EARG if the tensor is dense. use: what does not support dense tensors, such as
 * "scores". */
int ts_tensor_is_sparse(const struct ts_tensor *t, const char *use, struct ts_err *err);

/* Returns 0, or TS_EARG if the cells have weights. use: what does not support weights, such as "a
 * fit". */
int ts_tensor_is_unweighted(const struct ts_tensor *t, const char *use, struct ts_err *err);

#endif
