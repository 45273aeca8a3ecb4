/* SPDX-License-Identifier: BSD-3-Clause */
/* loss_functions.h - the cost of a cell if the model's value is m, and its derivative by m, for CPU
 * cores and GPUs: for the Poisson model, and for the losses of losses.def by their kind. Files that
 * compute or name a loss include this header, and are compiled again if a formula changes. loss.h
 * has the table of losses.
 *
 *   threads  pure
 *   units    all float64; at: the parameter of a loss that takes one, otherwise unused
 *   errors   none: a NaN stays a NaN
 */
#ifndef TS_STREAM_LOSS_FUNCTIONS_H
#define TS_STREAM_LOSS_FUNCTIONS_H

#include <math.h>

#include "base/anywhere.h"

#define TS_LOSS_LEAST 1e-10

/* The number of each row of losses.def, from 1. */
enum ts_loss_kind {
    TS_LOSS_NO_KIND, /* no loss of losses.def: TS_GCP_NONE of loss.h */
#define LOSS(KIND, ...) TS_GCP_##KIND,
#include "stream/losses.def"
};

enum {
    TS_N_GCP = 1 /* number of kinds, with TS_GCP_NONE */
#define LOSS(KIND, ...) +1
#include "stream/losses.def"
};

/* Returns the larger of the model's value m and TS_LOSS_LEAST. A NaN stays a NaN. */
TS_ANYWHERE static inline double ts_at_least(double m)
{
    return m < TS_LOSS_LEAST ? TS_LOSS_LEAST : m;
}

/* Returns x / m, by which rows of the Poisson model are multiplied (g of loss.h). Unlike the slopes
 * of other losses it is not a derivative. */
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

#include "stream/losses.def"

/* The end of a switch over kinds of losses. On the host it has no default, so the compiler reports
 * a kind without a case. Kernels need the default: without it, nvcc compares the kinds in another
 * order. */
#ifdef __CUDACC__
#define TS_NO_LOSS default:
#else
#define TS_NO_LOSS case TS_LOSS_NO_KIND:
#endif

/* Returns the slope (derivative by m) of the loss `kind` at a cell of value x and model's value m.
 * If the kind is a constant, call ts_NAME_slope directly. */
TS_ANYWHERE static inline double ts_loss_slope(int kind, double x, double m, double at)
{
    switch ((enum ts_loss_kind)kind) {
#define LOSS(KIND, name, ...) \
    case TS_GCP_##KIND:       \
        return ts_##name##_slope(x, m, at);
#include "stream/losses.def"
        TS_NO_LOSS
        break;
    }
    return 0;
}

TS_ANYWHERE static inline double ts_loss_value(int kind, double x, double m, double at)
{
    switch ((enum ts_loss_kind)kind) {
#define LOSS(KIND, name, ...) \
    case TS_GCP_##KIND:       \
        return ts_##name##_value(x, m, at);
#include "stream/losses.def"
        TS_NO_LOSS
        break;
    }
    return 0;
}

/* Returns the loss that the deviance (cpd/methods/deviance.h) subtracts from the loss of a cell of
 * value x. For a LINEAR loss it is the least loss of any model at the cell (the saturated model;
 * McCullagh and Nelder, Generalized Linear Models, 2.3). For other losses, whose least value is 0,
 * it is the loss of the model that is 1 (APART) or 0 everywhere. */
#define TS_LOSS_APART_AT 1.0

TS_ANYWHERE static inline double ts_loss_reference(int kind, double x, double at)
{
    switch ((enum ts_loss_kind)kind) {
#define TS_REFERENCE_LINEAR(name) ts_##name##_least(x, at)
#define TS_REFERENCE_APART(name)  ts_##name##_value(x, TS_LOSS_APART_AT, at)
#define TS_REFERENCE_ANY(name)    ts_##name##_value(x, 0, at)
#define LOSS(KIND, name, IN_X, ...) \
    case TS_GCP_##KIND:             \
        return TS_REFERENCE_##IN_X(name);
#include "stream/losses.def"
#undef TS_REFERENCE_ANY
#undef TS_REFERENCE_APART
#undef TS_REFERENCE_LINEAR
        TS_NO_LOSS
        break;
    }
    return 0;
}

#undef TS_NO_LOSS

#endif
