/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes one model with an open engine, and writes its result, states and record. */
#include "tools/cp/cp_run.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/cp/cp_constraint.h"
#include "tools/cp/cp_starts.h"
#include "tools/common/engine_note.h"
#include "tools/common/tool.h"
#include "tools/common/tool_ranks.h"
#include "tools/common/tool_version.h"

/* after this many sweeps without convergence, a note recommends --accelerate */
#define MANY_SWEEPS 20
/* after this many sweeps until convergence, a note recommends --accelerate as well */
#define LONG_SWEEPS 30
#define ROUGH_TOL   2e-4 /* a --tol larger than this part of the fit gets a note */

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

void cp_run_hint(struct cp_model *m, int saved, uint32_t sweep, uint32_t mode, struct ts_err *err)
{
    const char *quote = tstream_resume_quote(m->place.out);
    const size_t at = strlen(err->text);
    char place[64] = "";
    if (m->hinted || err->code == TS_EARG)
        return;
    m->hinted = 1;
    if (saved)
        snprintf(place, sizeof place, ", sweep %u, mode %u", sweep, mode + 1);
    if (saved || m->kept)
        snprintf(err->text + at, sizeof err->text - at,
                 "; \"tstream cp --resume %s%s%s\" goes on with model %u of %u%s", quote,
                 m->place.out, quote, m->place.number, m->place.n, place);
    else if (err->code == TS_ESTOP)
        snprintf(err->text + at, sizeof err->text - at, "; nothing was saved");
}

static void tell_stopped(struct cp_report *r, const struct ts_run_outcome *o)
{
    const struct cp_model *m = r->model;
    const char *resume = m != NULL && (o->saved || m->kept) ? m->place.out
                         : m == NULL && o->saved            ? r->out_dir
                                                            : NULL;
    if (m != NULL && !o->saved)
        cp_report_stopped(r, cp_run_stopped_by(), resume, 1, 0, o->total_ns);
    else
        cp_report_stopped(r, cp_run_stopped_by(), resume, o->sweep, o->mode, o->total_ns);
}

/* Adds to a message how to resume a run that ended early. The end of --max-time is not a failure;
 * with several models, it is reported when all have ended. */
static int end_early(struct cp_report *r, const struct ts_run_outcome *o, int rc,
                     struct ts_err *err)
{
    if (r->model != NULL)
        cp_run_hint(r->model, o->saved, o->sweep, o->mode, err);
    else if (rc != TS_EARG) /* with TS_EARG, the given options conflict with those of the state */
        tstream_resume_hint(o, r->out_dir, err);
    if (rc == TS_ESTOP)
        tell_stopped(r, o);
    if (r->model != NULL || rc != TS_ESTOP || tool_stop != SIGALRM ||
        !(o->saved || r->out_dir == NULL))
        return rc;
    tool_note(r->cmd, "the time of --max-time is over: %s", err->text);
    return tool_flushed(err);
}

int cp_run_unopened(struct cp_report *r, const struct ts_state_file *from, const char *dir,
                    uint64_t start_ns, int rc, struct ts_err *err)
{
    struct ts_run_outcome o = { .total_ns = ts_clock_ns() - start_ns };
    if (rc != TS_ESTOP)
        return rc;
    if (from != NULL)
        o = (struct ts_run_outcome){ .saved = 1,
                                     .sweep = ts_state_get(from)->sweep,
                                     .mode = ts_state_get(from)->mode,
                                     .total_ns = o.total_ns };
    r->out_dir = dir;
    rc = end_early(r, &o, rc, err);
    /* a stop is returned as a failure, so that the other ranks (processes) learn of it */
    return tool_ranks() != NULL ? TS_ESTOP : rc;
}

/* Whether the final state is kept, so that the run can be continued. */
static int is_kept(const struct cp_args *args, const char *out_dir)
{
    return out_dir != NULL && args->checkpoint_ns > 0;
}

static const char *how_to_go_on(const struct cp_args *args, const char *out_dir)
{
    return is_kept(args, out_dir) ? "--resume with" : "a run with";
}

