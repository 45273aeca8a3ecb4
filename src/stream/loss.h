/* SPDX-License-Identifier: BSD-3-Clause */
/* loss.h - how far a model's value m is from a nonzero's value x, and what a row is told of it: a table.
 *
 * A weighted product of a row sums g(x, m) p over its nonzeros, p being the product of the other factors' rows and
 * m = <p, a> with the row a of the mode itself. An entry of the table gives g and what is summed to judge the model by;
 * a method (src/cpd) says what becomes of the row. Both are called with the nonzeros of a block at a time.
 *
 *   poisson   g = x / m, so that the sum is what the row is multiplied with once columns of the other factors sum to 1
 *             (Chi, Kolda 2012); judged by x log m, whose sum without that of all cells' m is the log-likelihood
 *             (without the term of x alone). m counts as TS_LOSS_LEAST where it is less
 *
 *   threads  any: nothing is kept
 *   units    all float64
 *   errors   none: what is not a number stays so
 */
#ifndef TS_STREAM_LOSS_H
#define TS_STREAM_LOSS_H

#include <stdint.h>

#define TS_LOSS_LEAST 1e-10

struct ts_loss {
    const char *name;
    const char *values; /* that it is for */
    double least;       /* no value may be less */
    void (*weigh)(uint32_t n, const double *restrict x, const double *restrict m,
                  double *restrict g);
    double (*judge)(uint32_t n, const double *restrict x, const double *restrict m);
};

extern const struct ts_loss ts_loss_poisson;

#endif
