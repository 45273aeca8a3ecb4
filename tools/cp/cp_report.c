/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the tables and JSON events of tstream cp. */
#include "tools/cp/cp_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/common/engine_note.h"
#include "tools/common/tool_line.h"
#include "tools/common/tool_ranks.h"
#include "tools/cp/tstream_cp.h"
#include "tools/cp/tstream_times.h"

/* Writes where a run is: "sweep 3/50, mode 2/3". With several models, "model 2/15, " or "8 of 15
 * models, " comes first. */
static void name_mode(const struct cp_report *r, uint32_t mode, char *buf, size_t size)
{
    char model[40] = "";
    const struct ts_run_place *p = r->model != NULL ? &r->model->place : NULL;
    if (p != NULL && p->at_once > 1)
        snprintf(model, sizeof model, "%u of %u models, ", p->at_once, p->n);
    else if (p != NULL)
        snprintf(model, sizeof model, "model %u/%u, ", p->number, p->n);
    snprintf(buf, size, "%ssweep %u/%u, mode %u/%u", model, r->sweeps_done + 1, r->iters, mode + 1,
             r->engine->tensor->order);
}

/* Returns the number of passes of a sweep. Fixed modes need none, unless the fit does; errors at
 * observed cells take one more. */
static uint64_t n_passes(const struct cp_report *r)
{
    const struct cp_args *args = r->args;
    const uint32_t order = r->engine->tensor->order;
    const uint32_t skipped = ts_spec_skipped(&args->spec, order);
    return order - (uint32_t)__builtin_popcount(skipped) + (uint32_t)(args->observed != 0) +
           (uint32_t)(args->spec.held && !args->poisson);
}

/* Returns 1 if a pass before the first sweep finds the mean of the values; it counts as part of
 * that sweep. */
static uint64_t finds_mean(const struct cp_report *r)
{
    const struct cp_args *args = r->args;
    return r->sweeps_done == 0 && args->from == NULL && args->mean;
}

/* Starts the progress of a sweep. The time left is that of the sweep before times the largest
 * number of sweeps to come: an upper bound, because the run ends when the fit hardly changes. */
static void start_sweep(struct cp_report *r)
{
    const struct ts_tensor *t = r->engine->tensor;
    char name[TOOL_PROGRESS_CHARS];
    if (r->sweeps_done >= r->iters || r->beside)
        return;
    r->done_nnz = 0;
    name_mode(r, 0, name, sizeof name);
    tool_progress_start(&r->progress, name, "nonzeros",
                        (n_passes(r) + finds_mean(r)) * t->nnz / tool_ranks_count());
    tool_progress_rest(&r->progress, r->sweep_ns, r->iters - r->sweeps_done - 1,
                       r->model == NULL              ? "run at most"
                       : r->model->place.at_once > 1 ? "models at most"
                                                     : "model at most");
}

void cp_report_lead(struct cp_report *r)
{
    if (!r->beside)
        return;
    r->beside = 0;
    start_sweep(r);
}

void cp_report_count(void *ctx, uint64_t nnz)
{
    struct cp_report *r = ctx;
    tool_progress_update(&r->progress, atomic_fetch_add(&r->done_nnz, nnz) + nnz);
}

void cp_report_figures(void *ctx, struct ts_run_figures *ret)
{
    struct cp_report *r = ctx;
    struct tool_progress_figures f;
    tool_progress_get(&r->progress, &f);
    *ret = (struct ts_run_figures){ .done = f.done,
                                    .total = f.total,
                                    .per_s = f.per_s,
                                    .known = f.known,
                                    .left_ns = f.left_ns,
                                    .run_left_ns = f.whole_ns };
}

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static double nnz_per_s(const struct cp_report *r, const struct ts_solver_sweep *s)
{
    const struct ts_tensor *t = r->engine->tensor;
    return s->total_ns == 0 ? 0 : (double)n_passes(r) * (double)t->nnz / seconds(s->total_ns);
}

