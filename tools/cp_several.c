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
#include "tools/hold_out_share.h"
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
    char fold[HOLD_OUT_CHARS]; /* its --hold-out, where it is of folds */
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
    struct ts_atomic_dir *dir; /* NULL: this rank writes nothing */
    struct ts_open_dir *in;    /* the same, to read what is in it */
    struct ts_models_table models;
    char **start;                         /* of each model the file that it starts from, or NULL */
    uint32_t n_done, n_printed, next_row; /* next_row: the first that was not printed */
    uint32_t n_empty,
        n_dying; /* models of which nothing is left; others in which components died */
    int started; /* a model was begun in this process */
    uint64_t start_ns;

    struct ts_engine engine;
    int open;
    uint32_t ranks[TSTREAM_MOST_AT_ONCE]; /* that it was opened for */

    /* what is computed at once */
    struct one *one; /* TSTREAM_MOST_AT_ONCE */
    uint32_t n_ones;
    struct one
        *lead; /* the one that progress and status tell of; at the end, that a sentence tells of */
    int headed;
};

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
    rc = ts_models_dir_open(s->named, s->args->force, s->args->models_from, 1, &s->dir, err);
    if (rc == 0)
        rc = ts_open_dir_at(ts_atomic_dir_fd(s->dir), s->partial, &s->in, err);
    if (rc == 0)
        rc = tstream_resume_record(s->cmd, s->args, 1, s->path, &options, &bytes, err);
    if (rc == 0)
        rc = ts_models_run_write(s->dir, options, bytes, s->tensor->hash, err);
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
    s->models.row[row].done = 1;
    return s->dir == NULL ? 0 : ts_models_table_read(&s->models, row, s->in, err);
}

static void count_dead(struct several *s, uint32_t row, uint32_t n_dead)
{
    const int empty = n_dead == s->models.row[row].rank;
    s->n_empty += (uint32_t)empty;
    s->n_dying += (uint32_t)(n_dead > 0 && !empty);
}

/* The same of one that was computed here, and may be written nowhere. */
static int take_result(struct several *s, uint32_t row, const struct ts_als_result *r,
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
    for (uint32_t i = 0; i < s->models.n && rc == 0 && s->dir != NULL; i++)
        done[i] = faccessat(ts_atomic_dir_fd(s->dir), s->models.row[i].name, F_OK, 0) == 0;
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
        hold_out_fold(r->fold, s->models.restarts, o->fold);
        o->own.hold_out = o->fold;
        o->own.held_share = 1.0 / s->models.restarts;
        o->own.held_from = (double)(r->fold - 1) / s->models.restarts;
    }
}

