/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes sessions, which keep an engine (tensor, processor and memory) for several runs.
 * Also computes exact fits. */
#include <stdlib.h>

#include "api/api_session.h"
#include "base/files/place.h"
#include "base/setting.h"
#include "base/machine/threads.h"
#include "cpd/judge/known_fit.h"
#include "cpu/dense/dense_scan.h"
#include "format/arrays/dense.h"
#include "model/kruskal.h"

_Static_assert(sizeof(sig_atomic_t) == sizeof(int), "a stop flag is an int");

int ts_api_check_loss(int loss, int optimizer, struct ts_err *err)
{
    if (!ts_api_is_loss(loss))
        return ts_fail(err, TS_EARG, "there is no loss %d", loss);
    return optimizer == TS_OPTIMIZER_ADAM || optimizer == TS_OPTIMIZER_LBFGSB
               ? 0
               : ts_fail(err, TS_EARG, "there is no optimizer %d", optimizer);
}

int ts_api_session_conf(const ts_session_conf *given, ts_session_conf *conf, struct ts_err *err)
{
    struct ts_processor p;
    int rc = TS_API_CONF(conf, given, err);
    if (rc == 0 && conf->precision != TS_REAL_FLOAT32 && conf->precision != TS_REAL_FLOAT64)
        rc = ts_fail(err, TS_EARG, "the precision must be float32 or float64");
    if (rc == 0 && conf->threads > TS_MAX_THREADS)
        rc = ts_fail(err, TS_EARG, "at most %u threads are possible", TS_MAX_THREADS);
    if (rc == 0)
        rc = ts_api_check_loss(conf->loss, conf->optimizer, err);
    p = (struct ts_processor){ .cpu = conf->cpu,
                               .gpus = conf->gpus,
                               .device_bytes = conf->gpu_memory };
    return rc == 0 ? ts_processor_check(&p, err) : rc;
}

struct ts_engine_conf ts_api_engine_conf(const ts_tensor *t, const ts_session_conf *c)
{
    return (struct ts_engine_conf){
        .path = t->path,
        .tensor = t,
        .rank = c->rank,
        .threads = c->threads,
        .precision = c->precision,
        .host_bytes = c->host_memory,
        .processor = { .cpu = c->cpu, .gpus = c->gpus, .device_bytes = c->gpu_memory },
        .only_mode = -1,
        .done = c->work,
        .done_ctx = c->ctx,
        .stop = c->stop
    };
}

void ts_api_engine_note(const struct ts_api *a, const ts_session_conf *c, struct ts_engine *e)
{
    struct ts_feed_stats stats;
    ts_feed_stats(e->feed, &stats);
    ts_api_note(a, c->note, c->ctx, &e->no_gpu);
    if (stats.fallback != NULL) {
        struct ts_err warn;
        ts_fail(&warn, TS_EIO, "%s", stats.fallback);
        ts_api_note(a, c->note, c->ctx, &warn);
    }
}

static void count(void *ctx, uint64_t nnz)
{
    ts_session *s = ctx, *told = atomic_load(&s->told);
    atomic_fetch_add_explicit(&s->nnz, nnz, memory_order_relaxed);
    if (told != NULL)
        atomic_fetch_add_explicit(&told->nnz, nnz, memory_order_relaxed);
    if (s->conf.work != NULL)
        s->conf.work(s->conf.ctx, nnz);
}

static int open_trace(ts_session *s, const char *tensor, struct ts_err *err)
{
    const struct ts_place place[] = {
        { .path = tensor }, { .path = s->conf.trace, .suffix = ".partial", .option = TS_SET_TRACE }
    };
    int rc;
    if (s->conf.trace == NULL)
        return 0;
    rc = ts_place_check(place, 2, err);
    if (rc == 0)
        rc = ts_trace_open(s->conf.trace, s->conf.replace, &s->trace, err);
    if (rc < 0)
        return rc;
    ts_trace_group(s->trace, 0, "host");
    ts_trace_lane(s->trace, TS_TRACE_MODES, "modes");
    return 0;
}