/* Begins a JSON event of this run; with several models, it has the name of the model. */
static void open_event(const struct cp_report *r, struct tool_json *j, const char *event)
{
    tool_json_open(j, stdout);
    tool_json_str(j, "event", event);
    if (r->model == NULL)
        return;
    tool_json_u64(j, "rank", r->model->rank);
    tool_json_u64(j, "seed", r->model->seed);
}

static void json_sweep(const struct cp_report *r, const struct ts_solver_sweep *s)
{
    struct tool_json j;
    open_event(r, &j, "sweep");
    tool_json_u64(&j, "sweep", s->sweep);
    tool_json_f64(&j, "fit", s->fit);
    tool_json_f64(&j, "change", s->change);
    tool_json_f64(&j, "objective", s->objective);
    tool_json_f64(&j, "log_likelihood", s->log_likelihood);
    tool_json_f64(&j, "violation", s->kkt);
    tool_json_f64(&j, "rmse", s->rmse);
    tool_json_f64(&j, "held_out_rmse", s->held_out);
    tool_json_f64(&j, "held_out_loss", s->held_out_loss);
    tool_json_u64(&j, "dead_components", s->n_dead);
    tool_json_f64(&j, "seconds", seconds(s->total_ns));
    tool_json_f64(&j, "nnz_per_s", nnz_per_s(r, s));
    tool_json_u64(&j, "bytes_read", s->bytes_read);
    tool_json_f64(&j, "wait_seconds", seconds(s->wait_ns));
    tool_json_f64(&j, "copy_seconds", seconds(s->copy_ns));
    tool_json_f64(&j, "kernel_seconds", seconds(s->kernel_ns));
    tool_json_f64(&j, "solve_seconds", seconds(s->solve_ns));
    tool_json_f64(&j, "exposed_seconds", seconds(s->exposed_ns));
    tool_json_f64(&j, "imbalance", s->imbalance);
    tool_json_u64(&j, "singular_modes", s->n_singular);
    tool_json_close(&j);
}

enum {
    MODEL,
    SWEEP,
    LIKELIHOOD,
    VIOLATION,
    FIT,
    CHANGE,
    OBJECTIVE,
    RMSE,
    HELD_OUT,
    SECONDS,
    RATE,
    READ,
    WAIT,
    COPY,
    KERNEL,
    SOLVE,
    SINGULAR,
    N_COLUMNS
};

/* Chooses columns of the table of sweeps for 80 characters. On CPU cores, the column with the time
 * of copies is dropped first; with GPUs, the one with the time of solving. */
static void choose_columns(struct cp_report *r)
{
    struct tool_column c[N_COLUMNS] = {
        [MODEL] = { .name = "model", .width = 9 },
        [SWEEP] = { .name = "sweep", .width = 5 },
        [LIKELIHOOD] = { .name = "log-likelihood",
                         .width = 16,
                         .drop = r->poisson ? 0 : TOOL_ABSENT },
        [VIOLATION] = { .name = "violation", .width = 9, .drop = r->poisson ? 0 : TOOL_ABSENT },
        [FIT] = { .name = "fit", .width = 11, .drop = r->poisson ? 4 : 0 },
        [CHANGE] = { .name = "change", .width = 9, .drop = r->poisson ? TOOL_ABSENT : 0 },
        [OBJECTIVE] = { .name = "objective",
                        .width = 13,
                        .drop = !r->penalty || r->poisson     ? TOOL_ABSENT
                                : r->observed && !r->descends ? 2
                                                              : 1 },
        [RMSE] = { .name = "RMSE",
                   .width = 9,
                   .drop = r->observed && !r->descends ? 1 : TOOL_ABSENT },
        [HELD_OUT] = { .name = "held out", .width = 9, .drop = r->held_out ? 0 : TOOL_ABSENT },
        [SECONDS] = { .name = "seconds", .width = 8 },
        [RATE] = { .name = "nonzeros/s", .width = 8 },
        [READ] = { .name = "read", .width = 8 },
        [WAIT] = { .name = "wait", .width = 7, .drop = 1 },
        [COPY] = { .name = "copy", .width = 7, .drop = r->engine->n_devices > 0 ? 2 : 3 },
        [KERNEL] = { .name = "kernel", .width = 7, .drop = 1 },
        [SOLVE] = { .name = "solve", .width = 7, .drop = r->engine->n_devices > 0 ? 3 : 2 },
        [SINGULAR] = { .name = "singular", .width = 8, .drop = 4 },
    };
    const uint32_t first = r->headed_by != NULL ? MODEL : SWEEP;
    _Static_assert(sizeof c == sizeof r->column, "room for all columns");
    memcpy(r->column, c, sizeof c);
    r->shown = tool_table_fit(r->column + first, N_COLUMNS - first, tool_columns()) << first;
}

