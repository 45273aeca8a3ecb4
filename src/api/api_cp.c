/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompositions by a session: where they start, what is told of them, and what is kept on disk. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/api_run.h"
#include "base/clock.h"
#include "base/place.h"
#include "base/setting.h"
#include "base/stop.h"
#include "base/thread.h"
#include "base/c_locale.h"
#include "base/setting.h"
#include "cpd/accelerate.h"
#include "model/kruskal.h"
#include "model/model_write.h"

#define SWEEPS       50u
#define INNER        10u
#define SECOND_NS    1e9
#define MOST_SECONDS 1e9 /* some thirty years */

/* ---- what is told ---- */

/* The mode that comes next. */
static void set_place(struct ts_session *s, uint32_t sweep, uint32_t mode)
{
    atomic_store(&s->sweep, sweep);
    atomic_store(&s->mode, mode);
    atomic_store(&s->nnz, 0);
}

static void take_mode(void *ctx, const struct ts_als_mode *m)
{
    const struct ts_api_run *c = ctx;
    const int last = m->mode + 1 == c->session->engine->tensor->order;
    int stop;
    set_place(c->session, m->sweep + (uint32_t)last, last ? 0 : m->mode + 1);
    if (c->record != NULL && !last)
        ts_api_record_mode(c->record, m->mode);
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
    struct ts_api_run *c = ctx;
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
    c->sweeps_ns += s->total_ns;
    if (c->record != NULL)
        ts_api_record_sweep(c->record, s);
    if (c->conf.sweep == NULL && c->sweep == NULL)
        return;
    if (c->sweep != NULL && ts_stop_asked(c->session->stop))
        return; /* by the sweep of a model before this one in the pass: nobody is asked again */
    ts_api_out(c->api);
    stop =
        c->sweep != NULL ? c->sweep(c->ctx, c->number, &sweep) : c->conf.sweep(c->conf.ctx, &sweep);
    ts_api_in();
    if (stop != 0)
        ts_stop_ask(c->session->stop, stop);
}

static void note(const struct ts_api_run *c, const struct ts_err *warn)
{
    ts_api_note(c->api, c->session->conf.note, c->session->conf.ctx, warn);
}

/* A state that could not be saved: the run goes on. */
static void warn_state(void *ctx, const struct ts_err *err)
{
    note(ctx, err);
}

static void state_saved(void *ctx)
{
    const struct ts_api_run *c = ctx;
    if (c->record != NULL)
        ts_api_record_saved(c->record);
}

/* ---- the time that a run may take ---- */

