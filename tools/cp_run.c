/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes one model with an engine that is open, and writes it, its states and its record. */
#include "tools/cp_run.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/cp_constraint.h"
#include "tools/cp_starts.h"
#include "tools/engine_note.h"
#include "tools/tool.h"
#include "tools/tool_ranks.h"
#include "tools/tool_version.h"

#define MANY_SWEEPS 20   /* without an end of which --accelerate is told, */
#define LONG_SWEEPS 30   /* and which it is told after when they came to one */
#define ROUGH_TOL   2e-4 /* of the fit: a larger --tol is noted */

/* run.json, which gets its place with the factors. */
static int add_record(const struct cp_report *r, struct ts_model_out *out, const char *ended,
                      const struct ts_als_result *result, struct ts_err *err)
{
    char *text;
    size_t bytes;
    int rc = ts_run_record_end(r->record, ended, result, &text, &bytes, err);
    if (rc < 0)
        return rc;
    rc = ts_model_add(out, TS_RUN_RECORD_NAME, text, bytes, err);
    free(text);
    return rc;
}

/* A state that could not be saved: the run goes on. */
static void warn_state(void *ctx, const struct ts_err *err)
{
    const struct cp_report *r = ctx;
    tool_note(r->cmd, "%s", err->text);
}

static void state_saved(void *ctx)
{
    const struct cp_report *r = ctx;
    ts_run_status_saved(&r->status->run);
}

/* Where states of the run go: to the directory that its factors are written in. */
static int open_checkpoint(struct cp_report *r, const struct ts_model_out *out, const char *out_dir,
                           const char *path, struct ts_checkpoint **ret, struct ts_err *err)
{
    const struct cp_args *args = r->args;
    const struct ts_engine *e = r->engine;
    struct ts_checkpoint_conf c = { .tensor = e->tensor,
                                    .backend = e->backend,
                                    .be = r->be,
                                    .rank = args->rank,
                                    .precision = args->precision,
                                    .constraint = args->constraint,
                                    .accelerate = args->accelerate,
                                    .every_ns = args->checkpoint_ns,
                                    .copy = e->memory.copy_bytes > 0,
                                    .warn = warn_state,
                                    .saved = state_saved,
                                    .ctx = r };
    char *options;
    int rc = tstream_resume_record(r->cmd, args, 0, path, &options, &c.options_bytes, err);
    if (rc < 0)
        return rc;
    c.dir = ts_model_dir(out, &c.where);
    c.options = options;
    if (args->from != NULL) {
        c.from = ts_state_get(args->from->file);
        c.from_here = strcmp(out_dir, args->from->dir) == 0;
    }
    rc = ts_checkpoint_new(&c, ret, err);
    free(options);
    return rc;
}

static int starts_with_vectors(const struct cp_args *args)
{
    return args->from == NULL && tstream_cp_init_is_nvecs(args);
}

/* Of a run that goes on and did not save what it was given: whether that can be saved now. */
static int given_again(const struct cp_args *args, struct ts_err *err)
{
    if (access(args->init, F_OK) == 0 && !cp_starts_is_pipe(args))
        return TS_START_GIVEN;
    ts_fail(err, TS_EARG,
            "%s: the run did not save its start, and %s, which it was given, is not there as a "
            "file; leave --save-init out",
            args->from->dir, args->init);
    return TS_START_LOST;
}

int cp_run_start(const struct ts_cmd *cmd, const struct cp_args *args, const struct ts_tensor *t,
                 int stays, struct ts_init_conf *ret, int *saves, struct ts_err *err)
{
    const int goes_on = args->from != NULL;
    int rc = !goes_on && tstream_cp_init_is_file(args) ? TS_START_GIVEN : TS_START_KNOWN;
    *ret = (struct ts_init_conf){ .tensor = t,
                                  .rank = args->rank,
                                  .seed = args->seed,
                                  .nvecs = starts_with_vectors(args),
                                  .constraint = args->constraint,
                                  .stop = &tool_stop };
    *saves = 0;
    if (!args->save_init && !(goes_on && stays)) /* what lies there stays, and is to be its start */
        return 0;
    if (goes_on)
        rc = ts_resume_start(args->from, stays, ret, err);
    if (!args->save_init)
        return rc < 0 ? rc : 0;
    if (rc == TS_START_GIVEN && goes_on)
        rc = given_again(args, err);
    if (rc == TS_START_LOST && args->start_asked)
        return err->code;
    if (rc == TS_START_LOST && cmd != NULL)
        tool_note(cmd,
                  "%s: the start that --save-init wrote is gone, and cannot be written again: "
                  "the result has none",
                  args->from->dir);
    if (rc == TS_START_GIVEN && cp_starts_is_pipe(args))
        return ts_fail(err, TS_EARG,
                       "--init %s: a pipe is read once, and --save-init reads the start twice: "
                       "name a file",
                       args->init);
    *saves = rc == TS_START_GIVEN || rc == TS_START_KNOWN;
    return rc == TS_START_GIVEN ? cp_starts_model(args, &ret->model, err) : rc < 0 ? rc : 0;
}