static void print_head(struct cp_report *r)
{
    int *headed = r->headed_by != NULL ? r->headed_by : &r->headed;
    if (r->headed)
        return;
    choose_columns(r);
    r->headed = 1;
    if (r->headed_by != NULL && *r->headed_by)
        return;
    if (r->details)
        tstream_times_head();
    tool_table_head(r->column, N_COLUMNS, r->shown);
    *headed = 1;
}

static void print_sweep(const struct cp_report *r, const struct ts_solver_sweep *s)
{
    char text[N_COLUMNS][TS_NUM_CHARS] = { 0 };
    const char *cell[N_COLUMNS];
    if (r->model != NULL)
        snprintf(text[MODEL], TS_NUM_CHARS, "%s", r->model->name);
    snprintf(text[SWEEP], TS_NUM_CHARS, "%u", s->sweep);
    if (r->poisson) {
        snprintf(text[LIKELIHOOD], TS_NUM_CHARS, "%.9e", s->log_likelihood);
        snprintf(text[VIOLATION], TS_NUM_CHARS, "%.2e", s->kkt);
    }
    snprintf(text[FIT], TS_NUM_CHARS, "%.9f", s->fit);
    snprintf(text[CHANGE], TS_NUM_CHARS, "%.2e", s->change);
    if (r->penalty)
        snprintf(text[OBJECTIVE], TS_NUM_CHARS, "%.7e", s->objective);
    if (r->observed)
        snprintf(text[RMSE], TS_NUM_CHARS, "%.6g", s->rmse);
    if (r->held_out)
        snprintf(text[HELD_OUT], TS_NUM_CHARS, "%.6g",
                 isfinite(s->held_out) ? s->held_out : s->held_out_loss);
    snprintf(text[SECONDS], TS_NUM_CHARS, "%.3f", seconds(s->total_ns));
    ts_num_short(text[RATE], nnz_per_s(r, s));
    ts_num_bytes(text[READ], s->bytes_read);
    snprintf(text[WAIT], TS_NUM_CHARS, "%.3f", seconds(s->wait_ns));
    snprintf(text[COPY], TS_NUM_CHARS, "%.3f", seconds(s->copy_ns));
    snprintf(text[KERNEL], TS_NUM_CHARS, "%.3f", seconds(s->kernel_ns));
    snprintf(text[SOLVE], TS_NUM_CHARS, "%.3f", seconds(s->solve_ns));
    if (s->n_singular > 0)
        snprintf(text[SINGULAR], TS_NUM_CHARS, "%u mode%s", s->n_singular,
                 tool_plural(s->n_singular));
    for (int i = 0; i < N_COLUMNS; i++)
        cell[i] = text[i];
    tool_table_row(r->column, N_COLUMNS, r->shown, cell);
    tool_flush();
}

