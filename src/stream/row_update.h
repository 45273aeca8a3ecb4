/* SPDX-License-Identifier: BSD-3-Clause */
/* row_update.h - what becomes of a finished row of a mode: its product m and its old value give the new one.
 *
 * A method chooses one of the updates below for each mode; a backend says which of them it has
 * (struct ts_backend). With G the elementwise product of the other modes' Gram matrices, which the method
 * computes before the pass:
 *
 *   least squares   a := m W, W the method's matrix (a pseudo-inverse of G). It does not read the old row, so
 *                   the product takes the place of the factor.
 *
 *   owner    the method owns the matrices of an update, and what it asks for of the sums
 *   units    matrices are float64, rank x rank, row-major
 */
#ifndef TS_STREAM_ROW_UPDATE_H
#define TS_STREAM_ROW_UPDATE_H

enum ts_row_kind { TS_ROW_LEAST_SQUARES, TS_N_ROW_KINDS };

struct ts_row_update {
    enum ts_row_kind kind;
    const double *matrix;
};

/* Of all rows of the mode, once they are new. */
struct ts_row_sums {
    double *gram;  /* rank x rank: A' A */
    double *inner; /* sum of the elementwise product of M and A; NULL: not needed */
};

#endif
