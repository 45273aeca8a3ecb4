/* SPDX-License-Identifier: BSD-3-Clause */
/* loss_functions.h - what a cell costs where the model's value is m, and the derivative of that by m: the formulas of loss.h, for CPU
 * cores and GPUs.
 *
 * A loss NAME of generalized CP is a pair of functions, ts_NAME_value and ts_NAME_slope, and a row of TS_GCP_LOSSES. The row
 * says how the loss depends on x. One that is LINEAR has ts_NAME_least too: what a cell costs at the model that is best there.
 *
 *   threads  pure
 *   units    all float64; at: D of huber, else of no use
 *   errors   none: what is not a number stays so
 */
#ifndef TS_STREAM_LOSS_FUNCTIONS_H
#define TS_STREAM_LOSS_FUNCTIONS_H

#include <math.h>

#include "base/anywhere.h"

#define TS_LOSS_LEAST 1e-10

/* Of generalized CP: 1 is the first. 0: none. */
enum ts_loss_kind {
    TS_GCP_NONE,
    TS_GCP_BERNOULLI,
    TS_GCP_BERNOULLI_LOGIT,
    TS_GCP_GAMMA,
    TS_GCP_POISSON_LOG,
    TS_GCP_HUBER,
    TS_N_GCP
};

/* How f(x, m) depends on the value x, which decides how the fit is computed (cpd/deviance.h). */
enum ts_loss_in_x {
    TS_IN_X_LINEAR, /* f = a(m) + b(m) x */
    TS_IN_X_APART,  /* f = a(m) + b(m) x + c(x), with a least value of 0 for each x */
    TS_IN_X_ANY     /* neither, and 0 where x and m are 0 */
};

#define TS_GCP_LOSSES(LOSS)                       \
    LOSS(TS_GCP_BERNOULLI, bernoulli, LINEAR)     \
    LOSS(TS_GCP_BERNOULLI_LOGIT, logit, LINEAR)   \
    LOSS(TS_GCP_GAMMA, gamma, LINEAR)             \
    LOSS(TS_GCP_POISSON_LOG, poisson_log, LINEAR) \
    LOSS(TS_GCP_HUBER, huber, ANY)

/* A value that is not a number is not the lesser one. */
TS_ANYWHERE static inline double ts_at_least(double m)
{
    return m < TS_LOSS_LEAST ? TS_LOSS_LEAST : m;
}

/* Of poisson this is the g that rows are multiplied with, and no derivative. */
TS_ANYWHERE static inline double ts_poisson_slope(double x, double m, double at)
{
    (void)at;
    return x / ts_at_least(m);
}

TS_ANYWHERE static inline double ts_poisson_value(double x, double m, double at)
{
    (void)at;
    return x * log(ts_at_least(m));
}

TS_ANYWHERE static inline double ts_bernoulli_slope(double x, double m, double at)
{
    (void)at;
    return 1 / (1 + m) - x / (m + TS_LOSS_LEAST);
}

TS_ANYWHERE static inline double ts_bernoulli_value(double x, double m, double at)
{
    (void)at;
    return log1p(m) - (x == 0 ? 0 : x * log(m + TS_LOSS_LEAST));
}

TS_ANYWHERE static inline double ts_bernoulli_least(double x)
{
    (void)x;
    return 0;
}

/* Neither overflows, whatever the sign. */
TS_ANYWHERE static inline double ts_logit_slope(double x, double m, double at)
{
    const double e = exp(-fabs(m));
    (void)at;
    return (m < 0 ? e : 1) / (1 + e) - x;
}

TS_ANYWHERE static inline double ts_logit_value(double x, double m, double at)
{
    (void)at;
    return (m > 0 ? m : 0) + log1p(exp(-fabs(m))) - x * m;
}

TS_ANYWHERE static inline double ts_logit_least(double x)
{
    (void)x;
    return 0;
}

TS_ANYWHERE static inline double ts_gamma_slope(double x, double m, double at)
{
    const double above = m + TS_LOSS_LEAST;
    (void)at;
    return (1 - x / above) / above;
}

TS_ANYWHERE static inline double ts_gamma_value(double x, double m, double at)
{
    const double above = m + TS_LOSS_LEAST;
    (void)at;
    return x / above + log(above);
}

TS_ANYWHERE static inline double ts_gamma_least(double x)
{
    return 1 + log(x);
}

TS_ANYWHERE static inline double ts_poisson_log_slope(double x, double m, double at)
{
    (void)at;
    return exp(m) - x;
}

TS_ANYWHERE static inline double ts_poisson_log_value(double x, double m, double at)
{
    (void)at;
    return exp(m) - x * m;
}

TS_ANYWHERE static inline double ts_poisson_log_least(double x)
{
    return x > 0 ? x - x * log(x) : 0;
}

TS_ANYWHERE static inline double ts_huber_slope(double x, double m, double at)
{
    const double most = 2 * at, slope = 2 * (m - x), less = slope > most ? most : slope;
    return less < -most ? -most : less;
}

TS_ANYWHERE static inline double ts_huber_value(double x, double m, double at)
{
    const double left = fabs(x - m);
    return left <= at ? left * left : 2 * at * left - at * at;
}

/* Of a kind that is not known before. */
TS_ANYWHERE static inline double ts_loss_slope(enum ts_loss_kind kind, double x, double m,
                                               double at)
{
    switch (kind) {
#define SLOPE(KIND, name, in_x) \
    case KIND:                  \
        return ts_##name##_slope(x, m, at);
        TS_GCP_LOSSES(SLOPE)
#undef SLOPE
    default:
        return 0;
    }
}

TS_ANYWHERE static inline double ts_loss_value(enum ts_loss_kind kind, double x, double m,
                                               double at)
{
    switch (kind) {
#define VALUE(KIND, name, in_x) \
    case KIND:                  \
        return ts_##name##_value(x, m, at);
        TS_GCP_LOSSES(VALUE)
#undef VALUE
    default:
        return 0;
    }
}

/* What the deviance (cpd/deviance.h) takes of a cell of value x beside its loss: of a LINEAR loss the least that any model has
 * there (the saturated model; McCullagh and Nelder, Generalized Linear Models, 2.3); of the others, whose least is 0, the loss
 * of the model that has 1 (APART) or 0 everywhere. */
#define TS_LOSS_APART_AT 1.0

TS_ANYWHERE static inline double ts_loss_reference(enum ts_loss_kind kind, double x, double at)
{
    switch (kind) {
#define TS_REFERENCE_LINEAR(name) ts_##name##_least(x)
#define TS_REFERENCE_APART(name)  ts_##name##_value(x, TS_LOSS_APART_AT, at)
#define TS_REFERENCE_ANY(name)    ts_##name##_value(x, 0, at)
#define REFERENCE(KIND, name, in_x) \
    case KIND:                      \
        return TS_REFERENCE_##in_x(name);
        TS_GCP_LOSSES(REFERENCE)
#undef REFERENCE
#undef TS_REFERENCE_ANY
#undef TS_REFERENCE_APART
#undef TS_REFERENCE_LINEAR
    default:
        return 0;
    }
}

#endif