/* The directory that factors are written to, and the start in it. */
static int open_out(struct cp_run *run, struct ts_err *err)
{
    const struct cp_report *r = run->report;
    const struct cp_args *args = r->args;
    const struct ts_tensor *t = r->engine->tensor;
    struct ts_model_conf *mc = run->mc;
    struct ts_init_conf start;
    double start_bytes[TS_MAX_ORDER];
    int saves, rc = cp_run_start(r->cmd, args, t, mc->resume, &start, &saves, err);
    for (uint32_t m = 0; m < t->order && saves; m++)
        start_bytes[m] = ts_init_save_bytes(&start, m);
    mc->start_bytes = saves ? start_bytes : NULL;
    if (rc == 0)
        rc = ts_model_begin(mc, &run->out, err);
    mc->start_bytes = NULL;
    if (rc == 0 && args->from != NULL && (mc->resume || strcmp(mc->dir, args->from->dir) == 0))
        rc = ts_resume_check_place(args->from, err);
    if (rc == 0 && saves && !ts_init_is_computed(&start)) /* or it is yet to be */
        rc = ts_init_save(&start, run->out, err);
    ts_model_close(start.model);
    return rc;
}

/* The run has computed its start; progress is that of the sweep that begins now. */
static int take_computed(void *ctx, struct ts_err *err)
{
    struct cp_report *r = ctx;
    const struct cp_args *args = r->args;
    const struct ts_init_conf conf = { .tensor = r->engine->tensor,
                                       .backend = r->engine->backend,
                                       .be = r->be,
                                       .rank = args->rank,
                                       .held = 1,
                                       .stop = &tool_stop };
    atomic_store(r->lead != NULL ? &r->lead->done_nnz : &r->done_nnz, 0);
    return !args->save_init || r->out == NULL ? 0 : ts_init_save(&conf, r->out, err);
}

static int write_factors(struct cp_report *r, struct ts_als_result *result,
                         struct ts_model_out *out, const char *out_dir, struct ts_err *err)
{
    struct ts_err warn = { 0 };
    int rc;
    status_file_remove(r->status);
    rc = ts_model_write(out, ts_als_rows, &result->rows, result->weight, result->norm, &warn, err);
    tool_warn(r->cmd, &warn);
    if (rc == 0 && r->model == NULL)
        tool_in_place(out_dir);
    return rc;
}

const char *cp_run_stopped_by(void)
{
    switch (ts_stop_number(&tool_stop)) {
    case SIGALRM:
        return "--max-time";
    case SIGTERM:
        return "SIGTERM";
    case SIGHUP:
        return "SIGHUP";
    default:
        return "SIGINT";
    }
}

/* The run was stopped: run.json beside its state tells of the sweeps until then. */
static void tell_stopped(struct cp_report *r, struct ts_model_out *out, const char *resume,
                         uint32_t sweep, uint32_t mode, uint64_t total_ns)
{
    char ended[64];
    struct ts_err err;
    snprintf(ended, sizeof ended, "stopped by %s", cp_run_stopped_by());
    if (resume != NULL && out != NULL && add_record(r, out, ended, NULL, &err) < 0)
        tool_note(r->cmd, "%s", err.text);
    cp_report_stopped(r, cp_run_stopped_by(), resume, sweep, mode, total_ns);
}

