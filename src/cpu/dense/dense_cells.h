/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_cells.h - computes a model's value at each cell of a dense tensor, and passes the values to
 * the caller's function `take` (struct ts_weighted of stream/weighted.h).
 *
 * Partitions are runs of TS_PARTITION_NNZ cells of a slab in the order of the array; the last one
 * of a slab has the remaining cells. ts_dense_partitions (format/arrays/dense.h) counts them.
 * Unknown cells (NaN) are left out, so a partition may have fewer cells, or none: then its last
 * call of `take` has n = 0.
 *
 * The array is treated as a matrix. Its columns are the last levels of the layout, as few as have
 * LEAST_COLS cells or more; its rows are the other levels. B(c, :) is the product of the factor
 * rows of column c, computed once for the pass. k is the product of the factor rows of a row,
 * computed when the row begins. The model of a cell is <B(c, :), k>: rank multiply-adds, for a
 * vector of columns at a time, in float64.
 *
 *   owner    the caller lends all; memory is allocated for the call
 *   threads  one calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code: that of `take`, or of a failed read
 *   bits     a model's value depends only on the factors and on the position of its cell
 */
#ifndef TS_CPU_DENSE_CELLS_H
#define TS_CPU_DENSE_CELLS_H

#include "cpu/fmat.h"
#include "stream/feed/feed.h"
#include "stream/weighted.h"

int ts_dense_cells_run(const struct ts_tensor *t, uint32_t rank, uint32_t threads,
                       const struct ts_fmat *factor, const struct ts_weighted *weighted,
                       struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err);

/* Returns the bytes that the pass allocates. */
uint64_t ts_dense_cells_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads);

#endif
