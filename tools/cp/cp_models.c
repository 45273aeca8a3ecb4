/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes core consistencies of several models, and prints their table. */
#include "tools/cp/cp_models.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/tools.h"
#include "tools/common/tool_term.h"

struct progress {
    struct tool_progress line;
    _Atomic uint64_t done_nnz;
};

static void count_done(void *ctx, uint64_t nnz)
{
    struct progress *p = ctx;
    tool_progress_update(&p->line, atomic_fetch_add(&p->done_nnz, nnz) + nnz);
}

int cp_models_may_diagnose(const struct cp_args *args, const struct ts_tensor *t,
                           struct ts_err *err)
{
    int rc = ts_tensor_is_unweighted(t, "a core consistency", err);
    if (rc == 0 && args->observed && t->dense != NULL)
        rc = ts_fail(err, TS_EARG,
                     "--diagnose is for arrays whose cells are all known; in Python, "
                     "core_consistency() of a model takes others: leave out --diagnose");
    if (rc == 0 && args->observed)
        rc = ts_fail(err, TS_EARG,
                     "--diagnose takes cells that are not listed as zeros, which with --observed "
                     "they are not: leave one out");
    if (rc == 0)
        rc = ts_core_check(t->order, args->rank, err);
    if (rc == 0 && t->part.n > 0)
        rc = ts_fail(err, TS_EARG,
                     "%s: --diagnose reads the whole tensor, and this is part %u of %u", t->path,
                     t->part.part, t->part.n);
    return rc;
}

static int diagnose(const struct ts_cmd *cmd, struct ts_models_rank *rank,
                    const struct ts_open_dir *dir, const char *name, const struct ts_tensor *t,
                    uint32_t threads, struct ts_err *err)
{
    struct progress progress = { 0 };
    struct ts_core_conf conf = { .tensor = t,
                                 .threads = threads,
                                 .done = count_done,
                                 .done_ctx = &progress,
                                 .stop = &tool_stop };
    struct ts_kruskal *kruskal = NULL;
    struct ts_model *model = NULL;
    struct ts_core core;
    int rc = ts_model_open_inside(dir, name, &model, err);
    if (rc == 0)
        rc = ts_kruskal_read(model, &tool_stop, &kruskal, err);
    if (rc == 0) {
        conf.model = kruskal;
        tool_progress_start(&progress.line, "core", "nonzeros", t->nnz);
        rc = ts_core_run(&conf, &core, err);
        tool_progress_end(&progress.line);
    }
    if (rc == 0) {
        rank->consistency = core.consistency;
        rank->normalised = core.normalised;
        if (core.n_singular > 0)
            tool_note(cmd,
                      "rank %u: columns of the best model depend on each other in %u mode%s: its "
                      "core consistency says little",
                      rank->rank, core.n_singular, tool_plural(core.n_singular));
    }
    ts_kruskal_free(kruskal);
    ts_model_close(model);
    return rc;
}

int cp_models_diagnose(const struct ts_cmd *cmd, struct ts_models_table *m,
                       const struct ts_open_dir *dir, const struct ts_tensor *t, uint32_t threads,
                       struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < m->n_ranks && rc == 0; k++)
        rc = diagnose(cmd, &m->rank[k], dir, m->row[m->rank[k].best].name, t, threads, err);
    return rc;
}

static void put_number(char text[TS_NUM_CHARS], const char *format, double x)
{
    if (isfinite(x))
        snprintf(text, TS_NUM_CHARS, format, x);
    else
        snprintf(text, TS_NUM_CHARS, "-");
}

enum { MODEL, FIT, OBJECTIVE, HELD_OUT, SWEEPS, SECONDS, ENDED, SCORE, N_COLUMNS };

