/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes a model without each fold, rank after rank, and tells the errors at what was left out. */
#include "tools/cp_folds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/cp_run.h"
#include "tools/tool_term.h"

struct folds {
    const struct ts_cmd *cmd;
    const struct cp_args *args;
    const char *path;
    struct ts_engine engine;    /* of the rank under way */
    struct cp_report report;    /* of the fold under way; the engine counts there */
    struct status_file *status; /* that nobody reads */
    uint32_t n_done;
    int rmse;      /* errors are root mean squares; else mean losses */
    double *error; /* ranks x folds */
    uint64_t start_ns;
};

/* The rank under way is number `at` of the list. */
static uint32_t rank_at(const struct folds *f, uint32_t at)
{
    return f->args->ranks.at[at];
}

static void mean_of(const struct folds *f, uint32_t at, double *mean, double *error)
{
    const uint32_t n = f->args->folds;
    const double *x = f->error + (size_t)at * n;
    double sum = 0, squares = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += x[k] / n;
    for (uint32_t k = 0; k < n; k++)
        squares += (x[k] - sum) * (x[k] - sum);
    *mean = sum;
    *error = sqrt(squares / (n - 1) / n);
}

/* ---- what is told ---- */

static void json_fold(const struct folds *f, uint32_t at, uint32_t fold,
                      const struct ts_als_result *r)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "fold");
    tool_json_u64(&j, "rank", rank_at(f, at));
    tool_json_u64(&j, "fold", fold + 1);
    tool_json_f64(&j, "fit", r->fit);
    tool_json_f64(&j, "held_out_rmse", r->held_out);
    tool_json_f64(&j, "held_out_loss", r->held_out_loss);
    tool_json_u64(&j, "sweeps", r->sweeps);
    tool_json_f64(&j, "best_sweep", r->best_sweep > 0 ? r->best_sweep : NAN);
    tool_json_close(&j);
}

/* A line for each rank: the mean, its error, and of the folds as many as there is room for. */
enum { RANK, MEAN, ERROR, FOLD };

static void print_rank(const struct folds *f, uint32_t at)
{
    const uint32_t n = FOLD + f->args->folds;
    struct tool_column column[FOLD + CP_FOLDS_MOST] = {
        [RANK] = { .name = "rank", .width = 4 },
        [MEAN] = { .name = "held out", .width = 10 },
        [ERROR] = { .name = "std error", .width = 9 },
    };
    char name[CP_FOLDS_MOST][16], text[FOLD + CP_FOLDS_MOST][TS_NUM_CHARS];
    const char *cell[FOLD + CP_FOLDS_MOST];
    double mean, error;
    uint32_t shown;
    mean_of(f, at, &mean, &error);
    snprintf(text[RANK], TS_NUM_CHARS, "%u", rank_at(f, at));
    snprintf(text[MEAN], TS_NUM_CHARS, "%.6g", mean);
    snprintf(text[ERROR], TS_NUM_CHARS, "%.2g", error);
    for (uint32_t k = 0; k < f->args->folds; k++) {
        snprintf(name[k], sizeof name[k], "fold %u", k + 1);
        snprintf(text[FOLD + k], TS_NUM_CHARS, "%.5g", f->error[at * f->args->folds + k]);
        column[FOLD + k] = (struct tool_column){ .name = name[k], .width = 9, .drop = (int)k + 1 };
    }
    for (uint32_t i = 0; i < n; i++)
        cell[i] = text[i];
    shown = tool_table_fit(column, n, tool_columns());
    if (at == 0)
        tool_table_head(column, n, shown);
    tool_table_row(column, n, shown, cell);
    tool_flush();
}

static uint32_t best_of(const struct folds *f)
{
    uint32_t best = 0;
    double least = INFINITY, mean, error;
    for (uint32_t i = 0; i < f->args->ranks.n; i++) {
        mean_of(f, i, &mean, &error);
        if (mean < least) {
            least = mean;
            best = i;
        }
    }
    return best;
}

