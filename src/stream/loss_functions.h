/* SPDX-License-Identifier: BSD-3-Clause */
/* loss_functions.h - what a cell costs where the model's value is m, and the derivative of that by m: the formulas of loss.h, for CPU
 * cores and GPUs.
 *
 * A loss NAME of generalized CP is a pair of functions, ts_NAME_value and ts_NAME_slope, and a row of TS_GCP_LOSSES.
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

#define TS_GCP_LOSSES(LOSS)               \
    LOSS(TS_GCP_BERNOULLI, bernoulli)     \
    LOSS(TS_GCP_BERNOULLI_LOGIT, logit)   \
    LOSS(TS_GCP_GAMMA, gamma)             \
    LOSS(TS_GCP_POISSON_LOG, poisson_log) \
    LOSS(TS_GCP_HUBER, huber)

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
#define SLOPE(KIND, name) \
    case KIND:            \
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
#define VALUE(KIND, name) \
    case KIND:            \
        return ts_##name##_value(x, m, at);
        TS_GCP_LOSSES(VALUE)
#undef VALUE
    default:
        return 0;
    }
}

/* The loss at a cell of value x that a fit is measured against: for huber that of a model of 0, for
 * others the least that any model has there (the saturated model of the deviance; McCullagh and
 * Nelder, Generalized Linear Models, 2.3). Zeros have 0. */
TS_ANYWHERE static inline double ts_loss_reference(enum ts_loss_kind kind, double x, double at)
{
    switch (kind) {
    case TS_GCP_HUBER:
        return ts_huber_value(x, 0, at);
    case TS_GCP_GAMMA:
        return 1 + log(x);
    case TS_GCP_POISSON_LOG:
        return x > 0 ? x - x * log(x) : 0;
    default:
        return 0;
    }
}

#endif
