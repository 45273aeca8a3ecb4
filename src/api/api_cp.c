/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs decompositions in a session: finds their start, reports progress, and keeps their files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/api_run.h"
#include "base/clock.h"
#include "base/files/place.h"
#include "base/c_locale.h"
#include "base/setting.h"
#include "base/stop.h"
#include "cpd/spec/run_values.h"
#include "model/kruskal.h"
#include "model/model_write.h"

#define SECOND_NS 1e9
#define MOST_NS   9e18 /* longest time, in nanoseconds, that is reported */

/* ---- progress of a run ---- */

/* Sets the sweep and mode that are computed next, for ts_session_progress. */
static void set_place(struct ts_session *s, uint32_t sweep, uint32_t mode)
{
    atomic_store(&s->sweep, sweep);
    atomic_store(&s->mode, mode);
    atomic_store(&s->nnz, 0);
}

static void take_mode(const struct ts_api_run *c, const struct ts_solver_mode *m)
{
    const int last = m->mode + 1 == c->session->engine->tensor->order;
    int stop;
    set_place(c->session, m->sweep + (uint32_t)last, last ? 0 : m->mode + 1);
    if (c->conf.mode == NULL)
        return;
    ts_api_out(c->api);
    stop = c->conf.mode(c->conf.ctx, m->sweep, m->mode, 1e-9 * (double)m->total_ns);
    ts_api_in();
    if (stop != 0)
        ts_stop_ask(c->session->stop, stop);
}

static void take_sweep(struct ts_api_run *c, const struct ts_solver_sweep *s)
{
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
                             .n_singular = s->n_singular,
                             .n_dead = s->n_dead,
                             .objective = s->objective,
                             .rmse = s->rmse,
                             .held_out_rmse = s->held_out,
                             .log_likelihood = s->log_likelihood,
                             .violation = s->kkt,
                             .held_out_loss = s->held_out_loss };
    int stop;
    atomic_store(&c->sweep_start_ns, ts_clock_ns());
    atomic_store(&c->last_sweep_ns, s->total_ns);
    if (c->conf.sweep == NULL && c->sweep == NULL)
        return;
    if (c->sweep != NULL && ts_stop_asked(c->session->stop))
        return; /* with several models, a stop is under way already, so the caller is not asked */
    ts_api_out(c->api);
    stop =
        c->sweep != NULL ? c->sweep(c->ctx, c->number, &sweep) : c->conf.sweep(c->conf.ctx, &sweep);
    ts_api_in();
    if (stop == TS_SWEEP_LAST)
        c->enough = 1;
    else if (stop != 0)
        ts_stop_ask(c->session->stop, stop);
}

static void take_note(const struct ts_api_run *c, const struct ts_err *warn)
{
    ts_api_note(c->api, c->session->conf.note, c->session->conf.ctx, warn);
}

static const char *stopped_by(void *ctx)
{
    const struct ts_api_run *c = ctx;
    return c->timed_out ? "max_seconds" : "the caller";
}

static uint64_t whole_ns(double ns)
{
    return (uint64_t)fmin(ns, MOST_NS);
}

static void give_figures(void *ctx, struct ts_run_figures *ret)
{
    struct ts_api_run *c = ctx;
    const ts_session *s = c->session;
    const uint32_t order = s->engine->tensor->order;
    const uint64_t nnz = s->engine->tensor->nnz;
    const uint_fast32_t mode = atomic_load(&s->mode), sweep = atomic_load(&s->sweep);
    const uint64_t at = atomic_load(&s->nnz), last_ns = atomic_load(&c->last_sweep_ns);
    const double ns = (double)(ts_clock_ns() - atomic_load(&c->sweep_start_ns));
    const double more = sweep < c->conf.sweeps ? (double)(c->conf.sweeps - sweep) : 0;
    double left;
    ret->total = c->passes[order] * nnz;
    ret->done = c->passes[mode < order ? mode : order] * nnz + (at < nnz ? at : nnz);
    ret->done = ret->done < ret->total ? ret->done : ret->total;
    ret->per_s = ns > 0 ? SECOND_NS * (double)ret->done / ns : 0;
    ret->known = ret->done > 0 && ns > 0;
    if (!ret->known)
        return;
    left = ns * (double)(ret->total - ret->done) / (double)ret->done;
    ret->left_ns = whole_ns(left);
    ret->run_left_ns = whole_ns(left + more * (last_ns > 0 ? (double)last_ns : ns + left));
}

