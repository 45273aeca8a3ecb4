/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes how well a decomposition fits the nonzeros of a tensor. */
#include <math.h>
#include <stdlib.h>

#include "api/api_session.h"
#include "base/setting.h"
#include "base/machine/threads.h"
#include "cpd/judge/core_consistency.h"
#include "cpd/judge/score.h"
#include "format/tensor_kind.h"

static int take_conf(const ts_cpd_score_conf *given, const ts_tensor *t, ts_cpd_score_conf *conf,
                     struct ts_err *err)
{
    const uint64_t nnz = t->nnz;
    int rc = TS_API_CONF(conf, given, err);
    if (rc == 0 && conf->mode >= t->order)
        rc = ts_fail(err, TS_EARG, "%s: there is no " TS_NTH_MODE ", only %u", t->path,
                     conf->mode + 1, t->order);
    if (conf->n_top > nnz)
        conf->n_top = (uint32_t)nnz;
    return rc;
}

static int wants_slices(const ts_cpd_score_conf *c)
{
    return c->slice_nnz != NULL || c->slice_weight != NULL || c->slice_value != NULL ||
           c->slice_model != NULL || c->slice_rmse != NULL || c->slice_mae != NULL;
}

/* Returns the mean of a quantity over nonzeros from its sum; NaN if the sum of their weights is
 * 0. */
static double mean_of(const struct ts_score_sums *x, double sum)
{
    return x->weight > 0 ? sum / x->weight : NAN;
}

static void put(double *to, uint64_t i, double x)
{
    if (to != NULL)
        to[i] = x;
}

static void put_slices(const ts_cpd_score_conf *c, const struct ts_score *s)
{
    for (uint64_t i = 0; i < s->n_slices; i++) {
        const struct ts_score_sums *x = &s->slice[i];
        if (c->slice_nnz != NULL)
            c->slice_nnz[i] = x->n;
        put(c->slice_weight, i, x->weight);
        put(c->slice_value, i, x->value);
        put(c->slice_model, i, x->model);
        put(c->slice_rmse, i, sqrt(mean_of(x, x->squares)));
        put(c->slice_mae, i, mean_of(x, x->magnitudes));
    }
}

/* Copies the largest residuals to the caller's arrays, with rows converted to indices of the
 * input. */
static int put_top(const ts_cpd_score_conf *c, const ts_tensor *t, const struct ts_score *s,
                   struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->n_top; i++) {
        put(c->top_value, i, s->top[i].value);
        put(c->top_model, i, s->top[i].model);
    }
    for (uint32_t m = 0; m < t->order && rc == 0 && c->top_index != NULL && s->n_top > 0; m++) {
        uint64_t *index = NULL;
        rc = ts_tensor_rows(t, m, &index, err);
        for (uint32_t i = 0; i < s->n_top && rc == 0; i++) {
            const uint32_t row = s->top[i].row[m];
            c->top_index[(uint64_t)i * t->order + m] = index == NULL ? row : index[row];
        }
        free(index);
    }
    return rc;
}

int ts_api_pass(const ts_tensor *t, const ts_session_conf *conf, const struct ts_score_conf *want,
                enum ts_precision precision, const struct ts_api *a,
                int (*work)(const struct ts_score_conf *c, void *ret, struct ts_err *err),
                void *ret, struct ts_err *err)
{
    struct ts_engine_conf ec = ts_api_engine_conf(t, conf);
    struct ts_score_conf sc = *want;
    struct ts_engine e;
    int rc = ts_threads_get(conf->threads, 0, &ec.threads, err);
    if (rc < 0)
        return rc;
    ec.rank = want->model->rank;
    ec.precision = precision;
    ec.processor = (struct ts_processor){ .cpu = 1 };
    ec.only_mode = (int)want->mode;
    ec.unknown = 1;
    ec.needs = TS_CAN(CELLS);
    ec.own_bytes = ts_score_bytes(t, want->mode, ec.rank, ec.threads, 1, want->top, want->slices);
    rc = ts_engine_open(&ec, &e, err);
    if (rc < 0)
        return rc;
    sc.tensor = t;
    sc.backend = e.backend;
    sc.be = e.be;
    sc.feed = e.feed;
    sc.threads = e.threads;
    sc.stop = ec.stop;
    ts_api_engine_note(a, conf, &e);
    rc = work(&sc, ret, err);
    ts_engine_close(&e);
    return rc;
}