static void json_all(const struct folds *f)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "folds");
    tool_json_u64(&j, "folds", f->args->folds);
    tool_json_str(&j, "error", f->rmse ? "rmse" : "loss");
    tool_json_u64(&j, "best", rank_at(f, best_of(f)));
    tool_json_f64(&j, "seconds", (double)(ts_clock_ns() - f->start_ns) * 1e-9);
    tool_json_array(&j, "ranks");
    for (uint32_t i = 0; i < f->args->ranks.n; i++) {
        double mean, error;
        mean_of(f, i, &mean, &error);
        tool_json_object(&j, NULL);
        tool_json_u64(&j, "rank", rank_at(f, i));
        tool_json_f64(&j, "held_out", mean);
        tool_json_f64(&j, "standard_error", error);
        tool_json_close(&j);
    }
    tool_json_close(&j);
    tool_json_close(&j);
}

static void print_all(const struct folds *f)
{
    const uint32_t best = best_of(f);
    char total[TS_NUM_CHARS];
    double mean, error;
    mean_of(f, best, &mean, &error);
    printf("%s at held-out cells %.6g with rank %u, %u folds, %s\n",
           f->rmse ? "root mean square error" : "mean loss", mean, rank_at(f, best), f->args->folds,
           ts_num_duration(total, ts_clock_ns() - f->start_ns));
}

/* ---- one model ---- */

static int run_fold(struct folds *f, uint32_t at, uint32_t fold, struct ts_err *err)
{
    struct cp_args own = *f->args;
    struct ts_run_record record = cp_run_record(f->cmd, &own, &f->engine);
    struct cp_model model = { .name = "a fold",
                              .number = ++f->n_done,
                              .n = own.ranks.n * own.folds,
                              .rank = own.rank,
                              .seed = own.seed,
                              .first = 0 };
    struct ts_model_conf mc = { .precision = own.precision, .stop = &tool_stop };
    struct ts_model *start = NULL;
    int rc = 0;
    own.rank = model.rank = rank_at(f, at);
    own.held_share = 1.0 / own.folds;
    own.held_from = (double)fold / own.folds;
    f->report = cp_run_report(f->cmd, &own, &f->engine, &record, f->status);
    f->report.json = f->report.details = 0;
    f->report.model = &model;
    f->report.noted = f->n_done > 1;
    if (tstream_cp_init_is_file(&own))
        rc = ts_model_open(own.init, &start, err);
    if (rc == 0)
        rc = cp_run(&f->report, &mc, start, f->path, err);
    ts_model_close(start);
    ts_run_record_free(&record);
    if (rc < 0)
        return rc;
    f->rmse = isfinite(model.result.held_out);
    f->error[(size_t)at * own.folds + fold] =
        f->rmse ? model.result.held_out : model.result.held_out_loss;
    if (!isfinite(f->error[(size_t)at * own.folds + fold]))
        return ts_fail(err, TS_EARG, "%s: fold %u of %u has no nonzeros; take fewer folds", f->path,
                       fold + 1, own.folds);
    if (own.json)
        json_fold(f, at, fold, &model.result);
    return 0;
}

static int run_rank(struct folds *f, uint32_t at, struct ts_err *err)
{
    struct cp_args own = *f->args;
    struct ts_engine_conf ec;
    int rc;
    own.rank = rank_at(f, at);
    ec = cp_run_engine(&own, f->path, &f->report);
    rc = ts_engine_open(&ec, &f->engine, err);
    if (rc == 0 && at == 0)
        cp_run_note(f->cmd, &own, &f->engine);
    for (uint32_t k = 0; k < own.folds && rc == 0; k++)
        rc = run_fold(f, at, k, err);
    ts_engine_close(&f->engine);
    memset(&f->engine, 0, sizeof f->engine);
    if (rc == 0 && !own.json)
        print_rank(f, at);
    return rc;
}

int cp_folds(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
             struct ts_err *err)
{
    struct folds f = { .cmd = cmd, .args = args, .path = path, .start_ns = ts_clock_ns() };
    int rc = 0;
    f.status = calloc(1, sizeof *f.status);
    f.error = calloc((size_t)args->ranks.n * args->folds, sizeof *f.error);
    if (f.status == NULL || f.error == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    for (uint32_t i = 0; i < args->ranks.n && rc == 0; i++)
        rc = run_rank(&f, i, err);
    if (rc == 0 && args->json)
        json_all(&f);
    else if (rc == 0)
        print_all(&f);
    free(f.status);
    free(f.error);
    return rc == 0 ? tool_flushed(err) : rc;
}
