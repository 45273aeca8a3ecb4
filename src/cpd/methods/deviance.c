/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the deviance from sums over the listed cells, without another pass over the tensor. */
#include "cpd/methods/deviance.h"
#include "stream/loss_functions.h"

#include <math.h>

/* The rounding error of sums in float64, relative to their terms. The sums of the loss for the
 * constant and for the saturated model (C and S of deviance.h) count as equal if they differ by
 * less. */
#define TS_DEVIANCE_ROUNDING 1e-13

static double value(const struct ts_loss *loss, double x, double m, double at)
{
    return loss->judge(1, &x, &m, at);
}

/* Returns the sum of the loss over `n` unlisted cells whose model is m. A loss that does not allow
 * zeros has no unlisted cells, and no value at 0. */
static double of_zeros(const struct ts_loss *loss, double n, double m, double at)
{
    return n > 0 ? n * value(loss, 0, m, at) : 0;
}

/* Returns the sum of the loss f over listed cells for a model of value m everywhere, with a loss
 * whose in_x is APART (a term linear in x, and a term of x alone). kept->reference is this sum for
 * a model of value TS_LOSS_APART_AT. f(x, m) - f(x, TS_LOSS_APART_AT) = a + b x for any x, so
 * values at x = 1 and 2 give a and b. x = 0 is avoided, because f may be infinite there. */
static double apart(const struct ts_loss *loss, double at, const struct ts_cell_losses *kept,
                    double m)
{
    const double d1 = value(loss, 1, m, at) - value(loss, 1, TS_LOSS_APART_AT, at);
    const double d2 = value(loss, 2, m, at) - value(loss, 2, TS_LOSS_APART_AT, at);
    const double b = d2 - d1, a = d1 - b;
    return kept->reference + kept->n * a + kept->x * b;
}

double ts_deviance_constant(const struct ts_loss *loss, double at, double cells,
                            const struct ts_cell_losses *kept)
{
    const double unlisted = cells - kept->n;
    const double mean = kept->x / cells;
    double m;
    if (loss->in_x == TS_IN_X_ANY)
        return kept->reference + of_zeros(loss, unlisted, 0, at);
    m = loss->constant(mean, at);
    if (!isfinite(m)) /* all values of the tensor are equal, and an infinite m predicts them */
        return 0;
    if (loss->in_x == TS_IN_X_APART)
        return apart(loss, at, kept, m) + of_zeros(loss, unlisted, m, at);
    /* The loss is linear in the value of a cell: its sum over cells is their number times the loss
     * at the mean value. The difference of the loss at 1 and at 0 would be lost in rounding if m is
     * large. */
    return cells * value(loss, mean, m, at);
}

/* Returns the expected rounding error of C - S, the sums of the loss for the constant and for the
 * saturated model (deviance.h). If a value x is about 1, terms of its cell cancel, like 1 and log
 * x, or x and x log x. Their size is the smaller of the number of cells and the sum of x, so that
 * the unit of x does not matter. If in_x of the loss is APART, sums are relative to a model of 1.
 * If it is ANY, nothing is subtracted from the sums. */
static double rounding(const struct ts_loss *loss, const struct ts_cell_losses *kept,
                       double of_constant)
{
    const double n = kept->n, x = fabs(kept->x);
    const double cancelled = loss->in_x == TS_IN_X_APART ? n + x : fmin(n, x);
    return loss->in_x == TS_IN_X_ANY
               ? 0
               : TS_DEVIANCE_ROUNDING * (fabs(of_constant) + fabs(kept->reference) + cancelled);
}

double ts_deviance_least(const struct ts_loss *loss, const struct ts_cell_losses *kept)
{
    return loss->in_x == TS_IN_X_LINEAR ? kept->reference : 0;
}

double ts_deviance_fit(const struct ts_loss *loss, double at, double cells,
                       const struct ts_cell_losses *kept, double sum)
{
    const double of_constant = ts_deviance_constant(loss, at, cells, kept);
    const double least = ts_deviance_least(loss, kept);
    /* deviance of the constant model, which is not negative */
    const double most = of_constant - least;
    return kept->n == 0                               ? 1
           : most > rounding(loss, kept, of_constant) ? (of_constant - sum) / most
                                                      : least - sum;
}
