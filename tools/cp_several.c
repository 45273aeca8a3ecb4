/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes several models of a tensor, one after another, and puts them in place together. */
#include "tools/cp_several.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/cp_models.h"
#include "tools/cp_run.h"
#include "tools/tool_term.h"
#include "tools/tstream_operand.h"

struct several {
    const struct ts_cmd *cmd;
    const struct cp_args *args;
    const char *path; /* of the tensor */
    struct ts_tensor *tensor;
    char *named; /* X.cp */
    struct ts_atomic_dir *dir;
    struct cp_models models;
    uint32_t n_done, n_printed;
    int started; /* a model was begun in this process */
    uint64_t start_ns;

    /* of the rank under way */
    struct cp_args own;
    struct ts_engine engine;
    int open;
    struct status_file *status;
    struct ts_run_record record;
    struct cp_report report; /* stays where it is while the engine is open */
    struct cp_model model;
};

/* ---- the directory ---- */

static int open_dir(struct several *s, struct ts_err *err)
{
    const struct ts_atomic_conf conf = { .path = s->named,
                                         .suffix = ".partial",
                                         .place = "--out",
                                         .what = "decomposition",
                                         .force = s->args->force,
                                         .resume = s->args->models_from.dir != NULL,
                                         .resumable = 1,
                                         .kind = ts_model_kind_of };
    int rc = ts_atomic_dir_open(&conf, &s->dir, err);
    if (rc == 0)
        rc = cp_models_run_write(s->cmd, s->args, s->path, s->tensor->hash,
                                 ts_atomic_dir_fd(s->dir), ts_atomic_dir_partial(s->dir), err);
    return rc;
}

static void print_row(struct several *s, uint32_t i)
{
    if (!s->args->json)
        cp_models_print_row(&s->models, i, s->n_printed++ == 0 || s->args->details);
}

/* Models that an earlier process finished. */
static int find_done(struct several *s, struct ts_err *err)
{
    const char *dir = ts_atomic_dir_partial(s->dir);
    int rc = 0;
    for (uint32_t i = 0; i < s->models.n && rc == 0; i++) {
        if (faccessat(ts_atomic_dir_fd(s->dir), s->models.row[i].name, F_OK, 0) != 0)
            continue;
        rc = cp_models_read(&s->models, i, dir, err);
        s->n_done++;
    }
    return rc;
}

/* ---- one model ---- */

/* Options as of a run of one model. */
static struct cp_args options_of(const struct several *s, uint32_t rank)
{
    struct cp_args own = *s->args;
    own.rank = rank;
    own.ranks = (struct ts_opt_numbers){ .n = 1, .at = { rank } };
    own.restarts = 1;
    own.diagnose = 0;
    return own;
}

static int open_engine(struct several *s, uint32_t rank, struct ts_err *err)
{
    struct ts_engine_conf ec;
    int rc;
    s->own = options_of(s, rank);
    ec = cp_run_engine(&s->own, s->path, &s->report);
    ec.tensor = s->tensor;
    rc = ts_engine_open(&ec, &s->engine, err);
    s->open = rc == 0;
    if (rc == 0 && !s->started)
        cp_run_note(s->cmd, &s->own, &s->engine);
    return rc;
}

static void close_engine(struct several *s)
{
    if (s->open)
        ts_engine_close(&s->engine);
    s->open = 0;
}

/* A state that is there and cannot be read is no reason to give up all models. */
static int find_state(struct several *s, const char *dir, struct ts_model_conf *mc,
                      struct ts_err *err)
{
    const int rc = ts_resume_open(dir, &s->own.from, err);
    if (rc == TS_ENOMEM)
        return rc;
    if (rc == TS_EARG) /* there is none */
        return 0;
    if (rc < 0) {
        tool_note(s->cmd, "%s; the model is computed from its start", err->text);
        mc->force = 1;
        return 0;
    }
    if (s->own.from.damaged.code != 0)
        tool_note(s->cmd, "%s; going on from the state before it", s->own.from.damaged.text);
    s->report.sweeps_done = ts_state_get(s->own.from.file)->sweep - 1;
    mc->resume = 1;
    return 0;
}

