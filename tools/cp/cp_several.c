/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes several models of a tensor, at the same time or one after another, and puts their
 * directory in place when all are done. */
#include "tools/cp/cp_several.h"

#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/cp/cp_folds.h"
#include "tools/cp/cp_group_end.h"
#include "tools/cp/cp_models.h"
#include "tools/cp/cp_run.h"
#include "tools/cp/cp_starts.h"
#include "tools/common/tool_ranks.h"
#include "tools/tstream_operand.h"
#include "tools/common/tstream_ranks.h"

/* ---- the directory of the models ---- */

static int open_dir(struct cp_group *s, struct ts_err *err)
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

/* Prints the rows of finished models in the order of the table, up to the first model that is not
 * done. */
static void print_rows(struct cp_group *s)
{
    for (; s->next_row < s->models.n && s->models.row[s->next_row].done; s->next_row++)
        if (s->models.folds)
            cp_folds_print_row(&s->models, s->next_row, s->args->json);
        else if (!s->args->json && (!tool_quiet() || s->args->details))
            cp_models_print_row(&s->models, s->next_row, s->n_printed++ == 0 || s->args->details);
}

/* Counts a finished model, and passes its row of the table to struct ts_run_several. */
static int take_done(struct cp_group *s, uint32_t row, struct ts_err *err)
{
    s->n_done++;
    return ts_run_several_take(&s->all, row, err);
}

static void count_dead(struct cp_group *s, uint32_t row, uint32_t n_dead)
{
    const int empty = n_dead == s->models.row[row].rank;
    s->n_empty += (uint32_t)empty;
    s->n_dying += (uint32_t)(n_dead > 0 && !empty);
}

/* Enters the result of a model that this process has computed into its row of the table. If the run
 * writes no files, this is the only place where the result is kept. */
