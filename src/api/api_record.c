/* SPDX-License-Identifier: BSD-3-Clause */
/* run.json and status.json of a run of the library. */
#include "api/api_record.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/version.h"
#include "base/clock.h"
#include "base/setting.h"
#include "base/setting_kind.h"
#include "base/thread.h"
#include "cpd/run_options.h"
#include "engine/models_table.h"
#include "engine/processor.h"
#include "engine/run_record.h"
#include "engine/run_status.h"
#include "format/array_name.h"

#define TICK_NS       UINT64_C(1000000000)
#define SECOND_NS     1e9
#define MOST_NS       9e18                   /* of what is told */
#define STATES_NS     UINT64_C(300000000000) /* between two, as tstream cp has it */
#define LEAST_SQUARES "least-squares"
#define MOST_SECONDS  1e9 /* some thirty years */

/* ---- options, by the names of tstream cp ---- */

/* A setting of each mode: what the member at `at` of struct ts_constraint holds. OF_RUN: the setting is one of the run. */
struct of_modes {
    enum { OF_RUN, IS_WHETHER, IS_PENALTY, IS_BOUNDS } kind;
    size_t at;
};
#define WHETHER(x) IS_WHETHER, offsetof(struct ts_constraint, x)
#define PENALTY(x) IS_PENALTY, offsetof(struct ts_constraint, x)
#define BOUNDS(x)  IS_BOUNDS, offsetof(struct ts_constraint, x)

#define MODES_CHARS (TS_MAX_ORDER * 64)

/* The values of the options, as tstream cp has them. */
struct args {
#define SETTING(member, option, letter, kind, ...) TS_VALUE_OF_##kind member;
#define SETTING_IN(...)
#include "base/settings.def"
    struct ts_processor processor;
    struct {
        const char *dims, *dtype;
        int fortran;
    } array; /* the library has them in the name of the tensor */
    char loss_text[64], hold_out_text[32], format_text[32];
    char modes_text[TS_N_SETTINGS][MODES_CHARS]; /* of those that are of modes */
};

struct row {
    struct ts_opt opt;
    struct of_modes modes;
    const char *field; /* NULL: the library does not have it */
    enum ts_run_fixed resume;
};

