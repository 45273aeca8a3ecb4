/* SPDX-License-Identifier: BSD-3-Clause */
/* Several models of a tensor by the library: side by side, as many as there is room for, until all are done. */
#include <math.h>
#include <stdlib.h>

#include "api/api_run.h"
#include "base/stop.h"
#include "cpd/als_group.h"
#include "model/match.h"

#define MOST_AT_ONCE  64u
#define MOST_RESTARTS 1000u

/* A model under way. The session is that of all, with this model's rank and rows. */
struct one {
    uint32_t row;
    int under_way; /* from the begin of the run to its end */
    struct ts_session session;
    struct ts_api_run run;
};

struct several {
    const ts_tensor *tensor;
    ts_session_conf session_conf;
    ts_several_conf conf;
    ts_cp_conf run; /* what all have in common */
    const struct ts_api *api;
    uint32_t n, restarts;
    ts_cpd **model;            /* n, NULL: not yet */
    ts_several_result *result; /* n */
    struct ts_api_timer timer;

    volatile int own_stop;        /* where the caller has none */
    ts_session *session;          /* NULL: none is open */
    uint32_t ranks[MOST_AT_ONCE]; /* that it was opened for */
    struct one *one;              /* MOST_AT_ONCE */
    uint32_t n_ones;
};

static uint32_t rank_of(const struct several *s, uint32_t row)
{
    return s->conf.rank[row / s->restarts];
}

/* ---- what is asked for ---- */

static int check_ranks(const ts_several_conf *c, struct ts_err *err)
{
    if (c->n_ranks == 0 || c->rank == NULL)
        return ts_fail(err, TS_EARG, "several models have at least one rank");
    if (c->n_ranks > TS_MAX_RANK)
        return ts_fail(err, TS_EARG, "there are %u ranks, of which no two may be the same",
                       c->n_ranks);
    for (uint32_t i = 0; i < c->n_ranks; i++) {
        if (c->rank[i] == 0 || c->rank[i] > TS_MAX_RANK)
            return ts_fail(err, TS_EARG, "a rank of %u is not possible: 1 to %u are", c->rank[i],
                           TS_MAX_RANK);
        for (uint32_t k = 0; k < i; k++)
            if (c->rank[k] == c->rank[i])
                return ts_fail(err, TS_EARG, "rank %u is given twice", c->rank[i]);
    }
    return c->restarts <= MOST_RESTARTS
               ? 0
               : ts_fail(err, TS_EARG, "at most %u restarts are possible", MOST_RESTARTS);
}

static int check_run(const ts_cp_conf *c, struct ts_err *err)
{
    const char *what = c->sweep != NULL   ? "sweep"
                       : c->mode != NULL  ? "mode"
                       : c->start != NULL ? "start"
                       : c->out != NULL   ? "out"
                                          : NULL;
    return what == NULL
               ? 0
               : ts_fail(err, TS_EARG,
                         "%s of a run goes with one model: leave it out where several are computed",
                         what);
}

static int check_starts(const struct several *s, struct ts_err *err)
{
    for (uint32_t i = 0; i < s->n && s->conf.start != NULL; i++) {
        const ts_cpd *k = s->conf.start[i];
        if (k == NULL || k->rank != rank_of(s, i))
            return ts_fail(err, TS_EARG, "model %u has rank %u, and its start %s", i, rank_of(s, i),
                           k == NULL ? "is missing" : "another one");
    }
    return 0;
}

static int take_confs(struct several *s, const ts_session_conf *session,
                      const ts_several_conf *given, struct ts_err *err)
{
    int rc = session == NULL ? 0
                             : ts_api_conf(&s->session_conf, sizeof s->session_conf, session,
                                           session->size, err);
    s->session_conf.size = sizeof s->session_conf;
    if (s->session_conf.stop == NULL)
        s->session_conf.stop = &s->own_stop;
    if (rc == 0)
        rc = given == NULL ? ts_fail(err, TS_EARG, "several models have at least one rank")
                           : ts_api_conf(&s->conf, sizeof s->conf, given, given->size, err);
    if (rc == 0)
        rc = check_ranks(&s->conf, err);
    if (rc == 0)
        rc = ts_api_run_conf(s->conf.run, &s->run, err);
    if (rc == 0)
        rc = check_run(&s->run, err);
    if (rc == 0 && s->session_conf.trace != NULL)
        rc = ts_fail(err, TS_EARG,
                     "trace goes with one model: leave it out where several are computed");
    if (rc < 0)
        return rc;
    s->restarts = s->conf.restarts > 0 ? s->conf.restarts : 1;
    s->n = s->conf.n_ranks * s->restarts;
    return check_starts(s, err);
}

