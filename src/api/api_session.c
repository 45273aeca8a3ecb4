/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: an engine for a tensor, decompositions by it, and exact fits. */
#include <signal.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/stop.h"
#include "base/threads.h"
#include "cpd/als.h"
#include "cpd/exact_fit.h"
#include "model/kruskal.h"
#include "engine/engine.h"

#define SWEEPS 50u

_Static_assert(sizeof(sig_atomic_t) == sizeof(int), "a stop flag is an int");

struct ts_session {
    ts_session_conf conf;
    struct ts_engine engine;
    volatile int own_stop; /* where the caller has none */
    volatile int *stop;
    int used;  /* factors are in the backend */
    int ended; /* it failed, or was stopped */
};

static int take_conf(const ts_session_conf *given, ts_session_conf *conf, struct ts_err *err)
{
    struct ts_processor p;
    int rc = 0;
    memset(conf, 0, sizeof *conf);
    if (given != NULL)
        rc = ts_api_conf(conf, sizeof *conf, given, given->size, err);
    if (rc == 0 && conf->precision != TS_REAL_FLOAT32 && conf->precision != TS_REAL_FLOAT64)
        rc = ts_fail(err, TS_EARG, "the precision must be float32 or float64");
    if (rc == 0 && conf->threads > TS_MAX_THREADS)
        rc = ts_fail(err, TS_EARG, "at most %u threads are possible", TS_MAX_THREADS);
    p = (struct ts_processor){ .cpu = conf->cpu,
                               .gpus = conf->gpus,
                               .device_bytes = conf->gpu_memory };
    return rc == 0 ? ts_processor_check(&p, err) : rc;
}

static struct ts_engine_conf engine_conf(const ts_tensor *t, const ts_session_conf *c)
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

/* What the engine has to say. */
static void note_engine(const struct ts_api *a, const ts_session_conf *c, struct ts_engine *e)
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

ts_session *ts_session_open(const ts_tensor *t, const ts_session_conf *conf, ts_error *err)
{
    struct ts_session *s = calloc(1, sizeof *s);
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = s == NULL ? ts_fail(&a.err, TS_ENOMEM, "out of memory for a session")
                   : take_conf(conf, &s->conf, &a.err);
    if (rc == 0) {
        struct ts_engine_conf ec;
        if (s->conf.stop == NULL)
            s->conf.stop = &s->own_stop;
        s->stop = s->conf.stop;
        ec = engine_conf(t, &s->conf);
        rc = ts_engine_open(&ec, &s->engine, &a.err);
    }
    if (rc == 0) {
        note_engine(&a, &s->conf, &s->engine);
    } else {
        free(s);
        s = NULL;
    }
    ts_api_end(&a, rc, err);
    return s;
}

void ts_session_close(ts_session *s)
{
    if (s == NULL)
        return;
    ts_engine_close(&s->engine);
    free(s);
}

void ts_session_describe(const ts_session *s, ts_session_info *ret)
{
    const ts_session_info info = { .threads = s->engine.threads,
                                   .n_gpus = s->engine.n_devices,
                                   .host_bytes = s->engine.memory.host_bytes,
                                   .factor_bytes = s->engine.memory.factor_bytes };
    ts_api_result(ret, &info, sizeof info);
}

/* ---- a decomposition ---- */

struct cp {
    struct ts_session *session;
    ts_cp_conf conf;
    const struct ts_api *api;
};

static void take_mode(void *ctx, const struct ts_als_mode *m)
{
    const struct cp *c = ctx;
    int stop;
    if (c->conf.mode == NULL)
        return;
    ts_api_out(c->api);
    stop = c->conf.mode(c->conf.ctx, m->sweep, m->mode, 1e-9 * (double)m->total_ns);
    ts_api_in();
    if (stop != 0)
        ts_stop_ask(c->session->stop, stop);
}

static void take_sweep(void *ctx, const struct ts_als_sweep *s)
{
    const struct cp *c = ctx;
    const ts_sweep sweep = { .size = sizeof sweep,
                             .sweep = s->sweep,
                             .fit = s->fit,
                             .change = s->change,
                             .seconds = 1e-9 * (double)s->total_ns,
                             .wait_seconds = 1e-9 * (double)s->wait_ns,
                             .copy_seconds = 1e-9 * (double)s->copy_ns,
                             .product_seconds = 1e-9 * (double)s->kernel_ns,
                             .solve_seconds = 1e-9 * (double)s->solve_ns,
                             .bytes_read = s->bytes_read,
                             .n_singular = s->n_singular };
    int stop;
    if (c->conf.sweep == NULL)
        return;
    ts_api_out(c->api);
    stop = c->conf.sweep(c->conf.ctx, &sweep);
    ts_api_in();
    if (stop != 0)
        ts_stop_ask(c->session->stop, stop);
}