#define SETTING(member, option, letter, kind_, def_, arg_, section, resume_, keyword, field_, ...) \
    { .opt = { .name = option,                                                                     \
               .type = TS_OPT_OF_##kind_,                                                          \
               .at = offsetof(struct args, member),                                                \
               .arg = arg_ },                                                                      \
      .modes = { TS_MODES_OF_##kind_ },                                                            \
      .field = field_,                                                                             \
      .resume = TS_RUN_##resume_ },
#define LOSS_NAMES ts_loss_names
static const struct row rows[] = {
#include "base/settings.def"
};

/* run.json has these first, as in all versions, and then what is not listed. */
static const char *const record_first[] = {
    "rank",       "loss",       "optimizer", "inner",       "iters",     "tol",     "seed",
    "init",       "save-init",  "nonneg",    "l1",          "l2",        "simplex", "bounds",
    "fix",        "orthogonal", "smooth",    "accelerate",  "observed",  "mean",    "l2-scale",
    "hold-out",   "patience",   "threads",   "host-memory", "precision", "out",     "format",
    "rows",       "checkpoint", "resume",    "max-time",    "force",     "cpu",     "gpus",
    "gpu-memory", "trace",      "restarts",  NULL,
};

/* And a state these. */
static const char *const state_first[] = {
    "rank",      "seed",       "init",   "precision",  "iters",      "tol",
    "format",    "nonneg",     "fix",    "simplex",    "l1",         "l2",
    "bounds",    "orthogonal", "smooth", "restarts",   "accelerate", "observed",
    "l2-scale",  "patience",   "mean",   "save-init",  "loss",       "inner",
    "optimizer", "hold-out",   "rows",   "checkpoint", NULL,
};

/* The options of run.json, of one model or of several. */
static void options_of_record(int several, struct ts_opt ret[TS_N_SETTINGS + 1])
{
    uint32_t n = 0, at;
    for (uint32_t i = 0; (at = ts_setting_row(record_first, i)) != TS_NO_SETTING; i++)
        if (rows[at].field != NULL && (several || rows[at].resume != TS_RUN_OF_SEVERAL))
            ret[n++] = rows[at].opt;
    ret[n] = (struct ts_opt){ 0 };
}

/* What is asked of the modes by one setting, as the option says it; "": nothing. */
static void modes_text(const struct ts_constraint *constraint, uint32_t order,
                       const struct of_modes *modes, char ret[MODES_CHARS])
{
    size_t n = 0;
    ret[0] = '\0';
    for (uint32_t m = 0; m < order; m++) {
        const void *at = (const char *)&constraint[m] + modes->at;
        if (modes->kind == IS_PENALTY ? *(const double *)at == 0 : *(const int *)at == 0)
            continue;
        n += (size_t)snprintf(ret + n, MODES_CHARS - n, "%s%u", n > 0 ? "," : "", m + 1);
        if (modes->kind == IS_PENALTY)
            n += (size_t)snprintf(ret + n, MODES_CHARS - n, "=%.17g", *(const double *)at);
        if (modes->kind == IS_BOUNDS)
            n += (size_t)snprintf(ret + n, MODES_CHARS - n, "=%.17g:%.17g", constraint[m].lower,
                                  constraint[m].upper);
    }
}

static void loss_text(const ts_cp_conf *run, char ret[64])
{
    if (run->loss > TS_LOSS_POISSON)
        ts_loss_text(ts_api_gcp(run->loss), run->loss_at, 17, ret, 64);
    else
        snprintf(ret, 64, "%s", run->loss == TS_LOSS_POISSON ? "poisson" : LEAST_SQUARES);
}

static void format_text(const ts_cp_conf *run, char ret[32])
{
    static const char *const formats[] = { "ktensor", "npy", "splatt" };
    size_t n = 0;
    for (unsigned f = 0; f < 3; f++)
        if ((run->formats >> f & 1) != 0)
            n += (size_t)snprintf(ret + n, 32 - n, "%s%s", n > 0 ? "," : "", formats[f]);
}

/* *a holds texts that it points to, and is not to be moved. */
static void take_args(struct args *a, const ts_session_conf *session, const struct ts_tensor *t,
                      const ts_cp_conf *run, const struct ts_constraint *constraint)
{
    /* values of settings.def; those that are left out there follow */
#define SET(member, ...) __VA_OPT__(a->member = __VA_ARGS__;)
#define SETTING(member, option, letter, kind, def, arg, section, resume, keyword, field, value, \
                help)                                                                           \
    SET(member, value)
#include "base/settings.def"
    a->ranks = (struct ts_opt_numbers){ .n = 1, .at = { session->rank } };
    loss_text(run, a->loss_text);
    a->loss = a->loss_text;
    format_text(run, a->format_text);
    a->format = a->format_text;
    snprintf(a->hold_out_text, sizeof a->hold_out_text, "%.17g", run->hold_out);
    a->hold_out = run->hold_out > 0 ? a->hold_out_text : NULL;
    for (uint32_t i = 0; i < TS_N_SETTINGS; i++) {
        const char **to = (const char **)((char *)a + rows[i].opt.at);
        if (rows[i].modes.kind == OF_RUN)
            continue;
        modes_text(constraint, t->order, &rows[i].modes, a->modes_text[i]);
        *to = a->modes_text[i][0] != '\0' ? a->modes_text[i] : NULL;
    }
}

/* ---- what a state remembers ---- */

uint64_t ts_api_every_ns(const ts_cp_conf *conf)
{
    const double every_s = conf->checkpoint_seconds;
    return every_s == 0  ? STATES_NS
           : every_s < 0 ? 0
                         : 1 + (uint64_t)(SECOND_NS * fmin(every_s, MOST_SECONDS));
}

/* Whether a state says it: not what is as without it. */
static int is_said(const struct row *row, const struct args *a, int several)
{
    const void *at = (const char *)a + row->opt.at;
    const char *name = row->opt.name;
    if (row->resume == TS_RUN_OF_SEVERAL)
        return several;
    if (strcmp(name, "save-init") == 0)
        return a->save_init || several; /* what several models do not say may be either */
    if (strcmp(name, "l2-scale") == 0)
        return a->observed;
    if (strcmp(name, "patience") == 0)
        return a->observed || a->patience > 0;
    if (strcmp(name, "loss") == 0)
        return strcmp(a->loss, LEAST_SQUARES) != 0;
    if (strcmp(name, "inner") == 0)
        return strcmp(a->loss, "poisson") == 0;
    if (strcmp(name, "optimizer") == 0)
        return a->optimizer != TS_OPTIMIZER_ADAM;
    return row->opt.type == TS_OPT_FLAG ? *(const int *)at != 0
           : row->opt.type == TS_OPT_STRING || row->opt.type == TS_OPT_MODES
               ? *(const char *const *)at != NULL
               : 1;
}

static void remember(const struct row *row, const struct args *a, FILE *to)
{
    char text[4096]; /* 64 ranks of 4 digits, and what modes_text makes */
    ts_opt_text(&row->opt, a, text, sizeof text);
    if (row->opt.type == TS_OPT_DURATION)
        snprintf(
            text, sizeof text, "%llums",
            (unsigned long long)(*(const uint64_t *)((const char *)a + row->opt.at) / 1000000u));
    fprintf(to, "%s=%s%c", row->opt.name, text, 0);
}

int ts_api_options_text(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_constraint *constraint,
                        const uint32_t *ranks, uint32_t n_ranks, uint32_t restarts, char **ret,
                        uint64_t *bytes, struct ts_err *err)
{
    char *real = ts_array_name_real(t->path), *text = NULL;
    struct args *a = calloc(1, sizeof *a);
    size_t n = 0;
    uint32_t at;
    FILE *to = a != NULL ? open_memstream(&text, &n) : NULL;
    if (to != NULL) {
        take_args(a, session, t, conf, constraint);
        a->ranks.n = 0;
        for (uint32_t i = 0; i < n_ranks && i < TS_OPT_NUMBERS_MAX; i++)
            a->ranks.at[a->ranks.n++] = ranks[i];
        a->restarts = restarts;
        fprintf(to, "tensor=%s%c", real != NULL ? real : t->path, 0);
        for (uint32_t i = 0; (at = ts_setting_row(state_first, i)) != TS_NO_SETTING; i++)
            if (rows[at].field != NULL && rows[at].resume != TS_RUN_NOT_KEPT &&
                is_said(&rows[at], a, restarts > 0))
                remember(&rows[at], a, to);
    }
    free(real);
    free(a);
    if (to == NULL || fclose(to) != 0) {
        free(text);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    }
    *ret = text;
    *bytes = n;
    return 0;
}

/* ---- the table of several models ---- */

int ts_api_models_write(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_constraint *constraint,
                        const struct ts_models_table *table, const struct ts_atomic_dir *dir,
                        int resumed, struct ts_err *err)
{
    struct args *a = calloc(1, sizeof *a);
    struct ts_opt opts[TS_N_SETTINGS + 1];
    const struct ts_models_writer who = { .version = ts_library_version(),
                                          .commit = ts_version_commit(),
                                          .tensor = t->path,
                                          .opts = opts,
                                          .args = a };
    int rc;
    if (a == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    options_of_record(1, opts);
    take_args(a, session, t, conf, constraint);
    a->resume = resumed ? conf->out : NULL;
    a->restarts = table->restarts;
    a->ranks.n = 0;
    for (uint32_t k = 0; k < table->n_ranks && k < TS_OPT_NUMBERS_MAX; k++)
        a->ranks.at[a->ranks.n++] = table->rank[k].rank;
    rc = ts_models_table_write(table, &who, t, ts_atomic_dir_fd(dir), ts_atomic_dir_partial(dir),
                               err);
    free(a);
    return rc;
}

/* ---- the object ---- */

struct ts_api_record {
    const ts_session *session;
    struct ts_opt opts[TS_N_SETTINGS + 1];
    struct args args;
    struct ts_run_record record;
    struct ts_run_status status;
    char *partial;
    struct ts_api_place place;         /* n 0: it is the only model */
    uint32_t passes[TS_MAX_ORDER + 1]; /* of a sweep before each mode, and in all */
    uint32_t first_sweep, first_mode;
    _Atomic uint64_t sweep_start_ns, last_sweep_ns; /* last: 0: there was none */

    pthread_t thread; /* that writes the status */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int running, over;
};

int ts_api_record_new(const ts_session *s, const ts_cp_conf *conf,
                      const struct ts_constraint *constraint, uint64_t every_ns,
                      const struct ts_state *from, const struct ts_api_place *place,
                      struct ts_api_record **ret, struct ts_err *err)
{
    struct ts_api_record *r = calloc(1, sizeof *r);
    const struct ts_tensor *t = s->engine->tensor;
    int rc;
    if (r == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->out);
    r->session = s;
    options_of_record(0, r->opts);
    take_args(&r->args, &s->conf, t, conf, constraint);
    r->args.checkpoint_ns = every_ns;
    if (place != NULL) {
        r->place = *place;
        r->args.out = place->out;
    }
    r->args.resume = from != NULL ? r->args.out : NULL;
    for (uint32_t m = 0; m < t->order; m++)
        r->passes[m + 1] = r->passes[m] + !constraint[m].fixed;
    r->first_sweep = from != NULL ? from->sweep : 1;
    r->first_mode = from != NULL ? from->mode : 0;
    r->record = (struct ts_run_record){ .interface = "library",
                                        .version = ts_library_version(),
                                        .commit = ts_version_commit(),
                                        .opts = r->opts,
                                        .args = &r->args,
                                        .engine = s->engine };
    rc = ts_run_record_start(&r->record, t->path, err);
    if (rc == 0 && from != NULL)
        ts_run_record_recall(&r->record, from);
    if (rc < 0) {
        ts_api_record_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void ts_api_record_free(struct ts_api_record *r)
{
    if (r == NULL)
        return;
    ts_run_record_free(&r->record);
    free(r->partial);
    free(r);
}

/* ---- the status ---- */

static uint64_t whole_ns(double ns)
{
    return (uint64_t)fmin(ns, MOST_NS);
}

static void figures(void *ctx, struct ts_run_figures *ret)
{
    struct ts_api_record *r = ctx;
    const ts_session *s = r->session;
    const uint32_t order = s->engine->tensor->order;
    const uint64_t nnz = s->engine->tensor->nnz;
    const uint_fast32_t mode = atomic_load(&s->mode), sweep = atomic_load(&s->sweep);
    const uint64_t at = atomic_load(&s->nnz), last_ns = atomic_load(&r->last_sweep_ns);
    const double ns = (double)(ts_clock_ns() - atomic_load(&r->sweep_start_ns));
    const double more = sweep < r->args.iters ? (double)(r->args.iters - sweep) : 0;
    double left;
    ret->total = r->passes[order] * nnz;
    ret->done = r->passes[mode < order ? mode : order] * nnz + (at < nnz ? at : nnz);
    ret->done = ret->done < ret->total ? ret->done : ret->total;
    ret->per_s = ns > 0 ? SECOND_NS * (double)ret->done / ns : 0;
    ret->known = ret->done > 0 && ns > 0;
    if (!ret->known)
        return;
    left = ns * (double)(ret->total - ret->done) / (double)ret->done;
    ret->left_ns = whole_ns(left);
    ret->run_left_ns = whole_ns(left + more * (last_ns > 0 ? (double)last_ns : ns + left));
}

static void *write_status(void *arg)
{
    struct ts_api_record *r = arg;
    const locale_t before = ts_c_locale_enter();
    uint64_t due = ts_clock_ns() + TICK_NS;
    pthread_mutex_lock(&r->lock);
    while (!r->over) {
        const struct timespec until = { .tv_sec = (time_t)(due / 1000000000u),
                                        .tv_nsec = (long)(due % 1000000000u) };
        if (pthread_cond_timedwait(&r->wake, &r->lock, &until) == 0)
            continue;
        pthread_mutex_unlock(&r->lock);
        ts_run_status_tick(&r->status);
        due = ts_clock_ns() + TICK_NS;
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    ts_c_locale_leave(before);
    return NULL;
}

void ts_api_record_start(struct ts_api_record *r, const char *partial, uint32_t at_once)
{
    pthread_condattr_t attr;
    r->partial = strdup(partial); /* NULL: no status */
    r->status.partial = r->partial;
    r->status.opts = r->opts;
    r->status.args = &r->args;
    r->status.tensor = r->session->engine->tensor->path;
    r->status.out = r->args.out;
    r->status.iters = r->args.iters;
    r->status.order = r->session->engine->tensor->order;
    r->status.figures = figures;
    r->status.ctx = r;
    r->status.model = r->place.number;
    r->status.n_models = r->place.n;
    r->status.at_once = at_once;
    atomic_store(&r->sweep_start_ns, ts_clock_ns());
    ts_run_status_start(&r->status, r->first_sweep);
    ts_run_status_mode(&r->status, r->first_mode + 1);
    if (r->status.dir < 0)
        return;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* that of ts_clock_ns */
    pthread_cond_init(&r->wake, &attr);
    pthread_condattr_destroy(&attr);
    r->over = 0;
    r->running = ts_thread_new(&r->thread, write_status, r) == 0;
    if (!r->running) {
        pthread_cond_destroy(&r->wake);
        pthread_mutex_destroy(&r->lock);
    }
}

static void end_thread(struct ts_api_record *r)
{
    if (!r->running)
        return;
    pthread_mutex_lock(&r->lock);
    r->over = 1;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    r->running = 0;
}

void ts_api_record_at_once(struct ts_api_record *r, uint32_t n)
{
    ts_run_status_at_once(&r->status, n);
}

void ts_api_record_mode(struct ts_api_record *r, uint32_t mode)
{
    ts_run_status_mode(&r->status, mode + 2);
}

void ts_api_record_sweep(struct ts_api_record *r, const struct ts_als_sweep *s)
{
    atomic_store(&r->sweep_start_ns, ts_clock_ns());
    atomic_store(&r->last_sweep_ns, s->total_ns);
    ts_run_record_sweep(&r->record, s);
    r->first_sweep = s->sweep + 1;
    r->first_mode = 0;
    ts_run_status_sweep(&r->status, s->sweep, s->fit, s->log_likelihood,
                        (double)s->total_ns / SECOND_NS);
}

void ts_api_record_saved(struct ts_api_record *r)
{
    ts_run_status_saved(&r->status);
}

void ts_api_record_hide(struct ts_api_record *r)
{
    end_thread(r);
    ts_run_status_remove(&r->status);
}

void ts_api_record_end(struct ts_api_record *r, const struct ts_err *why)
{
    end_thread(r);
    ts_run_status_end(&r->status,
                      why == NULL             ? NULL
                      : why->code == TS_ESTOP ? "stopped"
                                              : "failed",
                      why == NULL ? NULL : why->text);
}

int ts_api_record_add(const struct ts_api_record *r, struct ts_model_out *out, const char *ended,
                      const struct ts_als_result *result, struct ts_err *err)
{
    const struct ts_run_record *of = &r->record;
    char *text;
    size_t bytes;
    int rc = ts_run_record_end(of, ended, result, &text, &bytes, err);
    if (rc < 0)
        return rc;
    rc = ts_model_add(out, TS_RUN_RECORD_NAME, text, bytes, err);
    free(text);
    return rc;
}
