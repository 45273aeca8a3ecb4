/* SPDX-License-Identifier: BSD-3-Clause */
/* bounded_row.h - finds the row a that minimises a' S a / 2 - m' a, with every entry from lower to
 * upper.
 *
 * The first method is block principal pivoting (Kim and Park 2011, SIAM J. Sci. Comput. 33(6)).
 * Some entries are free, the others are fixed at a bound. The method solves for the free ones. Then
 * the entries that are wrong change sides: free ones beyond a bound become fixed, and fixed ones
 * whose slope leads back inside become free. All wrong entries change at once while their number
 * falls, and for a few times longer. After that only the last one changes. At the minimum no entry
 * is wrong. It is mostly reached after a few solutions, however flat S is. If S is singular, or if
 * pivoting takes too many solutions, the method is coordinate descent.
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
    /* the Gram matrix S in full, not only its upper triangle; and the right side m */
    const struct ts_gram *sum;
    const struct ts_gram_ops *ops;
    double lower, upper;
    /* diagonal of S or, if S is a difference of two matrices, of the first of them */
    const double *diagonal;
    double cut; /* remainders of a diagonal entry below this fraction of it are rounding errors */
    double tolerance; /* allowed relative error of a row */
    double *s;        /* memory for a second Gram matrix S */
    double *row[4];   /* memory for four rows */
};

/* Finds the row within the bounds that minimises a' S a / 2 - m' a. a: on entry the solution of S a
 * = m; on return that row. */
void ts_bounded_row_find(const struct ts_bounded_row *b, double *a);

#endif