/* ---- those at once ---- */

static void close_session(struct several *s)
{
    ts_session_close(s->session);
    s->session = NULL;
}

/* A session for as many of the models from `row` on as may be at once; the one that is open, where it will do. */
static int open_session(struct several *s, uint32_t row, struct ts_err *err)
{
    const uint32_t most = s->run.observed ? 1 : MOST_AT_ONCE; /* rows have Gram matrices then */
    uint32_t ranks[MOST_AT_ONCE], n = 0;
    int rc, same = s->session != NULL;
    for (; row + n < s->n && n < most; n++)
        ranks[n] = rank_of(s, row + n);
    for (uint32_t k = 0; same && k < n && k < s->session->engine.n_models; k++)
        same = ranks[k] == s->ranks[k];
    if (!same) {
        close_session(s);
        rc = ts_api_session_open(s->tensor, &s->session_conf, n, ranks, s->api, &s->session, err);
        if (rc < 0)
            return rc;
        memcpy(s->ranks, ranks, n * sizeof *ranks);
    }
    s->n_ones = n < s->session->engine.n_models ? n : s->session->engine.n_models;
    return 0;
}

static int begin_one(struct several *s, uint32_t k, uint32_t row, struct ts_err *err)
{
    struct one *o = &s->one[k];
    int rc;
    memset(o, 0, sizeof *o);
    o->row = row;
    o->session.conf = s->session->conf;
    o->session.conf.rank = rank_of(s, row);
    o->session.engine = s->session->engine;
    o->session.engine.be = ts_engine_model(&s->session->engine, k);
    o->session.stop = s->session->stop;
    o->run.session = &o->session;
    o->run.api = s->api;
    o->run.sweep = s->conf.sweep;
    o->run.ctx = s->conf.ctx;
    o->run.number = row;
    o->run.conf = s->run;
    o->run.conf.seed += row % s->restarts;
    o->run.conf.start = s->conf.start != NULL ? s->conf.start[row] : NULL;
    rc = ts_api_run_begin(&o->run, err);
    if (rc == 0)
        o->under_way = 1;
    else
        ts_api_run_close(&o->run, err);
    return rc;
}

/* Of a run that is over, or is to end because of rc. */
static int end_one(struct one *o, int rc, ts_cpd **ret, ts_cp_result *result, struct ts_err *err)
{
    rc = ts_api_run_end(&o->run, rc, ret, result, err);
    ts_api_run_close(&o->run, rc < 0 ? err : NULL);
    o->under_way = 0;
    return rc;
}

/* For ts_als_group_run: model k has made its sweeps. */
static int take_one(void *ctx, uint32_t k, struct ts_err *err)
{
    struct several *s = ctx;
    struct one *o = &s->one[k];
    const uint64_t ns = o->run.sweeps_ns;
    ts_cp_result r;
    const int rc = end_one(o, 0, &s->model[o->row], &r, err);
    if (rc == 0)
        s->result[o->row] = (ts_several_result){ .rank = rank_of(s, o->row),
                                                 .seed = s->run.seed + o->row % s->restarts,
                                                 .fit = r.fit,
                                                 .objective = r.objective,
                                                 .held_out_rmse = r.held_out_rmse,
                                                 .sweeps = r.sweeps,
                                                 .converged = r.converged,
                                                 .exact = r.exact,
                                                 .n_dead = r.n_dead,
                                                 .seconds = 1e-9 * (double)ns,
                                                 .score = NAN };
    return rc;
}

/* All that are under way end here, because of rc. */
static void end_all(struct several *s, int rc, struct ts_err *err)
{
    const int timed_out = ts_api_timer_end(&s->timer, rc, err);
    for (uint32_t k = 0; k < s->n_ones; k++) {
        struct ts_err own = *err;
        ts_cpd *none = NULL;
        ts_cp_result r;
        s->one[k].run.timed_out = timed_out;
        if (s->one[k].under_way)
            (void)end_one(&s->one[k], rc, &none, &r, &own);
    }
}

static int run_at_once(struct several *s, uint32_t row, struct ts_err *err)
{
    struct ts_als *run[MOST_AT_ONCE];
    uint32_t failed;
    int rc = 0;
    for (uint32_t k = 0; k < s->n_ones && rc == 0; k++) {
        s->one[k].under_way = 0;
        rc = begin_one(s, k, row + k, err);
        run[k] = s->one[k].run.als;
        if (rc < 0)
            s->n_ones = k;
    }
    if (rc == 0 && s->n_ones > 1) {
        rc = ts_als_group_run(run, s->n_ones, take_one, s, &failed, err);
    } else if (rc == 0) {
        rc = ts_api_run_alone(&s->one[0].run, err);
        rc = rc == 0 ? take_one(s, 0, err) : rc;
    }
    if (rc < 0)
        end_all(s, rc, err);
    return rc;
}