void cp_run_hint(struct cp_model *m, int saved, uint32_t sweep, uint32_t mode, struct ts_err *err)
{
    const char *quote = tstream_resume_quote(m->out);
    const size_t at = strlen(err->text);
    char place[64] = "";
    if (m->hinted || err->code == TS_EARG)
        return;
    m->hinted = 1;
    if (saved)
        snprintf(place, sizeof place, ", sweep %u, mode %u", sweep, mode + 1);
    if (saved || m->kept)
        snprintf(err->text + at, sizeof err->text - at,
                 "; \"tstream cp --resume %s%s%s\" goes on with model %u of %u%s", quote, m->out,
                 quote, m->number, m->n, place);
    else if (err->code == TS_ESTOP)
        snprintf(err->text + at, sizeof err->text - at, "; nothing was saved");
}

/* The same for one of several models: whether time that is over is a failure is said when all are told. */
static int end_model(struct cp_report *r, int saved, struct ts_model_out *out, uint32_t sweep,
                     uint32_t mode, uint64_t total_ns, int rc, struct ts_err *err)
{
    struct cp_model *m = r->model;
    cp_run_hint(m, saved, sweep, mode, err);
    if (rc == TS_ESTOP)
        tell_stopped(r, saved ? out : NULL, saved || m->kept ? m->out : NULL, saved ? sweep : 1,
                     saved ? mode : 0, total_ns);
    return rc;
}

/* A run that did not come to its end: how to go on. Time that is over is what the user wanted. */
static int end_early(struct cp_report *r, const struct ts_checkpoint *c, struct ts_model_out *out,
                     const char *out_dir, uint64_t total_ns, int rc, struct ts_err *err)
{
    uint32_t sweep = 0, mode = 0;
    const int saved = c != NULL && ts_checkpoint_last(c, &sweep, &mode);
    if (r->model != NULL)
        return end_model(r, saved, out, sweep, mode, total_ns, rc, err);
    if (rc != TS_EARG) /* which a state that does not go with the command is */
        tstream_resume_hint(c, out_dir, err);
    if (rc == TS_ESTOP)
        tell_stopped(r, out, saved ? out_dir : NULL, sweep, mode, total_ns);
    if (rc != TS_ESTOP || tool_stop != SIGALRM || !(saved || out_dir == NULL))
        return rc;
    tool_note(r->cmd, "the time of --max-time is over: %s", err->text);
    return tool_flushed(err);
}

/* The state of the end is there, to go on from. */
static int is_kept(const struct cp_args *args, const char *out_dir)
{
    return out_dir != NULL && args->checkpoint_ns > 0;
}

static const char *how_to_go_on(const struct cp_args *args, const char *out_dir)
{
    return is_kept(args, out_dir) ? "--resume with" : "a run with";
}

/* --tol is a change of the fit: where the fit itself is small, a run may end long before it has got to the best. */
static void note_tolerance(const struct cp_report *r, const struct ts_als_result *result,
                           const char *out_dir)
{
    const struct cp_args *args = r->args;
    if (r->poisson || r->descends || result->fit == 0 ||
        result->n_dead == args->rank) /* nothing that may grow */
        return;
    if (!result->converged || result->exact || args->tol < ROUGH_TOL * fabs(result->fit))
        return;
    tool_note(
        r->cmd,
        "--tol %.3g is not small beside a fit of %.3g, which may still grow; %s --tol %.0g %s",
        args->tol, result->fit, how_to_go_on(args, out_dir), fabs(result->fit) * ROUGH_TOL / 10,
        is_kept(args, out_dir) ? "goes on" : "takes longer");
}

/* Whether the sweeps were used up or not, they were many. */
static void note_slow(const struct cp_report *r, const struct ts_als_result *result,
                      const char *out_dir)
{
    const struct cp_args *args = r->args;
    struct ts_err err;
    if (r->poisson || result->exact || result->overfits || args->tol == 0 ||
        result->sweeps < (result->converged ? LONG_SWEEPS : MANY_SWEEPS))
        return;
    if (r->descends && !result->converged)
        tool_note(r->cmd, "the loss still falls after %u sweeps: %s a larger --iters %s",
                  result->sweeps, how_to_go_on(args, out_dir),
                  is_kept(args, out_dir) ? "goes on" : "takes it further");
    else if (!r->descends && !args->accelerate &&
             ts_accelerate_check(args->constraint, TS_MAX_ORDER, &err) == 0)
        tool_note(r->cmd,
                  result->converged
                      ? "the fit took %u sweeps to settle: a run with --accelerate may take fewer"
                      : "the fit still grows after %u sweeps: a run with --accelerate takes fewer",
                  result->sweeps);
}