static int score(const struct ts_score_conf *c, void *ret, struct ts_err *err)
{
    return ts_score_run(c, ret, err);
}

static int compute(const ts_cpd *k, const ts_tensor *t, const ts_cpd_score_conf *c,
                   const ts_session_conf *session, struct ts_api *a, struct ts_score *ret)
{
    const struct ts_score_conf want = {
        .model = k, .mode = c->mode, .top = c->n_top, .slices = wants_slices(c), .unseen = 1
    };
    return ts_api_pass(t, session, &want, c->float32 ? TS_FLOAT32 : TS_FLOAT64, a, score, ret,
                       &a->err);
}

int ts_cpd_score(const ts_cpd *c, const ts_tensor *t, const ts_cpd_score_conf *given,
                 const ts_session_conf *session, ts_cpd_score_result *ret, ts_error *err)
{
    struct ts_score s = { 0 };
    ts_cpd_score_conf conf;
    ts_session_conf sc;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = take_conf(given, t, &conf, &a.err);
    if (rc == 0)
        rc = ts_api_session_conf(session, &sc, &a.err);
    if (rc == 0 && c->order != t->order)
        rc = ts_fail(&a.err, TS_EARG, "the model has %u modes, %s has %u", c->order, t->path,
                     t->order);
    if (rc == 0)
        rc = compute(c, t, &conf, &sc, &a, &s);
    if (rc == 0)
        rc = put_top(&conf, t, &s, &a.err);
    if (rc == 0) {
        const struct ts_score_sums *x = &s.all;
        const ts_cpd_score_result r = { .nnz = x->n,
                                        .weight = x->weight,
                                        .rmse = sqrt(mean_of(x, x->squares)),
                                        .mae = mean_of(x, x->magnitudes),
                                        .mean_value = mean_of(x, x->value),
                                        .mean_model = mean_of(x, x->model),
                                        .gaussian = s.gaussian,
                                        .poisson = s.poisson,
                                        .n_top = s.n_top,
                                        .unseen = s.unseen };
        put_slices(&conf, &s);
        ts_api_result(ret, &r, sizeof r);
    }
    ts_score_free(&s);
    return ts_api_end(&a, rc, err);
}

/* Computes the core consistency for a tensor in which each listed cell counts once and unlisted
 * cells are zeros. */
static int core(const ts_cpd *c, const ts_tensor *t, const ts_session_conf *conf,
                struct ts_core *ret, struct ts_err *err)
{
    struct ts_core_conf cc = { .tensor = t, .model = c, .stop = conf->stop };
    int rc = ts_tensor_is_unweighted(t, "a core consistency", err);
    if (rc == 0)
        rc = ts_threads_get(conf->threads, 0, &cc.threads, err);
    return rc == 0 ? ts_core_run(&cc, ret, err) : rc;
}

int ts_cpd_core(const ts_cpd *c, const ts_tensor *t, const ts_session_conf *given,
                ts_core_result *ret, ts_error *err)
{
    struct ts_core found;
    ts_session_conf conf;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = ts_api_session_conf(given, &conf, &a.err);
    if (rc == 0)
        rc = core(c, t, &conf, &found, &a.err);
    if (rc == 0) {
        const ts_core_result r = { .consistency = found.consistency,
                                   .normalised = found.normalised,
                                   .n_singular = found.n_singular,
                                   .given = found.given,
                                   .given_normalised = found.given_normalised };
        ts_api_result(ret, &r, sizeof r);
    }
    return ts_api_end(&a, rc, err);
}