static int run_model(struct several *s, uint32_t i, int first_of_engine, struct ts_err *err)
{
    const struct cp_models_row *row = &s->models.row[i];
    struct ts_model_conf mc = { .rank = row->rank,
                                .precision = s->args->precision,
                                .stop = &tool_stop };
    char *dir;
    int rc = ts_model_formats(s->args->format, &mc.formats, err);
    if (asprintf(&dir, "%s/%s", ts_atomic_dir_partial(s->dir), row->name) < 0)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", s->named);
    mc.dir = dir;
    s->own.seed = row->seed;
    memset(s->status, 0, sizeof *s->status);
    s->record = cp_run_record(s->cmd, &s->own, &s->engine);
    s->report = cp_run_report(s->cmd, &s->own, &s->engine, &s->record, s->status);
    s->report.model = &s->model;
    s->report.noted = !first_of_engine; /* what the engine read when it opened is told of once */
    if (rc == 0 && s->args->models_from.dir != NULL)
        rc = find_state(s, dir, &mc, err);
    if (rc == 0)
        rc = cp_run(&s->report, &mc, NULL, s->path, err);
    ts_resume_close(&s->own.from);
    ts_run_record_free(&s->record);
    free(dir);
    if (rc == 0)
        rc = cp_models_read(&s->models, i, ts_atomic_dir_partial(s->dir), err);
    return rc;
}

/* Whether there is something to go on with, if the model under way has saved nothing. */
static int kept(const struct several *s)
{
    return s->n_done > 0 || s->args->models_from.dir != NULL;
}

static int run_all(struct several *s, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->models.n && rc == 0; i++) {
        const struct cp_models_row *row = &s->models.row[i];
        const int opens = i % s->models.restarts == 0;
        int first = 0;
        if (opens)
            close_engine(s);
        if (!row->done) {
            s->model = (struct cp_model){ .out = s->named,
                                          .name = row->name,
                                          .number = i + 1,
                                          .n = s->models.n,
                                          .rank = row->rank,
                                          .seed = row->seed,
                                          .kept = kept(s),
                                          .first = !s->started };
            s->report.stopped = 0;
            rc = ts_stop_check(&tool_stop, err);
            if (rc == 0 && !s->open) {
                rc = open_engine(s, row->rank, err);
                first = 1;
            }
            if (rc == 0)
                rc = run_model(s, i, first, err);
            s->started = 1;
            s->n_done += rc == 0;
        }
        if (rc == 0)
            print_row(s, i);
    }
    close_engine(s);
    return rc;
}

/* ---- all of them ---- */

static void print_end(const struct several *s)
{
    const struct cp_models *m = &s->models;
    char time[TS_NUM_CHARS], plain[4096];
    struct tool_json j;
    if (s->args->json) {
        tool_json_open(&j, stdout);
        tool_json_str(&j, "event", "models");
        tool_json_str(&j, "out", s->named);
        tool_json_f64(&j, "seconds", (double)(ts_clock_ns() - s->start_ns) * 1e-9);
        cp_models_json(m, &j);
        tool_json_close(&j);
        return;
    }
    printf("\n");
    cp_models_print_ranks(m);
    printf("%u models, %s, in %s\n", m->n, ts_num_duration(time, ts_clock_ns() - s->start_ns),
           tool_plain(s->named, plain, sizeof plain));
}

/* With all models done. */
static int finish(struct several *s, struct ts_err *err)
{
    const char *dir = ts_atomic_dir_partial(s->dir);
    struct ts_err warn = { 0 };
    uint32_t threads;
    int rc = ts_threads_get(s->args->threads, 0, &threads, err);
    if (rc == 0)
        rc = cp_models_match(&s->models, dir, threads, err);
    if (rc == 0 && s->args->diagnose)
        rc = cp_models_diagnose(s->cmd, &s->models, dir, s->tensor, threads, err);
    (void)unlinkat(ts_atomic_dir_fd(s->dir), TS_RUN_STATUS_NAME,
                   0); /* of a process before this one */
    if (rc == 0)
        rc = cp_models_write(&s->models, s->cmd, s->args, s->path, s->tensor,
                             ts_atomic_dir_fd(s->dir), dir, err);
    if (rc == 0)
        rc = ts_atomic_dir_commit(s->dir, &warn, err);
    tool_warn(s->cmd, &warn);
    if (rc < 0)
        return rc;
    tool_in_place(s->named);
    print_end(s);
    return tool_flushed(err);
}

