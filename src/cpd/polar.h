/* SPDX-License-Identifier: BSD-3-Clause */
/* polar.h - rows of a mode whose columns are to be orthonormal: TS_ROW_POLAR of stream/row_update.h.
 *
 * Of all A with A' A = I the one nearest to the tensor, the other factors being as they are, has the largest
 * tr(A' M), M being the product: it is the polar factor M (M' M)^-1/2 (Schoenemann 1966, the Procrustes problem). So
 * it is a row update by a matrix that is known once the product is. Directions of which M has
 * less than TS_POLAR_NONE of its largest (in squares) do not say where their columns are to lie: those are drawn,
 * orthogonal to the others. M' M squares the condition of M; where its rounding shows, what came out is made orthonormal once more.
 * tr(A' M) of what comes out then is not summed again: in float32 a fit near 1 may be off by the root of FLT_EPSILON (3e-4)
 * where the last mode is of this kind.
 *
 *   owner    the caller owns the matrices; rows are the backend's
 *   threads  one calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_POLAR_H
#define TS_CPD_POLAR_H

#include "cpd/init.h"

#define TS_POLAR_NONE 1e-13

/* After the product of `mode`. sums->gram is needed, scratch 2 x rank x rank.
 * *singular := 1 where columns were drawn. */
int ts_polar_solve(const struct ts_init_conf *init, enum ts_precision precision, uint32_t mode,
                   double *scratch, const struct ts_row_sums *sums, int *singular,
                   struct ts_err *err);

#endif
