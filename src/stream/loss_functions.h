/* SPDX-License-Identifier: BSD-3-Clause */
/* loss_functions.h - what a cell costs where the model's value is m, and the derivative of that by
 * m, for CPU cores and GPUs: of the Poisson model, and of the losses of losses.def by their kind. A
 * file that computes a loss, or names one, includes this header, and is compiled again where a
 * formula changes; loss.h has the rest.
 *
 *   threads  pure
 *   units    all float64; at: the number of a loss that takes one, else of no use
 *   errors   none: what is not a number stays so
 */
#ifndef TS_STREAM_LOSS_FUNCTIONS_H
#define TS_STREAM_LOSS_FUNCTIONS_H

#include <math.h>

#include "base/anywhere.h"

#define TS_LOSS_LEAST 1e-10

/* The places of rows in losses.def: 1 is the first. */
enum ts_loss_kind {
    TS_LOSS_NO_KIND, /* TS_GCP_NONE of loss.h */
#define LOSS(KIND, ...) TS_GCP_##KIND,
#include "stream/losses.def"
};

enum {
    TS_N_GCP = 1 /* kinds, with TS_GCP_NONE */
#define LOSS(KIND, ...) +1
#include "stream/losses.def"
};

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

#include "stream/losses.def"

/* What ends a switch over kinds. The host has no default, so that its compiler names a kind that is
 * forgotten; kernels have one, without which they compare in another order. */
#ifdef __CUDACC__
#define TS_NO_LOSS default:
#else
#define TS_NO_LOSS case TS_LOSS_NO_KIND:
#endif

/* Of a kind that is not known before. */
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

/* What the deviance (cpd/methods/deviance.h) takes of a cell of value x beside its loss: of a
 * LINEAR loss the least that any model has there (the saturated model; McCullagh and Nelder,
 * Generalized Linear Models, 2.3); of the others, whose least is 0, the loss of the model that has
 * 1 (APART) or 0 everywhere. */
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
