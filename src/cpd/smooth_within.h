/* SPDX-License-Identifier: BSD-3-Clause */
/* smooth_within.h - rows of a mode whose neighbours are to be alike, and which have bounds or an l1 besides:
 * TS_ROW_SMOOTH_WITHIN of stream/row_update.h.
 *
 * With M, G, D and mu of smooth.h, A goes from its old rows towards the least of
 *     1/2 tr(A G A') - tr(A' M) + mu/2 |D A|^2 + l1 sum |A|   with   lower <= A <= upper,
 * rows of empty slices being unknowns without a product, bounds and magnitude. Columns come one after another, as by HALS: with the
 * others as they are, column r has the least of
 *     1/2 a' (G_rr E + mu D' D) a - c' a + l1 |E a|_1,   c = m_r - sum over the others s of a_s G_sr,
 * towards which curve.h goes. So the sum never rises, from column to column. Rounds over all columns are those of coordinate descent,
 * and end as they do (stream/row_update.h). A column of which G_rr is 0 does not matter: it becomes 0, or the bound next to it.
 * ADMM with smooth.h's solve as one of its steps was not taken: the eigenvalues of G x I + mu I x D' D lie so far apart
 * where mu is large that rounds by the hundred are needed, and no rho is right for both ends.
 *
 *   owner    the caller owns matrices; rows are the backend's, M beside them (own_rows).
 *            ts_smooth_within_bytes are taken for the time of a call
 *   threads  one calls; products of columns are spread over init->threads, each entry computed by itself
 *   errors   0 or a negative ts_code; TS_ESTOP soon after *init->stop is set, on all ranks, with the rows as they were
 */
#ifndef TS_CPD_SMOOTH_WITHIN_H
#define TS_CPD_SMOOTH_WITHIN_H

#include "cpd/init.h"

/* A mode of so many used indices of `dim`. */
uint64_t ts_smooth_within_bytes(uint64_t n_rows, uint64_t dim, uint32_t rank);

/* After the product of `mode`. how->matrix is G, how->weight what columns of the old rows are multiplied with. scratch: rank x rank.
 * *penalty := what the mode has of a state's `size` (cpd/state.h). */
int ts_smooth_within_solve(const struct ts_init_conf *init, enum ts_precision precision,
                           uint32_t mode, const struct ts_row_update *how, double *scratch,
                           const struct ts_row_sums *sums, double *penalty, struct ts_err *err);

#endif
