/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights, violation and likelihood of a Poisson model, from mode to mode. */
#include "cpd/apr.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format/walk.h"
#include "stream/loss.h"

#define GROW 0.01 /* what an inadmissible zero gets, of a column of sum 1 */

/* ---- values ---- */

struct search {
    const struct ts_tensor *tensor;
};

/* The first value that is too small, as the input counts. */
static int refuse(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index,
                  const double *value, struct ts_err *err)
{
    const struct search *s = ctx;
    const uint32_t order = s->tensor->order;
    char where[TS_MAX_ORDER * 24] = "";
    (void)thread;
    for (uint64_t i = 0; i < n; i++) {
        size_t at = 0;
        if (value[i] >= ts_loss_poisson.least)
            continue;
        for (uint32_t m = 0; m < order; m++)
            at += (size_t)snprintf(where + at, sizeof where - at, "%s%" PRIu64, m > 0 ? ", " : "",
                                   index[i * order + m] + ts_tensor_base(s->tensor));
        return ts_fail(
            err, TS_EARG, "%s: the value at (%s) is %g: a Poisson model is of %s, none below %g",
            s->tensor->path, where, value[i], ts_loss_poisson.values, ts_loss_poisson.least);
    }
    return 0;
}

int ts_apr_check(const struct ts_als_conf *conf, struct ts_err *err)
{
    const struct ts_tensor *t = conf->init.tensor;
    struct search search = { t };
    struct ts_walk walk;
    int rc;
    if (conf->inner == 0)
        return ts_fail(err, TS_EARG, "a row of a Poisson model takes at least one round a sweep");
    if (conf->accelerate)
        return ts_fail(err, TS_EARG, "a Poisson model cannot be accelerated");
    if (conf->init.backend->multiply == NULL)
        return ts_fail(err, TS_EARG, "a Poisson model is computed on CPU cores only");
    if (t->header.value_min >= ts_loss_poisson.least)
        return 0;
    rc = ts_walk_open(t, 0, &walk, err);
    if (rc < 0)
        return rc;
    rc = ts_walk_all(&walk, 1, refuse, &search, conf->init.stop, err);
    ts_walk_close(&walk);
    return rc == 0
               ? ts_fail(err, TS_EFORMAT, "%s: its index tells of a value of %g that is not there",
                         t->path, t->header.value_min)
               : rc;
}

/* ---- modes ---- */

static int multiply(struct ts_als *a, uint32_t mode, struct ts_feed *feed,
                    const struct ts_multiply *how, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    a->multiplied = (struct ts_multiply_sums){ .column = a->scale };
    return c->backend->multiply(c->be, mode, feed, how, &a->multiplied, &a->times, err);
}

int ts_apr_start(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const struct ts_multiply how = { .weight = a->w };
    int rc = 0;
    for (uint32_t r = 0; r < a->rank; r++)
        a->w[r] = 1;
    for (uint32_t m = 0; m < a->order && rc == 0; m++) {
        rc = multiply(a, m, NULL, &how, err);
        for (uint32_t r = 0; r < a->rank; r++)
            a->lambda[r] *= a->scale[r];
        if (rc == 0)
            rc = c->backend->gram(c->be, m, a->gram + m * a->square, err);
    }
    return rc;
}

int ts_apr_multiply(struct ts_als *a, struct ts_err *err)
{
    const struct ts_multiply how = { .loss = &ts_loss_poisson,
                                     .weight = a->lambda,
                                     .grow = GROW,
                                     .rounds = a->conf->inner,
                                     .judge = a->product + 1 == a->order };
    return multiply(a, a->product, a->conf->feed, &how, err);
}

int ts_apr_take(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    double sum = 0;
    memcpy(a->lambda, a->scale, a->rank * sizeof *a->lambda);
    a->kkt = fmax(a->kkt, a->multiplied.kkt);
    for (uint32_t r = 0; r < a->rank; r++)
        sum += a->lambda[r];
    if (a->product + 1 == a->order) {
        a->loss = a->multiplied.loss - sum;
        a->inner = a->multiplied.inner;
    }
    return c->backend->gram(c->be, a->product, a->gram + a->product * a->square, err);
}
