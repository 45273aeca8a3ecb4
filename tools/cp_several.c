/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes several models of a tensor, side by side or one after another, and puts them in place together. */
#include "tools/cp_several.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/cp_folds.h"
#include "tools/cp_models.h"
#include "tools/cp_run.h"
#include "tools/cp_starts.h"
#include "tools/tool_ranks.h"
#include "tools/tool_term.h"
#include "tools/tool_version.h"
#include "tools/tstream_operand.h"
#include "tools/tstream_ranks.h"

/* A model under way. */
struct one {
    uint32_t row; /* of the table */
    struct cp_args own;     /* its from is NULL or the next: */
    struct ts_resume state; /* that it goes on from */
    char fold[TS_HOLD_OUT_CHARS]; /* its --hold-out, where it is of folds */
    char *dir;
    struct ts_model_conf mc;
    struct cp_report report; /* stays where it is while the engine is open */
    struct cp_model model;
    struct ts_run run;      /* not under way where it is over, or was not begun */
    struct ts_model *start; /* NULL: it is drawn, or a state has it */
};

struct several {
    const struct ts_cmd *cmd;
    const struct cp_args *args;
    const char *path; /* of the tensor */
    struct ts_tensor *tensor;
    char *named; /* X.cp */
    char *partial;
    struct ts_run_several all; /* its dir is NULL where this rank writes nothing */
    struct ts_models_table models;
    char **start;                         /* of each model the file that it starts from, or NULL */
    uint32_t n_done, n_printed, next_row; /* next_row: the first that was not printed */
    uint32_t n_empty,
        n_dying; /* models of which nothing is left; others in which components died */
    int started; /* a model was begun in this process */
    uint64_t start_ns;

    struct ts_engine engine;
    int open;

    struct one *one; /* those computed at once, TS_RUN_AT_ONCE */
    int headed;
};

/* The model that progress and status tell of; at the end the one that a sentence tells of. */
static struct one *lead_of(const struct several *s)
{
    return &s->one[s->all.lead];
}

/* ---- the directory ---- */

static int open_dir(struct several *s, struct ts_err *err)
{
    char *options = NULL;
    uint64_t bytes = 0;
    int rc = 0;
    if (asprintf(&s->partial, "%s.partial", s->named) < 0) {
        s->partial = NULL;
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", s->named);
    }
    if (!tool_ranks_speaks() || !tstream_cp_writes(s->args))
        return 0;
    rc = tstream_resume_record(s->cmd, s->args, 1, s->path, &options, &bytes, err);
    if (rc == 0)
        rc = ts_run_several_open(&s->all, s->named, s->args->force, s->args->models_from, options,
                                 bytes, err);
    free(options);
    return rc;
}

/* The rows of models that are done, up to the first that is not. */
static void print_rows(struct several *s)
{
    for (; s->next_row < s->models.n && s->models.row[s->next_row].done; s->next_row++)
        if (s->models.folds)
            cp_folds_print_row(&s->models, s->next_row, s->args->json);
        else if (!s->args->json)
            cp_models_print_row(&s->models, s->next_row, s->n_printed++ == 0 || s->args->details);
}

/* What is to be told of a model that is done, by whom tells it. */
static int take_done(struct several *s, uint32_t row, struct ts_err *err)
{
    s->n_done++;
    return ts_run_several_take(&s->all, row, err);
}

static void count_dead(struct several *s, uint32_t row, uint32_t n_dead)
{
    const int empty = n_dead == s->models.row[row].rank;
    s->n_empty += (uint32_t)empty;
    s->n_dying += (uint32_t)(n_dead > 0 && !empty);
}

/* The same of one that was computed here, and may be written nowhere. */
static int take_result(struct several *s, uint32_t row, const struct ts_solver_result *r,
                       struct ts_err *err)
{
    struct ts_models_row *to = &s->models.row[row];
    to->fit = r->fit;
    to->held_out = r->held_out;
    to->held_out_loss = r->held_out_loss;
    to->n_sweeps = r->sweeps;
    to->best_sweep = r->best_sweep;
    count_dead(s, row, r->n_dead);
    return take_done(s, row, err);
}