void cp_models_print_row(const struct ts_models_table *m, uint32_t i, int head)
{
    const struct ts_models_row *row = &m->row[i];
    const double held_out = isfinite(row->held_out) ? row->held_out : row->held_out_loss;
    char text[N_COLUMNS][TS_NUM_CHARS];
    const char *cell[N_COLUMNS];
    struct tool_column column[N_COLUMNS] = {
        [MODEL] = { .name = "model", .width = 12, .left = 1 },
        [FIT] = { .name = "fit", .width = 11 },
        [OBJECTIVE] = { .name = "objective",
                        .width = 13,
                        .drop = !isfinite(row->objective) ? TOOL_ABSENT
                                : isfinite(held_out)      ? 3
                                                          : 1 },
        [HELD_OUT] = { .name = "held out",
                       .width = 9,
                       .drop = isfinite(held_out) ? 0 : TOOL_ABSENT },
        [SWEEPS] = { .name = "sweeps", .width = 6 },
        [SECONDS] = { .name = "seconds", .width = 9 },
        [ENDED] = { .name = "ended", .width = 13, .left = 1 },
        [SCORE] = { .name = "score", .width = 8, .drop = isfinite(row->score) ? 1 : TOOL_ABSENT },
    };
    const uint32_t shown = tool_table_fit(column, N_COLUMNS, TOOL_LEAST_COLUMNS);
    if (head)
        tool_table_head(column, N_COLUMNS, shown);
    snprintf(text[MODEL], TS_NUM_CHARS, "%.30s", row->name);
    snprintf(text[ENDED], TS_NUM_CHARS, "%.30s", tool_ended(row->ended));
    snprintf(text[SWEEPS], TS_NUM_CHARS, "%u", row->n_sweeps);
    put_number(text[FIT], "%.9f", row->fit);
    put_number(text[OBJECTIVE], "%.7e", row->objective);
    put_number(text[HELD_OUT], "%.6g", held_out);
    put_number(text[SECONDS], "%.3f", row->seconds);
    put_number(text[SCORE], "%.6f", row->score);
    for (uint32_t c = 0; c < N_COLUMNS; c++)
        cell[c] = text[c];
    tool_table_row(column, N_COLUMNS, shown, cell);
    tool_flush();
}

enum { RANK, BEST, BEST_FIT, LEAST_FIT, MEAN_SCORE, LEAST_SCORE, CORE, N_OF_RANK };

void cp_models_print_ranks(const struct ts_models_table *m)
{
    static const struct tool_column column[N_OF_RANK] = {
        [RANK] = { .name = "rank", .width = 4 },
        [BEST] = { .name = "best", .width = 12, .left = 1 },
        [BEST_FIT] = { .name = "fit", .width = 11 },
        [LEAST_FIT] = { .name = "lowest fit", .width = 11 },
        [MEAN_SCORE] = { .name = "mean score", .width = 10 },
        [LEAST_SCORE] = { .name = "lowest", .width = 8 },
        [CORE] = { .name = "core %", .width = 9 },
    };
    uint32_t shown = (1u << N_OF_RANK) - 1;
    if (m->restarts == 1)
        shown &= ~(1u << LEAST_FIT | 1u << MEAN_SCORE | 1u << LEAST_SCORE);
    if (!isfinite(m->rank[0].consistency))
        shown &= ~(1u << CORE);
    tool_table_head(column, N_OF_RANK, shown);
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        const struct ts_models_rank *rank = &m->rank[k];
        char text[N_OF_RANK][TS_NUM_CHARS];
        const char *cell[N_OF_RANK];
        snprintf(text[RANK], TS_NUM_CHARS, "%u", rank->rank);
        snprintf(text[BEST], TS_NUM_CHARS, "%.30s", m->row[rank->best].name);
        put_number(text[BEST_FIT], "%.9f", m->row[rank->best].fit);
        put_number(text[LEAST_FIT], "%.9f", rank->least_fit);
        put_number(text[MEAN_SCORE], "%.6f", rank->mean_score);
        put_number(text[LEAST_SCORE], "%.6f", rank->least_score);
        put_number(text[CORE], "%.4g", rank->consistency);
        for (uint32_t c = 0; c < N_OF_RANK; c++)
            cell[c] = text[c];
        tool_table_row(column, N_OF_RANK, shown, cell);
    }
    tool_flush();
}