/* ---- the starting factors ---- */

/* *ret := whether k has exactly the rows of the tensor's used slices, so that they can be read
 * unchanged. */
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

static int open_start(const struct ts_api_run *c, struct ts_model **ret, struct ts_err *err)
{
    int same = 0, rc;
    if (c->conf.start == NULL)
        return 0;
    rc = same_rows(c->session->engine->tensor, c->conf.start, &same, err);
    return rc == 0 ? ts_kruskal_model(c->conf.start, !same, ret, err) : rc;
}

/* Opens the starting factors that the caller gave. It is the function `open` of struct
 * ts_run_given. */
static int open_given(void *ctx, const struct ts_resume *from, struct ts_model **ret,
                      struct ts_err *err)
{
    const struct ts_api_run *c = ctx;
    if (c->conf.start == NULL)
        return ts_fail(err, TS_EARG,
                       "%s: the run started from factors that were given to it, and did not save "
                       "them: give them again, or leave save_init out",
                       from->dir);
    return open_start(c, ret, err) < 0 ? err->code : 1;
}

/* Returns the fraction of held-out cells from a text such as "10%" or "0.1". NULL: 0. NAN: the text
 * names a fold, which runs of the library do not have. */
static double share_of(const char *text)
{
    char *end;
    const double x = text == NULL ? 0 : ts_strtod(text, &end);
    if (text == NULL)
        return 0;
    return end == text ? NAN : *end == '%' ? x / 100 : x;
}

/* Returns TS_EARG if a resumed Poisson model's number of inner rounds (`inner`) differs from that
 * in its state. */
static int check_inner(const struct ts_api_run *c, struct ts_err *err)
{
    const char *inner = ts_state_option(ts_state_get(c->from.file), "inner");
    return c->conf.loss != TS_LOSS_POISSON || inner == NULL ||
                   strtoul(inner, NULL, 10) == c->conf.inner
               ? 0
               : ts_fail(err, TS_EARG, "%s: the run has inner %s, so it cannot continue with %u",
                         c->from.dir, inner, c->conf.inner);
}

/* Opens the state of an earlier run in conf.out, if it is wanted and exists. */
static int open_state(struct ts_api_run *c, const struct ts_tensor *t, struct ts_err *err)
{
    const char *seed;
    int rc;
    if (c->conf.resume == TS_RESUME_NEVER)
        return 0;
    rc = ts_resume_open(c->conf.out, &c->from, err);
    if (rc == 0)
        rc = ts_run_values_check_file(ts_state_path(c->from.file), ts_state_get(c->from.file), 1, t,
                                      err);
    if (rc == TS_EARG && c->conf.resume == TS_RESUME_IF_ANY)
        return 0;
    /* the damaged state of one model does not end the run of all models */
    if (rc < 0 && rc != TS_ENOMEM && c->place != NULL) {
        struct ts_err warn;
        ts_fail(&warn, TS_EFORMAT, "%s; the model is computed from its start", err->text);
        take_note(c, &warn);
        ts_resume_close(&c->from);
        c->conf.replace = 1;
        return 0;
    }
    if (rc < 0)
        return rc;
    if (c->from.damaged.code != 0) {
        struct ts_err warn;
        ts_fail(&warn, TS_EFORMAT, "%s; going on from the state before it", c->from.damaged.text);
        take_note(c, &warn);
    }
    seed = ts_state_option(ts_state_get(c->from.file), "seed");
    if (c->conf.start == NULL && seed != NULL && strtoull(seed, NULL, 10) != c->conf.seed)
        return ts_fail(err, TS_EARG,
                       "%s: the run has seed %s, so it cannot continue with seed %llu", c->from.dir,
                       seed, (unsigned long long)c->conf.seed);
    if (share_of(ts_state_option(ts_state_get(c->from.file), "hold-out")) != c->conf.hold_out)
        return ts_fail(
            err, TS_EARG,
            "%s: the run holds out another share than %g, so it cannot continue with that",
            c->from.dir, c->conf.hold_out);
    rc = ts_api_record_lacks(ts_state_get(c->from.file), c->from.dir, err);
    return rc == 0 ? check_inner(c, err) : rc;
}

