/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_rows.h - rows of a dense tensor that has unknown cells (TS_ROW_OBSERVED), each with a Gram
 * matrix of its own.
 *
 * Unknown are those that are NaN and those that the update holds out.
 *
 * With w the product of the rows of the other factors at a cell, a row of the mode is to solve S a
 * = m, S the sum of w w' and m that of x w over its known cells. m is the MTTKRP in which unknown
 * cells count 0 (dense_product.h). Of a row that has more known cells than unknown ones, S is the
 * sum over all its cells, which is the elementwise product of the other factors' Gram matrices, the
 * same for all rows, less that over the unknown ones; else S is added up of the known ones. So a
 * pass costs what the product does, and rank^2 / 2 for each cell of the kind that is rarer in its
 * row.
 *
 * Rows are taken so many at a time that their matrices fit MOST_BYTES, and dense_unknown.h lists
 * the cells of each group, slab by slab. Cells of a row in a slab are multiplied with each other by
 * the sums of rows of nonzeros (kernel.h), in float64. Of a mode with few rows each slab is divided
 * into parts, which have matrices of their own.
 *
 *   owner    the object owns its memory, the caller the matrices
 *   units    rows and modes from 0; matrices float64
 *   threads  one calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code
 *   bits     a row in a part of a slab is summed by one thread, in the order of the array, and
 *            slabs and parts depend on the tensor and the rank alone
 */
#ifndef TS_CPU_DENSE_ROWS_H
#define TS_CPU_DENSE_ROWS_H

#include "cpu/fmat.h"
#include "base/machine/isa.h"
#include "stream/feed/feed.h"

struct ts_dense_rows;

int ts_dense_rows_new(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                      enum ts_isa isa, uint32_t threads, struct ts_dense_rows **ret,
                      struct ts_err *err);
void ts_dense_rows_free(struct ts_dense_rows *d); /* d may be NULL */
uint64_t ts_dense_rows_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             uint32_t threads);

/* Computes the rows of factor[mode] from the product of the tensor (n_rows x rank) and from the
 * elementwise product of the Gram matrices of the other factors. *size is as in struct ts_row_sums,
 * and may be NULL. The other factors must be those that the product was computed from. */
int ts_dense_rows_run(struct ts_dense_rows *d, uint32_t mode, struct ts_fmat *factor,
                      const double *product, const double *gram, const struct ts_row_update *update,
                      double *size, struct ts_feed *feed, struct ts_err *err);

#endif
