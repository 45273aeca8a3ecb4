/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_index.h - parses and checks the bytes of NAME.tsh/index.
 *
 * After these checks, every count, offset and table of the tensor can be trusted: sizes add up,
 * shards follow one another, rows ascend. The bytes of the other files are not read.
 *
 *   owner    the caller owns the bytes; dictionary and shard tables are copied into the tensor
 *   units    bytes, nonzeros; modes from 0
 *   threads  pure
 *   errors   0, TS_ENOMEM, or TS_EFORMAT with a sentence that starts with `where` and says what was
 *            found; memory use is bounded by the size of the index
 */
#ifndef TS_FORMAT_TENSOR_INDEX_H
#define TS_FORMAT_TENSOR_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/tensor.h"

/* Checks the header alone: magic, version and the size of the file (file_bytes is its true size).
 * `header` is the first 256 bytes. */
int ts_tensor_index_header(const void *header, uint64_t file_bytes, const char *where,
                           struct ts_err *err);

/* Fills header, order, nnz, hash, dict and mode[].disk, mode[].shard of *t from the whole index;
 * paths stay NULL. *t is zeroed first; on failure ts_tensor_index_free frees what it holds. */
int ts_tensor_index_parse(const void *bytes, size_t n_bytes, const char *where, struct ts_tensor *t,
                          struct ts_err *err);

/* Frees the dictionary of values and the shard tables of *t. */
void ts_tensor_index_free(struct ts_tensor *t);

#endif