/* Closes the trace file, after everything that could write to it is closed. */
static void close_trace(ts_session *s)
{
    struct ts_err warn = { 0 };
    struct ts_api a;
    if (s->trace == NULL || s->ended) {
        ts_trace_drop(s->trace);
        return;
    }
    ts_api_begin(&a);
    if (ts_trace_close(s->trace, &warn, &a.err) < 0)
        warn = a.err;
    ts_api_note(&a, s->conf.note, s->conf.ctx, &warn);
    ts_api_end(&a, 0, NULL);
}

int ts_takes_observed(const ts_tensor *t, int loss)
{
    const int by_squares = loss == TS_LOSS_LEAST_SQUARES;
    struct ts_err err;
    uint32_t threads;
    if (!ts_api_is_loss(loss))
        return 0;
    if (by_squares && t->dense != NULL && !t->dense->scanned &&
        (ts_threads_get(0, 0, &threads, &err) < 0 ||
         ts_dense_scan_alone(t, threads, NULL, &err) < 0))
        return 0; /* opening a session reports this error */
    return ts_spec_takes_observed(t, ts_api_gcp(loss), loss == TS_LOSS_POISSON);
}

/* Sets in *ret the constraints for which the engine reserves memory: smoothness, and constraints
 * whose row updates read the previous rows as well. */
static int take_own_rows(const ts_tensor *t, const ts_session_conf *conf, struct ts_spec *ret,
                         struct ts_err *err)
{
    if ((conf->own_rows | conf->smooth) >> t->order != 0)
        return ts_fail(err, TS_EARG, "%s: %s has a mode beyond the last one, " TS_NTH("%u"),
                       t->path, conf->own_rows >> t->order != 0 ? "own_rows" : "smooth", t->order);
    for (uint32_t m = 0; m < t->order; m++) {
        ret->mode[m].nonneg = (conf->own_rows >> m & 1) != 0;
        ret->mode[m].smooth = conf->smooth >> m & 1;
    }
    ret->poisson = conf->loss == TS_LOSS_POISSON;
    ret->loss = ts_api_gcp(conf->loss);
    ret->loss_at = ts_loss_some_number(ret->loss);
    ret->lbfgsb = conf->optimizer == TS_OPTIMIZER_LBFGSB && conf->loss > TS_LOSS_POISSON;
    ret->observed = conf->observed != 0;
    ret->held = conf->hold_out != 0 && !conf->observed && conf->loss <= TS_LOSS_POISSON;
    ret->best = conf->patience != 0;
    return 0;
}

int ts_api_session_open(const ts_tensor *t, const ts_session_conf *conf, uint32_t n_models,
                        const uint32_t *ranks, const struct ts_api *a, ts_session **ret,
                        struct ts_err *err)
{
    struct ts_session *s = calloc(1, sizeof *s);
    struct ts_spec spec = { 0 };
    int rc = s == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for a session")
                       : ts_api_session_conf(conf, &s->conf, err);
    if (rc == 0)
        rc = take_own_rows(t, &s->conf, &spec, err);
    if (rc == 0) {
        struct ts_engine_conf ec;
        /* every run on this tensor treats unlisted cells as unknown */
        if (ts_takes_observed(t, s->conf.loss)) {
            s->conf.observed = 1;
            rc = take_own_rows(t, &s->conf, &spec, err);
        }
        if (s->conf.stop == NULL)
            s->conf.stop = &s->own_stop;
        s->stop = s->conf.stop;
        ec = ts_api_engine_conf(t, &s->conf);
        ec.n_models = n_models;
        ec.ranks = ranks;
        ec.done = count;
        ec.done_ctx = s;
        ec.copy = s->conf.checkpoints != 0;
        ec.spec = &spec;
        ec.accelerate = s->conf.accelerate != 0;
        rc = rc == 0 ? open_trace(s, t->path, err) : rc;
        ec.trace = s->trace;
        if (rc == 0)
            rc = ts_engine_open(&ec, &s->own, err);
    }
    if (rc < 0) {
        if (s != NULL)
            ts_trace_drop(s->trace);
        free(s);
        return rc;
    }
    s->engine = &s->own;
    s->be = s->own.be;
    ts_api_engine_note(a, &s->conf, s->engine);
    *ret = s;
    return 0;
}

ts_session *ts_session_open(const ts_tensor *t, const ts_session_conf *conf, ts_error *err)
{
    ts_session *s = NULL;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = ts_api_session_open(t, conf, 0, NULL, &a, &s, &a.err);
    ts_api_end(&a, rc, err);
    return s;
}