/* ---- the files of a run ---- */

/* Returns the solver's configuration, once starting factors and state are known. */
static struct ts_solver_conf method_of(struct ts_api_run *c)
{
    const ts_session_conf *sc = &c->session->conf;
    return (struct ts_solver_conf){ .init = { .rank = sc->rank,
                                              .seed = c->conf.seed,
                                              .model = c->start,
                                              .nvecs = c->conf.nvecs != 0,
                                              .spec = &c->spec,
                                              .stop = c->session->stop },
                                    .precision = sc->precision,
                                    .iters = c->conf.sweeps,
                                    .enough = &c->enough,
                                    .inner = c->conf.inner,
                                    .tol = c->conf.tol,
                                    .accelerate = c->conf.accelerate != 0,
                                    .hold_out = { .share = c->conf.hold_out,
                                                  .seed = c->conf.seed,
                                                  .from = c->conf.hold_out_from },
                                    .patience = c->conf.patience,
                                    .whole_start = c->conf.save_init != 0,
                                    .trace = c->session->trace };
}

/* Checks that the run can be resumed from its state, if there is one. */
static int check_state(struct ts_api_run *c, const struct ts_tensor *t, struct ts_err *err)
{
    struct ts_solver_conf conf = method_of(c);
    conf.init.tensor = t;
    conf.from = c->from.file;
    return conf.from != NULL ? ts_solver_check_from(&conf, err) : 0;
}

/* Checks that factors of fixed modes are given, or that a state contains them. */
static int check_start(const struct ts_api_run *c, struct ts_err *err)
{
    return c->conf.fix == 0 || c->conf.start != NULL || c->from.file != NULL
               ? 0
               : ts_fail(err, TS_EARG, "fix keeps factors of start, and no start is given");
}

/* Checks that the result does not replace the tensor, or the trace. */
static int check_place(const struct ts_api_run *c, struct ts_err *err)
{
    const struct ts_place place[] = {
        { .path = c->session->engine->tensor->path },
        { .path = c->conf.out, .suffix = ".partial", .option = TS_SET_OUT },
        { .path = c->session->conf.trace, .suffix = ".partial", .option = TS_SET_TRACE },
    };
    return ts_place_check(place, 3, err);
}

/* Finds the state from which the run is resumed, and checks it, before anything is opened for
 * writing. */
static int check_out(struct ts_api_run *c, struct ts_err *err)
{
    int rc;
    if (c->conf.out == NULL)
        return check_start(c, err);
    rc = check_place(c, err);
    if (rc == 0)
        rc = open_state(c, c->session->engine->tensor, err);
    if (rc == 0)
        rc = check_start(c, err);
    return rc == 0 ? check_state(c, c->session->engine->tensor, err) : rc;
}

static struct ts_model_conf out_of(const struct ts_api_run *c)
{
    const int resumed = c->from.file != NULL;
    return (struct ts_model_conf){ .dir = c->conf.out,
                                   .formats = c->conf.formats,
                                   .used_rows = c->conf.held_rows,
                                   .no_labels = c->conf.no_labels,
                                   .resume = resumed && !c->from.of_result,
                                   /* replaces an earlier result if the caller wants it, or if the
                                    * state is that of a result: older states must not stay beside
                                    * new ones */
                                   .force = c->conf.replace || (resumed && c->from.of_result),
                                   .precision = c->session->conf.precision,
                                   .stop = c->session->stop };
}

/* Appends to the message in *err where the state of an unfinished run is. */
static void tell_state(const struct ts_run_outcome *o, struct ts_err *err)
{
    const size_t at = strlen(err->text);
    if (o->saved)
        ts_setting_print(err->text + at, sizeof err->text - at,
                         "; the state before sweep %u, " TS_NTH_MODE " is in %s", o->sweep,
                         o->mode + 1, o->partial);
}