/* Mode, from 1, whose bounds let no entry be anything but 0; 0: there is none. */
static uint32_t bound_to_zero(const struct cp_args *args)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        const struct ts_constraint *c = &args->constraint[m];
        if (c->bounded && (c->nonneg ? fmax(c->lower, 0) : c->lower) == 0 && c->upper == 0)
            return m + 1;
    }
    return 0;
}

static int is_bounded(const struct cp_args *args)
{
    int any = 0;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        any |= args->constraint[m].bounded;
    return any;
}

const char *cp_run_empty_why(const struct cp_args *args, char *room, size_t size)
{
    const uint32_t mode = bound_to_zero(args);
    if (mode > 0)
        snprintf(room, size, "the bounds of mode %u let no entry be anything but 0", mode);
    else if (ts_constraint_penalty(args->constraint, TS_MAX_ORDER))
        snprintf(room, size, "give smaller penalties");
    else
        snprintf(room, size, "no %s is left for them, or another --seed or --init may find one",
                 is_bounded(args) ? "part of the tensor within the bounds"
                                  : "positive part of the tensor");
    return room;
}

const char *cp_run_dead_advice(const struct cp_args *args, char *room, size_t size)
{
    const int penalty = ts_constraint_penalty(args->constraint, TS_MAX_ORDER);
    snprintf(room, size, "a lower --rank%s %s%s may be better", penalty ? "," : " or",
             strcmp(args->init, "random") == 0 ? "another --seed"
                                               : "another start than that of --init",
             penalty ? " or smaller penalties" : "");
    return room;
}

static void note_dead(const struct cp_report *r, const struct ts_als_result *result)
{
    const struct cp_args *args = r->args;
    char room[CP_ADVICE_CHARS];
    if (result->n_dead == 0 || !result->constrained)
        return;
    if (result->n_dead == args->rank)
        tool_note(r->cmd, "nothing is left of the model: its components are zeros; %s",
                  cp_run_empty_why(args, room, sizeof room));
    else
        tool_note(r->cmd, "%u of %u components died: their columns are zeros in some mode; %s",
                  result->n_dead, args->rank, cp_run_dead_advice(args, room, sizeof room));
}

static struct ts_als_conf als_conf(struct cp_run *run, struct ts_model *model)
{
    struct cp_report *r = run->report;
    const struct cp_args *args = r->args;
    const struct ts_engine *e = r->engine;
    struct ts_als_conf conf = {
        .init = { .tensor = e->tensor,
                  .backend = e->backend,
                  .be = r->be,
                  .rank = args->rank,
                  .threads = e->threads,
                  .seed = args->seed,
                  .model = model,
                  .nvecs = starts_with_vectors(args),
                  .constraint = args->constraint,
                  .stop = tool_ranks_stop(),
                  .own_stop = &tool_stop },
        .feed = e->feed,
        .precision = args->precision,
        .iters = args->iters,
        .inner = args->inner,
        .tol = args->tol,
        .accelerate = args->accelerate,
        .hold_out = { .share = args->held_share, .seed = args->seed, .from = args->held_from },
        .patience = args->patience,
        .whole_start = args->save_init,
        .mode = cp_report_mode,
        .each_mode = args->details && args->json,
        .all_ranks = args->details || args->json,
        .sweep = cp_report_sweep,
        .ctx = r,
        .trace = r->trace,
        .checkpoint = run->checkpoint,
        .from = args->from != NULL ? args->from->file : NULL,
    };
    conf.started = conf.from == NULL && ts_init_is_computed(&conf.init) ? take_computed : NULL;
    return conf;
}