/* Notes that --tol is large relative to a small fit: it is a change of the fit, so the run may end
 * long before the best fit. */
static void note_tolerance(const struct cp_report *r, const struct ts_solver_result *result,
                           const char *out_dir)
{
    const struct cp_args *args = r->args;
    if (r->poisson || r->descends || result->fit == 0 ||
        result->n_dead == args->rank) /* all components are zero: the fit cannot grow */
        return;
    if (!result->converged || result->exact || args->tol < ROUGH_TOL * fabs(result->fit))
        return;
    tool_note(
        r->cmd,
        "--tol %.3g is not small beside a fit of %.3g, which may still grow; %s --tol %.0g %s",
        args->tol, result->fit, how_to_go_on(args, out_dir), fabs(result->fit) * ROUGH_TOL / 10,
        is_kept(args, out_dir) ? "goes on" : "takes longer");
}

/* Notes ways to converge faster, after many sweeps, whether the run converged or not. */
static void note_slow(const struct cp_report *r, const struct ts_solver_result *result,
                      const char *out_dir)
{
    const struct cp_args *args = r->args;
    struct ts_err err;
    if (r->poisson || result->exact || result->overfits || args->tol == 0 ||
        result->sweeps < (result->converged ? LONG_SWEEPS : MANY_SWEEPS))
        return;
    if (r->descends && !result->converged)
        tool_note(r->cmd, "the loss still falls after %u sweep%s: %s a larger --iters %s",
                  result->sweeps, tool_plural(result->sweeps), how_to_go_on(args, out_dir),
                  is_kept(args, out_dir) ? "goes on" : "takes it further");
    else if (!r->descends && !args->accelerate &&
             ts_accelerate_check(&args->spec, TS_MAX_ORDER, &err) == 0)
        tool_note(r->cmd,
                  result->converged
                      ? "the fit took %u sweeps to settle: a run with --accelerate may take fewer"
                      : "the fit still grows after %u sweeps: a run with --accelerate takes fewer",
                  result->sweeps);
}

/* Returns the mode, from 1, whose bounds force all entries to be 0; 0: none. */
static uint32_t bound_to_zero(const struct cp_args *args)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        const struct ts_constraint *c = &args->spec.mode[m];
        if (c->bounded && (c->nonneg ? fmax(c->lower, 0) : c->lower) == 0 && c->upper == 0)
            return m + 1;
    }
    return 0;
}

static int is_bounded(const struct cp_args *args)
{
    int any = 0;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        any |= args->spec.mode[m].bounded;
    return any;
}

const char *cp_run_empty_why(const struct cp_args *args, char *room, size_t size)
{
    const uint32_t mode = bound_to_zero(args);
    if (mode > 0)
        snprintf(room, size, "the bounds of mode %u let no entry be anything but 0", mode);
    else if (ts_spec_penalty(&args->spec, TS_MAX_ORDER))
        snprintf(room, size, "give smaller penalties%s",
                 args->hold_out == NULL ? "" : ", unless all values that are not held out are 0");
    else
        snprintf(room, size, "no %s is left for them, or another --seed or --init may find one",
                 is_bounded(args) ? "part of the tensor within the bounds"
                                  : "positive part of the tensor");
    return room;
}

const char *cp_run_dead_advice(const struct cp_args *args, char *room, size_t size)
{
    const int penalty = ts_spec_penalty(&args->spec, TS_MAX_ORDER);
    snprintf(room, size, "a lower --rank%s %s%s may be better", penalty ? "," : " or",
             strcmp(args->init, "random") == 0 ? "another --seed"
                                               : "another start than that of --init",
             penalty ? " or smaller penalties" : "");
    return room;
}