/* Models that an earlier process finished: of several ranks the one that writes knows. rc: what came before. */
static int find_done(struct several *s, int rc, struct ts_err *err)
{
    unsigned char *done = calloc(s->models.n + UINT64_C(1), 1);
    if (rc == 0 && done == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", s->named);
    for (uint32_t i = 0; i < s->models.n && rc == 0; i++)
        done[i] = (unsigned char)ts_run_several_has(&s->all, i);
    rc = tool_ranks_tell(rc, done, s->models.n, err);
    for (uint32_t i = 0; i < s->models.n && rc == 0; i++)
        if (done[i]) {
            rc = take_done(s, i, err);
            count_dead(s, i, s->models.row[i].n_dead);
        }
    free(done);
    return rc;
}

static int find_starts(struct several *s, struct ts_err *err)
{
    const uint32_t n = s->models.n;
    uint32_t found = 0;
    int rc = cp_starts_find(s->args, &s->models, &s->start, err);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        found += s->start[i] != NULL;
    if (rc == 0 && found > 0 && found < n && tool_ranks_speaks())
        tool_note(s->cmd, "%u of %u models start%s from %s, the others from random numbers", found,
                  n, found == 1 ? "s" : "", s->args->init);
    return rc;
}

/* ---- one model ---- */

/* Options as of a run of one model. */
static struct cp_args options_of(const struct several *s, const struct ts_models_row *row)
{
    const uint32_t i = (uint32_t)(row - s->models.row);
    struct cp_args own = *s->args;
    if (s->start[i] != NULL) {
        own.init = s->start[i];
        own.start_name = cp_starts_name(s->args, row);
    } else if (tstream_cp_init_is_file(&own) && !cp_starts_given(&own))
        own.init = "random";
    own.rank = row->rank;
    own.ranks = (struct ts_opt_numbers){ .n = 1, .at = { row->rank } };
    own.restarts = 1;
    own.folds = 0;
    own.diagnose = 0;
    own.seed = row->seed;
    return own;
}

/* Whether there is something to go on with, if the model under way has saved nothing. */
static int kept(const struct several *s)
{
    return tstream_cp_writes(s->args) && (s->n_done > 0 || s->args->models_from != NULL);
}

/* Stopped between its last sweep and its result, by a program whose states did not have the error at cells that are held out. */
static int lacks_error(const struct several *s, const struct one *o)
{
    return o->own.held_share > 0 && !cp_starts_given(s->args) &&
           (ts_state_get(o->own.from->file)->flags & TS_STATE_ENDED) != 0 &&
           !ts_state_get(o->own.from->file)->figured;
}

/* A state that is there and cannot be read is no reason to give up all models. */
static int find_state(struct several *s, struct one *o, struct ts_err *err)
{
    const int rc = ts_resume_open(o->dir, &o->state, err);
    if (rc == TS_ENOMEM || ts_models_run_check_place(s->args->models_from, err) < 0)
        return err->code;
    if (rc == TS_EARG) /* there is none */
        return 0;
    if (rc < 0) {
        tool_note(s->cmd, "%s; the model is computed from its start", err->text);
        o->mc.force = 1;
        return 0;
    }
    o->own.from = &o->state;
    if (lacks_error(s, o)) { /* the same bits from its start */
        o->own.from = NULL;
        ts_resume_close(&o->state);
        o->mc.force = 1;
        return 0;
    }
    if (o->own.from->damaged.code != 0)
        tool_note(s->cmd, "%s; going on from the state before it", o->own.from->damaged.text);
    o->report.sweeps_done = ts_state_get(o->own.from->file)->sweep - 1;
    o->mc.resume = 1;
    return 0;
}

/* Ranks read their states and starts before the one that writes begins to, and all have the same. */
static int check_state(const struct one *o, int rc, struct ts_err *err)
{
    char text[24] = "none";
    rc = tool_ranks_agree(rc, err);
    if (rc == 0 && o->start != NULL)
        snprintf(text, sizeof text, "%016" PRIx64, ts_model_sign(o->start));
    if (rc == 0 && o->own.from != NULL)
        snprintf(text, sizeof text, "%016" PRIx64, ts_state_sign(o->own.from->file));
    return rc == 0 ? tool_ranks_same("state or model to start from", text, err) : rc;
}

/* Which model it is; what it needs comes when it begins. */
static void name_one(struct several *s, struct one *o, uint32_t row)
{
    const struct ts_models_row *r = &s->models.row[row];
    *o = (struct one){ .row = row, .own = options_of(s, r) };
    o->model = (struct cp_model){ .place = { .out = s->named,
                                             .partial = s->partial,
                                             .number = row + 1,
                                             .n = s->models.n },
                                  .name = r->name,
                                  .rank = r->rank,
                                  .seed = r->seed,
                                  .kept = kept(s),
                                  .first = !s->started };
    s->started = 1;
    if (r->fold > 0) {
        ts_hold_out_fold(r->fold, s->models.restarts, o->fold);
        o->own.hold_out = o->fold;
        o->own.held_share = 1.0 / s->models.restarts;
        o->own.held_from = (double)(r->fold - 1) / s->models.restarts;
    }
}

static int begin_one(void *ctx, uint32_t k, struct ts_run **ret, struct ts_err *err)
{
    struct several *s = ctx;
    struct one *o = &s->one[k];
    int rc;
    *ret = &o->run;
    o->model.place.at_once = s->all.n > 1 ? s->all.n : 0;
    o->model.place.in = s->all.in;
    o->mc = (struct ts_model_conf){ .rank = o->own.rank,
                                    .precision = s->args->precision,
                                    .stop = &tool_stop };
    rc = ts_model_formats(s->args->format, &o->mc.formats, err);
    if (asprintf(&o->dir, "%s/%s", s->partial, o->model.name) < 0) {
        o->dir = NULL;
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", s->named);
    }
    o->mc.dir = o->dir;
    o->report = cp_run_report(s->cmd, &o->own, &s->engine, s->path);
    o->report.be = ts_engine_model(&s->engine, k);
    if (s->models.folds) /* what becomes of a fold is one event, or a number in the table */
        o->report.json = o->report.details = 0;
    o->report.model = &o->model;
    o->report.noted = !s->all.is_new || k > 0; /* what the engine read when it opened */
    o->report.beside = o->model.place.beside = k != s->all.lead;
    o->report.lead = &lead_of(s)->report;
    o->report.headed_by = s->all.n > 1 ? &s->headed : NULL;
    if (rc == 0 && s->args->models_from != NULL)
        rc = find_state(s, o, err);
    if (rc == 0 && o->own.from == NULL && cp_starts_given(s->args))
        rc = ts_fail(err, TS_EARG,
                     "%s: its models started from factors in the memory of a program, and %s has "
                     "no state: go on with that program",
                     s->named, o->model.name);
    if (rc == 0 && o->own.from == NULL && tstream_cp_init_is_file(&o->own))
        rc = cp_starts_model(&o->own, &o->start, err);
    rc = check_state(o, rc, err);
    return rc == 0 ? cp_run_begin(&o->run, &o->report, &o->mc, o->start, err) : rc;
}

static void close_one(void *ctx, uint32_t k)
{
    struct several *s = ctx;
    struct one *o = &s->one[k];
    o->own.from = NULL;
    ts_resume_close(&o->state);
    ts_model_close(o->start);
    o->start = NULL;
    free(o->dir);
    o->dir = NULL;
}

/* ---- those at once ---- */

static void count(void *ctx, uint64_t nnz)
{
    struct several *s = ctx;
    cp_report_count(&lead_of(s)->report, nnz);
}

static void close_engine(struct several *s)
{
    if (s->open)
        ts_engine_close(&s->engine);
    s->open = 0;
}

/* As many models at once as all ranks have memory for. */
static int open_alike(struct several *s, struct ts_engine_conf *ec, struct ts_err *err)
{
    int rc;
    for (;;) {
        uint32_t most, fewest = 0;
        rc = ts_engine_open(ec, &s->engine, err);
        s->open = rc == 0;
        most = rc == 0 ? s->engine.n_models : 0;
        fewest = most;
        rc = tool_ranks_least(rc, &fewest, err);
        most = UINT32_MAX - most; /* the least of these is of the one with most */
        if (rc == 0)
            rc = tool_ranks_least(0, &most, err);
        if (rc < 0 || UINT32_MAX - most == fewest)
            return rc;
        ec->n_models = fewest;
        close_engine(s);
    }
}

/* An engine for as many of these models as may be at once. */
static int open_engine(void *ctx, const uint32_t *ranks, uint32_t n, uint32_t *room,
                       struct ts_err *err)
{
    struct several *s = ctx;
    const struct one *lead = lead_of(s);
    struct ts_engine_conf ec = cp_run_engine(&lead->own, s->path, NULL);
    int rc;
    close_engine(s);
    ec.done = count;
    ec.done_ctx = s;
    ec.tensor = s->tensor;
    ec.n_models = n;
    ec.ranks = ranks;
    rc = open_alike(s, &ec, err);
    if (rc < 0)
        return rc;
    *room = s->engine.n_models;
    if (lead->model.first) {
        tstream_ranks_note(s->cmd, &s->engine);
        cp_run_note(s->cmd, &lead->own, &s->engine);
    }
    return 0;
}

static void take_lead(void *ctx, uint32_t k, uint32_t at_once)
{
    struct several *s = ctx;
    for (uint32_t i = 0; i < s->all.n; i++)
        s->one[i].model.place.at_once = at_once;
    cp_report_lead(&s->one[k].report);
    ts_run_lead(&s->one[k].run, at_once);
}

/* The same for all ranks. A rank's own sentence stays where it says more than what all have heard: how to go on. */
static int end_alike(int rc, struct ts_err *err)
{
    const struct ts_err own = *err;
    const int all = tool_ranks_agree(rc, err);
    if (rc < 0 && all == rc && strstr(err->text, own.text) == NULL)
        *err = own;
    return all;
}

/* Ranks exchange rows of other models next, and no failures: so they agree on this one's here. */
static int end_one(void *ctx, uint32_t k, int rc, struct ts_err *err)
{
    struct several *s = ctx;
    struct one *o = &s->one[k];
    const int early = rc < 0;
    rc = ts_run_end(&o->run, rc, err);
    if (early)
        return rc;
    if (rc == 0)
        rc = take_result(s, o->row, &o->model.result, err);
    rc = end_alike(rc, err);
    if (rc == 0)
        print_rows(s);
    return rc;
}

/* Whatever a model has saved is something to go on with. */
static void take_failure(void *ctx, int rc, int saved, struct ts_err *err)
{
    struct several *s = ctx;
    (void)rc;
    (void)err;
    for (uint32_t k = 0; k < s->all.n; k++)
        s->one[k].model.kept = saved || kept(s);
}

static void name_all(void *ctx)
{
    struct several *s = ctx;
    s->headed = 0;
    for (uint32_t k = 0; k < s->all.n; k++)
        name_one(s, &s->one[k], s->all.row[k]);
}

static int run_all(struct several *s, struct ts_err *err)
{
    int rc;
    print_rows(s);
    rc = ts_run_several_all(&s->all, err);
    close_engine(s);
    return rc;
}

/* ---- all of them ---- */

static void print_end(const struct several *s)
{
    const struct ts_models_table *m = &s->models;
    char time[TS_NUM_CHARS], plain[4096];
    struct tool_json j;
    if (m->folds) {
        cp_folds_print_end(m, s->all.dir != NULL ? s->named : NULL, ts_clock_ns() - s->start_ns,
                           s->args->json);
        return;
    }
    if (s->args->json) {
        tool_json_open(&j, stdout);
        tool_json_str(&j, "event", "models");
        tool_json_str(&j, "out", s->named);
        tool_json_f64(&j, "seconds", (double)(ts_clock_ns() - s->start_ns) * 1e-9);
        ts_models_table_json(m, &j);
        tool_json_close(&j);
        return;
    }
    printf("\n");
    cp_models_print_ranks(m);
    printf("%u models, %s, in %s\n", m->n, ts_num_duration(time, ts_clock_ns() - s->start_ns),
           tool_plain(s->named, plain, sizeof plain));
}

/* Constraints may leave less than was asked for; without any a column that is zero is what fits best. */
static void note_dead(const struct several *s)
{
    const struct cp_args *args = s->args;
    char room[CP_ADVICE_CHARS];
    if (!tool_ranks_speaks() || !ts_spec_any(&args->spec, TS_MAX_ORDER))
        return;
    if (s->n_empty > 0)
        tool_note(s->cmd, "nothing is left of %u of %u models: their components are zeros; %s",
                  s->n_empty, s->models.n, cp_run_empty_why(args, room, sizeof room));
    if (s->n_dying > 0)
        tool_note(s->cmd,
                  "components died in %u of %u models%s: their columns are zeros in some mode; %s",
                  s->n_dying, s->models.n,
                  s->all.dir != NULL ? ", as dead_components of models.tsv tells" : "",
                  cp_run_dead_advice(args, room, sizeof room));
}

static int open_model(void *ctx, uint32_t row, struct ts_model **ret, struct ts_err *err)
{
    const struct several *s = ctx;
    return ts_model_open_inside(s->all.in, s->models.row[row].name, ret, err);
}

/* With all models done. */
static int finish(struct several *s, struct ts_err *err)
{
    const struct ts_models_writer who = { .version = tool_version(),
                                          .commit = tool_commit(),
                                          .tensor = s->path,
                                          .opts = s->cmd->opts,
                                          .args = s->args };
    const char *dir = s->partial;
    struct ts_err warn = { 0 };
    uint32_t threads;
    int rc;
    if (s->all.dir == NULL) {
        note_dead(s);
        print_end(s);
        return tool_flushed(err);
    }
    rc = ts_threads_get(s->args->threads, 0, &threads, err);
    if (rc == 0)
        rc = ts_models_table_match(&s->models, open_model, s, threads, &tool_stop, err);
    if (rc == 0 && s->args->diagnose)
        rc = cp_models_diagnose(s->cmd, &s->models, s->all.in, s->tensor, threads, err);
    (void)unlinkat(ts_atomic_dir_fd(s->all.dir), TS_RUN_STATUS_NAME,
                   0); /* of a process before this one */
    if (rc == 0)
        rc = ts_models_table_write(&s->models, &who, s->tensor, ts_atomic_dir_fd(s->all.dir), dir,
                                   err);
    if (rc == 0)
        rc = ts_atomic_dir_commit(s->all.dir, &warn, err);
    tool_warn(s->cmd, &warn);
    if (rc < 0)
        return rc;
    tool_in_place(s->named);
    note_dead(s);
    print_end(s);
    return tool_flushed(err);
}

/* A stop between two models, or before the first sweep of one, is told of as one within a model is. */
static void tell_status(struct several *s, const char *state, const char *sentence)
{
    struct one *o = lead_of(s);
    struct ts_run_status *f = &o->run.status;
    if (f->told || !kept(s) || s->all.dir == NULL || s->all.in == NULL ||
        ts_open_dir_replaced(s->all.in))
        return;
    o->report.progress = (struct tool_progress){ 0 };
    *f = (struct ts_run_status){ .partial = s->partial,
                                 .in = ts_open_dir_fd(s->all.in),
                                 .opts = s->cmd->opts,
                                 .args = &o->own,
                                 .tensor = s->path,
                                 .out = s->named,
                                 .iters = o->own.iters,
                                 .order = s->tensor->order,
                                 .model = o->model.place.number,
                                 .n_models = o->model.place.n,
                                 .figures = cp_report_figures,
                                 .ctx = &o->report };
    ts_run_status_start(f, 1);
    ts_run_status_end(f, state, sentence);
}

/* How to go on. Time that is over is what the user wanted. */
static int end_early(struct several *s, int rc, struct ts_err *err)
{
    const char *resume = kept(s) ? s->named : NULL;
    struct one *o = lead_of(s);
    const int hinted = o->model.hinted;
    o->model.kept |= kept(s);
    cp_run_hint(&o->model, 0, 0, 0, err);
    tell_status(s, rc == TS_ESTOP ? "stopped" : "failed", err->text);
    if (rc != TS_ESTOP)
        return rc;
    if (!o->report.stopped) {
        o->report = cp_run_report(s->cmd, &o->own, &s->engine, s->path);
        o->report.model = &o->model;
        cp_report_stopped(&o->report, cp_run_stopped_by(), resume, 1, 0,
                          ts_clock_ns() - s->start_ns);
    }
    if (s->all.dir == NULL && ts_stop_number(&tool_stop) == SIGALRM)
        return 0; /* the rank that writes says what became of it */
    if (ts_stop_number(&tool_stop) != SIGALRM || (!hinted && resume == NULL) ||
        strstr(err->text, "nothing was saved") != NULL)
        return rc;
    tool_note(s->cmd, "the time of --max-time is over: %s", err->text);
    return tool_flushed(err);
}

/* The same where no model was opened: a run that is gone on with stays as it was. */
static int end_unopened(struct several *s, int rc, struct ts_err *err)
{
    const char *resume = s->args->models_from != NULL ? s->named : NULL;
    const char *quote = resume != NULL ? tstream_resume_quote(resume) : "";
    const size_t at = strlen(err->text);
    struct cp_report r = cp_run_report(s->cmd, s->args, &s->engine, s->path);
    if (rc != TS_ESTOP)
        return rc;
    if (resume == NULL)
        snprintf(err->text + at, sizeof err->text - at, "; nothing was saved");
    else
        snprintf(err->text + at, sizeof err->text - at, "; \"tstream cp --resume %s%s%s\" goes on",
                 quote, resume, quote);
    cp_report_stopped(&r, cp_run_stopped_by(), resume, 1, 0, ts_clock_ns() - s->start_ns);
    if (resume == NULL || ts_stop_number(&tool_stop) != SIGALRM || tool_ranks() != NULL)
        return rc;
    tool_note(s->cmd, "the time of --max-time is over: %s", err->text);
    return tool_flushed(err);
}

/* That of a dense tensor is told by its cells, and is to stand in the run's files from the beginning. */
static int find_checksum(const struct several *s, struct ts_err *err)
{
    uint32_t threads = 1;
    const int rc = ts_threads_get(s->args->threads, 0, &threads, err);
    return rc == 0 ? ts_dense_scan_alone(s->tensor, threads, &tool_stop, err) : rc;
}

/* Everything that can be refused is, before the work. */
static int check(const struct several *s, struct ts_err *err)
{
    const struct cp_args *args = s->args;
    int rc = 0;
    if (args->out != NULL)
        rc = tool_outside(args->out, s->path, err);
    if (rc == 0)
        rc = tool_reads(s->path, err);
    if (rc == 0 && args->models_from == NULL && tstream_cp_init_is_file(args))
        rc = tool_reads(args->init, err);
    if (rc == 0 && tstream_cp_writes(args))
        rc = tool_writes(s->named, ".partial", "--out", err);
    if (rc == 0 && args->models_from != NULL)
        rc = ts_models_run_check(args->models_from, s->path, s->tensor->hash, err);
    if (rc == 0 && args->n_named > s->tensor->order)
        rc = ts_fail(err, TS_EARG, "%s: there is no mode %u, only %u", s->path, args->n_named,
                     s->tensor->order);
    if (rc == 0)
        rc = ts_spec_check(&args->spec, s->tensor->order, err);
    if (rc == 0 && args->diagnose)
        rc = cp_models_may_diagnose(args, s->tensor, err);
    return rc;
}

static int list_models(struct several *s, struct ts_err *err)
{
    const struct cp_args *args = s->args;
    s->all = (struct ts_run_several){ .tensor = s->tensor,
                                      .table = &s->models,
                                      .holds_out = args->folds > 0 || args->hold_out != NULL,
                                      .tells_one = 1,
                                      .stop = &tool_stop,
                                      .front = { .chosen = name_all,
                                                 .open = open_engine,
                                                 .begin = begin_one,
                                                 .end = end_one,
                                                 .lead = take_lead,
                                                 .failing = take_failure,
                                                 .close = close_one,
                                                 .ctx = s } };
    return args->folds > 0 ? ts_models_table_new_folds(args->ranks.at, args->ranks.n, args->folds,
                                                       args->seed, &s->models, err)
                           : ts_models_table_new(args->ranks.at, args->ranks.n, args->restarts,
                                                 args->seed, &s->models, err);
}

int cp_several(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
               struct ts_err *err)
{
    struct several *s = calloc(1, sizeof *s);
    int rc;
    if (s == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    s->cmd = cmd;
    s->args = args;
    s->path = path;
    s->start_ns = ts_clock_ns();
    s->one = calloc(TS_RUN_AT_ONCE, sizeof *s->one);
    s->named = args->models_from != NULL ? strdup(args->models_from->dir)
               : args->out != NULL           ? strdup(args->out)
                                             : tstream_operand_swap(path, ".cp");
    if (args->max_time_ns > 0)
        tool_stop_after(args->max_time_ns);
    rc = s->one == NULL || s->named == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", path)
                                            : ts_tensor_open_any(path, &s->tensor, err);
    if (rc == 0 && s->tensor->dense != NULL)
        rc = find_checksum(s, err);
    if (rc == 0)
        rc = check(s, err);
    rc = tstream_cp_same_ranks(args, s->tensor, rc, err);
    if (rc == 0)
        rc = list_models(s, err);
    if (rc == 0)
        rc = find_starts(s, err);
    if (rc == 0)
        rc = open_dir(s, err);
    rc = find_done(s, rc, err);
    if (rc == 0) {
        /* where all are done already: what a stop tells of */
        name_one(s, s->one, s->models.n - 1);
        s->started = 0;
        rc = end_alike(run_all(s, err), err);
        if (rc == 0)
            rc = end_alike(tool_ranks_speaks() ? finish(s, err) : 0, err);
        if (rc == TS_ESTOP && tool_ranks() != NULL)
            tool_ranks_stopped();
        if (rc < 0)
            rc = end_early(s, rc, err);
    } else {
        rc = end_unopened(s, rc, err);
    }
    ts_run_several_close(&s->all);
    cp_starts_free(s->start, s->models.n);
    ts_models_table_free(&s->models);
    ts_tensor_close(s->tensor);
    free(s->named);
    free(s->partial);
    free(s->one);
    free(s);
    return rc;
}