static int run_all(struct several *s, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t row = 0; row < s->n && rc == 0; row += s->n_ones) {
        rc = ts_stop_check(s->session_conf.stop, err);
        if (rc == 0)
            rc = open_session(s, row, err);
        if (rc == 0 && row == 0)
            rc = ts_api_timer_start(&s->timer, s->run.max_seconds, s->session_conf.stop, err);
        if (rc == 0)
            rc = run_at_once(s, row, err);
    }
    return rc;
}

/* ---- which is the best, and how alike the others are to it ---- */

static int is_better(const ts_several_result *a, const ts_several_result *b)
{
    if (isfinite(a->held_out_rmse) && isfinite(b->held_out_rmse))
        return a->held_out_rmse < b->held_out_rmse;
    if (isfinite(a->objective) && isfinite(b->objective))
        return a->objective < b->objective;
    return a->fit > b->fit || (!isnan(a->fit) && isnan(b->fit));
}

static int score(const struct several *s, uint32_t best, uint32_t row, double *ret,
                 struct ts_err *err)
{
    struct ts_match_conf conf = { .threads = s->session_conf.threads,
                                  .stop = s->session_conf.stop };
    struct ts_match match = { 0 };
    struct ts_match_pair *pair = NULL;
    int rc = ts_kruskal_model(s->model[best], 0, &conf.a, err);
    if (rc == 0)
        rc = ts_kruskal_model(s->model[row], 0, &conf.b, err);
    if (rc == 0)
        rc = ts_match_run(&conf, &match, err);
    if (rc == 0 && (pair = calloc(ts_match_pairs(&match), sizeof *pair)) == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for pairs of components");
    if (rc == 0)
        rc = ts_match_assign(&match, TS_MATCH_GREEDY, 1, pair, ret, err);
    free(pair);
    ts_match_free(&match);
    ts_model_close(conf.a);
    ts_model_close(conf.b);
    return rc;
}

static int compare(struct several *s, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t first = 0; first < s->n && rc == 0; first += s->restarts) {
        uint32_t best = first;
        for (uint32_t i = first + 1; i < first + s->restarts; i++)
            best = is_better(&s->result[i], &s->result[best]) ? i : best;
        s->result[best].best = 1;
        s->result[best].score = 1;
        for (uint32_t i = first; i < first + s->restarts && rc == 0; i++)
            if (i != best)
                rc = score(s, best, i, &s->result[i].score, err);
    }
    return rc;
}

/* ---- all of them ---- */

static int run_several(struct several *s, struct ts_err *err)
{
    int rc;
    s->one = calloc(MOST_AT_ONCE, sizeof *s->one);
    s->model = calloc(s->n, sizeof *s->model);
    s->result = calloc(s->n, sizeof *s->result);
    if (s->one == NULL || s->model == NULL || s->result == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u models", s->n);
    rc = run_all(s, err);
    (void)ts_api_timer_end(&s->timer, rc, err);
    close_session(s);
    return rc == 0 ? compare(s, err) : rc;
}

static void give(const struct several *s, ts_cpd **ret, ts_several_result *result)
{
    const size_t size = result == NULL ? 0 : result->size;
    for (uint32_t i = 0; i < s->n; i++) {
        char *to = (char *)result + i * size;
        ret[i] = s->model[i];
        if (size < sizeof size)
            continue;
        memcpy(to, &size, sizeof size);
        ts_api_result(to, &s->result[i], sizeof s->result[i]);
    }
}

int ts_cp_several(const ts_tensor *t, const ts_session_conf *session, const ts_several_conf *conf,
                  ts_cpd **ret, ts_several_result *result, ts_error *err)
{
    struct ts_api a;
    struct several s = { .tensor = t, .api = &a };
    int rc;
    ts_api_begin(&a);
    rc = take_confs(&s, session, conf, &a.err);
    if (rc == 0)
        rc = run_several(&s, &a.err);
    if (rc == 0)
        give(&s, ret, result);
    for (uint32_t i = 0; i < s.n && rc < 0 && s.model != NULL; i++)
        ts_kruskal_free(s.model[i]);
    free(s.one);
    free(s.model);
    free(s.result);
    return ts_api_end(&a, rc, err);
}
