/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes several models of a tensor by the library: as many at the same time as there is memory
 * for, until all are done. If a directory is given, writes the same files as tstream cp. */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/api_run.h"
#include "base/files/place.h"
#include "base/setting.h"
#include "base/stop.h"
#include "cpd/spec/run_values.h"
#include "engine/run_several.h"

#define MOST_RESTARTS 1000u

/* A model that is being computed. Its session is a copy of the session for all models, with the
 * rank of this model and its data in the backend. */
struct one {
    uint32_t row;
    struct ts_session session;
    struct ts_api_run run;
    struct ts_run_place place;
    char *dir; /* directory of the model; NULL: no files are written */
};

struct several {
    const ts_tensor *tensor;
    ts_session_conf session_conf;
    ts_several_conf conf;
    ts_cp_conf run; /* settings that all models share */
    const struct ts_api *api;
    uint32_t n, restarts;
    struct ts_models_table table;
    ts_cpd **model;            /* n models, in the order of the table; NULL: not computed yet */
    ts_several_result *result; /* n results, of the models in `model` */
    struct ts_api_timer timer;

    /* the run of all models; its member `dir` is NULL if no files are written */
    struct ts_run_several all;

    /* the earlier run to be resumed; its member `dir` is NULL if the run begins anew */
    struct ts_models_run from;
    struct ts_spec spec;

    volatile int own_stop; /* the stop flag if the caller gives no flag */
    ts_session *session;   /* NULL: none is open */
    /* the models that are computed at the same time, with room for TS_RUN_AT_ONCE */
    struct one *one;
};

static uint32_t rank_of(const struct several *s, uint32_t row)
{
    return s->conf.rank[row / s->restarts];
}

/* ---- checks of the caller's request ---- */

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
                                          : NULL;
    return what == NULL
               ? 0
               : ts_fail(
                     err, TS_EARG,
                     "%s of a run needs a single model: leave it out where several are computed",
                     what);
}

static int check_starts(const struct several *s, struct ts_err *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n && s->conf.start != NULL; i++) {
        const ts_cpd *k = s->conf.start[i];
        if (k != NULL && k->rank != rank_of(s, i))
            return ts_fail(err, TS_EARG, "model %u has rank %u, and its start has %u", i,
                           rank_of(s, i), k->rank);
        n += k != NULL;
    }
    if (s->conf.start != NULL && n == 0)
        return ts_fail(err, TS_EARG, "no model has a start, of those that are given");
    if (n > 0 && s->run.nvecs)
        return ts_fail(err, TS_EARG,
                       "models start from factors that are given or from nvecs, not from both");
    return 0;
}

static int take_confs(struct several *s, const ts_session_conf *session,
                      const ts_several_conf *given, struct ts_err *err)
{
    int rc = TS_API_CONF(&s->session_conf, session, err);
    s->session_conf.size = sizeof s->session_conf;
    if (s->session_conf.stop == NULL)
        s->session_conf.stop = &s->own_stop;
    if (rc == 0)
        rc = TS_API_CONF(&s->conf, given, err);
    if (rc == 0)
        rc = check_ranks(&s->conf, err);
    if (rc == 0)
        rc = ts_api_run_conf(s->conf.run, s->tensor, &s->run, err);
    if (rc == 0)
        rc = check_run(&s->run, err);
    if (rc == 0 && s->session_conf.trace != NULL)
        rc = ts_fail(err, TS_EARG,
                     "trace needs a single model: leave it out where several are computed");
    if (rc < 0)
        return rc;
    s->restarts = s->conf.restarts > 0 ? s->conf.restarts : 1;
    s->n = s->conf.n_ranks * s->restarts;
    if (s->run.out != NULL && s->conf.n_ranks > TS_OPT_NUMBERS_MAX)
        return ts_fail(err, TS_EARG, "models of at most %u ranks are kept in one directory",
                       TS_OPT_NUMBERS_MAX);
    rc = check_starts(s, err);
    return rc == 0 ? ts_models_table_new(s->conf.rank, s->conf.n_ranks, s->restarts, s->run.seed,
                                         &s->table, err)
                   : rc;
}

/* ---- files of the models ---- */

static char *path_of(const struct several *s, uint32_t row, struct ts_err *err)
{
    char *path;
    if (asprintf(&path, "%s/%s", ts_atomic_dir_partial(s->all.dir), s->table.row[row].name) >= 0)
        return path;
    ts_fail(err, TS_ENOMEM, "%s: out of memory", s->run.out);
    return NULL;
}

/* Returns the settings of the model in a row of the table. */
static ts_cp_conf conf_of(const struct several *s, uint32_t row)
{
    ts_cp_conf own = s->run;
    own.seed += row % s->restarts;
    own.start = s->conf.start != NULL ? s->conf.start[row] : NULL;
    own.out = NULL;
    own.replace = 0;
    own.resume = s->from.dir != NULL ? TS_RESUME_IF_ANY : TS_RESUME_NEVER;
    return own;
}

