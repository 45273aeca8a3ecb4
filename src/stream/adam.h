/* SPDX-License-Identifier: BSD-3-Clause */
/* adam.h - Adam's step of one entry of a factor (the update DESCEND of stream/row_update.h), on CPU
 * cores and GPUs.
 *
 *   threads  pure
 *   units    all float64; moments are rounded to the precision of the factors when they are stored,
 *            after the step
 *   errors   none
 */
#ifndef TS_STREAM_ADAM_H
#define TS_STREAM_ADAM_H

#include <math.h>

#include "base/anywhere.h"
#include "stream/row_update.h"

/* added to the root of the second moment, so that the divisor of a step is never 0 */
#define TS_ADAM_TINY 1e-8

struct ts_adam {
    double rate, lower, upper;
    /* divisors of the first and second moment in this step, which correct their start at 0 */
    double first, second;
};

static inline struct ts_adam ts_adam_of(const struct ts_descent *descent)
{
    const struct ts_adam ret = { descent->rate, descent->lower, descent->upper,
                                 1 - pow(TS_DESCEND_FIRST, (double)descent->step),
                                 1 - pow(TS_DESCEND_SECOND, (double)descent->step) };
    return ret;
}

/* Returns the new value of entry a of a factor, whose gradient is g. Updates the moments of the
 * entry: *u, a running mean of its gradients, and *v, one of their squares. */
TS_ANYWHERE static inline double ts_adam_step(const struct ts_adam *s, double a, double g,
                                              double *u, double *v)
{
    double to;
    *u = TS_DESCEND_FIRST * *u + (1 - TS_DESCEND_FIRST) * g;
    *v = TS_DESCEND_SECOND * *v + (1 - TS_DESCEND_SECOND) * g * g;
    to = a - s->rate * (*u / s->first) / (sqrt(*v / s->second) + TS_ADAM_TINY);
    return to < s->lower ? s->lower : to > s->upper ? s->upper : to;
}

#endif
