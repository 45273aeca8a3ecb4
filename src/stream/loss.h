/* SPDX-License-Identifier: BSD-3-Clause */
/* loss.h - a table of losses, made from losses.def: the loss of a model's value m at a cell of
 * value x, and its contribution to the update of a row.
 *
 * The weighted product of a row a is the sum of g(x, m) p over its nonzeros. p is the elementwise
 * product of the other factors' rows, and m = <p, a>. An entry of the table has the function g, and
 * the function whose sum over nonzeros measures how well the model fits. Both take the nonzeros of
 * a block at a time. A method (src/cpd) updates the row with this product.
 *
 *   poisson  for cpd/methods/apr.c: g = x / m. If columns of the other factors sum to 1, a row is
 *            updated by multiplication with its weighted product (Chi, Kolda 2012). The fit of the
 *            model is measured by x log m. Its sum over the nonzeros, minus the sum of m over all
 *            cells, is the log-likelihood without the term of x alone. If m is less than
 *            TS_LOSS_LEAST, TS_LOSS_LEAST is used instead
 *
 * The losses of cpd/methods/gcp.h are judged by f(x, m), and g = f'(x, m) is the derivative of f by
 * m (Hong, Kolda, Duersch 2020).
 *
 *   threads  any: functions have no state
 *   units    all float64; at: the parameter of a loss that takes one (its `number`), otherwise
 *            unused
 *   errors   formulas have none: a NaN stays a NaN
 */
#ifndef TS_STREAM_LOSS_H
#define TS_STREAM_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A loss is identified by the number of its row in losses.def, an enum ts_loss_kind of
 * loss_functions.h. */
enum { TS_GCP_NONE }; /* the number of no loss in losses.def */

/* How a loss f(x, m) depends on the value x of a cell, where m is the model's value there. That
 * decides how the fit is computed (cpd/methods/deviance.h). */
enum ts_loss_in_x {
    TS_IN_X_LINEAR, /* f = a(m) + b(m) x, with any functions a and b */
    TS_IN_X_APART,  /* f = a(m) + b(m) x + c(x), where the least f over all m is 0 for each x */
    TS_IN_X_ANY     /* any other f, with f(0, 0) = 0 */
};

struct ts_loss {
    int kind; /* TS_GCP_NONE: the Poisson model */
    const char *name;
    const char *values;      /* description of the values that the loss is for */
    int (*allows)(double x); /* whether the loss is defined for the value x */
    double lower;            /* smallest allowed entry of a factor */
    int zeros;               /* 1: `allows` accepts 0, so cells without a nonzero may count as 0 */
    /* 1: f(x, m) - f(0, m) is linear in x, so it may be summed over the nonzeros of one cell */
    int sums;
    /* derivative by m of f(0, m) near m = 0, where m is for most cells without a nonzero; or 0 */
    double linear;

    enum ts_loss_in_x in_x;
    /* Returns the model's value m that, used at all cells, has the least total loss for values of
     * this mean, if it depends on the mean alone. NULL with TS_IN_X_ANY. */
    double (*constant)(double mean, double at);

    /* for messages, if the model's value m is a logarithm: the name of what m is the logarithm of,
     * and its value at m = 0; NULL: m is no logarithm */
    const char *logarithm_of, *zero_is;

    /* For a loss with a parameter: its form in the help (":" and a letter), what the parameter
     * means, an example of it, and whether a value is allowed. Without a parameter: "" and NULL. */
    const char *number, *number_is, *number_like;
    int (*number_allows)(double at);

    void (*weigh)(uint32_t n, const double *restrict x, const double *restrict m, double at,
                  double *restrict g);
    double (*judge)(uint32_t n, const double *restrict x, const double *restrict m, double at);
};

extern const struct ts_loss ts_loss_poisson;

/* For the help of options: the names of all losses except the default, separated by '|', and a
 * description of each. */
extern const char ts_loss_names[], ts_loss_help[];

/* Parses the name of a loss, followed by ":" and a number if it has a parameter. The message of
 * TS_EARG lists the names. */
int ts_loss_parse(const char *text, int *kind, double *at, struct ts_err *err);

/* Writes a loss in the form that ts_loss_parse reads, with `digits` digits of its parameter. */
void ts_loss_text(int kind, double at, int digits, char *ret, size_t room);

/* Returns TS_EARG if the loss takes a parameter and the value `at` is not allowed. */
int ts_loss_number_check(int kind, double at, struct ts_err *err);

/* Return whether the loss takes a parameter (never for TS_GCP_NONE), and an allowed value of the
 * parameter, or 0. */
int ts_loss_takes_number(int kind);
double ts_loss_some_number(int kind);

const struct ts_loss *ts_loss_of(int kind); /* NULL: TS_GCP_NONE, or an unknown kind */

#endif