static void *wait_until(void *arg)
{
    struct ts_api_timer *t = arg;
    const struct timespec until = { .tv_sec = (time_t)(t->until_ns / 1000000000u),
                                    .tv_nsec = (long)(t->until_ns % 1000000000u) };
    int rc = 0;
    pthread_mutex_lock(&t->lock);
    while (!t->over && rc == 0)
        rc = pthread_cond_timedwait(&t->ended, &t->lock, &until);
    if (!t->over) {
        t->rang = 1;
        ts_stop_ask(t->stop, 1);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int ts_api_timer_start(struct ts_api_timer *t, double seconds, volatile int *stop,
                       struct ts_err *err)
{
    pthread_condattr_t attr;
    if (seconds == 0)
        return 0;
    t->stop = stop;
    t->until_ns = ts_clock_ns() + (uint64_t)(SECOND_NS * fmin(seconds, MOST_SECONDS));
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* that of ts_clock_ns */
    pthread_cond_init(&t->ended, &attr);
    pthread_condattr_destroy(&attr);
    t->running = ts_thread_new(&t->thread, wait_until, t) == 0;
    return t->running ? 0 : ts_fail(err, TS_ENOMEM, "cannot start a thread");
}

int ts_api_timer_end(struct ts_api_timer *t, int rc, struct ts_err *err)
{
    if (!t->running)
        return 0;
    t->running = 0;
    pthread_mutex_lock(&t->lock);
    t->over = 1;
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->ended);
    pthread_mutex_destroy(&t->lock);
    if (t->rang && rc == TS_ESTOP) {
        const struct ts_err why = *err;
        ts_fail(err, TS_ESTOP, "the time is over: %s", why.text);
    }
    return t->rang;
}

/* ---- where it starts ---- */

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

static int open_start(const struct ts_api_run *c, struct ts_model **ret, struct ts_err *err)
{
    int same = 0, rc;
    if (c->conf.start == NULL)
        return 0;
    rc = same_rows(c->session->engine->tensor, c->conf.start, &same, err);
    return rc == 0 ? ts_kruskal_model(c->conf.start, !same, ret, err) : rc;
}

/* What is to be written as the start, if anything is. A model that is given is opened again for it, as rows are read
 * once. */
static int find_saved(struct ts_api_run *c, int stays, struct ts_err *err)
{
    int rc;
    c->saved = (struct ts_init_conf){ .tensor = c->session->engine->tensor,
                                      .rank = c->session->conf.rank,
                                      .seed = c->conf.seed,
                                      .nvecs = c->conf.nvecs != 0 && c->from.file == NULL,
                                      .constraint = c->constraint,
                                      .stop = c->session->stop };
    rc = c->from.file != NULL    ? ts_resume_start(&c->from, stays, &c->saved, err)
         : c->conf.start != NULL ? TS_START_GIVEN
                                 : TS_START_KNOWN;
    if (c->conf.save_init == 0)
        return rc < 0 ? rc : 0;
    if (rc == TS_START_GIVEN && c->conf.start == NULL)
        return ts_fail(err, TS_EARG,
                       "%s: the run started from factors that were given to it, and did not save "
                       "them: give them again, or leave save_init out",
                       c->from.dir);
    if (rc == TS_START_LOST)
        return err->code;
    c->saves = rc == TS_START_KNOWN || rc == TS_START_GIVEN;
    if (rc == TS_START_GIVEN)
        rc = open_start(c, &c->saved.model, err);
    c->computed = c->saves && ts_init_is_computed(&c->saved);
    return rc < 0 ? rc : 0;
}

static int save_start(struct ts_api_run *c, struct ts_err *err)
{
    const int rc = c->saves && !c->computed ? ts_init_save(&c->saved, c->out, err) : 0;
    ts_model_close(c->saved.model);
    c->saved.model = NULL;
    return rc;
}

/* The run has computed its start. */
static int take_computed(void *ctx, struct ts_err *err)
{
    struct ts_api_run *c = ctx;
    struct ts_init_conf conf = c->als_conf.init;
    conf.held = 1;
    return ts_init_save(&conf, c->out, err);
}

/* "10%" or "0.1"; NULL: 0; NAN: a fold, which a run of the library is not of */
static double share_of(const char *text)
{
    char *end;
    const double x = text == NULL ? 0 : ts_strtod(text, &end);
    if (text == NULL)
        return 0;
    return end == text ? NAN : *end == '%' ? x / 100 : x;
}

/* Rounds of a Poisson model are those of the state. */
static int check_inner(const struct ts_api_run *c, struct ts_err *err)
{
    const char *inner = ts_state_option(ts_state_get(c->from.file), "inner");
    return c->conf.loss != TS_LOSS_POISSON || inner == NULL ||
                   strtoul(inner, NULL, 10) == c->conf.inner
               ? 0
               : ts_fail(err, TS_EARG, "%s: the run has inner %s, so it cannot go on with %u",
                         c->from.dir, inner, c->conf.inner);
}

/* The state of an earlier run to conf.out, where it is wanted and there. */
static int open_state(struct ts_api_run *c, struct ts_err *err)
{
    const char *seed;
    int rc;
    if (c->conf.resume == TS_RESUME_NEVER)
        return 0;
    rc = ts_resume_open(c->conf.out, &c->from, err);
    if (rc == TS_EARG && c->conf.resume == TS_RESUME_IF_ANY)
        return 0;
    if (rc < 0 && rc != TS_ENOMEM && c->place != NULL) { /* no reason to give up all models */
        struct ts_err warn;
        ts_fail(&warn, TS_EFORMAT, "%s; the model is computed from its start", err->text);
        note(c, &warn);
        c->conf.replace = 1;
        return 0;
    }
    if (rc < 0)
        return rc;
    if (c->from.damaged.code != 0) {
        struct ts_err warn;
        ts_fail(&warn, TS_EFORMAT, "%s; going on from the state before it", c->from.damaged.text);
        note(c, &warn);
    }
    seed = ts_state_option(ts_state_get(c->from.file), "seed");
    if (c->conf.start == NULL && seed != NULL && strtoull(seed, NULL, 10) != c->conf.seed)
        return ts_fail(err, TS_EARG, "%s: the run has seed %s, so it cannot go on with seed %llu",
                       c->from.dir, seed, (unsigned long long)c->conf.seed);
    if (share_of(ts_state_option(ts_state_get(c->from.file), "hold-out")) != c->conf.hold_out)
        return ts_fail(err, TS_EARG,
                       "%s: the run holds out another share than %g, so it cannot go on with that",
                       c->from.dir, c->conf.hold_out);
    return check_inner(c, err);
}

/* ---- what is kept ---- */

static int open_checkpoint(struct ts_api_run *c, struct ts_err *err)
{
    const struct ts_engine *e = c->session->engine;
    struct ts_checkpoint_conf conf = { .tensor = e->tensor,
                                       .backend = e->backend,
                                       .be = c->session->be,
                                       .rank = c->session->conf.rank,
                                       .precision = c->session->conf.precision,
                                       .constraint = c->constraint,
                                       .accelerate = c->conf.accelerate != 0,
                                       .copy = e->memory.copy_bytes > 0,
                                       .warn = warn_state,
                                       .saved = state_saved,
                                       .ctx = c };
    char *options = NULL;
    int rc;
    conf.every_ns = ts_api_every_ns(&c->conf);
    rc = ts_api_options_text(e->tensor, &c->session->conf, &c->conf, c->constraint,
                             &c->session->conf.rank, 1, 0, &options, &conf.options_bytes, err);
    if (rc < 0)
        return rc;
    conf.dir = ts_model_dir(c->out, &conf.where);
    conf.options = options;
    if (c->from.file != NULL) {
        conf.from = ts_state_get(c->from.file);
        conf.from_here = 1;
    }
    rc = ts_checkpoint_new(&conf, &c->checkpoint, err);
    free(options);
    return rc == 0 ? ts_api_record_new(c->session, &c->conf, c->constraint, conf.every_ns,
                                       conf.from, c->place, &c->record, err)
                   : rc;
}

/* What is to be run, once it is known where from. */
static struct ts_als_conf als_conf(struct ts_api_run *c)
{
    const struct ts_engine *e = c->session->engine;
    const ts_session_conf *sc = &c->session->conf;
    return (struct ts_als_conf){ .init = { .tensor = e->tensor,
                                           .backend = e->backend,
                                           .be = c->session->be,
                                           .rank = sc->rank,
                                           .threads = e->threads,
                                           .seed = c->conf.seed,
                                           .nvecs = c->conf.nvecs != 0,
                                           .constraint = c->constraint,
                                           .stop = c->session->stop },
                                 .feed = e->feed,
                                 .precision = sc->precision,
                                 .iters = c->conf.sweeps,
                                 .inner = c->conf.inner,
                                 .tol = c->conf.tol,
                                 .accelerate = c->conf.accelerate != 0,
                                 .hold_out = { .share = c->conf.hold_out,
                                               .seed = c->conf.seed,
                                               .from = c->conf.hold_out_from },
                                 .patience = c->conf.patience,
                                 .whole_start = c->conf.save_init != 0,
                                 .started = c->computed ? take_computed : NULL,
                                 .mode = take_mode,
                                 .sweep = take_sweep,
                                 .ctx = c,
                                 .trace = c->session->trace,
                                 .checkpoint = c->checkpoint,
                                 .from = c->from.file };
}

/* What is fixed must be given, but where a state has it. */
static int check_start(const struct ts_api_run *c, struct ts_err *err)
{
    return c->conf.fix == 0 || c->conf.start != NULL || c->from.file != NULL
               ? 0
               : ts_fail(err, TS_EARG, "fix keeps factors of start, and no start is given");
}

/* The result must not be the tensor, or the trace. */
static int check_place(const struct ts_api_run *c, struct ts_err *err)
{
    const struct ts_place place[] = {
        { .path = c->session->engine->tensor->path },
        { .path = c->conf.out, .suffix = ".partial", .option = TS_SET_OUT },
        { .path = c->session->conf.trace, .suffix = ".partial", .option = TS_SET_TRACE },
    };
    return ts_place_check(place, 3, err);
}

/* Before the work: whether the result could be written, and where the run goes on from. */
static int open_out(struct ts_api_run *c, struct ts_err *err)
{
    const struct ts_engine *e = c->session->engine;
    struct ts_model_conf mc = { .dir = c->conf.out,
                                .formats = c->conf.formats,
                                .used_rows = c->conf.held_rows,
                                .shape = ts_model_shape_of(e->tensor),
                                .rank = c->session->conf.rank +
                                        (uint32_t)ts_constraint_mean(c->constraint),
                                .threads = e->threads,
                                .force = c->conf.replace,
                                .precision = c->session->conf.precision,
                                .stop = c->session->stop };
    double start_bytes[TS_MAX_ORDER];
    int rc;
    if (c->conf.out == NULL)
        return check_start(c, err);
    rc = check_place(c, err);
    if (rc == 0)
        rc = open_state(c, err);
    if (rc == 0)
        rc = check_start(c, err);
    if (rc == 0 && c->from.file != NULL) {
        const struct ts_als_conf conf = als_conf(c);
        rc = ts_als_check_from(&conf, err);
        mc.resume = !c->from.of_result;
        mc.force |= c->from.of_result; /* older states must not lie beside new ones */
    }
    if (rc == 0 && (c->conf.save_init != 0 || mc.resume)) /* what lies there stays */
        rc = find_saved(c, mc.resume, err);
    for (uint32_t m = 0; m < e->tensor->order && c->saves; m++)
        start_bytes[m] = ts_init_save_bytes(&c->saved, m);
    mc.start_bytes = c->saves ? start_bytes : NULL;
    if (rc == 0)
        rc = ts_model_begin(&mc, &c->out, err);
    if (rc == 0 && c->from.file != NULL)
        rc = ts_resume_check_place(&c->from, err);
    return rc == 0 ? open_checkpoint(c, err) : rc;
}

/* Adds to a sentence what is left of a run that did not come to its end. */
static void tell_state(const struct ts_api_run *c, struct ts_err *err)
{
    const size_t at = strlen(err->text);
    uint32_t sweep, mode;
    if (c->checkpoint != NULL && ts_checkpoint_last(c->checkpoint, &sweep, &mode))
        ts_setting_print(err->text + at, sizeof err->text - at,
                         "; the state before sweep %u, " TS_NTH_MODE " is in %s", sweep, mode + 1,
                         ts_model_partial(c->out));
}

/* The run was stopped: run.json beside its state tells of the sweeps until then. */
static void record_stop(const struct ts_api_run *c)
{
    uint32_t sweep, mode;
    struct ts_err warn = { 0 };
    if (c->record == NULL || c->checkpoint == NULL ||
        !ts_checkpoint_last(c->checkpoint, &sweep, &mode))
        return;
    if (ts_api_record_add(c->record, c->out,
                          c->timed_out ? "stopped by max_seconds" : "stopped by the caller", NULL,
                          &warn) < 0)
        note(c, &warn);
}

/* ---- a run ---- */

/* Whether the files that were written hold the rows that a decomposition does, as its numbers. */
static int can_load(const struct ts_api_run *c)
{
    const struct ts_tensor *t = c->session->engine->tensor;
    uint32_t m = 0;
    while (m < t->order && (c->conf.held_rows || t->mode[m].disk.n_rows == t->mode[m].disk.dim))
        m++;
    return m == t->order && (c->conf.formats & TS_FILE_NPY) != 0;
}

/* Row by row into the other's precision, which was that of the numbers before they were written as text. */
static void copy_rows(const struct ts_kruskal *from, struct ts_kruskal *to, uint32_t mode,
                      double *row)
{
    const uint32_t rank = from->rank;
    for (uint64_t i = 0; i < to->n_rows[mode]; i++) {
        ts_kruskal_rows(from, mode, to->index[mode] == NULL ? i : to->index[mode][i], 1, row);
        for (uint32_t r = 0; r < rank; r++)
            if (to->precision == TS_FLOAT32)
                ((float *)to->factor[mode])[i * rank + r] = (float)row[r];
            else
                ((double *)to->factor[mode])[i * rank + r] = row[r];
    }
}

/* What a decomposition of the tensor holds, of one that was read. */
static int hold_alike(const struct ts_tensor *t, enum ts_precision precision,
                      struct ts_kruskal **at, struct ts_err *err)
{
    struct ts_kruskal *was = *at, *is = NULL;
    uint64_t n_rows[TS_MAX_ORDER];
    int same = was->precision == precision, rc;
    double *row = malloc(was->rank * sizeof *row);
    for (uint32_t m = 0; m < t->order; m++) {
        n_rows[m] = t->mode[m].disk.n_rows;
        same &= n_rows[m] == was->n_rows[m];
    }
    rc = row == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for a decomposition")
         : same      ? 0
                     : ts_kruskal_new(t->order, was->rank, precision, was->dim, n_rows, &is, err);
    for (uint32_t m = 0; m < t->order && is != NULL && rc == 0; m++) {
        rc = ts_tensor_rows(t, m, &is->index[m], err);
        if (rc == 0)
            copy_rows(was, is, m, row);
    }
    if (rc == 0 && is != NULL) {
        memcpy(is->weight, was->weight, was->rank * sizeof *was->weight);
        ts_kruskal_free(was);
        *at = is;
    } else {
        ts_kruskal_free(is);
    }
    free(row);
    return rc;
}

int ts_api_run_load(const struct ts_tensor *t, const char *dir, int npy,
                    enum ts_precision precision, const volatile int *stop, struct ts_kruskal **ret,
                    struct ts_err *err)
{
    struct ts_model *model = NULL;
    struct ts_kruskal *k = NULL;
    int rc =
        npy ? ts_model_open_first(dir, TS_MODEL_NPY, &model, err) : ts_model_open(dir, &model, err);
    if (rc == 0 && model->order != t->order)
        rc = ts_fail(err, TS_EFORMAT, "%s: the model has %u modes, %s has %u", dir, model->order,
                     t->path, t->order);
    if (rc == 0)
        rc = ts_kruskal_read(model, stop, &k, err);
    ts_model_close(model);
    for (uint32_t m = 0; m < t->order && rc == 0; m++) {
        k->dim[m] = t->mode[m].disk.dim;
        if (k->n_rows[m] == k->dim[m]) {
            free(k->index[m]);
            k->index[m] = NULL;
        }
    }
    if (rc == 0 && !npy)
        rc = hold_alike(t, precision, &k, err);
    if (rc == 0)
        *ret = k;
    else
        ts_kruskal_free(k);
    return rc;
}

/* The result: on disk first, where it is wanted there. */
static int take_factors(struct ts_api_run *c, struct ts_als_result *result, struct ts_kruskal **ret,
                        struct ts_err *err)
{
    const struct ts_engine *e = c->session->engine;
    const ts_session_conf *sc = &c->session->conf;
    struct ts_factors f = ts_factors_of(e->tensor, result->rank, e->backend, c->session->be);
    struct ts_err warn = { 0 };
    int rc = 0;
    f.get_rows = ts_als_rows;
    f.from = &result->rows;
    if (c->out != NULL) {
        rc = ts_api_record_add(c->record, c->out,
                               result->exact       ? "exact"
                               : result->converged ? "converged"
                               : result->overfits  ? "held-out error no longer falls"
                                                   : "iterations",
                               result, err);
        ts_api_record_hide(c->record);
        if (rc == 0)
            rc = ts_model_write(c->out, f.get_rows, f.from, result->weight, result->norm, &warn,
                                err);
        note(c, &warn);
        if (rc < 0)
            ts_checkpoint_rescue(c->checkpoint);
        else if (can_load(c))
            /* from these files, so that large factors are not in memory twice */
            return ts_api_run_load(e->tensor, c->conf.out, 1, sc->precision, c->session->stop, ret,
                                   err);
    }
    return rc == 0 ? ts_kruskal_take(e->tensor, &f, sc->precision, result->weight, result->norm,
                                     c->session->stop, ret, err)
                   : rc;
}

int ts_api_run_constraints(const ts_cp_conf *conf, const struct ts_tensor *t,
                           struct ts_constraint *constraint, struct ts_err *err)
{
    if (conf->nvecs && conf->start != NULL)
        return ts_fail(err, TS_EARG,
                       "a run starts from factors that are given or from nvecs, not from both");
    if (conf->nvecs && conf->fix != 0)
        return ts_fail(err, TS_EARG,
                       "fix keeps factors of a start that is given, and with nvecs there is none");
    if ((conf->lower == NULL) != (conf->upper == NULL))
        return ts_fail(err, TS_EARG, "lower and upper bounds are given together, or neither");
    for (uint32_t m = 0; m < t->order; m++) {
        struct ts_constraint *to = &constraint[m];
        to->nonneg = (conf->nonneg >> m & 1) != 0;
        to->fixed = (conf->fix >> m & 1) != 0;
        to->simplex = (conf->simplex >> m & 1) != 0;
        to->orthogonal = (conf->orthogonal >> m & 1) != 0;
        to->observed = conf->observed != 0;
        to->poisson = conf->loss == TS_LOSS_POISSON;
        to->loss = ts_api_gcp(conf->loss);
        to->loss_at = ts_loss_takes_number(to->loss) ? conf->loss_at : 0;
        to->lbfgsb = conf->optimizer == TS_OPTIMIZER_LBFGSB;
        to->by_count = conf->observed && conf->l2_by_count;
        to->mean = conf->mean != 0;
        to->best = conf->patience > 0;
        to->held = conf->hold_out > 0 && !conf->observed && conf->loss <= TS_LOSS_POISSON;
        to->l1 = conf->l1 == NULL ? 0 : conf->l1[m];
        to->l2 = conf->l2 == NULL ? 0 : conf->l2[m];
        to->smooth = conf->smooth == NULL ? 0 : conf->smooth[m];
        to->bounded =
            conf->lower != NULL && !(conf->lower[m] == -INFINITY && conf->upper[m] == INFINITY);
        to->lower = to->bounded ? conf->lower[m] : 0;
        to->upper = to->bounded ? conf->upper[m] : 0;
    }
    if ((conf->nonneg | conf->fix | conf->simplex | conf->orthogonal) >> t->order != 0)
        return ts_fail(err, TS_EARG, "%s: a mode beyond the last one is to be %s", t->path,
                       conf->nonneg >> t->order != 0    ? "nonnegative"
                       : conf->fix >> t->order != 0     ? "fixed"
                       : conf->simplex >> t->order != 0 ? "on the simplex"
                                                        : "orthogonal");
    return ts_constraint_check(constraint, t->order, err);
}

/* Before anything is written. */
static int take_constraints(struct ts_api_run *c, struct ts_err *err)
{
    const struct ts_engine *e = c->session->engine;
    const struct ts_tensor *t = e->tensor;
    const ts_cp_conf *conf = &c->conf;
    const int rc = ts_api_run_constraints(conf, t, c->constraint, err);
    if (rc < 0)
        return rc;
    if (conf->loss != TS_LOSS_LEAST_SQUARES && conf->loss != c->session->conf.loss)
        return ts_fail(err, TS_EARG,
                       "a run with a loss takes a session that was opened with the same loss");
    if (conf->optimizer != TS_OPTIMIZER_ADAM && conf->optimizer != c->session->conf.optimizer)
        return ts_fail(err, TS_EARG,
                       "a run by L-BFGS-B takes a session that was opened with this optimizer");
    if ((ts_constraint_updates(c->constraint, t->order) & ~e->backend->updates) != 0)
        return ts_fail(err, TS_EARG, "these constraints are computed on CPU cores only");
    if (conf->loss == TS_LOSS_LEAST_SQUARES &&
        (ts_constraint_own(c->constraint, t->order) & ~c->session->conf.own_rows) != 0)
        return ts_fail(
            err, TS_EARG,
            "a run with nonneg, l1, simplex, bounds or fix of the last mode takes a session that "
            "was opened with the bits of these modes in own_rows");
    for (uint32_t m = 0; m < t->order; m++)
        if (c->constraint[m].smooth > 0 && (c->session->conf.smooth >> m & 1) == 0)
            return ts_fail(err, TS_EARG,
                           "a run with smooth takes a session that was opened with the bits of "
                           "these modes in smooth");
    if (conf->observed && !c->session->conf.observed)
        return ts_fail(
            err, TS_EARG, "a run with observed%s takes a session that was opened with observed",
            t->dense != NULL && conf->hold_out > 0 ? ", as with hold_out of a dense tensor," : "");
    if (c->constraint[0].held && conf->loss == TS_LOSS_LEAST_SQUARES && e->n_devices > 0 &&
        !c->session->conf.hold_out)
        return ts_fail(err, TS_EARG,
                       "a run with hold_out takes on GPUs a session that was opened with hold_out");
    if (conf->patience > 0 && !c->session->conf.patience)
        return ts_fail(err, TS_EARG,
                       "a run with patience takes a session that was opened with patience");
    if (conf->accelerate && !c->session->conf.accelerate)
        return ts_fail(err, TS_EARG,
                       "a run with accelerate takes a session that was opened with accelerate");
    return conf->accelerate ? ts_accelerate_check(c->constraint, t->order, err) : 0;
}

int ts_api_run_check(struct ts_api_run *c, const struct ts_tensor *t, struct ts_err *err)
{
    struct ts_als_conf conf = {
        .init = { .tensor = t, .rank = c->session->conf.rank, .constraint = c->constraint },
        .precision = c->session->conf.precision,
        .iters = c->conf.sweeps,
        .accelerate = c->conf.accelerate != 0
    };
    int rc = ts_api_run_constraints(&c->conf, t, c->constraint, err);
    if (rc == 0)
        rc = open_state(c, err);
    conf.from = c->from.file;
    if (rc == 0 && conf.from != NULL)
        rc = ts_als_check_from(&conf, err);
    ts_resume_close(&c->from);
    return rc;
}

int ts_api_run_begin(struct ts_api_run *c, struct ts_err *err)
{
    const struct ts_state *from;
    int rc = take_constraints(c, err);
    if (rc == 0)
        rc = open_out(c, err);
    if (rc < 0)
        return rc;
    from = c->from.file != NULL ? ts_state_get(c->from.file) : NULL;
    rc = from == NULL ? open_start(c, &c->start, err) : 0;
    if (rc == 0)
        rc = save_start(c, err);
    set_place(c->session, from != NULL ? from->sweep : 1, from != NULL ? from->mode : 0);
    if (rc == 0 && c->record != NULL && c->place == NULL)
        ts_api_record_start(c->record, ts_model_partial(c->out), 0);
    if (rc == 0) {
        c->als_conf = als_conf(c);
        c->als_conf.init.model = c->start;
        rc = ts_als_new(&c->als_conf, &c->als, err);
    }
    if (rc < 0) {
        tell_state(c, err);
        c->session->ended = 1;
    }
    return rc;
}

static ts_cp_result result_of(const struct ts_api_run *c, const struct ts_als_result *result)
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

int ts_api_run_end(struct ts_api_run *c, int rc, struct ts_kruskal **ret, ts_cp_result *result,
                   struct ts_err *err)
{
    struct ts_als_result r = { 0 };
    if (rc == 0)
        rc = ts_als_result(c->als, &r, err);
    ts_als_free(c->als); /* which saves what the checkpoint is to keep */
    c->als = NULL;
    if (rc == 0)
        rc = take_factors(c, &r, ret, err);
    if (rc == 0)
        *result = result_of(c, &r);
    if (rc < 0) {
        tell_state(c, err);
        if (rc == TS_ESTOP)
            record_stop(c);
        c->session->ended = 1;
    }
    free(r.weight);
    return rc;
}

void ts_api_run_close(struct ts_api_run *c, const struct ts_err *why)
{
    ts_als_free(c->als);
    c->als = NULL;
    ts_model_close(c->start);
    c->start = NULL;
    ts_model_close(c->saved.model);
    c->saved.model = NULL;
    ts_checkpoint_free(c->checkpoint);
    if (c->record != NULL)
        ts_api_record_hide(c->record); /* or it would appear again in what is being cleared */
    ts_model_end(c->out);
    if (c->record != NULL)
        ts_api_record_end(c->record, why);
    ts_api_record_free(c->record);
    ts_resume_close(&c->from);
}

int ts_api_run_conf(const ts_cp_conf *given, const struct ts_tensor *t, ts_cp_conf *c,
                    struct ts_err *err)
{
    int rc = 0;
    memset(c, 0, sizeof *c);
    if (given != NULL)
        rc = ts_api_conf(c, sizeof *c, given, given->size, err);
    if (rc < 0)
        return rc;
    if ((t->dense != NULL && c->hold_out > 0 && c->loss == TS_LOSS_LEAST_SQUARES) ||
        ts_takes_observed(t, c->loss))
        c->observed = 1; /* what is held out is unknown, as NaN is */
    if (!(c->tol >= 0))
        return ts_fail(err, TS_EARG, "the tolerance must not be negative");
    if (!(c->hold_out >= 0 && c->hold_out < 1))
        return ts_fail(err, TS_EARG, "what is held out is a share from 0 to less than 1");
    if (!(c->hold_out_from >= 0 && c->hold_out_from < 1) ||
        (c->hold_out_from > 0 && c->hold_out == 0))
        return ts_fail(err, TS_EARG, "where the share that is held out begins is 0 to less than 1");
    if (c->hold_out_from > 0 && c->out != NULL)
        return ts_fail(err, TS_EARG, "models of folds are not kept on disk: leave out away");
    if (c->save_init && c->out == NULL)
        return ts_fail(err, TS_EARG, "save_init writes the start beside the result: give out, too");
    if (!c->observed && c->l2_by_count)
        return ts_fail(err, TS_EARG, "l2_by_count goes with observed");
    if (c->mean && (!c->observed || c->loss != TS_LOSS_LEAST_SQUARES))
        return ts_fail(err, TS_EARG, "mean goes with observed and least squares");
    if (c->patience > 0 && c->hold_out == 0)
        return ts_fail(err, TS_EARG, "patience goes with hold_out");
    if (!(c->max_seconds >= 0) || isnan(c->checkpoint_seconds))
        return ts_fail(err, TS_EARG, "the time that a run may take must not be negative");
    if (c->formats > (TS_FILE_KTENSOR | TS_FILE_NPY | TS_FILE_SPLATT))
        return ts_fail(err, TS_EARG, "formats of files are ktensor, npy and splatt");
    if (c->resume < TS_RESUME_NEVER || c->resume > TS_RESUME_IF_ANY)
        return ts_fail(err, TS_EARG, "a run goes on never, always, or if there is a state");
    if (c->resume != TS_RESUME_NEVER && c->out == NULL)
        return ts_fail(err, TS_EARG, "a run goes on from the state of a directory: none is named");
    if (!ts_api_is_loss(c->loss))
        return ts_fail(err, TS_EARG, "there is no loss %d", c->loss);
    if (c->optimizer != TS_OPTIMIZER_ADAM && c->optimizer != TS_OPTIMIZER_LBFGSB)
        return ts_fail(err, TS_EARG, "there is no optimizer %d", c->optimizer);
    if (c->sweeps == 0)
        c->sweeps = SWEEPS;
    if (c->inner == 0)
        c->inner = INNER;
    if (c->formats == 0)
        c->formats = TS_FILE_KTENSOR;
    return 0;
}

int ts_api_run_alone(struct ts_api_run *c, struct ts_err *err)
{
    int rc;
    while ((rc = ts_als_next(c->als, err)) > 0) {
        rc = ts_als_multiply(c->als, err);
        if (rc < 0) {
            ts_als_fail(c->als, rc);
            break;
        }
    }
    return rc;
}

static int run(struct ts_api_run *c, struct ts_kruskal **ret, ts_cp_result *result,
               struct ts_err *err)
{
    struct ts_api_timer timer = { 0 };
    int rc = ts_api_run_begin(c, err);
    if (rc < 0)
        return rc;
    rc = ts_api_timer_start(&timer, c->conf.max_seconds, c->session->stop, err);
    if (rc == 0)
        rc = ts_api_run_alone(c, err);
    c->timed_out = ts_api_timer_end(&timer, rc, err);
    return ts_api_run_end(c, rc, ret, result, err);
}

ts_cpd *ts_cp(ts_session *s, const ts_cp_conf *given, ts_cp_result *ret, ts_error *err)
{
    struct ts_kruskal *k = NULL;
    ts_cp_result result;
    struct ts_api a;
    struct ts_api_run c = { .session = s, .api = &a };
    int rc;
    ts_api_begin(&a);
    rc = ts_api_run_conf(given, s->engine->tensor, &c.conf, &a.err);
    if (rc == 0 && s->ended)
        rc = ts_fail(&a.err, TS_EARG, "a run of this session failed or was stopped: open another");
    if (rc == 0)
        rc = run(&c, &k, &result, &a.err);
    if (rc == 0)
        ts_api_result(ret, &result, sizeof result);
    ts_api_run_close(&c, rc < 0 ? &a.err : NULL);
    ts_api_end(&a, rc, err);
    return k;
}