/* What the run came to: its factors, or how to go on. */
static int take_result(struct cp_run *run, int rc, struct ts_err *err)
{
    struct cp_report *r = run->report;
    const char *out_dir = run->out == NULL ? NULL : run->mc->dir;
    struct ts_als_result result = { 0 };
    if (rc == TS_ESTOP)
        tool_ranks_stopped();
    if (rc == 0)
        rc = ts_als_result(run->als, &result, err);
    ts_als_free(run->als);
    run->als = NULL;
    cp_report_end(r);
    if (rc < 0)
        return end_early(r, run->checkpoint, run->out, out_dir, ts_clock_ns() - run->start_ns, rc,
                         err);
    if (run->out != NULL)
        rc = add_record(r, run->out,
                        result.exact       ? "exact"
                        : result.converged ? "converged"
                        : result.overfits  ? "held-out error no longer falls"
                                           : "iterations",
                        &result, err);
    if (run->out != NULL && rc == 0)
        rc = write_factors(r, &result, run->out, out_dir, err);
    if (rc < 0 && run->checkpoint != NULL) {
        ts_checkpoint_rescue(run->checkpoint);
        rc = end_early(r, run->checkpoint, run->out, out_dir, ts_clock_ns() - run->start_ns, rc,
                       err);
    } else if (rc == 0) {
        cp_report_done(r, &result, out_dir, ts_clock_ns() - run->start_ns);
        if (r->model != NULL) { /* the table of all models tells */
            free(result.weight);
            result.weight = result.norm = NULL;
            r->model->result = result;
            return 0;
        }
        note_dead(r, &result);
        note_tolerance(r, &result, out_dir);
        note_slow(r, &result, out_dir);
        rc = tool_flushed(err);
    }
    free(result.weight);
    return rc;
}

static void start_status(struct cp_report *r, const char *path, const char *out,
                         const char *partial)
{
    const struct cp_args *args = r->args;
    struct status_file *s = r->status;
    s->run.partial = partial;
    s->run.opts = r->cmd->opts;
    s->run.args = r->args;
    s->run.tensor = path;
    s->run.out = out;
    s->run.iters = r->iters;
    s->run.order = r->engine->tensor->order;
    s->progress = &r->progress;
    if (r->model != NULL) {
        s->run.out = r->model->out;
        s->run.model = r->model->number;
        s->run.n_models = r->model->n;
        s->run.at_once = r->model->at_once;
    }
    status_file_start(s, r->sweeps_done + 1);
    if (args->from != NULL)
        ts_run_status_mode(&s->run, ts_state_get(args->from->file)->mode + 1);
}

struct ts_run_record cp_run_record(const struct ts_cmd *cmd, const struct cp_args *args,
                                   const struct ts_engine *e)
{
    return (struct ts_run_record){ .interface = "program",
                                   .version = tool_version(),
                                   .commit = tool_commit(),
                                   .opts = cmd->opts,
                                   .args = args,
                                   .engine = e };
}

struct ts_engine_conf cp_run_engine(const struct cp_args *args, const char *path,
                                    struct cp_report *r)
{
    return (struct ts_engine_conf){ .path = path,
                                    .stop = &tool_stop,
                                    .comm = tool_ranks(),
                                    .rank = args->rank,
                                    .threads = args->threads,
                                    .precision = args->precision,
                                    .host_bytes = args->host_bytes,
                                    .constraint = args->constraint,
                                    .accelerate = args->accelerate,
                                    .n_named = args->n_named,
                                    .processor = args->processor,
                                    .only_mode = -1,
                                    .copy = !args->no_output && args->checkpoint_ns > 0,
                                    .done = cp_report_count,
                                    .done_ctx = r };
}

struct cp_report cp_run_report(const struct ts_cmd *cmd, const struct cp_args *args,
                               const struct ts_engine *e, struct ts_run_record *record,
                               struct status_file *status)
{
    return (struct cp_report){ .cmd = cmd,
                               .args = args,
                               .record = record,
                               .json = args->json,
                               .details = args->details,
                               .poisson = args->poisson,
                               .observed = args->observed,
                               .held_out = args->hold_out != NULL || args->folds > 0,
                               .descends = args->constraint[0].loss != TS_GCP_NONE,
                               .penalty = ts_constraint_penalty(args->constraint, TS_MAX_ORDER) ||
                                          args->constraint[0].loss != TS_GCP_NONE,
                               .iters = args->iters,
                               .engine = e,
                               .status = status };
}

