/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes one model with an open engine, and writes the model, its states and its record. */
#include "engine/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "engine/run_fit.h"

#define SECONDS 1e-9

static int tell(const struct ts_run *run, const struct ts_run_event *e, struct ts_err *err)
{
    return run->conf.listener.hear(run->conf.listener.ctx, e, err);
}

static void tell_note(void *ctx, const struct ts_err *warn)
{
    if (warn->code != 0)
        (void)tell(ctx, &(struct ts_run_event){ .kind = TS_RUN_NOTE, .warn = warn }, NULL);
}

static void take_saved(void *ctx)
{
    struct ts_run *run = ctx;
    ts_run_status_saved(&run->status);
}

static const struct ts_state *state_of(const struct ts_run *run)
{
    return run->conf.from != NULL ? ts_state_get(run->conf.from->file) : NULL;
}

/* ---- files of the run ---- */

/* Opens the directory of the result. *saves: whether starting factors must be written there.
 * *start: these starting factors; the caller closes start->model. */
static int open_out(struct ts_run *run, struct ts_init_conf *start, int *saves, struct ts_err *err)
{
    struct ts_run_conf *c = &run->conf;
    const struct ts_tensor *t = c->engine->tensor;
    struct ts_run_start_conf wanted = { .init = c->method.init,
                                        .from = c->from,
                                        .stays = c->out.resume,
                                        .save = c->method.whole_start,
                                        .given = c->given };
    double start_bytes[TS_MAX_ORDER];
    int rc;
    wanted.init.model = NULL;
    if (wanted.init.own_stop != NULL)
        wanted.init.stop = wanted.init.own_stop;
    rc = ts_run_start_find(&wanted, start, saves, err);
    for (uint32_t m = 0; m < t->order && *saves; m++)
        start_bytes[m] = ts_init_save_bytes(start, m);
    c->out.start_bytes = *saves ? start_bytes : NULL;
    if (rc == 0)
        rc = ts_model_begin(&c->out, &run->out, err);
    c->out.start_bytes = NULL;
    if (rc == 0 && c->from != NULL && (c->out.resume || c->from_here))
        rc = ts_resume_check_place(c->from, err);
    if (rc == 0)
        run->partial = strdup(c->place != NULL ? c->place->partial : ts_model_partial(run->out));
    return rc < 0 || run->partial != NULL
               ? rc
               : ts_fail(err, TS_ENOMEM, "%s: out of memory", c->out.dir);
}

/* Opens the checkpoint, which writes states to the directory of the result. */
static int open_checkpoint(struct ts_run *run, struct ts_err *err)
{
    const struct ts_run_conf *c = &run->conf;
    struct ts_checkpoint_conf conf = { .tensor = c->engine->tensor,
                                       .backend = c->engine->backend,
                                       .be = c->be,
                                       .rank = c->method.init.rank,
                                       .precision = c->method.precision,
                                       .spec = c->method.init.spec,
                                       .accelerate = c->method.accelerate,
                                       .every_ns = c->every_ns,
                                       .copy = c->engine->memory.copy_bytes > 0,
                                       .options = c->options,
                                       .options_bytes = c->options_bytes,
                                       .from = state_of(run),
                                       .from_here = c->from_here,
                                       .warn = tell_note,
                                       .saved = take_saved,
                                       .ctx = run };
    conf.dir = ts_model_dir(run->out, &conf.where);
    return ts_checkpoint_new(&conf, &run->checkpoint, err);
}

static int open_record(struct ts_run *run, struct ts_err *err)
{
    int rc;
    run->record.who = run->conf.who;
    run->record.engine = run->conf.engine;
    rc = ts_run_record_start(&run->record, run->conf.tensor, err);
    if (rc == 0 && run->conf.from != NULL)
        ts_run_record_recall(&run->record, state_of(run));
    return rc;
}

static void start_status(struct ts_run *run, uint32_t at_once)
{
    const struct ts_run_place *p = run->conf.place;
    struct ts_run_status *s = &run->status;
    const char *path;
    s->partial = run->partial;
    s->in = run->partial == NULL ? -1
            : p != NULL          ? ts_open_dir_fd(p->in)
                                 : ts_model_dir(run->out, &path);
    s->opts = run->conf.who.opts;
    s->args = run->conf.who.args;
    s->tensor = run->conf.tensor;
    s->out = p != NULL ? p->out : run->conf.out.dir;
    s->iters = run->conf.method.iters;
    s->order = run->conf.engine->tensor->order;
    s->model = p != NULL ? p->number : 0;
    s->n_models = p != NULL ? p->n : 0;
    s->at_once = at_once;
    s->figures = run->conf.listener.figures;
    s->ctx = run->conf.listener.ctx;
    run->has_status = 1;
    ts_run_status_start(s, run->next_sweep);
    ts_run_status_mode(s, run->next_mode + 1);
}

void ts_run_lead(struct ts_run *run, uint32_t at_once)
{
    if (run->has_status)
        ts_run_status_at_once(&run->status, at_once);
    else
        start_status(run, at_once);
}