void cp_report_mode(struct cp_report *r, const struct ts_solver_mode *m)
{
    char name[TOOL_PROGRESS_CHARS];
    struct tool_json j;
    if (m->mode + 1 < r->engine->tensor->order && !r->beside) {
        name_mode(r, m->mode + 1, name, sizeof name);
        tool_progress_name(&r->progress, name);
    }
    if (r->json) {
        open_event(r, &j, "mode");
        tool_json_u64(&j, "sweep", m->sweep);
        tool_json_u64(&j, "mode", m->mode + 1);
        tool_json_f64(&j, "seconds", seconds(m->total_ns));
        tool_json_f64(&j, "objective", m->objective);
        tool_json_f64(&j, "imbalance", tstream_times_imbalance(m->times));
        tstream_times_rows_json(&j, m->times);
        tstream_times_json(&j, m->times);
        tool_json_close(&j);
    } else if (r->details) {
        tool_line_erase();
        print_head(r);
        tstream_times_print(m->mode, m->times);
        tool_flush();
    }
}

void cp_report_sweep(struct cp_report *r, const struct ts_solver_sweep *s)
{
    struct ts_feed_stats stats;
    tool_progress_end(&r->progress);
    r->sweeps_done = s->sweep;
    r->sweep_ns = s->total_ns;
    r->bytes_read += s->bytes_read;
    r->n_singular += s->n_singular > 0;
    if (!r->noted) {
        ts_feed_stats(r->engine->feed, &stats);
        r->bytes_read += stats.bytes_read;
        engine_note_feed(r->cmd, &stats);
        r->noted = 1;
    }
    if (r->json) {
        json_sweep(r, s);
        start_sweep(r);
        return;
    }
    if ((r->model == NULL && !tool_quiet()) || r->details) {
        print_head(r);
        print_sweep(r, s);
    }
    start_sweep(r);
}

static void json_start(const struct cp_report *r)
{
    const struct ts_engine *e = r->engine;
    struct tool_json j;
    open_event(r, &j, "start");
    tool_json_str(&j, "tensor", r->path);
    tool_json_u64(&j, "nnz", e->tensor->nnz);
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < e->tensor->order; m++)
        tool_json_u64(&j, NULL, ts_dim(e->tensor, m));
    tool_json_close(&j);
    tool_json_str(&j, "backend", e->backend->name);
    tool_json_u64(&j, "threads", e->threads);
    tool_json_u64(&j, "host_bytes", e->memory.host_bytes);
    tool_json_u64(&j, "factor_bytes", e->memory.factor_bytes);
    tool_json_array(&j, "gpus");
    for (uint32_t i = 0; i < e->n_devices; i++)
        tool_json_i64(&j, NULL, e->device[i]);
    tool_json_close(&j);
    if (e->backend->link(e->be) != NULL)
        tool_json_str(&j, "exchange", e->backend->link(e->be));
    tool_json_u64(&j, "library_bytes", e->library_bytes);
    tool_json_options(&j, r->cmd, r->args);
    tool_json_close(&j);
}

void cp_report_start(struct cp_report *r)
{
    if (r->json)
        json_start(r);
    start_sweep(r);
}

void cp_report_end(struct cp_report *r)
{
    tool_progress_end(&r->progress);
}

void cp_report_write(struct cp_report *r)
{
    if (r->model == NULL)
        tool_progress_start(&r->ending, "writing factors", "", 0);
}

void cp_report_written(struct cp_report *r)
{
    if (r->model == NULL)
        tool_progress_end(&r->ending);
}

/* Prints "fit 0.123456789 after 12 sweeps (converged), 1.23 s, factors in X.cp". If that is too
 * wide, the path is on a line of its own. */