void cp_run_note(const struct ts_cmd *cmd, const struct cp_args *args, const struct ts_engine *e)
{
    char note[512];
    engine_note_processor(cmd, e);
    cp_constraint_note(args, e->tensor, note, sizeof note);
    if (note[0] != '\0')
        tool_note(cmd, "%s", note);
    for (uint32_t m = 0; m < e->tensor->order; m++)
        if (cp_constraint_smooth_note(args, e->tensor, m, note, sizeof note))
            tool_note(cmd, "%s", note);
}

/* Frees what the run held. */
static int close_run(struct cp_run *run, int rc, const struct ts_err *err)
{
    struct cp_report *r = run->report;
    ts_als_free(run->als);
    ts_checkpoint_free(run->checkpoint);
    status_file_remove(r->status); /* or it would appear again in what is being cleared */
    ts_model_end(run->out);
    if (r->stopped)
        status_file_end(r->status, "stopped", err->text);
    else
        status_file_end(r->status, rc == 0 ? NULL : "failed", rc == 0 ? NULL : err->text);
    free(run->partial);
    memset(run, 0, sizeof *run);
    return rc;
}

void cp_run_lead(struct cp_run *run, const char *path)
{
    struct cp_report *r = run->report;
    if (!r->beside)
        return;
    start_status(r, path, run->mc->dir, run->partial);
    cp_report_lead(r);
}

int cp_run_begin(struct cp_run *run, struct cp_report *r, struct ts_model_conf *mc,
                 struct ts_model *model, const char *path, struct ts_err *err)
{
    const struct ts_engine *e = r->engine;
    const struct cp_args *args = r->args;
    int rc = 0;
    *run = (struct cp_run){ .report = r, .mc = mc };
    if (r->be == NULL)
        r->be = e->be;
    mc->rank = args->rank + (uint32_t)ts_constraint_mean(args->constraint);
    mc->shape = ts_model_shape_of(e->tensor);
    mc->used_rows = tstream_cp_used_rows(args, e->tensor);
    mc->threads = e->threads;
    if (!args->no_output)
        rc = open_out(run, err);
    if (run->out != NULL && mc->used_rows && args->rows == TSTREAM_ROWS_AUTO &&
        (r->model == NULL || r->model->first))
        tool_note(r->cmd, "most rows would be zeros: those of used slices alone are written, with "
                          "files that name their indices (--rows all writes all)");
    if (rc == 0 && run->out != NULL) /* the status lies beside all models */
        run->partial = r->model == NULL
                           ? strdup(ts_model_partial(run->out))
                           : strndup(mc->dir, strlen(mc->dir) - strlen(r->model->name) - 1);
    if (rc == 0 && run->out != NULL)
        rc = open_checkpoint(r, run->out, mc->dir, path, &run->checkpoint, err);
    if (rc == 0)
        rc = ts_run_record_start(r->record, path, err);
    if (rc == 0 && args->from != NULL)
        ts_run_record_recall(r->record, ts_state_get(args->from->file));
    if (rc < 0)
        return close_run(run, rc, err);
    r->out = run->out;
    cp_report_start(r, path);
    if (!r->beside)
        start_status(r, path, mc->dir, run->partial);
    run->start_ns = ts_clock_ns();
    run->conf = als_conf(run, model);
    rc = ts_als_new(&run->conf, &run->als, err);
    return rc < 0 ? cp_run_end(run, rc, err) : 0;
}

int cp_run_alone(struct cp_run *run, struct ts_err *err)
{
    int rc;
    while ((rc = ts_als_next(run->als, err)) > 0) {
        rc = ts_als_multiply(run->als, err);
        if (rc < 0) {
            ts_als_fail(run->als, rc);
            break;
        }
    }
    return rc;
}

int cp_run_end(struct cp_run *run, int rc, struct ts_err *err)
{
    return close_run(run, take_result(run, rc, err), err);
}

int cp_run(struct cp_report *r, struct ts_model_conf *mc, struct ts_model *model, const char *path,
           struct ts_err *err)
{
    struct cp_run run;
    int rc = cp_run_begin(&run, r, mc, model, path, err);
    if (rc < 0 || run.report == NULL) /* it was ended there */
        return rc;
    return cp_run_end(&run, cp_run_alone(&run, err), err);
}
