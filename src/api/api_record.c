/* SPDX-License-Identifier: BSD-3-Clause */
/* run.json and status.json of a run of the library. */
#include "api/api_record.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/version.h"
#include "base/clock.h"
#include "base/thread.h"
#include "engine/models_table.h"
#include "engine/run_record.h"
#include "engine/run_status.h"
#include "format/array_name.h"

#define TICK_NS      UINT64_C(1000000000)
#define SECOND_NS    1e9
#define MOST_NS      9e18                   /* of what is told */
#define STATES_NS    UINT64_C(300000000000) /* between two, as tstream cp has it */
#define MOST_SECONDS 1e9                    /* some thirty years */

/* ---- options, by the names of tstream cp ---- */

struct args {
    uint32_t rank, iters, threads;
    double tol;
    uint64_t seed, host_bytes, device_bytes, every_ns, max_ns;
    int accelerate, force, cpu, observed, mean, save_init;
    uint32_t patience, inner;
    const char *loss, *optimizer, *l2_scale, *hold_out;
    char hold_out_text[32], loss_text[64];
    const char *init, *precision, *out, *rows, *resume, *trace, *gpus, *format;
    const char *constraint[TS_API_CONSTRAINTS]; /* NULL: none */
    char format_text[32], constraint_text[TS_API_CONSTRAINTS][TS_API_CONSTRAINT_CHARS];
};

#define AT(field) offsetof(struct args, field)
static const struct ts_opt opts[] = {
    { .name = "rank", .type = TS_OPT_U32, .at = AT(rank) },
    { .name = "loss", .type = TS_OPT_STRING, .at = AT(loss) },
    { .name = "optimizer", .type = TS_OPT_STRING, .at = AT(optimizer) },
    { .name = "inner", .type = TS_OPT_U32, .at = AT(inner) },
    { .name = "iters", .type = TS_OPT_U32, .at = AT(iters) },
    { .name = "tol", .type = TS_OPT_DOUBLE, .at = AT(tol) },
    { .name = "seed", .type = TS_OPT_U64, .at = AT(seed) },
    { .name = "init", .type = TS_OPT_STRING, .at = AT(init) },
    { .name = "save-init", .type = TS_OPT_FLAG, .at = AT(save_init) },
    { .name = "nonneg", .type = TS_OPT_STRING, .at = AT(constraint[0]) },
    { .name = "l1", .type = TS_OPT_STRING, .at = AT(constraint[3]) },
    { .name = "l2", .type = TS_OPT_STRING, .at = AT(constraint[4]) },
    { .name = "simplex", .type = TS_OPT_STRING, .at = AT(constraint[2]) },
    { .name = "bounds", .type = TS_OPT_STRING, .at = AT(constraint[5]) },
    { .name = "fix", .type = TS_OPT_STRING, .at = AT(constraint[1]) },
    { .name = "orthogonal", .type = TS_OPT_STRING, .at = AT(constraint[6]) },
    { .name = "smooth", .type = TS_OPT_STRING, .at = AT(constraint[7]) },
    { .name = "accelerate", .type = TS_OPT_FLAG, .at = AT(accelerate) },
    { .name = "observed", .type = TS_OPT_FLAG, .at = AT(observed) },
    { .name = "mean", .type = TS_OPT_FLAG, .at = AT(mean) },
    { .name = "l2-scale", .type = TS_OPT_STRING, .at = AT(l2_scale) },
    { .name = "hold-out", .type = TS_OPT_STRING, .at = AT(hold_out) },
    { .name = "patience", .type = TS_OPT_U32, .at = AT(patience) },
    { .name = "threads", .type = TS_OPT_U32, .at = AT(threads) },
    { .name = "host-memory", .type = TS_OPT_SIZE, .at = AT(host_bytes) },
    { .name = "precision", .type = TS_OPT_STRING, .at = AT(precision) },
    { .name = "out", .type = TS_OPT_STRING, .at = AT(out) },
    { .name = "format", .type = TS_OPT_STRING, .at = AT(format) },
    { .name = "rows", .type = TS_OPT_STRING, .at = AT(rows) },
    { .name = "checkpoint", .type = TS_OPT_DURATION, .at = AT(every_ns) },
    { .name = "resume", .type = TS_OPT_STRING, .at = AT(resume) },
    { .name = "max-time", .type = TS_OPT_DURATION, .at = AT(max_ns) },
    { .name = "force", .type = TS_OPT_FLAG, .at = AT(force) },
    { .name = "cpu", .type = TS_OPT_FLAG, .at = AT(cpu) },
    { .name = "gpus", .type = TS_OPT_STRING, .at = AT(gpus) },
    { .name = "gpu-memory", .type = TS_OPT_SIZE, .at = AT(device_bytes) },
    { .name = "trace", .type = TS_OPT_STRING, .at = AT(trace) },
    { 0 },
};
#define N_OPTS (sizeof opts / sizeof opts[0]) /* with the end */