static int take_result(struct cp_group *s, uint32_t row, const struct ts_solver_result *r,
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

/* Finds the models that an earlier process finished; rank 0 tells the other ranks (processes)
 * which. rc: result of the steps before. */
static int find_done(struct cp_group *s, int rc, struct ts_err *err)
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

static int find_starts(struct cp_group *s, struct ts_err *err)
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

/* ---- models computed at the same time ---- */

static void count(void *ctx, uint64_t nnz)
{
    struct cp_group *s = ctx;
    cp_report_count(&cp_member_lead(s)->report, nnz);
}

static void close_engine(struct cp_group *s)
{
    if (s->open)
        ts_engine_close(&s->engine);
    s->open = 0;
}

/* Opens an engine for as many models at the same time as all ranks (processes) have memory for. */
static int open_alike(struct cp_group *s, struct ts_engine_conf *ec, struct ts_err *err)
{
    int rc;
    for (;;) {
        uint32_t most, fewest = 0;
        rc = ts_engine_open(ec, &s->engine, err);
        s->open = rc == 0;
        most = rc == 0 ? s->engine.n_models : 0;
        fewest = most;
        rc = tool_ranks_least(rc, &fewest, err);
        /* tool_ranks_least finds the smallest number only, so the largest number of models is found
         * as the smallest difference to UINT32_MAX */
        most = UINT32_MAX - most;
        if (rc == 0)
            rc = tool_ranks_least(0, &most, err);
        if (rc < 0 || UINT32_MAX - most == fewest)
            return rc;
        ec->n_models = fewest;
        close_engine(s);
    }
}

/* Opens an engine for as many of the n models as can be computed at the same time. */
static int open_engine(void *ctx, const uint32_t *ranks, uint32_t n, uint32_t *room,
                       struct ts_err *err)
{
    struct cp_group *s = ctx;
    const struct cp_member *lead = cp_member_lead(s);
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
    struct cp_group *s = ctx;
    for (uint32_t i = 0; i < s->all.n; i++)
        s->one[i].model.place.at_once = at_once;
    cp_report_lead(&s->one[k].report);
    ts_run_lead(&s->one[k].run, at_once);
}

/* Returns the same result on all ranks (processes). The message of this rank is kept if it adds how
 * to resume to the common message. */
static int end_alike(int rc, struct ts_err *err)
{
    const struct ts_err own = *err;
    const int all = tool_ranks_agree(rc, err);
    if (rc < 0 && all == rc && strstr(err->text, own.text) == NULL)
        *err = own;
    return all;
}

/* Ends model k. The ranks (processes) agree on its result here, because they report no failures in
 * what they exchange next, rows of other models. */
static int end_one(void *ctx, uint32_t k, int rc, struct ts_err *err)
{
    struct cp_group *s = ctx;
    struct cp_member *o = &s->one[k];
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

/* Notes that the run can be resumed, if a state of any model was saved. */
static void take_failure(void *ctx, int rc, int saved, struct ts_err *err)
{
    struct cp_group *s = ctx;
    (void)rc;
    (void)err;
    for (uint32_t k = 0; k < s->all.n; k++)
        s->one[k].model.kept = saved || cp_member_kept(s);
}

static void name_all(void *ctx)
{
    struct cp_group *s = ctx;
    s->headed = 0;
    for (uint32_t k = 0; k < s->all.n; k++)
        cp_member_name(s, &s->one[k], s->all.row[k]);
}

static int run_all(struct cp_group *s, struct ts_err *err)
{
    int rc;
    print_rows(s);
    rc = ts_run_several_all(&s->all, err);
    close_engine(s);
    return rc;
}

/* ---- the run of all models ---- */

/* Computes the checksum of a dense tensor, a hash of its cells, which the files of the run contain
 * from the beginning. */
static int find_checksum(const struct cp_group *s, struct ts_err *err)
{
    uint32_t threads = 1;
    const int rc = ts_threads_get(s->args->threads, 0, &threads, err);
    return rc == 0 ? ts_dense_scan_alone(s->tensor, threads, &tool_stop, err) : rc;
}

/* Checks everything that can fail, before the models are computed. */
static int check(const struct cp_group *s, struct ts_err *err)
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
        rc = tool_writes(s->named, ".partial", "--output", err);
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

static int list_models(struct cp_group *s, struct ts_err *err)
{
    const struct cp_args *args = s->args;
    s->all = (struct ts_run_several){ .tensor = s->tensor,
                                      .table = &s->models,
                                      .holds_out = args->folds > 0 || args->hold_out != NULL,
                                      .tells_one = 1,
                                      .stop = &tool_stop,
                                      .front = { .chosen = name_all,
                                                 .open = open_engine,
                                                 .begin = cp_member_begin,
                                                 .end = end_one,
                                                 .lead = take_lead,
                                                 .failing = take_failure,
                                                 .close = cp_member_close,
                                                 .ctx = s } };
    return args->folds > 0 ? ts_models_table_new_folds(args->ranks.at, args->ranks.n, args->folds,
                                                       args->seed, &s->models, err)
                           : ts_models_table_new(args->ranks.at, args->ranks.n, args->restarts,
                                                 args->seed, &s->models, err);
}

int cp_several(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
               struct ts_err *err)
{
    struct cp_group *s = calloc(1, sizeof *s);
    int rc;
    if (s == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    s->cmd = cmd;
    s->args = args;
    s->path = path;
    s->start_ns = ts_clock_ns();
    s->one = calloc(TS_RUN_AT_ONCE, sizeof *s->one);
    s->named = args->models_from != NULL ? strdup(args->models_from->dir)
               : args->out != NULL       ? strdup(args->out)
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
        /* if all models are done already, a message about a stop names the last one */
        cp_member_name(s, s->one, s->models.n - 1);
        s->started = 0;
        rc = end_alike(run_all(s, err), err);
        if (rc == 0)
            rc = end_alike(tool_ranks_speaks() ? cp_group_finish(s, err) : 0, err);
        if (rc == TS_ESTOP && tool_ranks() != NULL)
            tool_ranks_stopped();
        if (rc < 0)
            rc = cp_group_end_early(s, rc, err);
    } else {
        rc = cp_group_end_unopened(s, rc, err);
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
