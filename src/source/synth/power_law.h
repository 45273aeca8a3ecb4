/* SPDX-License-Identifier: BSD-3-Clause */
/* power_law.h - draws popularity ranks from a power law, many at a time.
 *
 * A uniform x in [0, 1) becomes a rank 0..n-1 with density proportional to (rank + 1)^-a: the
 * inverse of the continuous law on [1, n + 1), rounded down to whole ranks. pow() costs more than
 * the other steps of a draw, and only the whole part of its result is needed. So the power is
 * estimated for several draws in a vector, and pow() is called only where the estimate is too close
 * to a whole number. So the ranks are those that pow() gives.
 *
 *   owner    plain values
 *   units    ranks from 0
 *   threads  pure
 *   errors   none
 */
#ifndef TS_SOURCE_POWER_LAW_H
#define TS_SOURCE_POWER_LAW_H

#include <stdint.h>

struct ts_power_law {
    /* For a uniform x in [0, 1) the rank is y - 1 rounded down, at most n - 1. y is (1 + x
     * slope)^exponent or, if the exponent a of the law is near 1 (is_exp), exp(x slope). */
    double a, slope, exponent;
    int is_exp;
    uint64_t n;
};

/* Prepares a power law with exponent a > 0 and n ranks, n in 1..2^40. */
void ts_power_law_init(struct ts_power_law *p, double a, uint64_t n);

/* Returns the rank that belongs to one x in [0, 1), by pow() or exp(). */
uint64_t ts_power_law_rank(const struct ts_power_law *p, double x);

/* Sets rank[i] = ts_power_law_rank(p, x[i]) for count <= TS_POWER_LAW_PIECE numbers. */
#define TS_POWER_LAW_PIECE 256u
void ts_power_law_ranks(const struct ts_power_law *p, const double *x, uint32_t count,
                        uint64_t *rank);

#endif
