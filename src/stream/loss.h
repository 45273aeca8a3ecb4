/* SPDX-License-Identifier: BSD-3-Clause */
/* loss.h - how far a model's value m is from a tensor's value x, and what a row is told of it: a table.
 *
 * A weighted product of a row sums g(x, m) p over its nonzeros, p being the product of the other factors' rows and
 * m = <p, a> with the row a of the mode itself. An entry of the table gives g and what is summed to judge the model by;
 * a method (src/cpd) says what becomes of the row. Both are called with the nonzeros of a block at a time.
 *
 *   poisson   of cpd/apr.h: g = x / m, so that the sum is what the row is multiplied with once columns of the other factors
 *             sum to 1 (Chi, Kolda 2012); judged by x log m, whose sum without that of all cells' m is the log-likelihood
 *             (without the term of x alone). m counts as TS_LOSS_LEAST where it is less
 *
 * Those of cpd/gcp.h have g = f'(x, m), the derivative by m of what they are judged by, f (Hong, Kolda, Duersch 2020). Where
 * m must not be negative, m + TS_LOSS_LEAST is meant in logarithms and quotients. The formulas are in loss_functions.h:
 *
 *   bernoulli        m are odds:       f = log(1 + m) - x log m            x 0 or 1, m >= 0
 *   bernoulli-logit  m are log odds:   f = log(1 + e^m) - x m              x 0 or 1
 *   gamma            m are means:      f = x / m + log m                   x > 0, m >= 0
 *   poisson-log      e^m are means:    f = e^m - x m                       x >= 0
 *   huber            with a width D:   f = (x - m)^2 where that is at most D^2, else 2 D |x - m| - D^2
 *
 *   threads  any: nothing is kept
 *   units    all float64; at: D of huber, else of no use
 *   errors   none: what is not a number stays so
 */
#ifndef TS_STREAM_LOSS_H
#define TS_STREAM_LOSS_H

#include <stdint.h>

#include "base/err.h"
#include "stream/loss_functions.h"

struct ts_loss {
    enum ts_loss_kind kind; /* TS_GCP_NONE: poisson */
    const char *name;
    const char *values;      /* that it is for, */
    int (*allows)(double x); /* and whether this is one of them */
    double lower;            /* least entry of factors */
    int zeros;               /* 0 is such a value: cells that are not listed may count as it */
    int sums; /* f(x, m) - f(0, m) is linear in x, for any x: nonzeros of one cell count as their sum */
    double linear; /* f(0, m) is about so many m near m = 0, which is where most cells lie; or 0 */
    enum ts_loss_in_x in_x; /* as the row of TS_GCP_LOSSES says */
    double (*constant)(
        double
            mean); /* the best m for values of this mean where it is the same for all; ANY: NULL */
    void (*weigh)(uint32_t n, const double *restrict x, const double *restrict m, double at,
                  double *restrict g);
    double (*judge)(uint32_t n, const double *restrict x, const double *restrict m, double at);
};

extern const struct ts_loss ts_loss_poisson;

/* Of a name, huber with its width behind a colon: TS_EARG names those that there are. */
int ts_loss_parse(const char *text, enum ts_loss_kind *kind, double *at, struct ts_err *err);

const struct ts_loss *ts_loss_of(enum ts_loss_kind kind); /* NULL: TS_GCP_NONE */

#endif