/* Writes run.json: in the result, or next to the state of a stopped run. */
static int add_record(struct ts_run *run, const char *ended, const struct ts_solver_result *result,
                      struct ts_err *err)
{
    char *text;
    size_t bytes;
    int rc = ts_run_record_end(&run->record, ended, result, &text, &bytes, err);
    if (rc < 0)
        return rc;
    rc = ts_model_add(run->out, TS_RUN_RECORD_NAME, text, bytes, err);
    free(text);
    return rc;
}

const char *ts_run_why(const struct ts_solver_result *result)
{
    return result->exact       ? "exact"
           : result->converged ? "converged"
           : result->overfits  ? "held-out error no longer falls"
                               : "iterations";
}

static int write_files(struct ts_run *run, struct ts_solver_result *result, struct ts_err *err)
{
    struct ts_err warn = { 0 };
    int rc = add_record(run, ts_run_why(result), result, err);
    ts_run_status_remove(&run->status);
    if (rc == 0)
        rc = ts_model_write(run->out, ts_solver_rows, &result->rows, result->weight, result->norm,
                            &warn, err);
    tell_note(run, &warn);
    if (rc < 0)
        ts_checkpoint_rescue(run->checkpoint);
    return rc;
}

/* Writes the record next to the state of a stopped run, with the sweeps so far. */
static void record_stop(struct ts_run *run)
{
    const struct ts_run_listener *l = &run->conf.listener;
    struct ts_err warn = { 0 };
    char ended[64];
    snprintf(ended, sizeof ended, "stopped by %s", l->stopped_by(l->ctx));
    (void)add_record(run, ended, NULL, &warn);
    tell_note(run, &warn);
}

/* Warns of components that were zero in a mode of the given starting factors, and stayed zero. */
static void note_dead(struct ts_run *run, const struct ts_solver_result *result)
{
    const struct ts_init_conf *init = &run->conf.method.init;
    struct ts_err warn = { 0 };
    if (init->model == NULL || result->n_dead_start == 0)
        return;
    ts_fail(&warn, TS_EARG,
            "%s: %u of %u component%s %s zero in a mode of this start, and stayed zero: give the "
            "start other numbers there",
            init->model->path, result->n_dead_start, init->rank, ts_num_plural(init->rank),
            result->n_dead_start == 1 ? "is" : "are");
    tell_note(run, &warn);
}

/* ---- events during the run ---- */

/* Called when the backend holds the starting factors: writes them to a file if requested. */
static int take_start(void *ctx, struct ts_err *err)
{
    struct ts_run *run = ctx;
    struct ts_init_conf start = run->conf.method.init;
    start.held = 1;
    if (start.own_stop != NULL)
        start.stop = start.own_stop;
    (void)tell(run, &(struct ts_run_event){ .kind = TS_RUN_COMPUTED }, err);
    return run->saves_start ? ts_init_save(&start, run->out, err) : 0;
}

static void take_mode(void *ctx, const struct ts_solver_mode *m)
{
    struct ts_run *run = ctx;
    if (m->mode + 1 < run->conf.engine->tensor->order)
        ts_run_status_mode(&run->status, m->mode + 2);
    (void)tell(run, &(struct ts_run_event){ .kind = TS_RUN_MODE, .mode = m }, NULL);
}

static void take_sweep(void *ctx, const struct ts_solver_sweep *s)
{
    struct ts_run *run = ctx;
    run->sweeps_ns += s->total_ns;
    run->next_sweep = s->sweep + 1;
    run->next_mode = 0;
    if (run->out != NULL)
        ts_run_record_sweep(&run->record, s);
    ts_run_status_sweep(&run->status, s->sweep, s->fit, s->log_likelihood,
                        (double)s->total_ns * SECONDS);
    (void)tell(run, &(struct ts_run_event){ .kind = TS_RUN_SWEEP, .sweep = s }, NULL);
}

/* Sets the members of the solver's configuration that the run determines. */
static void complete_method(struct ts_run *run)
{
    const struct ts_engine *e = run->conf.engine;
    struct ts_solver_conf *m = &run->conf.method;
    m->init.tensor = e->tensor;
    m->init.backend = e->backend;
    m->init.be = run->conf.be;
    m->init.threads = e->threads;
    m->feed = e->feed;
    m->from = run->conf.from != NULL ? run->conf.from->file : NULL;
    m->started = m->from == NULL && ts_init_is_computed(&m->init) ? take_start : NULL;
    m->mode = take_mode;
    m->sweep = take_sweep;
    m->ctx = run;
}

static void complete_out(struct ts_run *run)
{
    const struct ts_init_conf *init = &run->conf.method.init;
    struct ts_model_conf *out = &run->conf.out;
    out->shape = ts_model_shape_of(init->tensor);
    out->rank = init->rank + (uint32_t)ts_spec_of(init->spec)->mean;
    out->threads = init->threads;
}

/* Frees what the run holds. state: the state that status.json shows afterwards, if its directory
 * still exists; NULL: the file is removed. */
