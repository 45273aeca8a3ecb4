/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the results of cross-validation: errors of models at the nonzeros of held-out folds. */
#include "tools/cp/cp_folds.h"

#include <math.h>
#include <stdio.h>

#include "tools/common/tool.h"
#include "tools/common/tool_term.h"
#include "tools/cp/tstream_cp.h"

static void json_fold(const struct ts_models_row *row)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "fold");
    tool_json_u64(&j, "rank", row->rank);
    tool_json_u64(&j, "fold", row->fold);
    tool_json_f64(&j, "fit", row->fit);
    tool_json_f64(&j, "held_out_rmse", row->held_out);
    tool_json_f64(&j, "held_out_loss", row->held_out_loss);
    tool_json_u64(&j, "sweeps", row->n_sweeps);
    tool_json_f64(&j, "best_sweep", row->best_sweep > 0 ? row->best_sweep : NAN);
    tool_json_close(&j);
}

/* Columns of the line for a rank (number of components): its mean error, the standard error, and
 * the errors of as many folds as fit. */
enum { RANK, MEAN, ERROR, FOLD };

static void print_rank(const struct ts_models_table *m, uint32_t k)
{
    const uint32_t n = FOLD + m->restarts;
    struct tool_column column[FOLD + TS_FOLDS_MOST] = {
        [RANK] = { .name = "rank", .width = 4 },
        [MEAN] = { .name = "held out", .width = 10 },
        [ERROR] = { .name = "std error", .width = 9 },
    };
    char name[TS_FOLDS_MOST][16], text[FOLD + TS_FOLDS_MOST][TS_NUM_CHARS];
    const char *cell[FOLD + TS_FOLDS_MOST];
    uint32_t shown;
    snprintf(text[RANK], TS_NUM_CHARS, "%u", m->rank[k].rank);
    snprintf(text[MEAN], TS_NUM_CHARS, "%.6g", m->rank[k].error);
    snprintf(text[ERROR], TS_NUM_CHARS, "%.2g", m->rank[k].standard_error);
    for (uint32_t i = 0; i < m->restarts; i++) {
        snprintf(name[i], sizeof name[i], "fold %u", i + 1);
        snprintf(text[FOLD + i], TS_NUM_CHARS, "%.5g",
                 ts_models_table_error(&m->row[k * m->restarts + i]));
        column[FOLD + i] = (struct tool_column){ .name = name[i], .width = 9, .drop = (int)i + 1 };
    }
    for (uint32_t i = 0; i < n; i++)
        cell[i] = text[i];
    shown = tool_table_fit(column, n, tool_columns());
    if (k == 0)
        tool_table_head(column, n, shown);
    tool_table_row(column, n, shown, cell);
    tool_flush();
}

void cp_folds_print_row(struct ts_models_table *m, uint32_t i, int json)
{
    if (json)
        json_fold(&m->row[i]);
    if (i % m->restarts + 1 < m->restarts)
        return;
    ts_models_table_fold_errors(m, i / m->restarts);
    if (!json)
        print_rank(m, i / m->restarts);
}

static const struct ts_models_rank *best_of(const struct ts_models_table *m)
{
    const struct ts_models_rank *best = m->rank;
    for (uint32_t k = 1; k < m->n_ranks; k++)
        if (m->rank[k].error < best->error)
            best = &m->rank[k];
    return best;
}

static void json_all(const struct ts_models_table *m, const char *out, uint64_t total_ns)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "folds");
    tool_json_u64(&j, "folds", m->restarts);
    tool_json_str(&j, "error", isfinite(m->row[0].held_out) ? "rmse" : "loss");
    tool_json_u64(&j, "best", best_of(m)->rank);
    tool_json_f64(&j, "seconds", (double)total_ns * 1e-9);
    tool_json_str(&j, "out", out);
    tool_json_array(&j, "ranks");
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        tool_json_object(&j, NULL);
        tool_json_u64(&j, "rank", m->rank[k].rank);
        tool_json_f64(&j, "held_out", m->rank[k].error);
        tool_json_f64(&j, "standard_error", m->rank[k].standard_error);
        tool_json_close(&j);
    }
    tool_json_close(&j);
    tool_json_close(&j);
}

void cp_folds_print_end(const struct ts_models_table *m, const char *out, uint64_t total_ns,
                        int json)
{
    const struct ts_models_rank *best = best_of(m);
    char total[TS_NUM_CHARS], plain[4096];
    if (json) {
        json_all(m, out, total_ns);
        return;
    }
    printf("%s at held-out cells %.6g with rank %u, %u folds, %s%s%s\n",
           isfinite(m->row[0].held_out) ? "root mean square error" : "mean loss", best->error,
           best->rank, m->restarts, ts_num_duration(total, total_ns), out != NULL ? ", in " : "",
           out != NULL ? tool_plain(out, plain, sizeof plain) : "");
}
