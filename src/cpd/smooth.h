/* SPDX-License-Identifier: BSD-3-Clause */
/* smooth.h - rows of a mode whose neighbours are to be alike: TS_ROW_SMOOTH of stream/row_update.h. With bounds
 * or l1 besides they are those of smooth_within.h.
 *
 * With M the product, G that of the Gram matrices (with l2 on its diagonal), and D the second differences of rows that are
 * neighbours by their index in the input, A has the least
 *     1/2 tr(A G A') - tr(A' M) + mu/2 |D A|^2.
 * Rows of empty slices, which no factor has, lie on the curve that is smoothest between the others: they are unknowns without a product, and
 * forgotten. With G = Q diag(g) Q', columns of B = A Q are apart from each other: each is the solution of
 *     (g_k E + mu D' D) b_k = (M Q)_k,
 * E being 1 on the diagonal where there is a row; five diagonals, solved by L diag L' in time that is linear
 * (smoothing as of Whittaker 1923). Where g_k is so far below mu that rounding would take what does not bend, b_k is a line and a
 * curve that is 0 at one end, computed apart. Directions in which G is singular but for rounding are left out, as by least squares.
 * Q and g are right to a rounding of the largest g: the column of a component that is dying is right to 1e-16 over its
 * share of that, which changes nothing that is minimised.
 * M is rounded to the precision of factors first, also where the fit asks for more of it: in float32 a fit above 0.999 may be
 * off by 1e-5 and more where the last mode is smooth, by the root of FLT_EPSILON (3e-4) where little is left to fit.
 *
 *   owner    the caller owns matrices; rows are the backend's. ts_smooth_bytes are taken for the time of a call
 *   threads  one calls; columns and rows are spread over init->threads, each computed by itself
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_SMOOTH_H
#define TS_CPD_SMOOTH_H

#include "cpd/init.h"

#define TS_SMOOTH_MOST (UINT64_C(1) << 22) /* indices of a mode */

/* From one row to the next. What says where a curve of L entries without a row is, is 1e-16 of the sums for L = 10000, and grows as 1 / L^4:
 * at 100000 rounding decides. */
#define TS_SMOOTH_GAP UINT64_C(50000)

/* In both spec may be NULL. TS_EARG where a mode of the tensor has more, or a longer gap. */
int ts_smooth_check(const struct ts_tensor *t, const struct ts_spec *spec, struct ts_err *err);

uint64_t ts_smooth_bytes(const struct ts_tensor *t, uint32_t rank, const struct ts_spec *spec);

/* After the product of `mode`, which was asked for without an update. scratch: rank x rank. *rough := |D A|^2 (in float32, where no slice is
 * empty, that of the rows as they are held), *singular := 1
 * where directions were left out. */
int ts_smooth_solve(const struct ts_init_conf *init, enum ts_precision precision, uint32_t mode,
                    const double *g, double *scratch, const struct ts_row_sums *sums, double *rough,
                    int *singular, struct ts_err *err);

#endif