static void note_dead(const struct cp_report *r, const struct ts_solver_result *result)
{
    const struct cp_args *args = r->args;
    char room[CP_ADVICE_CHARS];
    if (result->n_dead == result->n_dead_start || !result->constrained)
        return;
    if (result->n_dead == args->rank)
        tool_note(r->cmd, "nothing is left of the model: its components are zeros; %s",
                  cp_run_empty_why(args, room, sizeof room));
    else
        tool_note(r->cmd, "%u of %u components died: their columns are zeros in some mode; %s",
                  result->n_dead, args->rank, cp_run_dead_advice(args, room, sizeof room));
}

/* At a terminal, recommends other losses for tensors of counts, because the default is least
 * squares. */
static void note_counts(const struct cp_report *r)
{
    const struct ts_tensor *t = r->engine->tensor;
    const struct ts_disk_header *h = &t->header;
    const struct cp_args *args = r->args;
    if (!tool_is_screen() || tool_quiet() || args->json || args->observed || r->poisson ||
        r->descends || ts_spec_any(&args->spec, TS_MAX_ORDER) || args->from != NULL)
        return;
    if (t->dense != NULL || h->value_kind != TS_VALUE_INT || h->value_min < 0 ||
        ts_tensor_weighted(t))
        return;
    tool_note(r->cmd,
              "all values are whole numbers of 0 or more. If they are counts, --nonneg gives "
              "parts that add up, and --loss poisson fits counts");
}

/* ---- reports on the events of a run ---- */

static void tell_opened(struct cp_report *r)
{
    const struct cp_args *args = r->args;
    if (r->out_dir != NULL && args->rows == TSTREAM_ROWS_AUTO &&
        tstream_cp_used_rows(args, r->engine->tensor) && (r->model == NULL || r->model->first))
        tool_note(r->cmd, "most rows would be zeros: those of used slices alone are written, with "
                          "files that name their indices (--rows all writes all)");
}

static const char *stopped_by(void *ctx)
{
    (void)ctx;
    return cp_run_stopped_by();
}

/* Reports the end of a run: its factors, or how to resume it. */
static int tell_end(struct cp_report *r, int rc, const struct ts_run_outcome *o, struct ts_err *err)
{
    if (rc < 0)
        return end_early(r, o, rc, err);
    if (r->out_dir != NULL && r->model == NULL)
        tool_in_place(r->out_dir);
    cp_report_done(r, o->result, r->out_dir, o->total_ns);
    if (r->model != NULL) { /* the table of all models reports the result */
        r->model->result = *o->result;
        r->model->result.weight = r->model->result.norm = NULL;
        return 0;
    }
    note_dead(r, o->result);
    note_tolerance(r, o->result, r->out_dir);
    note_slow(r, o->result, r->out_dir);
    note_counts(r);
    return tool_flushed(err);
}

static int hear_run(void *ctx, const struct ts_run_event *e, struct ts_err *err)
{
    struct cp_report *r = ctx;
    switch (e->kind) {
    case TS_RUN_NOTE:
        tool_note(r->cmd, "%s", e->warn->text);
        break;
    case TS_RUN_OPENED:
        tell_opened(r);
        break;
    case TS_RUN_STARTED:
        cp_report_start(r);
        break;
    case TS_RUN_COMPUTED: /* from now on, progress is that of the first sweep */
        atomic_store(r->lead != NULL ? &r->lead->done_nnz : &r->done_nnz, 0);
        break;
    case TS_RUN_MODE:
        cp_report_mode(r, e->mode);
        break;
    case TS_RUN_SWEEP:
        cp_report_sweep(r, e->sweep);
        break;
    case TS_RUN_OVER:
        if (e->rc == TS_ESTOP)
            tool_ranks_stopped();
        cp_report_end(r);
        if (e->rc == 0)
            cp_report_write(r);
        break;
    case TS_RUN_ENDED:
        cp_report_written(r);
        return e->outcome->started ? tell_end(r, e->rc, e->outcome, err) : e->rc;
    }
    return 0;
}

/* ---- the run ---- */