static void print_done(const struct cp_report *r, const struct ts_solver_result *res,
                       const char *out, uint64_t total_ns)
{
    const int good = res->rounded || res->exact || res->converged || res->overfits;
    const char *why = res->rounded && res->fit_error > 0
                          ? "1 but for float32's rounding; see tstream fit"
                      : res->rounded   ? "1 but for float32's rounding"
                      : res->exact     ? "exact to rounding"
                      : res->converged ? "converged"
                      : res->overfits  ? "held-out error no longer falls"
                                       : "not converged";
    char total[TS_NUM_CHARS], singular[64] = "", plain[4096] = "";
    int width;
    if (r->n_singular > 0)
        snprintf(singular, sizeof singular, ", singular in %u sweep%s", r->n_singular,
                 tool_plural(r->n_singular));
    if (out != NULL)
        tool_plain(out, plain, sizeof plain);
    width = r->poisson ? printf("log-likelihood %.9e, fit %.9f", res->log_likelihood, res->fit)
                       : printf("fit %.9f", res->fit);
    if (isfinite(res->mean))
        width += printf(" with the mean %.6g", res->mean);
    width += res->best_sweep > 0 && res->best_sweep < res->sweeps
                 ? printf(" of sweep %u, the best of %u (", res->best_sweep, res->sweeps)
                 : printf(" after %u sweep%s (", res->sweeps, tool_plural(res->sweeps));
    printf("%s%s%s", tool_paint(good ? TOOL_GOOD : TOOL_PAUSED), why, tool_paint_end());
    if (r->n_singular > 0)
        printf("%s%s%s", tool_paint(TOOL_BAD), singular, tool_paint_end());
    width +=
        printf("), %s", ts_num_duration(total, total_ns)) + tool_width(why) + tool_width(singular);
    if (out != NULL)
        printf("%sfactors in %s", width + 13 + tool_width(plain) <= tool_columns() ? ", " : ",\n  ",
               plain);
    printf("\n");
}

void cp_report_done(const struct cp_report *r, const struct ts_solver_result *res, const char *out,
                    uint64_t total_ns)
{
    struct tool_json j;
    if (!r->json) {
        if (r->model == NULL && (!tool_quiet() || out == NULL))
            print_done(r, res, out, total_ns);
        return;
    }
    open_event(r, &j, "done");
    tool_json_f64(&j, "fit", res->fit);
    tool_json_f64(&j, "mean", res->mean);
    tool_json_f64(&j, "objective", res->objective);
    tool_json_f64(&j, "log_likelihood", res->log_likelihood);
    tool_json_f64(&j, "violation", res->kkt);
    tool_json_f64(&j, "rmse", res->rmse);
    tool_json_f64(&j, "held_out_rmse", res->held_out);
    tool_json_f64(&j, "held_out_loss", res->held_out_loss);
    tool_json_u64(&j, "dead_components", res->n_dead);
    tool_json_u64(&j, "sweeps", res->sweeps);
    tool_json_f64(&j, "best_sweep", res->best_sweep > 0 ? res->best_sweep : NAN);
    tool_json_bool(&j, "converged", res->converged);
    tool_json_bool(&j, "exact", res->exact);
    tool_json_f64(&j, "seconds", seconds(total_ns));
    tool_json_u64(&j, "bytes_read", r->bytes_read);
    tool_json_u64(&j, "peak_bytes", ts_machine_peak_bytes());
    tool_json_str(&j, "out", out);
    tool_json_close(&j);
}

void cp_report_stopped(struct cp_report *r, const char *by, const char *resume, uint32_t sweep,
                       uint32_t mode, uint64_t total_ns)
{
    struct tool_json j;
    r->stopped = 1;
    if (!r->json)
        return;
    open_event(r, &j, "stopped");
    tool_json_str(&j, "by", by);
    tool_json_u64(&j, "sweeps", r->sweeps_done);
    tool_json_f64(&j, "seconds", seconds(total_ns));
    tool_json_str(&j, "resume", resume);
    if (resume != NULL) {
        tool_json_u64(&j, "sweep", sweep);
        tool_json_u64(&j, "mode", mode + 1);
    }
    tool_json_close(&j);
}