/* Returns one of the models that the caller gave as starting factors, or NULL. The recorded options
 * only say whether there are any. */
static const ts_cpd *first_start(const struct several *s)
{
    const ts_cpd *ret = NULL;
    for (uint32_t i = s->conf.start != NULL ? s->n : 0; i-- > 0;)
        ret = s->conf.start[i] != NULL ? s->conf.start[i] : ret;
    return ret;
}

/* Returns TS_EARG unless the earlier run, which is to be resumed, had the same models. Other
 * settings are checked with the models' states. */
static int check_from(const struct several *s, char *options, uint64_t bytes, struct ts_err *err)
{
    static const struct {
        const char *name, *unsaid; /* unsaid: the value in runs that do not record this option */
    } same[] = { { "rank", "none" },          { "restarts", "1" }, { "folds", "0" },
                 { "seed", "none" },          { "init", "none" },  { "precision", "none" },
                 { "loss", "least-squares" }, { "save-init", "0" } };
    const struct ts_state now = { .options = options, .options_bytes = bytes };
    int rc = ts_models_run_check(&s->from, s->tensor->path, s->tensor->hash, err);
    if (rc == 0)
        rc = ts_run_values_check_file(s->from.path, &s->from.options, 0, s->tensor, err);
    for (size_t i = 0; i < sizeof same / sizeof *same && rc == 0; i++) {
        const char *name = same[i].name, *is = ts_state_option(&now, name);
        const char *said = ts_state_option(&s->from.options, name);
        const char *was = said != NULL ? said : same[i].unsaid;
        is = is != NULL ? is : same[i].unsaid;
        if (strcmp(name, "init") == 0 && strcmp(is, "given") == 0 && strcmp(was, "random") != 0 &&
            strcmp(was, "nvecs") != 0)
            continue; /* tstream cp records the file name of given starting factors */
        if (strcmp(name, "save-init") == 0 && (said == NULL || strcmp(is, "0") == 0))
            /* models that are still to be computed save no starting factors, or an older version
             * did not record this option */
            continue;
        if (strcmp(was, is) != 0)
            rc = ts_fail(err, TS_EARG, "%s: the run has %s %s, so it cannot continue with %s %s",
                         s->from.dir, name, was, name, is);
    }
    return rc;
}

/* Opens the directory of the result, and reads what an earlier run left in it. */
static int open_out(struct several *s, struct ts_err *err)
{
    ts_cp_conf conf = s->run;
    char *options = NULL;
    uint64_t bytes = 0;
    int rc = ts_api_run_spec(&conf, s->tensor, &s->spec, err);
    if (rc < 0 || s->run.out == NULL)
        return rc;
    rc = ts_place_check(
        (const struct ts_place[]){
            { .path = s->tensor->path },
            { .path = conf.out, .suffix = ".partial", .option = TS_SET_OUT } },
        2, err);
    if (rc < 0)
        return rc;
    if (conf.resume != TS_RESUME_NEVER) {
        rc = ts_models_run_open(conf.out, &s->from, err);
        if (rc == 0 && s->from.dir == NULL && conf.resume == TS_RESUME)
            rc = ts_fail(err, TS_EARG, "%s: there is no run of several models to continue",
                         conf.out);
        if (rc == TS_EARG && conf.resume == TS_RESUME_IF_ANY)
            rc = 0; /* the earlier run is finished: its result stays, or is replaced */
    }
    conf.start = first_start(s);
    if (rc == 0)
        rc = ts_api_options_text(s->tensor, &s->session_conf, &conf, &s->spec, s->conf.rank,
                                 s->conf.n_ranks, s->restarts, &options, &bytes, err);
    if (rc == 0 && s->from.dir != NULL)
        rc = check_from(s, options, bytes, err);
    if (rc == 0 && s->from.dir != NULL && s->from.unsealed) {
        struct ts_err warn;
        ts_fail(&warn, TS_EFORMAT, TS_MODELS_RUN_UNSEALED, s->from.path);
        ts_api_note(s->api, s->session_conf.note, s->session_conf.ctx, &warn);
    }
    if (rc == 0)
        rc = ts_run_several_open(&s->all, conf.out, conf.replace,
                                 s->from.dir != NULL ? &s->from : NULL, options, bytes, err);
    free(options);
    return rc;
}

