/* SPDX-License-Identifier: BSD-3-Clause */
/* loss.h - how far a model's value m is from a tensor's value x, and what a row is told of it: a
 * table, made of losses.def.
 *
 * A weighted product of a row sums g(x, m) p over its nonzeros, p being the product of the other
 * factors' rows and m = <p, a> with the row a of the mode itself. An entry of the table gives g and
 * what is summed to judge the model by; a method (src/cpd) says what becomes of the row. Both are
 * called with the nonzeros of a block at a time.
 *
 *   poisson   of cpd/apr.h: g = x / m, so that the sum is what the row is multiplied with once
 *             columns of the other factors sum to 1 (Chi, Kolda 2012); judged by x log m, whose sum
 *             without that of all cells' m is the log-likelihood (without the term of x alone). m
 *             counts as TS_LOSS_LEAST where it is less
 *
 * Those of cpd/methods/gcp.h have g = f'(x, m), the derivative by m of what they are judged by, f
 * (Hong, Kolda, Duersch 2020).
 *
 *   threads  any: nothing is kept
 *   units    all float64; at: the number of a loss that takes one (its `number`), else of no use
 *   errors   formulas have none: what is not a number stays so
 */
#ifndef TS_STREAM_LOSS_H
#define TS_STREAM_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A kind of loss is its place in losses.def, an enum ts_loss_kind of loss_functions.h. */
enum { TS_GCP_NONE }; /* none of them */

/* How f(x, m) depends on the value x, which decides how the fit is computed
 * (cpd/methods/deviance.h). */
enum ts_loss_in_x {
    TS_IN_X_LINEAR, /* f = a(m) + b(m) x */
    TS_IN_X_APART,  /* f = a(m) + b(m) x + c(x), with a least value of 0 for each x */
    TS_IN_X_ANY     /* neither, and 0 where x and m are 0 */
};

struct ts_loss {
    int kind; /* TS_GCP_NONE: poisson */
    const char *name;
    const char *values;      /* that it is for, */
    int (*allows)(double x); /* and whether this is one of them */
    double lower;            /* least entry of factors */
    int zeros;               /* 0 is such a value: cells that are not listed may count as it */
    /* f(x, m) - f(0, m) is linear in x, for any x: nonzeros of one cell count as their sum */
    int sums;
    double linear; /* f(0, m) is about so many m near m = 0, which is where most cells lie; or 0 */

    enum ts_loss_in_x in_x;
    /* The best m for values of this mean where it is the same for all; of TS_IN_X_ANY NULL. */
    double (*constant)(double mean, double at);

    /* The model is a logarithm, of this, and a model of 0 gives that; else NULL. */
    const char *logarithm_of, *zero_is;

    /* A loss that takes a number: ":" and a letter for it, as help has it; what it is, one of them,
     * and whether this is one. Else "" and NULL. */
    const char *number, *number_is, *number_like;
    int (*number_allows)(double at);

    void (*weigh)(uint32_t n, const double *restrict x, const double *restrict m, double at,
                  double *restrict g);
    double (*judge)(uint32_t n, const double *restrict x, const double *restrict m, double at);
};

extern const struct ts_loss ts_loss_poisson;

/* The names of all losses but the default, divided by '|', and what each of them is for: for
 * help. */
extern const char ts_loss_names[], ts_loss_help[];

/* Of a name, with the number behind a colon where the loss takes one: TS_EARG names those that
 * there are. */
int ts_loss_parse(const char *text, int *kind, double *at, struct ts_err *err);

/* Writes what ts_loss_parse reads, the number with so many digits. */
void ts_loss_text(int kind, double at, int digits, char *ret, size_t room);

/* TS_EARG where the loss takes a number and this is none of them. */
int ts_loss_number_check(int kind, double at, struct ts_err *err);

/* Whether it takes a number: of TS_GCP_NONE not; and one that it takes, or 0. */
int ts_loss_takes_number(int kind);
double ts_loss_some_number(int kind);

const struct ts_loss *ts_loss_of(int kind); /* NULL: TS_GCP_NONE, or there is none */

#endif
