/* SPDX-License-Identifier: BSD-3-Clause */
/* bounded_row.h - the best row within bounds: a that makes a' S a / 2 - m' a least, with every
 * entry from lower to upper.
 *
 * First by block principal pivoting (Kim and Park 2011, SIAM J. Sci. Comput. 33(6)): some entries
 * are free, the others at a bound; the free ones are solved for, and those that are wrong then
 * change sides: free ones beyond a bound, and others whose slope leads back inside. All change at
 * once as long as fewer and fewer are wrong, for a few times longer, and then the last one alone.
 * None is wrong at the best row, which mostly is there after a few solutions, however flat S is.
 * Where S is singular, and where that takes too many, by coordinate descent.
 *
 *   owner    memory is the caller's
 *   units    S: rank x rank
 *   threads  any, each with its own memory
 *   errors   none
 */
#ifndef TS_CPU_BOUNDED_ROW_H
#define TS_CPU_BOUNDED_ROW_H

#include "cpu/sparse/kernel.h"

struct ts_bounded_row {
    const struct ts_gram *sum; /* the whole of S, not only its upper triangle; and m */
    const struct ts_gram_ops *ops;
    double lower, upper;
    /* diagonal of S, or of the matrix that S is a difference of: smaller parts of it are
     * rounding */
    const double *diagonal;
    double cut;       /* the share of `diagonal` that counts as rounding */
    double tolerance; /* relative error that a row may have */
    double *s;        /* memory for a second S */
    double *row[4];   /* memory for four rows */
};

/* a: on entry the solution of S a = m; on return the best row. */
void ts_bounded_row_find(const struct ts_bounded_row *b, double *a);

#endif