void ts_session_close(ts_session *s)
{
    if (s == NULL)
        return;
    ts_engine_close(&s->own);
    close_trace(s);
    free(s);
}

void ts_session_describe(const ts_session *s, ts_session_info *ret)
{
    const ts_session_info info = { .threads = s->engine->threads,
                                   .n_gpus = s->engine->n_devices,
                                   .host_bytes = s->engine->memory.host_bytes,
                                   .factor_bytes = s->engine->memory.factor_bytes };
    ts_api_result(ret, &info, sizeof info);
}

void ts_session_progress(const ts_session *s, ts_progress *ret)
{
    const ts_progress p = { .sweep = (uint32_t)atomic_load(&s->sweep),
                            .mode = (uint32_t)atomic_load(&s->mode),
                            .done = atomic_load(&s->nnz),
                            .total = s->engine->tensor->nnz };
    ts_api_result(ret, &p, sizeof p);
}

/* ---- fits of a decomposition ---- */

static int run_known(const struct ts_score_conf *c, void *ret, struct ts_err *err)
{
    return ts_known_fit_run(c, ret, err);
}

/* Computes the fit of known cells alone, on CPU cores. */
static int known_fit(const ts_tensor *t, const ts_cpd *c, const ts_session_conf *conf,
                     const struct ts_api *a, struct ts_exact_fit *ret, struct ts_err *err)
{
    struct ts_score_conf want = { .mode = ts_exact_fit_mode(t) };
    struct ts_kruskal *model = NULL;
    struct ts_model *from = NULL;
    int rc = ts_kruskal_model(c, 0, &from, err);
    if (rc == 0)
        rc = ts_kruskal_read(from, conf->stop, &model, err);
    if (rc == 0)
        rc = ts_known_fit_shape(model, t, err);
    want.model = model;
    if (rc == 0)
        rc = ts_api_pass(t, conf, &want, TS_FLOAT64, a, run_known, ret, err);
    ts_kruskal_free(model);
    ts_model_close(from);
    return rc;
}

static int fit(const ts_tensor *t, const ts_cpd *c, const ts_session_conf *conf,
               const struct ts_api *a, struct ts_exact_fit *ret, struct ts_err *err)
{
    struct ts_engine_conf ec = ts_api_engine_conf(t, conf);
    struct ts_model *model = NULL;
    struct ts_engine e;
    int rc;
    if (c->order != t->order)
        return ts_fail(err, TS_EARG, "the model has %u modes, %s has %u", c->order, t->path,
                       t->order);
    if (ts_takes_observed(t, TS_LOSS_LEAST_SQUARES))
        return known_fit(t, c, conf, a, ret, err);
    rc = ts_kruskal_model(c, 0, &model, err);
    if (rc < 0)
        return rc;
    ec.rank = c->rank;
    ec.precision = TS_FLOAT64;
    ec.only_mode = (int)ts_exact_fit_mode(t);
    ec.own_bytes = ts_exact_fit_bytes(t, model);
    rc = ts_engine_open(&ec, &e, err);
    if (rc == 0) {
        const struct ts_exact_fit_conf fc = { .tensor = t,
                                              .backend = e.backend,
                                              .be = e.be,
                                              .feed = e.feed,
                                              .model = model,
                                              .threads = e.threads,
                                              .stop = ec.stop };
        ts_api_engine_note(a, conf, &e);
        rc = ts_exact_fit_run(&fc, ret, err);
        ts_engine_close(&e);
    }
    ts_model_close(model);
    return rc;
}

int ts_fit(const ts_tensor *t, const ts_cpd *c, const ts_session_conf *given, ts_fit_result *ret,
           ts_error *err)
{
    struct ts_exact_fit f;
    ts_session_conf conf;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = ts_api_session_conf(given, &conf, &a.err);
    if (rc == 0)
        rc = fit(t, c, &conf, &a, &f, &a.err);
    if (rc == 0) {
        const ts_fit_result r = { .fit = f.fit,
                                  .error = f.error,
                                  .residual = f.residual,
                                  .norm = f.norm,
                                  .model_norm = f.model_norm };
        ts_api_result(ret, &r, sizeof r);
    }
    return ts_api_end(&a, rc, err);
}