/* Reads a model that an earlier run finished. */
static int take_earlier(struct several *s, uint32_t row, const char *dir, struct ts_err *err)
{
    struct ts_session session = { .conf = s->session_conf };
    struct ts_api_run run = { .session = &session, .api = s->api, .conf = conf_of(s, row) };
    const struct ts_models_row *r = &s->table.row[row];
    ts_several_result *to = &s->result[row];
    int rc;
    session.conf.rank = rank_of(s, row);
    run.conf.out = dir;
    rc = ts_api_run_check(&run, s->tensor, err);
    if (rc == 0)
        rc = ts_run_several_take(&s->all, row, err);
    if (rc == 0)
        rc = ts_api_run_load(s->tensor, dir, 0, s->session_conf.precision, s->session_conf.stop,
                             &s->model[row], err);
    if (rc < 0)
        return rc;
    to->rank = r->rank;
    to->seed = r->seed;
    to->fit = r->fit;
    to->objective = r->objective;
    to->held_out_rmse = r->held_out;
    to->held_out_loss = r->held_out_loss;
    to->sweeps = to->sweeps_before = r->n_sweeps;
    to->mean = NAN;
    to->exact = strcmp(r->ended, "exact") == 0;
    to->converged = to->exact || strcmp(r->ended, "converged") == 0;
    to->n_dead = r->n_dead;
    to->seconds = r->seconds;
    return 0;
}

static int find_done(struct several *s, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->n && rc == 0 && s->from.dir != NULL; i++) {
        char *path = path_of(s, i, err);
        if (path == NULL)
            return TS_ENOMEM;
        if (ts_run_several_has(&s->all, i))
            rc = take_earlier(s, i, path, err);
        free(path);
    }
    return rc;
}

/* ---- models that are computed at the same time ---- */

static void close_session(struct several *s)
{
    ts_session_close(s->session);
    s->session = NULL;
}

/* Opens a session for as many of the next models as there is memory for. */
static int open_session(void *ctx, const uint32_t *ranks, uint32_t n, uint32_t *room,
                        struct ts_err *err)
{
    struct several *s = ctx;
    const int is_first = s->session == NULL;
    int rc;
    close_session(s);
    rc = ts_api_session_open(s->tensor, &s->session_conf, n, ranks, s->api, &s->session, err);
    if (rc == 0)
        *room = s->session->engine->n_models;
    if (rc == 0 && is_first)
        rc = ts_api_timer_start(&s->timer, s->run.max_seconds, s->session_conf.stop, err);
    return rc;
}

/* From now on, the progress of the session is that of model k. */
static void take_lead(void *ctx, uint32_t k, uint32_t at_once)
{
    struct several *s = ctx;
    struct one *o = &s->one[k];
    atomic_store(&s->session->told, &o->session);
    if (s->all.dir != NULL)
        ts_run_lead(&o->run.run, at_once);
}

static void close_one(struct one *o)
{
    ts_api_run_close(&o->run);
    free(o->dir);
    o->dir = NULL;
}

static int begin_one(void *ctx, uint32_t k, struct ts_run **ret, struct ts_err *err)
{
    struct several *s = ctx;
    struct one *o = &s->one[k];
    const uint32_t row = s->all.row[k];
    int rc;
    memset(o, 0, sizeof *o);
    *ret = &o->run.run;
    o->row = row;
    o->session.conf = s->session->conf;
    o->session.conf.rank = rank_of(s, row);
    o->session.engine = s->session->engine;
    o->session.be = ts_engine_model(s->session->engine, k);
    o->session.stop = s->session->stop;
    o->run.session = &o->session;
    o->run.api = s->api;
    o->run.sweep = s->conf.sweep;
    o->run.ctx = s->conf.ctx;
    o->run.number = row;
    o->run.conf = conf_of(s, row);
    if (s->all.dir != NULL) {
        o->dir = path_of(s, row, err);
        if (o->dir == NULL)
            return TS_ENOMEM;
        o->place = (struct ts_run_place){ .out = s->run.out,
                                          .partial = ts_atomic_dir_partial(s->all.dir),
                                          .in = s->all.in,
                                          .number = row + 1,
                                          .n = s->n,
                                          .beside = 1 };
        o->run.conf.out = o->dir;
        o->run.place = &o->place;
    }
    rc = ts_api_run_begin(&o->run, err);
    if (rc < 0)
        close_one(o);
    return rc;
}

