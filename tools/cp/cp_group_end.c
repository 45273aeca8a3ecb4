/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends a run of several models: puts their table in place, or says how to resume. */
#include "tools/cp/cp_group_end.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/cp/cp_folds.h"
#include "tools/cp/cp_models.h"
#include "tools/common/tool_ranks.h"
#include "tools/common/tool_version.h"

static void print_end(const struct cp_group *s)
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
    if (tool_quiet())
        return;
    printf("\n");
    cp_models_print_ranks(m);
    printf("%u models, %s, in %s\n", m->n, ts_num_duration(time, ts_clock_ns() - s->start_ns),
           tool_plain(s->named, plain, sizeof plain));
}

/* Prints a note on components that are zero, if there are constraints: these may make components
 * zero. Without constraints, a zero column is the best fit. */
static void note_dead(const struct cp_group *s)
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
    const struct cp_group *s = ctx;
    return ts_model_open_inside(s->all.in, s->models.row[row].name, ret, err);
}

/* Finishes a run of several models, all of which are done. */
int cp_group_finish(struct cp_group *s, struct ts_err *err)
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
                   0); /* remove the status that an earlier process saved */
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

/* Writes the file status.json after a stop between two models, or before the first sweep of a
 * model, in the same form as after a stop within a model. */
static void tell_status(struct cp_group *s, const char *state, const char *sentence)
{
    struct cp_member *o = cp_member_lead(s);
    struct ts_run_status *f = &o->run.status;
    if (f->told || !cp_member_kept(s) || s->all.dir == NULL || s->all.in == NULL ||
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

/* Adds to the message in *err how to resume the run. The end of --max-time is no failure if the run
 * can be resumed: prints the message and returns 0. */
int cp_group_end_early(struct cp_group *s, int rc, struct ts_err *err)
{
    const char *resume = cp_member_kept(s) ? s->named : NULL;
    struct cp_member *o = cp_member_lead(s);
    const int hinted = o->model.hinted;
    o->model.kept |= cp_member_kept(s);
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
        return 0; /* rank 0, the process that writes files, reports the end */
    if (ts_stop_number(&tool_stop) != SIGALRM || (!hinted && resume == NULL) ||
        strstr(err->text, "nothing was saved") != NULL)
        return rc;
    tool_note(s->cmd, "the time of --max-time is over: %s", err->text);
    return tool_flushed(err);
}

/* Ends a run in which no model was opened. The files of a run that was to be resumed stay
 * unchanged. */
int cp_group_end_unopened(struct cp_group *s, int rc, struct ts_err *err)
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
