/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_cells.h - the weighted pass (stream/weighted.h) over the cells of a dense tensor.
 *
 * Partitions are runs of TS_PARTITION_NNZ cells of a slab in the order of the array, the last one
 * of a slab what is left; ts_dense_partitions (format/arrays/dense.h) counts them. Unknown cells
 * (NaN) are left out, so that a partition may have less, or none: its last call of take then has n
 * = 0.
 *
 * The array is taken for rows of as few levels of its layout as have LEAST_COLS cells or more. With
 * the rows B(c, :) of products of the factors of these levels, made once for the pass, and the
 * product k of the factors' rows of the others, made where a row begins, the model of a cell is
 * <B(c, :), k>: rank multiply-adds, of a vector of columns at a time. All is float64.
 *
 *   owner    the caller lends all; memory is taken for the call
 *   threads  one calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code: what the taker or reading fails with
 *   bits     a model's value depends on the factors and on the place of its cell alone
 */
#ifndef TS_CPU_DENSE_CELLS_H
#define TS_CPU_DENSE_CELLS_H

#include "cpu/fmat.h"
#include "stream/feed/feed.h"
#include "stream/weighted.h"

int ts_dense_cells_run(const struct ts_tensor *t, uint32_t rank, uint32_t threads,
                       const struct ts_fmat *factor, const struct ts_weighted *weighted,
                       struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err);

/* Bytes that the pass allocates. */
uint64_t ts_dense_cells_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads);

#endif