/* Whether the rows that are held are those that the tensor has: then they are read as they are. */
static int same_rows(const struct ts_tensor *t, const struct ts_kruskal *k, int *ret,
                     struct ts_err *err)
{
    *ret = t->order == k->order;
    for (uint32_t m = 0; m < t->order && *ret; m++) {
        const uint64_t n = t->mode[m].disk.n_rows;
        uint64_t *rows = NULL;
        int rc;
        *ret = k->dim[m] == t->mode[m].disk.dim && k->n_rows[m] == n;
        if (!*ret)
            break;
        rc = ts_tensor_rows(t, m, &rows, err);
        if (rc < 0)
            return rc;
        *ret = (rows == NULL) == (k->index[m] == NULL) &&
               (rows == NULL || memcmp(rows, k->index[m], n * sizeof *rows) == 0);
        free(rows);
    }
    return 0;
}

static int open_start(const struct cp *c, struct ts_model **ret, struct ts_err *err)
{
    int same = 0, rc;
    if (c->conf.start == NULL)
        return 0;
    rc = same_rows(c->session->engine.tensor, c->conf.start, &same, err);
    return rc == 0 ? ts_kruskal_model(c->conf.start, !same, ret, err) : rc;
}

static int run(struct cp *c, struct ts_kruskal **ret, struct ts_als_result *result,
               struct ts_err *err)
{
    const struct ts_engine *e = &c->session->engine;
    const ts_session_conf *sc = &c->session->conf;
    struct ts_als_conf conf = { .init = { .tensor = e->tensor,
                                          .backend = e->backend,
                                          .be = e->be,
                                          .rank = sc->rank,
                                          .threads = e->threads,
                                          .seed = c->conf.seed,
                                          .stop = c->session->stop },
                                .feed = e->feed,
                                .precision = sc->precision,
                                .iters = c->conf.sweeps > 0 ? c->conf.sweeps : SWEEPS,
                                .tol = c->conf.tol,
                                .mode = take_mode,
                                .sweep = take_sweep,
                                .ctx = c };
    struct ts_factors f;
    int rc = open_start(c, &conf.init.model, err);
    if (rc == 0 && c->session->used && sc->precision == TS_REAL_FLOAT32)
        e->backend->sum_in(e->be, TS_FLOAT32); /* the run before may have ended in another way */
    c->session->used = 1;
    if (rc == 0)
        rc = ts_als_run(&conf, result, err);
    ts_model_close(conf.init.model);
    if (rc < 0)
        return rc;
    f = ts_factors_of(e->tensor, sc->rank, e->backend, e->be);
    rc = ts_kruskal_take(e->tensor, &f, sc->precision, result->weight, result->norm,
                         c->session->stop, ret, err);
    free(result->weight);
    return rc;
}

ts_cpd *ts_cp(ts_session *s, const ts_cp_conf *given, ts_cp_result *ret, ts_error *err)
{
    struct ts_als_result result = { 0 };
    struct ts_kruskal *k = NULL;
    struct ts_api a;
    struct cp c = { .session = s, .api = &a };
    int rc = 0;
    ts_api_begin(&a);
    if (given != NULL)
        rc = ts_api_conf(&c.conf, sizeof c.conf, given, given->size, &a.err);
    if (rc == 0 && !(c.conf.tol >= 0))
        rc = ts_fail(&a.err, TS_EARG, "the tolerance must not be negative");
    if (rc == 0 && s->ended)
        rc = ts_fail(&a.err, TS_EARG, "a run of this session failed or was stopped: open another");
    if (rc == 0) {
        rc = run(&c, &k, &result, &a.err);
        s->ended = rc < 0;
    }
    if (rc == 0) {
        const ts_cp_result r = { .fit = result.fit,
                                 .sweeps = result.sweeps,
                                 .converged = result.converged,
                                 .exact = result.exact };
        ts_api_result(ret, &r, sizeof r);
    }
    ts_api_end(&a, rc, err);
    return k;
}

/* ---- an exact fit ---- */

static int fit(const ts_tensor *t, const ts_cpd *c, const ts_session_conf *conf,
               const struct ts_api *a, struct ts_exact_fit *ret, struct ts_err *err)
{
    struct ts_engine_conf ec = engine_conf(t, conf);
    struct ts_model *model = NULL;
    struct ts_engine e;
    int rc;
    if (c->order != t->order)
        return ts_fail(err, TS_EARG, "the model has %u modes, %s has %u", c->order, t->path,
                       t->order);
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
        note_engine(a, conf, &e);
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
    rc = take_conf(given, &conf, &a.err);
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
