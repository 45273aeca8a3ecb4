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
enum { TS_GCP_NONE }; /* no loss of losses.def */

/* How f(x, m) depends on the value x, which decides how the fit is computed
 * (cpd/methods/deviance.h). */
enum ts_loss_in_x {
    TS_IN_X_LINEAR, /* f = a(m) + b(m) x */
    TS_IN_X_APART,  /* f = a(m) + b(m) x + c(x), with a least value of 0 for each x */
    TS_IN_X_ANY     /* neither, and 0 where x and m are 0 */
};

struct ts_loss {
    int kind; /* TS_GCP_NONE: the Poisson model */
    const char *name;
    const char *values;      /* the values that the loss is for, as a phrase */
    int (*allows)(double x); /* whether x is one of these values */
    double lower;            /* least entry of factors */
    int zeros;               /* 0 is one of these values, so unlisted cells may count as 0 */
    /* f(x, m) - f(0, m) is linear in x, so several nonzeros of a cell count as their sum */
    int sums;
    double linear; /* f(0, m) is about `linear` times m near m = 0, where most cells lie; or 0 */

    enum ts_loss_in_x in_x;
    /* The best m for values of this mean, if it depends on the mean alone. NULL with
     * TS_IN_X_ANY. */
    double (*constant)(double mean, double at);

    /* the model is the logarithm of logarithm_of, and m = 0 means zero_is; NULL: it is no
     * logarithm */
    const char *logarithm_of, *zero_is;

    /* For a loss that takes a number: ":" and a letter, as help has it; what the number is; an
     * example; and whether a number is allowed. Otherwise "" and NULL. */
    const char *number, *number_is, *number_like;
    int (*number_allows)(double at);

    void (*weigh)(uint32_t n, const double *restrict x, const double *restrict m, double at,
                  double *restrict g);
    double (*judge)(uint32_t n, const double *restrict x, const double *restrict m, double at);
};

extern const struct ts_loss ts_loss_poisson;

/* For help: the names of all losses except the default, separated by '|', and a sentence for
 * each. */
extern const char ts_loss_names[], ts_loss_help[];

/* Reads the name of a loss, with its number behind a colon if it takes one. TS_EARG lists the
 * names. */
int ts_loss_parse(const char *text, int *kind, double *at, struct ts_err *err);

/* Writes a loss in the form that ts_loss_parse reads, with so many digits of its number. */
void ts_loss_text(int kind, double at, int digits, char *ret, size_t room);

/* TS_EARG if the loss takes a number, and this one is not allowed. */
int ts_loss_number_check(int kind, double at, struct ts_err *err);

/* Whether the loss takes a number (never for TS_GCP_NONE), and a number that it accepts, or 0. */
int ts_loss_takes_number(int kind);
double ts_loss_some_number(int kind);

const struct ts_loss *ts_loss_of(int kind); /* NULL for TS_GCP_NONE and unknown kinds */

#endif