const char *const ts_api_constraints[TS_API_CONSTRAINTS] = { "nonneg",     "fix",   "simplex",
                                                             "l1",         "l2",    "bounds",
                                                             "orthogonal", "smooth" };

void ts_api_constraint_text(const struct ts_constraint *constraint, uint32_t order, int kind,
                            char ret[TS_API_CONSTRAINT_CHARS])
{
    size_t n = 0;
    ret[0] = '\0';
    for (uint32_t m = 0; m < order; m++) {
        const struct ts_constraint *of = &constraint[m];
        const double x[] = { of->nonneg, of->fixed,   of->simplex,    of->l1,
                             of->l2,     of->bounded, of->orthogonal, of->smooth };
        if (x[kind] == 0)
            continue;
        n +=
            (size_t)snprintf(ret + n, TS_API_CONSTRAINT_CHARS - n, "%s%u", n > 0 ? "," : "", m + 1);
        if (kind == 3 || kind == 4 || kind == 7)
            n += (size_t)snprintf(ret + n, TS_API_CONSTRAINT_CHARS - n, "=%.17g", x[kind]);
        if (kind == 5)
            n += (size_t)snprintf(ret + n, TS_API_CONSTRAINT_CHARS - n, "=%.17g:%.17g", of->lower,
                                  of->upper);
    }
}

static const char *const formats[] = { "ktensor", "npy", "splatt" };