/* A stop between two models, or before the first sweep of one, is told of as one within a model is. */
static void tell_status(struct several *s, const char *state, const char *sentence)
{
    const struct cp_model *m = &s->model;
    struct status_file *f = s->status;
    if (f->run.told || !kept(s))
        return;
    s->own = options_of(s, s->models.row[m->number - 1].rank);
    s->own.seed = s->models.row[m->number - 1].seed;
    s->report.progress = (struct tool_progress){ 0 };
    *f = (struct status_file){ .run = { .partial = ts_atomic_dir_partial(s->dir),
                                        .opts = s->cmd->opts,
                                        .args = &s->own,
                                        .tensor = s->path,
                                        .out = s->named,
                                        .iters = s->own.iters,
                                        .order = s->tensor->order,
                                        .model = m->number,
                                        .n_models = m->n },
                               .progress = &s->report.progress };
    status_file_start(f, 1);
    status_file_end(f, state, sentence);
}

/* How to go on. Time that is over is what the user wanted. */
static int end_early(struct several *s, int rc, struct ts_err *err)
{
    const char *resume = kept(s) ? s->named : NULL;
    struct cp_model *m = &s->model;
    const int hinted = m->hinted;
    if (m->number == 0) /* nothing was begun: what is there was done before */
        *m = (struct cp_model){ .out = s->named, .number = s->models.n, .n = s->models.n };
    m->kept = kept(s);
    cp_run_hint(m, 0, 0, 0, err);
    tell_status(s, rc == TS_ESTOP ? "stopped" : "failed", err->text);
    if (rc != TS_ESTOP)
        return rc;
    if (!s->report.stopped) {
        s->report = cp_run_report(s->cmd, &s->own, &s->engine, NULL, NULL);
        s->report.model = m;
        cp_report_stopped(&s->report, cp_run_stopped_by(), resume, 1, 0,
                          ts_clock_ns() - s->start_ns);
    }
    if (ts_stop_number(&tool_stop) != SIGALRM || (!hinted && resume == NULL) ||
        strstr(err->text, "nothing was saved") != NULL)
        return rc;
    tool_note(s->cmd, "the time of --max-time is over: %s", err->text);
    return tool_flushed(err);
}

/* Everything that can be refused is, before the work. */
static int check(const struct several *s, struct ts_err *err)
{
    const struct cp_args *args = s->args;
    int rc = 0;
    if (args->out != NULL)
        rc = tool_outside(args->out, s->path, err);
    if (rc == 0 && args->models_from.dir != NULL)
        rc = cp_models_run_check(&args->models_from, s->path, s->tensor->hash, err);
    if (rc == 0 && args->diagnose)
        rc = ts_core_check(s->tensor->order, args->rank, err);
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
    s->status = calloc(1, sizeof *s->status);
    s->named = args->models_from.dir != NULL ? strdup(args->models_from.dir)
               : args->out != NULL           ? strdup(args->out)
                                             : tstream_operand_swap(path, ".cp");
    if (args->max_time_ns > 0)
        tool_stop_after(args->max_time_ns);
    rc = s->status == NULL || s->named == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", path)
                                               : ts_tensor_open(path, &s->tensor, err);
    if (rc == 0)
        rc = check(s, err);
    if (rc == 0)
        rc = cp_models_new(args, &s->models, err);
    if (rc == 0)
        rc = open_dir(s, err);
    if (rc == 0)
        rc = find_done(s, err);
    if (rc == 0) {
        rc = run_all(s, err);
        if (rc == 0)
            rc = finish(s, err);
        if (rc < 0)
            rc = end_early(s, rc, err);
    }
    ts_atomic_dir_close(s->dir);
    cp_models_free(&s->models);
    ts_tensor_close(s->tensor);
    free(s->named);
    free(s->status);
    free(s);
    return rc;
}
