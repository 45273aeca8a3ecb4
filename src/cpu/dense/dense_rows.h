/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_rows.h - solves for rows of a dense tensor with unknown cells (TS_ROW_OBSERVED), each row
 * with its own Gram matrix.
 *
 * Unknown cells are those that are NaN, and those that the update holds out.
 *
 * Let w be the product of the other factors' rows at a cell. A row a of the mode solves S a = m,
 * with S the sum of w w' and m the sum of x w over its known cells. m is the MTTKRP in which
 * unknown cells count as 0 (dense_product.h). If a row has more unknown than known cells, S is
 * summed over the known ones. Otherwise S is the sum over all its cells minus that over the unknown
 * ones. The sum over all cells is the elementwise product of the other factors' Gram matrices, the
 * same for all rows. So a pass costs as much as the product, plus rank^2 / 2 for each cell of the
 * rarer kind in its row.
 *
 * Rows are processed in groups whose Gram matrices fit into MOST_BYTES. dense_unknown.h lists the
 * cells of each group, slab by slab. Gram matrices of cells in a slab are summed like those of
 * nonzeros (kernel.h), in float64. If a mode has few rows, each slab is divided into parts, which
 * have Gram matrices of their own.
 *
 *   owner    the object owns its memory, the caller the matrices
 *   units    rows and modes from 0; matrices are float64
 *   threads  one calls; inside, `threads` OpenMP threads
 *   errors   0 or a negative ts_code
 *   bits     one thread sums a row in a part of a slab, in the order of the array, and slabs and
 *            parts depend on the tensor and the rank alone
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
 * elementwise product of the Gram matrices of the other factors. *size := the sum of a' a over the
 * rows a, as struct ts_row_sums says; NULL: not wanted. The other factors must be those that the
 * product was computed from. */
int ts_dense_rows_run(struct ts_dense_rows *d, uint32_t mode, struct ts_fmat *factor,
                      const double *product, const double *gram, const struct ts_row_update *update,
                      double *size, struct ts_feed *feed, struct ts_err *err);

#endif
