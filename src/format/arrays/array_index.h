/* SPDX-License-Identifier: BSD-3-Clause */
/* array_index.h - the index that may lie beside the file of a dense tensor: checksums of its cells,
 * and what a pass over them finds.
 *
 * A run that opens an array with an index need not read all cells once before it begins, and checks
 * each slab that it reads. docs/format.md has the bytes: a head of what the array is, norm, least
 * and greatest value, and a checksum for TS_ARRAY_CHUNK cells of a slab.
 *
 *   owner    the tensor owns the checksums
 *   errors   0 or a negative ts_code: TS_EFORMAT where an index is damaged or of another array,
 *            which names its file
 */
#ifndef TS_FORMAT_ARRAY_INDEX_H
#define TS_FORMAT_ARRAY_INDEX_H

#include "format/arrays/dense.h"

/* cells, from the first one of a slab on; the last of a slab has what is left */
#define TS_ARRAY_CHUNK 16384u

/* FILE.index, FILE.group.set.index of a dataset of HDF5; NULL: out of memory. */
char *ts_array_index_path(const struct ts_dense *d);

/* Makes room for the checksums of all chunks, which a scan fills in. */
int ts_array_index_new(struct ts_dense *d, struct ts_err *err);

/* TS_EBUSY where another file has the name: of an index only an index takes the place. Damaged
 * ones, and those of other arrays, are some, too. */
int ts_array_index_may_replace(const char *path, struct ts_err *err);

/* Of an array that was scanned with room for checksums; one that is there is replaced, where a link
 * leads if it is one. */
int ts_array_index_write(const struct ts_dense *d, struct ts_err *err);

/* Takes what the index says, where there is one: the tensor is scanned then. An array in memory has
 * none. */
int ts_array_index_read(struct ts_dense *d, struct ts_err *err);

/* Chunks of the slabs before slab k. */
uint64_t ts_array_index_first(const struct ts_dense *d, uint64_t k);

uint64_t ts_array_index_sum(const void *cells, uint64_t bytes);

/* The cells of slab k against its checksums. */
int ts_array_index_check(const struct ts_dense *d, uint64_t k, const void *cells,
                         struct ts_err *err);

#endif