/* noted: what the engine read when it opened was told of. */
static int begin_one(struct several *s, struct one *o, int noted, struct ts_err *err)
{
    int rc;
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
    o->report.be = ts_engine_model(&s->engine, (uint32_t)(o - s->one));
    if (s->models.folds) /* what becomes of a fold is one event, or a number in the table */
        o->report.json = o->report.details = 0;
    o->report.model = &o->model;
    o->report.noted = noted;
    o->report.beside = o->model.place.beside = o != s->lead;
    o->report.lead = &s->lead->report;
    o->report.headed_by = s->n_ones > 1 ? &s->headed : NULL;
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

static void close_one(struct one *o)
{
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
    cp_report_count(&s->lead->report, nnz);
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

/* An engine for as many of these models as may be at once; the one that is open, where it will do. */
static int open_engine(struct several *s, const uint32_t *ranks, uint32_t n, int *opened,
                       struct ts_err *err)
{
    struct ts_engine_conf ec;
    int rc, same = s->open;
    for (uint32_t k = 0; same && k < n && k < s->engine.n_models; k++)
        same = ranks[k] == s->ranks[k];
    if (same)
        return 0;
    close_engine(s);
    ec = cp_run_engine(&s->lead->own, s->path, NULL);
    ec.done = count;
    ec.done_ctx = s;
    ec.tensor = s->tensor;
    ec.n_models = n;
    ec.ranks = ranks;
    rc = open_alike(s, &ec, err);
    *opened = rc == 0;
    memcpy(s->ranks, ranks, n * sizeof *ranks);
    if (rc == 0 && s->lead->model.first) {
        tstream_ranks_note(s->cmd, &s->engine);
        cp_run_note(s->cmd, &s->lead->own, &s->engine);
    }
    return rc;
}

/* The first that is not over leads. */
static void choose_lead(struct several *s)
{
    uint32_t k = 0, n = 0;
    for (uint32_t i = s->n_ones; i-- > 0;)
        if (ts_run_is_under_way(&s->one[i].run)) {
            k = i;
            n++;
        }
    if (n == 0)
        return;
    s->lead = &s->one[k];
    for (uint32_t i = 0; i < s->n_ones; i++)
        s->one[i].model.place.at_once = n;
    cp_report_lead(&s->lead->report);
    ts_run_lead(&s->lead->run, n);
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

/* For ts_als_group_run: model k has made its sweeps. Ranks exchange rows of other models next, with no word on failures: so
 * this one's is told here. */
static int end_one(void *ctx, uint32_t k, struct ts_err *err)
{
    struct several *s = ctx;
    struct one *o = &s->one[k];
    int rc = ts_run_end(&o->run, 0, err);
    if (rc == 0)
        rc = take_result(s, o->row, &o->model.result, err);
    rc = end_alike(rc, err);
    if (rc < 0)
        return rc;
    print_rows(s);
    choose_lead(s);
    return 0;
}

/* All that are not over end here: `failed` (or, with n_ones, all of them) because of rc. Whatever they have saved is something to
 * go on with. */
static void end_all(struct several *s, uint32_t failed, int rc, struct ts_err *err)
{
    struct one *told = failed < s->n_ones && rc != TS_ESTOP ? &s->one[failed] : s->lead;
    const struct ts_err why = *err;
    int saved = kept(s);
    for (uint32_t k = 0; k < s->n_ones; k++)
        saved |= ts_run_has_saved(&s->one[k].run);
    for (uint32_t k = 0; k < s->n_ones; k++) {
        struct one *o = &s->one[k];
        struct ts_err own = why;
        o->model.kept = saved;
        if (ts_run_is_under_way(&o->run))
            (void)ts_run_end(&o->run, rc, &own);
        if (o == told)
            *err = own;
    }
    s->lead = told;
}

static int run_at_once(struct several *s, int opened, struct ts_err *err)
{
    struct ts_als *run[TSTREAM_MOST_AT_ONCE];
    uint32_t failed = s->n_ones;
    int rc = 0;
    for (uint32_t k = 0; k < s->n_ones && rc == 0; k++) {
        s->one[k].model.place.at_once = s->n_ones > 1 ? s->n_ones : 0;
        rc = begin_one(s, &s->one[k], !opened || k > 0, err);
        run[k] = s->one[k].run.als;
        failed = rc < 0 ? k : failed;
    }
    if (rc == 0 && s->n_ones > 1) {
        rc = ts_als_group_run(run, s->n_ones, end_one, s, &failed, err);
    } else if (rc == 0) {
        rc = ts_run_alone(&s->one[0].run, err);
        failed = 0;
        rc = rc == 0 ? end_one(s, 0, err) : rc;
    }
    if (rc < 0)
        end_all(s, failed, rc, err);
    for (uint32_t k = 0; k < s->n_ones; k++)
        close_one(&s->one[k]);
    return rc;
}

/* The models that come next, as many as may be at once: those of one pass leave the same cells out. */
static int run_next(struct several *s, uint32_t row, struct ts_err *err)
{
    const int held = s->models.folds || s->args->hold_out != NULL;
    const uint32_t first = row;
    uint32_t ranks[TSTREAM_MOST_AT_ONCE], n = 0;
    int rc, opened = 0;
    for (; row < s->models.n && n < TSTREAM_MOST_AT_ONCE; row++)
        if (!s->models.row[row].done &&
            (!held || ts_models_table_same_cells(&s->models, first, row))) {
            ranks[n] = s->models.row[row].rank;
            name_one(s, &s->one[n++], row);
        }
    s->lead = &s->one[0];
    s->headed = 0;
    rc = ts_stop_check(&tool_stop, err);
    if (rc == 0)
        rc = open_engine(s, ranks, n, &opened, err);
    if (rc < 0)
        return rc;
    s->n_ones = n < s->engine.n_models ? n : s->engine.n_models;
    return run_at_once(s, opened, err);
}

static int run_all(struct several *s, struct ts_err *err)
{
    int rc = 0;
    print_rows(s);
    while (s->next_row < s->models.n && rc == 0)
        rc = run_next(s, s->next_row, err);
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
        cp_folds_print_end(m, s->dir != NULL ? s->named : NULL, ts_clock_ns() - s->start_ns,
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
                  s->dir != NULL ? ", as dead_components of models.tsv tells" : "",
                  cp_run_dead_advice(args, room, sizeof room));
}

static int open_model(void *ctx, uint32_t row, struct ts_model **ret, struct ts_err *err)
{
    const struct several *s = ctx;
    return ts_model_open_inside(s->in, s->models.row[row].name, ret, err);
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
    if (s->dir == NULL) {
        note_dead(s);
        print_end(s);
        return tool_flushed(err);
    }
    rc = ts_threads_get(s->args->threads, 0, &threads, err);
    if (rc == 0)
        rc = ts_models_table_match(&s->models, open_model, s, threads, &tool_stop, err);
    if (rc == 0 && s->args->diagnose)
        rc = cp_models_diagnose(s->cmd, &s->models, s->in, s->tensor, threads, err);
    (void)unlinkat(ts_atomic_dir_fd(s->dir), TS_RUN_STATUS_NAME,
                   0); /* of a process before this one */
    if (rc == 0)
        rc = ts_models_table_write(&s->models, &who, s->tensor, ts_atomic_dir_fd(s->dir), dir, err);
    if (rc == 0)
        rc = ts_atomic_dir_commit(s->dir, &warn, err);
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
    struct one *o = s->lead;
    struct ts_run_status *f = &o->run.status;
    if (f->told || !kept(s) || s->dir == NULL || s->in == NULL || ts_open_dir_replaced(s->in))
        return;
    o->report.progress = (struct tool_progress){ 0 };
    *f = (struct ts_run_status){ .partial = s->partial,
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
    struct one *o = s->lead;
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
    if (s->dir == NULL && ts_stop_number(&tool_stop) == SIGALRM)
        return 0; /* the rank that writes says what became of it */
    if (ts_stop_number(&tool_stop) != SIGALRM || (!hinted && resume == NULL) ||
        strstr(err->text, "nothing was saved") != NULL)
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
    s->one = calloc(TSTREAM_MOST_AT_ONCE, sizeof *s->one);
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
        rc = args->folds > 0 ? ts_models_table_new_folds(args->ranks.at, args->ranks.n, args->folds,
                                                         args->seed, &s->models, err)
                             : ts_models_table_new(args->ranks.at, args->ranks.n, args->restarts,
                                                   args->seed, &s->models, err);
    if (rc == 0)
        rc = find_starts(s, err);
    if (rc == 0)
        rc = open_dir(s, err);
    rc = find_done(s, rc, err);
    if (rc == 0) {
        s->lead = s->one;
        name_one(s, s->lead,
                 s->models.n - 1); /* where all are done already: what a stop tells of */
        s->started = 0;
        rc = end_alike(run_all(s, err), err);
        if (rc == 0)
            rc = end_alike(tool_ranks_speaks() ? finish(s, err) : 0, err);
        if (rc == TS_ESTOP && tool_ranks() != NULL)
            tool_ranks_stopped();
        if (rc < 0)
            rc = end_early(s, rc, err);
    }
    ts_open_dir_close(s->in);
    ts_atomic_dir_close(s->dir);
    cp_starts_free(s->start, s->models.n);
    ts_models_table_free(&s->models);
    ts_tensor_close(s->tensor);
    free(s->named);
    free(s->partial);
    free(s->one);
    free(s);
    return rc;
}
