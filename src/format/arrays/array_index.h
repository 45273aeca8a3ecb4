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

/* Number of cells of a chunk. Chunks begin with the first cell of a slab, and the last one of a
 * slab may have fewer cells. */
#define TS_ARRAY_CHUNK 16384u

/* FILE.index, FILE.group.set.index of a dataset of HDF5; NULL: out of memory. */
char *ts_array_index_path(const struct ts_dense *d);

/* Makes room for the checksums of all chunks, which a scan fills in. */
int ts_array_index_new(struct ts_dense *d, struct ts_err *err);

/* TS_EBUSY where another file has the name: of an index only an index takes the place. Damaged
 * ones, and those of other arrays, are some, too. */
int ts_array_index_may_replace(const char *path, struct ts_err *err);

/* Writes the index of an array that was scanned with memory for checksums. An existing index is
 * replaced; links are followed. */
int ts_array_index_write(const struct ts_dense *d, struct ts_err *err);

/* Reads the index if it exists, and then the tensor counts as scanned. An array in memory has no
 * index. */
int ts_array_index_read(struct ts_dense *d, struct ts_err *err);

/* Chunks of the slabs before slab k. */
uint64_t ts_array_index_first(const struct ts_dense *d, uint64_t k);

uint64_t ts_array_index_sum(const void *cells, uint64_t bytes);

/* The cells of slab k against its checksums. */
int ts_array_index_check(const struct ts_dense *d, uint64_t k, const void *cells,
                         struct ts_err *err);

#endif