static void take_args(struct args *a, const ts_session_conf *sc, const struct ts_tensor *t,
                      const ts_cp_conf *conf, const struct ts_constraint *constraint)
{
    size_t n = 0;
    a->rank = sc->rank;
    a->iters = conf->sweeps;
    a->threads = sc->threads;
    a->tol = conf->tol;
    a->seed = conf->seed;
    a->host_bytes = sc->host_memory;
    a->device_bytes = sc->gpu_memory;
    a->max_ns = (uint64_t)fmin(SECOND_NS * conf->max_seconds, MOST_NS);
    a->accelerate = conf->accelerate != 0;
    a->observed = conf->observed != 0;
    a->mean = conf->mean != 0;
    a->save_init = conf->save_init != 0;
    a->l2_scale = conf->l2_by_count ? "count" : "none";
    snprintf(a->hold_out_text, sizeof a->hold_out_text, "%.17g", conf->hold_out);
    a->hold_out = conf->hold_out > 0 ? a->hold_out_text : NULL;
    a->patience = conf->patience;
    a->loss = conf->loss == TS_LOSS_POISSON ? "poisson" : "least-squares";
    if (conf->loss > TS_LOSS_POISSON) {
        ts_loss_text(ts_api_gcp(conf->loss), conf->loss_at, 17, a->loss_text, sizeof a->loss_text);
        a->loss = a->loss_text;
    }
    a->optimizer = conf->optimizer == TS_OPTIMIZER_LBFGSB ? "lbfgsb" : "adam";
    a->inner = conf->inner;
    a->force = conf->replace != 0;
    a->cpu = sc->cpu != 0;
    a->init = conf->start != NULL ? "given" : conf->nvecs ? "nvecs" : "random";
    a->precision = sc->precision == TS_REAL_FLOAT32 ? "float32" : "float64";
    a->out = conf->out;
    a->every_ns = ts_api_every_ns(conf);
    a->rows = conf->held_rows ? "used" : "all";
    a->trace = sc->trace;
    a->gpus = sc->gpus;
    a->format = a->format_text;
    for (unsigned f = 0; f < 3; f++)
        if ((conf->formats >> f & 1) != 0)
            n += (size_t)snprintf(a->format_text + n, sizeof a->format_text - n, "%s%s",
                                  n > 0 ? "," : "", formats[f]);
    for (int k = 0; k < TS_API_CONSTRAINTS; k++) {
        ts_api_constraint_text(constraint, t->order, k, a->constraint_text[k]);
        a->constraint[k] = a->constraint_text[k][0] != '\0' ? a->constraint_text[k] : NULL;
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

/* Behind an option, which they end: as they would be given. */
static void remember_constraints(const struct ts_constraint *constraint, uint32_t order, FILE *to)
{
    for (int k = 0; k < TS_API_CONSTRAINTS; k++) {
        char text[TS_API_CONSTRAINT_CHARS];
        ts_api_constraint_text(constraint, order, k, text);
        if (text[0] != '\0')
            fprintf(to, "%c%s=%s", 0, ts_api_constraints[k], text);
    }
}

static void remember_formats(const ts_cp_conf *conf, FILE *to)
{
    const char *comma = "";
    fprintf(to, "format=");
    for (unsigned f = 0; f < 3; f++)
        if ((conf->formats >> f & 1) != 0) {
            fprintf(to, "%s%s", comma, formats[f]);
            comma = ",";
        }
}

static void remember_loss(const ts_cp_conf *conf, FILE *to)
{
    char text[64];
    if (conf->loss > TS_LOSS_POISSON) {
        ts_loss_text(ts_api_gcp(conf->loss), conf->loss_at, 17, text, sizeof text);
        fprintf(to, "%closs=%s", 0, text);
    }
    if (conf->loss == TS_LOSS_POISSON)
        fprintf(to, "%closs=poisson%cinner=%u", 0, 0, conf->inner);
    if (conf->optimizer == TS_OPTIMIZER_LBFGSB)
        fprintf(to, "%coptimizer=lbfgsb", 0);
}

int ts_api_options_text(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_constraint *constraint,
                        const uint32_t *ranks, uint32_t n_ranks, uint32_t restarts, char **ret,
                        uint64_t *bytes, struct ts_err *err)
{
    char *real = ts_array_name_real(t->path), *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (to != NULL) {
        fprintf(to, "tensor=%s%crank=", real != NULL ? real : t->path, 0);
        for (uint32_t i = 0; i < n_ranks; i++)
            fprintf(to, "%s%u", i > 0 ? "," : "", ranks[i]);
        fprintf(to, "%cseed=%llu%c", 0, (unsigned long long)conf->seed, 0);
        fprintf(to, "init=%s%cprecision=%s%c",
                conf->start != NULL ? "given"
                : conf->nvecs       ? "nvecs"
                                    : "random",
                0, session->precision == TS_REAL_FLOAT32 ? "float32" : "float64", 0);
        fprintf(to, "iters=%u%ctol=%.17g%c", conf->sweeps, 0, conf->tol, 0);
        remember_formats(conf, to);
        remember_constraints(constraint, t->order, to);
        if (restarts > 0)
            fprintf(to, "%crestarts=%u", 0, restarts);
        if (conf->accelerate)
            fprintf(to, "%caccelerate=1", 0);
        if (conf->observed)
            fprintf(to, "%cobserved=1%cl2-scale=%s%cpatience=%u", 0, 0,
                    conf->l2_by_count ? "count" : "none", 0, conf->patience);
        else if (conf->patience > 0)
            fprintf(to, "%cpatience=%u", 0, conf->patience);
        if (conf->mean)
            fprintf(to, "%cmean=1", 0);
        if (conf->save_init || restarts > 0) /* what several models do not say may be either */
            fprintf(to, "%csave-init=%d", 0, conf->save_init != 0);
        remember_loss(conf, to);
        if (conf->hold_out > 0)
            fprintf(to, "%chold-out=%.17g", 0, conf->hold_out);
        fprintf(to, "%crows=%s%ccheckpoint=%llums%c", 0, conf->held_rows ? "used" : "all", 0,
                (unsigned long long)(ts_api_every_ns(conf) / 1000000u), 0);
    }
    free(real);
    if (to == NULL || fclose(to) != 0) {
        free(text);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    }
    *ret = text;
    *bytes = n;
    return 0;
}

/* ---- the table of several models ---- */

struct several_args {
    struct args one; /* first: what opts point into */
    struct ts_opt_numbers ranks;
    uint32_t restarts;
};

int ts_api_models_write(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_constraint *constraint,
                        const struct ts_models_table *table, const struct ts_atomic_dir *dir,
                        int resumed, struct ts_err *err)
{
    struct several_args a = { .restarts = table->restarts };
    struct ts_opt all[N_OPTS + 1]; /* rank has several numbers, and restarts end it */
    const struct ts_models_writer who = { .version = ts_library_version(),
                                          .commit = ts_version_commit(),
                                          .tensor = t->path,
                                          .opts = all,
                                          .args = &a };
    memcpy(all, opts, sizeof opts);
    all[0].type = TS_OPT_NUMBERS;
    all[0].at = offsetof(struct several_args, ranks);
    all[N_OPTS - 1] = (struct ts_opt){ .name = "restarts",
                                       .type = TS_OPT_U32,
                                       .at = offsetof(struct several_args, restarts) };
    all[N_OPTS] = (struct ts_opt){ 0 };
    take_args(&a.one, session, t, conf, constraint);
    a.one.resume = resumed ? conf->out : NULL;
    for (uint32_t k = 0; k < table->n_ranks && k < TS_OPT_NUMBERS_MAX; k++)
        a.ranks.at[a.ranks.n++] = table->rank[k].rank;
    return ts_models_table_write(table, &who, t, ts_atomic_dir_fd(dir), ts_atomic_dir_partial(dir),
                                 err);
}

/* ---- the object ---- */

struct ts_api_record {
    const ts_session *session;
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
    take_args(&r->args, &s->conf, t, conf, constraint);
    r->args.every_ns = every_ns;
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
                                        .opts = opts,
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
    r->status.opts = opts;
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