static struct ts_solver_conf method_of(const struct cp_args *args, struct ts_model *start)
{
    return (struct ts_solver_conf){
        .init = { .rank = args->rank,
                  .seed = args->seed,
                  .model = start,
                  .nvecs = args->from == NULL && tstream_cp_init_is_nvecs(args),
                  .spec = &args->spec,
                  .stop = tool_ranks_stop(),
                  .own_stop = &tool_stop },
        .precision = args->precision,
        .iters = args->iters,
        .inner = args->inner,
        .tol = args->tol,
        .accelerate = args->accelerate,
        .hold_out = { .share = args->held_share, .seed = args->seed, .from = args->held_from },
        .patience = args->patience,
        .whole_start = args->save_init,
        .each_mode = args->details && args->json,
        .all_ranks = args->details || args->json,
    };
}

static struct ts_run_who who_of(const struct ts_cmd *cmd, const struct cp_args *args)
{
    return (struct ts_run_who){ .interface = "program",
                                .version = tool_version(),
                                .commit = tool_commit(),
                                .opts = cmd->opts,
                                .args = args };
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
                                    .spec = &args->spec,
                                    .accelerate = args->accelerate,
                                    .n_named = args->n_named,
                                    .processor = args->processor,
                                    .only_mode = -1,
                                    .copy = !args->no_output && args->checkpoint_ns > 0,
                                    .done = r != NULL ? cp_report_count : NULL,
                                    .done_ctx = r };
}

struct cp_report cp_run_report(const struct ts_cmd *cmd, const struct cp_args *args,
                               const struct ts_engine *e, const char *path)
{
    return (struct cp_report){ .cmd = cmd,
                               .args = args,
                               .path = path,
                               .given = { .args = args, .cmd = cmd },
                               .json = args->json,
                               .details = args->details,
                               .poisson = args->poisson,
                               .observed = args->observed,
                               .held_out = args->hold_out != NULL || args->folds > 0,
                               .descends = args->spec.loss != TS_GCP_NONE,
                               .penalty = ts_spec_penalty(&args->spec, TS_MAX_ORDER) ||
                                          args->spec.loss != TS_GCP_NONE,
                               .iters = args->iters,
                               .engine = e };
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

int cp_run_begin(struct ts_run *run, struct cp_report *r, const struct ts_model_conf *mc,
                 struct ts_model *start, struct ts_err *err)
{
    const struct cp_args *args = r->args;
    struct ts_run_conf conf = { .engine = r->engine,
                                .be = r->be != NULL ? r->be : r->engine->be,
                                .tensor = r->path,
                                .method = method_of(args, start),
                                .from = args->from,
                                .from_here =
                                    args->from != NULL && strcmp(mc->dir, args->from->dir) == 0,
                                .given = cp_starts_given_by(&r->given),
                                .out = *mc,
                                .every_ns = args->checkpoint_ns,
                                .who = who_of(r->cmd, args),
                                .place = r->model != NULL ? &r->model->place : NULL,
                                .listener = { .hear = hear_run,
                                              .stopped_by = stopped_by,
                                              .figures = cp_report_figures,
                                              .ctx = r } };
    char *options = NULL;
    int rc = 0;
    conf.method.trace = r->trace;
    r->out_dir = conf.out.dir = args->no_output ? NULL : mc->dir;
    conf.out.used_rows = tstream_cp_used_rows(args, r->engine->tensor);
    conf.out.no_labels = args->no_labels;
    if (conf.out.dir != NULL)
        rc = tstream_resume_record(r->cmd, args, 0, r->path, &options, &conf.options_bytes, err);
    conf.options = options;
    if (rc == 0)
        rc = ts_run_begin(run, &conf, err);
    free(options);
    return rc;
}

int cp_run(struct cp_report *r, const struct ts_model_conf *mc, struct ts_model *start,
           struct ts_err *err)
{
    struct ts_run *run = malloc(sizeof *run);
    int rc = run == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", r->path)
                         : cp_run_begin(run, r, mc, start, err);
    if (rc == 0 && ts_run_is_under_way(run)) /* the run may have ended in cp_run_begin */
        rc = ts_run_end(run, ts_run_alone(run, err), err);
    free(run);
    return rc;
}
