/* SPDX-License-Identifier: BSD-3-Clause */
/* array_index.h - the optional index file beside a dense tensor: checksums of its cells, and
 * statistics of all cells.
 *
 * A run that opens an array with an index need not read all cells once before it begins, and
 * checks each slab that it reads. docs/format.md specifies the bytes: a header with the shape,
 * norm, least and greatest value, then one checksum for every TS_ARRAY_CHUNK cells of a slab.
 *
 *   owner    the tensor owns the checksums
 *   errors   0 or a negative ts_code: TS_EFORMAT names the index file if it is damaged or belongs
 *            to another array
 */
#ifndef TS_FORMAT_ARRAY_INDEX_H
#define TS_FORMAT_ARRAY_INDEX_H

#include "format/arrays/dense.h"

/* Number of cells of a chunk. Chunks begin with the first cell of a slab, and the last one of a
 * slab may have fewer cells. */
#define TS_ARRAY_CHUNK 16384u

/* Returns the path of the index file, malloc'ed: FILE.index, or FILE.group.set.index for an HDF5
 * dataset. NULL: out of memory. */
char *ts_array_index_path(const struct ts_dense *d);

/* Allocates memory for the checksums of all chunks. A scan (one reading of all cells) fills it
 * in. */
int ts_array_index_new(struct ts_dense *d, struct ts_err *err);

/* Checks that no file has this path, or that the file there is an index, which may be replaced.
 * Returns 0, or TS_EBUSY if a file of another kind has the name. A damaged index, or that of
 * another array, may be replaced. */
int ts_array_index_may_replace(const char *path, struct ts_err *err);

/* Writes the index of a scanned array whose checksums were computed. Replaces an existing index
 * and follows links. */
int ts_array_index_write(const struct ts_dense *d, struct ts_err *err);

/* Reads the index if it exists, and then marks the tensor as scanned: no run needs to read all
 * cells first. An array in memory has no index. */
int ts_array_index_read(struct ts_dense *d, struct ts_err *err);

/* Returns the number of chunks in the slabs before slab k: the position of its first checksum. */
uint64_t ts_array_index_first(const struct ts_dense *d, uint64_t k);

uint64_t ts_array_index_sum(const void *cells, uint64_t bytes);

/* Compares the cells of slab k with the checksums of its chunks. */
int ts_array_index_check(const struct ts_dense *d, uint64_t k, const void *cells,
                         struct ts_err *err);

#endif
