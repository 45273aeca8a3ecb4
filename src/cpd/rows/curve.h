/* SPDX-License-Identifier: BSD-3-Clause */
/* curve.h - a column whose neighbouring entries are to be alike, within bounds or with few entries
 * that are not 0.
 *
 * With D the second differences and E being 1 on the diagonal where there is a row, x has the least
 *     1/2 x' (g E + mu D' D) x - c' x + l1 |E x|_1   with   lower <= x <= upper  where there is a
 *     row;
 * entries without a row lie on the curve that is smoothest between the others. It is found by
 * projected Newton steps (Bertsekas 1982): entries at a bound, or at 0 where l1 holds them there,
 * that the gradient pushes against it are held; for the others five diagonals are solved, and what
 * leaves the bounds on the way there stays at them. With l1, 0 is a bound between two pieces, in
 * each of which the sum of magnitudes is linear; a step goes to the bound, or across where that is
 * better. A step that does not lower the sum enough is halved; so each lowers it, and every x on
 * the way is within the bounds. When a whole step leaves none of them and no entry is let go after
 * it, x is the solution: from a column near it after a step, from any other after a few where mu is
 * about g, and 40 to 60 where it is a thousand times as much and there are thousands of entries. A
 * call makes no more than a hundred, which do not get there where mu is much larger still, or l1
 * and noise hold and release entry after entry: x is lower than it was then, and further calls go
 * on from it.
 *
 *   owner    the caller owns all vectors
 *   threads  any; one column is one thread's
 */
#ifndef TS_CPD_CURVE_H
#define TS_CPD_CURVE_H

#include <stdint.h>

struct ts_curve {
    uint64_t n;
    /* n; NULL: all of them are, as are the first and the last anyway */
    const unsigned char *is_row;
    double g, mu;            /* above 0; g may be as small as one likes */
    double l1, lower, upper; /* of 0 or more; one may be infinite, or both */
    const double *c;         /* n; 0 where there is no row */
    /* n: a start, which need not be within the bounds, and then what the steps lead to */
    double *x;
    double *scratch;            /* TS_CURVE_SCRATCH n */
    int (*gives_up)(void *ctx); /* asked in every step: not 0 ends them where x is; NULL: never */
    void *ctx;
};

#define TS_CURVE_SCRATCH 9u

/* A start without entries where there are no rows gets them, so that they are the best ones for the
 * others. */
void ts_curve_begin(const struct ts_curve *c);

/* x := the solution or nearer to it, from a start that has all entries. Returns the sum of squares
 * of its second differences. */
double ts_curve_solve(const struct ts_curve *c);

/* x := (L diag L')^-1 x, of a positive definite matrix of five diagonals: the diagonal, and what is
 * below it (one[i] beside i - 1, two[i] beside i - 2; 0 where there is none). All are overwritten.
 * A pivot that is not above `least` is rounding, and becomes `instead`. */
void ts_curve_eliminate(uint64_t n, double least, double instead, double *diagonal, double *one,
                        double *two, double *x);

/* The sum of squares of second differences of x, which are in bend from index 2 on, or nowhere
 * where that is NULL. */
double ts_curve_bends(uint64_t n, const double *x, double *bend);

/* Entries (i, i), (i, i - 1) and (i, i - 2) of D' D, where they are in the matrix. */
static inline void ts_curve_differences(uint64_t n, uint64_t i, double ret[3])
{
    ret[0] = (i + 2 < n) + 4.0 * (i > 0 && i + 1 < n) + (i > 1);
    ret[1] = -2.0 * (i > 0 && i + 1 < n) - 2.0 * (i > 1);
    ret[2] = i > 1;
}

#endif