/* ---- a run from begin to end ---- */

/* Whether the .npy files of the result hold the same rows as a decomposition in memory, which can
 * then be loaded from them. */
static int can_load(const struct ts_api_run *c)
{
    const struct ts_tensor *t = c->session->engine->tensor;
    uint32_t m = 0;
    while (m < t->order && (c->conf.held_rows || t->mode[m].disk.n_rows == t->mode[m].disk.dim))
        m++;
    return m == t->order && (c->conf.formats & TS_FILE_NPY) != 0;
}

/* Sets c->model to the decomposition of a finished run. If the result was written, it may be read
 * from its files. */
static int take_factors(struct ts_api_run *c, struct ts_solver_result *result, struct ts_err *err)
{
    const struct ts_engine *e = c->session->engine;
    const enum ts_precision precision = c->session->conf.precision;
    struct ts_factors f = ts_factors_of(e->tensor, result->rank, e->backend, c->session->be);
    f.get_rows = ts_solver_rows;
    f.from = &result->rows;
    if (c->conf.out != NULL && can_load(c))
        /* maps the result's files, so that large factors are not in memory twice */
        return ts_api_run_load(e->tensor, c->conf.out, 1, precision, c->session->stop, &c->model,
                               err);
    return ts_kruskal_take(e->tensor, &f, precision, result->weight, result->norm, c->session->stop,
                           &c->model, err);
}

int ts_api_run_check(struct ts_api_run *c, const struct ts_tensor *t, struct ts_err *err)
{
    int rc = ts_api_run_spec(&c->conf, t, &c->spec, err);
    if (rc == 0)
        rc = open_state(c, t, err);
    if (rc == 0)
        rc = check_state(c, t, err);
    ts_resume_close(&c->from);
    return rc;
}

static ts_cp_result result_of(const struct ts_api_run *c, const struct ts_solver_result *result)
{
    return (ts_cp_result){ .fit = result->fit,
                           .sweeps = result->sweeps,
                           .converged = result->converged,
                           .exact = result->exact,
                           .n_dead = result->n_dead,
                           .objective = result->objective,
                           .rmse = result->rmse,
                           .held_out_rmse = result->held_out,
                           .overfits = result->overfits,
                           .log_likelihood = result->log_likelihood,
                           .violation = result->kkt,
                           .held_out_loss = result->held_out_loss,
                           .mean = result->mean,
                           .best_sweep = result->best_sweep,
                           .sweeps_before =
                               c->from.file != NULL ? ts_state_get(c->from.file)->sweep - 1 : 0 };
}

static int take_end(struct ts_api_run *c, int rc, const struct ts_run_outcome *o,
                    struct ts_err *err)
{
    if (rc == 0)
        rc = take_factors(c, o->result, err);
    if (rc == 0) {
        c->result = result_of(c, o->result);
    } else {
        tell_state(o, err);
        c->session->ended = 1;
    }
    return rc;
}

/* Sets the position at which the run begins, for ts_session_progress. */
static void take_start(struct ts_api_run *c)
{
    const struct ts_state *from = c->from.file != NULL ? ts_state_get(c->from.file) : NULL;
    const uint32_t order = c->session->engine->tensor->order;
    for (uint32_t m = 0; m < order; m++)
        c->passes[m + 1] = c->passes[m] + !c->spec.mode[m].fixed;
    atomic_store(&c->sweep_start_ns, ts_clock_ns());
    set_place(c->session, from != NULL ? from->sweep : 1, from != NULL ? from->mode : 0);
}

static int hear_run(void *ctx, const struct ts_run_event *e, struct ts_err *err)
{
    struct ts_api_run *c = ctx;
    switch (e->kind) {
    case TS_RUN_NOTE:
        take_note(c, e->warn);
        break;
    case TS_RUN_OPENED:
        take_start(c);
        break;
    case TS_RUN_STARTED:
    case TS_RUN_COMPUTED:
    case TS_RUN_OVER:
        break;
    case TS_RUN_MODE:
        take_mode(c, e->mode);
        break;
    case TS_RUN_SWEEP:
        take_sweep(c, e->sweep);
        break;
    case TS_RUN_ENDED:
        return take_end(c, e->rc, e->outcome, err);
    }
    return 0;
}