static void close_run(struct ts_run *run, const char *state, const char *sentence)
{
    ts_solver_free(run->solver);
    run->solver = NULL;
    ts_checkpoint_free(run->checkpoint);
    run->checkpoint = NULL;
    /* this comes first, because the thread that writes status.json could write it again into a
     * directory that is being cleared */
    ts_run_status_remove(&run->status);
    ts_model_end(run->out);
    run->out = NULL;
    ts_model_names_drop(run->names);
    run->names = NULL;
    ts_run_status_end(&run->status, state, state != NULL ? sentence : NULL);
    ts_run_record_free(&run->record);
    free(run->partial);
    run->partial = NULL;
}

/* Sends the last event to the listener, and frees what the run holds. */
static int end_run(struct ts_run *run, int rc, struct ts_solver_result *result, struct ts_err *err)
{
    struct ts_run_outcome o = { .result = result, .started = run->started };
    const char *state = rc == TS_ESTOP ? "stopped" : NULL;
    if (run->out != NULL) {
        o.saved = ts_checkpoint_last(run->checkpoint, &o.sweep, &o.mode);
        o.partial = ts_model_partial(run->out);
    }
    o.total_ns = ts_clock_ns() - run->start_ns;
    if (rc == TS_ESTOP && o.saved)
        record_stop(run);
    rc = tell(run, &(struct ts_run_event){ .kind = TS_RUN_ENDED, .rc = rc, .outcome = &o }, err);
    close_run(run, state == NULL && rc < 0 ? "failed" : state, err->text);
    return rc;
}

/* Opens all files except that of the starting factors. *saves: whether these must be written. */
static int open_files(struct ts_run *run, struct ts_init_conf *start, int *saves,
                      struct ts_err *err)
{
    int rc = ts_model_names_of_tensor(run->conf.engine->tensor, &run->names, err);
    run->conf.out.names = run->names;
    if (rc == 0)
        rc = open_out(run, start, saves, err);
    if (rc == 0)
        rc = open_checkpoint(run, err);
    return rc == 0 ? open_record(run, err) : rc;
}

int ts_run_begin(struct ts_run *run, const struct ts_run_conf *conf, struct ts_err *err)
{
    const struct ts_state *from;
    struct ts_init_conf start = { 0 };
    int saves = 0, rc = 0;
    memset(run, 0, sizeof *run);
    run->conf = *conf;
    from = state_of(run);
    run->next_sweep = from != NULL ? from->sweep : 1;
    run->next_mode = from != NULL ? from->mode : 0;
    complete_method(run);
    complete_out(run);
    if (conf->out.dir != NULL)
        rc = open_files(run, &start, &saves, err);
    if (rc < 0) {
        ts_model_close(start.model);
        close_run(run, "failed", err->text);
        return rc;
    }
    (void)tell(run, &(struct ts_run_event){ .kind = TS_RUN_OPENED }, err);
    run->start_ns = ts_clock_ns();
    run->conf.method.checkpoint = run->checkpoint;
    run->saves_start = saves && ts_init_is_computed(&start);
    if (saves && !run->saves_start)
        rc = ts_init_save(&start, run->out, err);
    ts_model_close(start.model);
    if (rc < 0)
        return end_run(run, rc, NULL, err);
    run->started = 1;
    (void)tell(run, &(struct ts_run_event){ .kind = TS_RUN_STARTED }, err);
    if (conf->place == NULL || !conf->place->beside)
        start_status(run, conf->place != NULL ? conf->place->at_once : 0);
    run->start_ns = ts_clock_ns();
    rc = ts_solver_new(&run->conf.method, &run->solver, err);
    return rc < 0 ? ts_run_end(run, rc, err) : 0;
}

int ts_run_alone(struct ts_run *run, struct ts_err *err)
{
    int rc;
    while ((rc = ts_solver_next(run->solver, err)) > 0) {
        rc = ts_solver_multiply(run->solver, err);
        if (rc < 0) {
            ts_solver_fail(run->solver, rc);
            break;
        }
    }
    return rc;
}

int ts_run_has_saved(const struct ts_run *run)
{
    uint32_t sweep, mode;
    return run->checkpoint != NULL && ts_checkpoint_last(run->checkpoint, &sweep, &mode);
}

int ts_run_end(struct ts_run *run, int rc, struct ts_err *err)
{
    struct ts_solver_result result = { 0 };
    struct ts_err warn = { 0 };
    (void)tell(run, &(struct ts_run_event){ .kind = TS_RUN_OVER, .rc = rc }, err);
    if (rc == 0)
        rc = ts_solver_result(run->solver, &result, err);
    ts_solver_free(run->solver); /* hands its data for the state at the end to the checkpoint */
    run->solver = NULL;
    if (rc == 0) {
        note_dead(run, &result);
        ts_run_fit(run->conf.engine, &run->conf.method, &result, &warn);
        tell_note(run, &warn);
    }
    if (rc == 0 && run->out != NULL)
        rc = write_files(run, &result, err);
    rc = end_run(run, rc, &result, err);
    free(result.weight);
    return rc;
}