/* Ends model k. rc: 0 if it made all its sweeps, or the error. */
static int end_one(void *ctx, uint32_t k, int rc, struct ts_err *err)
{
    struct several *s = ctx;
    struct one *o = &s->one[k];
    struct ts_models_row *row = &s->table.row[o->row];
    ts_cp_result r;
    rc = ts_api_run_end(&o->run, rc, &s->model[o->row], &r, err);
    close_one(o);
#ifdef __GLIBC__
    /* the C library would keep memory that each model freed, outside of the budget */
    malloc_trim(0);
#endif
    if (rc < 0)
        return rc;
    s->result[o->row] = (ts_several_result){ .rank = row->rank,
                                             .seed = row->seed,
                                             .fit = r.fit,
                                             .objective = r.objective,
                                             .held_out_rmse = r.held_out_rmse,
                                             .held_out_loss = r.held_out_loss,
                                             .sweeps = r.sweeps,
                                             .converged = r.converged,
                                             .exact = r.exact,
                                             .n_dead = r.n_dead,
                                             .mean = r.mean,
                                             .best_sweep = r.best_sweep,
                                             .sweeps_before = r.sweeps_before,
                                             .seconds = 1e-9 * (double)o->run.run.sweeps_ns };
    row->fit = r.fit;
    row->objective = r.objective;
    row->held_out = r.held_out_rmse;
    row->held_out_loss = r.held_out_loss;
    rc = ts_run_several_take(&s->all, o->row, err);
    if (s->session->told == &o->session)
        atomic_store(&s->session->told, NULL);
    return rc;
}

/* Ends the time limit, and notes in each run whether it caused the error rc. Called when all models
 * that are being computed are about to end because of this error. */
static void take_failure(void *ctx, int rc, int saved, struct ts_err *err)
{
    struct several *s = ctx;
    const int timed_out = ts_api_timer_end(&s->timer, rc, err);
    (void)saved;
    for (uint32_t k = 0; k < s->all.n; k++)
        s->one[k].run.timed_out = timed_out;
}

/* ---- comparison with the best model ---- */

static int open_model(void *ctx, uint32_t row, struct ts_model **ret, struct ts_err *err)
{
    const struct several *s = ctx;
    return ts_kruskal_model(s->model[row], 0, ret, err);
}

static int compare(struct several *s, struct ts_err *err)
{
    int rc = ts_models_table_match(&s->table, open_model, s, s->session_conf.threads,
                                   s->session_conf.stop, err);
    for (uint32_t i = 0; i < s->n && rc == 0; i++) {
        s->result[i].best = s->table.rank[i / s->restarts].best == i;
        s->result[i].score = s->table.row[i].score;
    }
    return rc;
}

/* Writes the table of models, and gives the directory its name. */
static int finish(struct several *s, struct ts_err *err)
{
    struct ts_err warn = { 0 };
    ts_cp_conf conf = s->run;
    int rc;
    conf.start = first_start(s);
    /* removes the status of an earlier run */
    (void)unlinkat(ts_atomic_dir_fd(s->all.dir), TS_RUN_STATUS_NAME, 0);
    rc = ts_api_models_write(s->tensor, &s->session_conf, &conf, &s->spec, &s->table, s->all.dir,
                             s->from.dir != NULL, err);
    if (rc == 0)
        rc = ts_atomic_dir_commit(s->all.dir, &warn, err);
    ts_api_note(s->api, s->session_conf.note, s->session_conf.ctx, &warn);
    return rc;
}

/* Appends to a message where finished models and states are. */
static void tell_kept(const struct several *s, struct ts_err *err)
{
    const size_t at = strlen(err->text);
    if (s->all.dir != NULL && ts_models_kept(ts_atomic_dir_partial(s->all.dir)))
        snprintf(err->text + at, sizeof err->text - at,
                 "; what is done, and the states of the others, are in %s",
                 ts_atomic_dir_partial(s->all.dir));
}

/* ---- the run of all models ---- */

static int run_several(struct several *s, struct ts_err *err)
{
    int rc;
    s->one = calloc(TS_RUN_AT_ONCE, sizeof *s->one);
    s->model = calloc(s->n, sizeof *s->model);
    s->result = calloc(s->n, sizeof *s->result);
    if (s->one == NULL || s->model == NULL || s->result == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u models", s->n);
    s->all = (struct ts_run_several){ .tensor = s->tensor,
                                      .table = &s->table,
                                      .holds_out = s->run.hold_out > 0,
                                      .stop = s->session_conf.stop,
                                      .front = { .open = open_session,
                                                 .begin = begin_one,
                                                 .end = end_one,
                                                 .lead = take_lead,
                                                 .failing = take_failure,
                                                 .ctx = s } };
    rc = open_out(s, err);
    if (rc == 0)
        rc = find_done(s, err);
    if (rc == 0)
        rc = ts_run_several_all(&s->all, err);
    (void)ts_api_timer_end(&s->timer, rc, err);
    close_session(s);
    if (rc == 0)
        rc = compare(s, err);
    if (rc == 0 && s->all.dir != NULL)
        rc = finish(s, err);
    if (rc < 0)
        tell_kept(s, err);
    return rc;
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
    ts_run_several_close(&s.all);
    ts_models_run_close(&s.from);
    ts_models_table_free(&s.table);
    free(s.one);
    free(s.model);
    free(s.result);
    return ts_api_end(&a, rc, err);
}
