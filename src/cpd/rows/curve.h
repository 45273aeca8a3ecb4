/* SPDX-License-Identifier: BSD-3-Clause */
/* curve.h - solves for a column of a factor whose neighbouring entries should be similar. The
 * column may have bounds, or an l1 penalty that sets entries to 0.
 *
 * Let D be the matrix of second differences, and E the diagonal matrix with 1 for each index that
 * has a row. For given numbers g, mu and l1, and a given vector c, the column x minimises
 *     1/2 x' (g E + mu D' D) x - c' x + l1 |E x|_1   with   lower <= x <= upper  where E is 1.
 * Entries without a row are on the smoothest curve through the others.
 *
 * x is found by projected Newton steps (Bertsekas 1982). Entries at a bound, or at 0 with l1, are
 * held if the gradient pushes them against it. For the other entries a system of five diagonals is
 * solved, and entries that would leave the bounds on the way stop at them. With l1, the bound 0
 * separates two ranges in which the sum of magnitudes is linear. A step ends at this bound, or
 * crosses it if that is better. A step that does not lower the objective enough is halved. So every
 * step lowers it, and every x on the way is within the bounds. When a whole step stays within the
 * bounds and releases no entry, x is the solution.
 *
 * From a column near the solution this takes one step. From any other column it takes a few steps
 * if mu is about g, and 40 to 60 if mu is a thousand times g and there are thousands of entries. A
 * call makes at most a hundred steps. They are not enough if mu is much larger still, or if l1 and
 * noise hold and release entry after entry. Then x is better than before, and further calls
 * continue.
 *
 *   owner    the caller owns all vectors
 *   threads  any thread; one thread computes a column
 */
#ifndef TS_CPD_CURVE_H
#define TS_CPD_CURVE_H

#include <stdint.h>

struct ts_curve {
    uint64_t n;
    /* n flags: the entry has a row. The first and the last always have one. NULL: all have one. */
    const unsigned char *is_row;
    /* g and mu of the formula at the head of this file; both are above 0, and g may be arbitrarily
     * small */
    double g, mu;
    double l1, lower, upper; /* l1 is not negative; bounds may be infinite */
    const double *c;         /* n: c of that formula; 0 for entries without a row */
    /* n: on entry the column to start from, which may be out of bounds; on return the result. */
    double *x;
    double *scratch;            /* TS_CURVE_SCRATCH * n numbers of free memory */
    int (*gives_up)(void *ctx); /* called in every step: not 0 ends the steps; NULL: never */
    void *ctx;
};

#define TS_CURVE_SCRATCH 9u

/* Sets the entries of x without a row to the best values given the other entries of x. */
void ts_curve_begin(const struct ts_curve *c);

/* Moves x to the solution, or nearer to it, from a start in which all entries are set. Returns the
 * sum of squares of its second differences. */
double ts_curve_solve(const struct ts_curve *c);

/* Sets x to (L diag L')^-1 x for a positive definite matrix of five diagonals. It is given by its
 * diagonal and two lower diagonals (one[i] beside i - 1, two[i] beside i - 2; 0 outside of the
 * matrix). All are overwritten. A pivot that is not above `least` is a rounding error, and is
 * replaced by `instead`. */
void ts_curve_eliminate(uint64_t n, double least, double instead, double *diagonal, double *one,
                        double *two, double *x);

/* Returns the sum of squares of the second differences of x. They are stored in bend from index 2
 * on, unless bend is NULL. */
double ts_curve_bends(uint64_t n, const double *x, double *bend);

/* ret := entries (i, i), (i, i - 1) and (i, i - 2) of D' D, with the matrix D of second
 * differences; 0 outside of the matrix. */
static inline void ts_curve_differences(uint64_t n, uint64_t i, double ret[3])
{
    ret[0] = (i + 2 < n) + 4.0 * (i > 0 && i + 1 < n) + (i > 1);
    ret[1] = -2.0 * (i > 0 && i + 1 < n) - 2.0 * (i > 1);
    ret[2] = i > 1;
}

#endif