static struct ts_run_conf run_conf(struct ts_api_run *c)
{
    const struct ts_engine *e = c->session->engine;
    return (struct ts_run_conf){
        .engine = e,
        .be = c->session->be,
        .tensor = e->tensor->path,
        .method = method_of(c),
        .from = c->from.file != NULL ? &c->from : NULL,
        .from_here = c->from.file != NULL,
        .given = { .is_given = c->conf.start != NULL, .open = open_given, .ctx = c },
        .out = out_of(c),
        .every_ns = ts_api_every_ns(&c->conf),
        .who = ts_api_record_who(c->record),
        .place = c->place,
        .listener = { .hear = hear_run,
                      .stopped_by = stopped_by,
                      .figures = give_figures,
                      .ctx = c }
    };
}

int ts_api_run_begin(struct ts_api_run *c, struct ts_err *err)
{
    const struct ts_tensor *t = c->session->engine->tensor;
    const ts_session_conf *sc = &c->session->conf;
    struct ts_run_conf conf;
    uint64_t bytes = 0;
    char *options = NULL;
    int rc = ts_api_run_allowed(c, err);
    if (rc == 0)
        rc = check_out(c, err);
    if (rc == 0 && c->from.file == NULL)
        rc = open_start(c, &c->start, err);
    if (rc == 0 && c->conf.out != NULL)
        rc = ts_api_options_text(t, sc, &c->conf, &c->spec, &sc->rank, 1, 0, &options, &bytes, err);
    if (rc == 0 && c->conf.out != NULL)
        rc = ts_api_record_new(t, sc, &c->conf, &c->spec,
                               c->place != NULL ? c->place->out : c->conf.out, c->from.file != NULL,
                               &c->record, err);
    if (rc == 0) {
        conf = run_conf(c);
        conf.options = options;
        conf.options_bytes = bytes;
        rc = ts_run_begin(&c->run, &conf, err);
    }
    free(options);
    return rc;
}

int ts_api_run_end(struct ts_api_run *c, int rc, struct ts_kruskal **ret, ts_cp_result *result,
                   struct ts_err *err)
{
    rc = ts_run_end(&c->run, rc, err);
    if (rc < 0)
        return rc;
    *ret = c->model;
    *result = c->result;
    return 0;
}

void ts_api_run_close(struct ts_api_run *c)
{
    ts_model_close(c->start);
    c->start = NULL;
    ts_resume_close(&c->from);
    ts_api_record_free(c->record);
    c->record = NULL;
}

static int run_to_end(struct ts_api_run *c, struct ts_kruskal **ret, ts_cp_result *result,
                      struct ts_err *err)
{
    struct ts_api_timer timer = { 0 };
    int rc = ts_api_run_begin(c, err);
    if (rc < 0)
        return rc;
    rc = ts_api_timer_start(&timer, c->conf.max_seconds, c->session->stop, err);
    if (rc == 0)
        rc = ts_run_alone(&c->run, err);
    c->timed_out = ts_api_timer_end(&timer, rc, err);
    return ts_api_run_end(c, rc, ret, result, err);
}

ts_cpd *ts_cp(ts_session *s, const ts_cp_conf *given, ts_cp_result *ret, ts_error *err)
{
    struct ts_api_run *c = calloc(1, sizeof *c);
    struct ts_kruskal *k = NULL;
    ts_cp_result result;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = c == NULL ? ts_fail(&a.err, TS_ENOMEM, "out of memory for a run")
                   : ts_api_run_conf(given, s->engine->tensor, &c->conf, &a.err);
    if (rc == 0 && s->ended)
        rc = ts_fail(&a.err, TS_EARG, "a run of this session failed or was stopped: open another");
    if (rc == 0) {
        c->session = s;
        c->api = &a;
        rc = run_to_end(c, &k, &result, &a.err);
    }
    if (rc == 0)
        ts_api_result(ret, &result, sizeof result);
    if (c != NULL)
        ts_api_run_close(c);
    free(c);
    ts_api_end(&a, rc, err);
    return k;
}
