/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects, compares, writes and prints the table of several models. */
#include "tools/cp_models.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/tool_json_read.h"
#include "tools/tool_term.h"
#include "tools/tool_version.h"

int cp_models_new(const struct cp_args *args, struct cp_models *ret, struct ts_err *err)
{
    struct cp_models m = { .n = tstream_cp_models(args),
                           .n_ranks = args->ranks.n,
                           .restarts = args->restarts };
    m.row = calloc(m.n, sizeof *m.row);
    m.rank = calloc(m.n_ranks, sizeof *m.rank);
    if (m.row == NULL || m.rank == NULL) {
        cp_models_free(&m);
        return ts_fail(err, TS_ENOMEM, "out of memory for a table of models");
    }
    for (uint32_t i = 0; i < m.n; i++) {
        struct cp_models_row *row = &m.row[i];
        row->rank = args->ranks.at[i / m.restarts];
        row->seed = args->seed + i % m.restarts;
        row->fit = row->objective = row->held_out = row->score = NAN;
        ts_models_name(row->rank, row->seed, row->name);
    }
    for (uint32_t k = 0; k < m.n_ranks; k++)
        m.rank[k] = (struct cp_models_rank){ .rank = args->ranks.at[k],
                                             .best = k * m.restarts,
                                             .least_fit = NAN,
                                             .mean_score = NAN,
                                             .least_score = NAN,
                                             .consistency = NAN,
                                             .normalised = NAN };
    *ret = m;
    return 0;
}

void cp_models_free(struct cp_models *m)
{
    free(m->row);
    free(m->rank);
    memset(m, 0, sizeof *m);
}

static char *join(const char *dir, const char *name, struct ts_err *err)
{
    char *path;
    if (asprintf(&path, "%s/%s", dir, name) >= 0)
        return path;
    ts_fail(err, TS_ENOMEM, "%s: out of memory", dir);
    return NULL;
}

/* A number, or NaN where it is null or absent. */
static double number(const struct tool_value *of, const char *key)
{
    const struct tool_value *v = tool_json_get(of, key);
    return v != NULL && v->kind == TOOL_NUMBER ? v->number : NAN;
}

int cp_models_read(struct cp_models *m, uint32_t i, const char *dir, struct ts_err *err)
{
    struct cp_models_row *row = &m->row[i];
    struct tool_json_doc doc = { 0 };
    const struct tool_value *sweeps, *last = NULL;
    char name[TS_MODELS_NAME_CHARS + 16], *path;
    int rc;
    snprintf(name, sizeof name, "%s/%s", row->name, TS_RUN_RECORD_NAME);
    path = join(dir, name, err);
    rc = path == NULL ? TS_ENOMEM : tool_json_read(path, &doc, err);
    free(path);
    if (rc < 0)
        return rc;
    sweeps = tool_json_get(doc.value, "sweeps");
    row->seconds = 0;
    for (const struct tool_value *s = sweeps == NULL ? NULL : sweeps->first; s != NULL;
         s = s->next) {
        row->seconds += tool_json_number(s, "seconds");
        last = s;
    }
    row->done = 1;
    row->fit = number(doc.value, "fit");
    row->objective = number(last, "objective");
    row->held_out = number(last, "held_out_rmse");
    row->n_dead = (uint32_t)tool_json_number(last, "dead_components");
    row->n_sweeps = sweeps == NULL ? 0 : sweeps->n;
    snprintf(row->ended, sizeof row->ended, "%s", tool_json_text(doc.value, "ended", "?"));
    tool_json_free(&doc);
    return 0;
}

/* ---- which is the best, and how alike they are ---- */

static int is_better(const struct cp_models_row *a, const struct cp_models_row *b)
{
    if (isfinite(a->held_out) &&
        isfinite(b->held_out)) /* more columns always fit the rest better */
        return a->held_out < b->held_out;
    if (isfinite(a->objective) && isfinite(b->objective))
        return a->objective < b->objective;
    return a->fit > b->fit || (!isnan(a->fit) && isnan(b->fit));
}

static int score_with(const char *dir, const char *name, struct ts_match_conf *conf, double *ret,
                      struct ts_err *err)
{
    struct ts_match match = { 0 };
    struct ts_match_pair *pair = NULL;
    char *path = join(dir, name, err);
    int rc = path == NULL ? TS_ENOMEM : ts_model_open(path, &conf->b, err);
    if (rc == 0)
        rc = ts_match_run(conf, &match, err);
    if (rc == 0 && (pair = calloc(ts_match_pairs(&match), sizeof *pair)) == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    if (rc == 0)
        rc = ts_match_assign(&match, TS_MATCH_GREEDY, 1, pair, ret, err);
    free(pair);
    ts_match_free(&match);
    ts_model_close(conf->b);
    conf->b = NULL;
    free(path);
    return rc;
}

static int match_rank(struct cp_models *m, uint32_t k, const char *dir, uint32_t threads,
                      struct ts_err *err)
{
    struct cp_models_rank *rank = &m->rank[k];
    const uint32_t first = k * m->restarts;
    double sum = 0;
    int rc = 0;
    rank->best = first;
    rank->least_fit = m->row[first].fit;
    for (uint32_t i = first + 1; i < first + m->restarts; i++) {
        if (is_better(&m->row[i], &m->row[rank->best]))
            rank->best = i;
        rank->least_fit = fmin(rank->least_fit, m->row[i].fit);
    }
    for (uint32_t i = first; i < first + m->restarts && rc == 0; i++) {
        struct ts_match_conf conf = { .threads = threads, .stop = &tool_stop };
        char *path;
        m->row[i].score = 1;
        if (i == rank->best)
            continue;
        path = join(dir, m->row[rank->best].name, err); /* opened again: rows are read once */
        rc = path == NULL ? TS_ENOMEM : ts_model_open(path, &conf.a, err);
        if (rc == 0)
            rc = score_with(dir, m->row[i].name, &conf, &m->row[i].score, err);
        ts_model_close(conf.a);
        free(path);
        sum += m->row[i].score;
        rank->least_score = fmin(rank->least_score, m->row[i].score);
    }
    if (m->restarts > 1)
        rank->mean_score = sum / (m->restarts - 1);
    return rc;
}

int cp_models_match(struct cp_models *m, const char *dir, uint32_t threads, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < m->n_ranks && rc == 0; k++)
        rc = match_rank(m, k, dir, threads, err);
    return rc;
}

struct progress {
    struct tool_progress line;
    _Atomic uint64_t done_nnz;
};

static void count_done(void *ctx, uint64_t nnz)
{
    struct progress *p = ctx;
    tool_progress_update(&p->line, atomic_fetch_add(&p->done_nnz, nnz) + nnz);
}

static int diagnose(const struct ts_cmd *cmd, struct cp_models_rank *rank, const char *path,
                    const struct ts_tensor *t, uint32_t threads, struct ts_err *err)
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
    int rc = ts_model_open(path, &model, err);
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

int cp_models_diagnose(const struct ts_cmd *cmd, struct cp_models *m, const char *dir,
                       const struct ts_tensor *t, uint32_t threads, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < m->n_ranks && rc == 0; k++) {
        char *path = join(dir, m->row[m->rank[k].best].name, err);
        rc = path == NULL ? TS_ENOMEM : diagnose(cmd, &m->rank[k], path, t, threads, err);
        free(path);
    }
    return rc;
}

/* ---- for programs ---- */

void cp_models_json(const struct cp_models *m, struct tool_json *j)
{
    tool_json_array(j, "models");
    for (uint32_t i = 0; i < m->n; i++) {
        const struct cp_models_row *row = &m->row[i];
        tool_json_object(j, NULL);
        tool_json_str(j, "model", row->name);
        tool_json_u64(j, "rank", row->rank);
        tool_json_u64(j, "seed", row->seed);
        tool_json_f64(j, "fit", row->fit);
        tool_json_f64(j, "objective", row->objective);
        tool_json_f64(j, "held_out_rmse", row->held_out);
        tool_json_u64(j, "dead_components", row->n_dead);
        tool_json_u64(j, "sweeps", row->n_sweeps);
        tool_json_f64(j, "seconds", row->seconds);
        tool_json_str(j, "ended", row->ended);
        tool_json_f64(j, "score", row->score);
        tool_json_bool(j, "best", m->rank[i / m->restarts].best == i);
        tool_json_close(j);
    }
    tool_json_close(j);
    tool_json_array(j, "ranks");
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        const struct cp_models_rank *rank = &m->rank[k];
        tool_json_object(j, NULL);
        tool_json_u64(j, "rank", rank->rank);
        tool_json_str(j, "best", m->row[rank->best].name);
        tool_json_u64(j, "starts", m->restarts);
        tool_json_f64(j, "fit", m->row[rank->best].fit);
        tool_json_f64(j, "least_fit", rank->least_fit);
        tool_json_f64(j, "mean_score", rank->mean_score);
        tool_json_f64(j, "least_score", rank->least_score);
        tool_json_f64(j, "core_consistency", rank->consistency);
        tool_json_f64(j, "core_normalised", rank->normalised);
        tool_json_close(j);
    }
    tool_json_close(j);
}

static void put_json(const struct cp_models *m, const struct ts_cmd *cmd, const void *args,
                     const char *tensor, const struct ts_tensor *t, FILE *to)
{
    char checksum[17], *real = realpath(tensor, NULL);
    struct tool_json j;
    tool_json_open(&j, to);
    tool_json_str(&j, "program", "tstream");
    tool_json_str(&j, "version", tool_version());
    tool_json_str(&j, "commit", tool_commit());
    snprintf(checksum, sizeof checksum, "%016" PRIx64, t->hash);
    tool_json_object(&j, "tensor");
    tool_json_str(&j, "path", real != NULL ? real : tensor);
    tool_json_str(&j, "checksum", checksum);
    tool_json_close(&j);
    tool_json_options(&j, cmd, args);
    cp_models_json(m, &j);
    tool_json_close(&j);
    free(real);
}

/* A number with all its digits, nothing where it is not known. */
static void put_cell(FILE *to, double x)
{
    if (isfinite(x))
        fprintf(to, "\t%.17g", x);
    else
        fputc('\t', to);
}

static void put_tsv(const struct cp_models *m, FILE *to)
{
    fprintf(to, "model\trank\tseed\tfit\tobjective\tdead_components\tsweeps\tseconds\tended\tscore"
                "\tbest\tcore_consistency\theld_out_rmse\n");
    for (uint32_t i = 0; i < m->n; i++) {
        const struct cp_models_row *row = &m->row[i];
        const struct cp_models_rank *rank = &m->rank[i / m->restarts];
        fprintf(to, "%s\t%u\t%" PRIu64, row->name, row->rank, row->seed);
        put_cell(to, row->fit);
        put_cell(to, row->objective);
        fprintf(to, "\t%u\t%u", row->n_dead, row->n_sweeps);
        put_cell(to, row->seconds);
        fprintf(to, "\t%s", row->ended);
        put_cell(to, row->score);
        fprintf(to, "\t%d", rank->best == i);
        put_cell(to, rank->best == i ? rank->consistency : NAN);
        put_cell(to, row->held_out);
        fputc('\n', to);
    }
}

static int link_best(const struct cp_models *m, int to, const char *dir, struct ts_err *err)
{
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        char name[32];
        snprintf(name, sizeof name, "best.r%u", m->rank[k].rank);
        (void)unlinkat(to, name, 0); /* of a process that was killed here */
        if (symlinkat(m->row[m->rank[k].best].name, to, name) != 0)
            return ts_fail_errno(err, TS_EIO, "%s/%s: cannot be linked", dir, name);
    }
    return 0;
}

int cp_models_write(const struct cp_models *m, const struct ts_cmd *cmd, const void *args,
                    const char *tensor, const struct ts_tensor *t, int to, const char *dir,
                    struct ts_err *err)
{
    static const char *const name[] = { TS_MODELS_JSON, TS_MODELS_TSV };
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        char *text = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&text, &n);
        if (f != NULL && i == 0)
            put_json(m, cmd, args, tensor, t, f);
        else if (f != NULL)
            put_tsv(m, f);
        if (f == NULL || fclose(f) != 0)
            rc = ts_fail(err, TS_ENOMEM, "%s/%s: out of memory", dir, name[i]);
        if (rc == 0)
            rc = ts_atomic_put(to, dir, name[i], text, n, TS_ATOMIC_DURABLE, err);
        free(text);
    }
    return rc == 0 ? link_best(m, to, dir, err) : rc;
}

/* ---- reading it again ---- */

/* The members of an array, where it has as many as there must be. */
static const struct tool_value *items(const struct tool_value *of, const char *key, uint32_t *n)
{
    const struct tool_value *v = tool_json_get(of, key);
    *n = v != NULL && v->kind == TOOL_ARRAY ? v->n : 0;
    return *n > 0 ? v->first : NULL;
}

static int take_table(const struct tool_value *of, const char *path, struct cp_models *m,
                      struct ts_err *err)
{
    const struct tool_value *row = items(of, "models", &m->n);
    const struct tool_value *rank = items(of, "ranks", &m->n_ranks);
    if (m->n_ranks == 0 || m->n == 0 || m->n % m->n_ranks != 0)
        return ts_fail(err, TS_EFORMAT, "%s: is no table of models", path);
    m->restarts = m->n / m->n_ranks;
    m->row = calloc(m->n, sizeof *m->row);
    m->rank = calloc(m->n_ranks, sizeof *m->rank);
    if (m->row == NULL || m->rank == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    for (struct cp_models_row *to = m->row; row != NULL; row = row->next, to++) {
        const struct tool_value *best = tool_json_get(row, "best");
        snprintf(to->name, sizeof to->name, "%s", tool_json_text(row, "model", "?"));
        snprintf(to->ended, sizeof to->ended, "%s", tool_json_text(row, "ended", "?"));
        to->done = 1;
        to->rank = (uint32_t)tool_json_number(row, "rank");
        to->seed = strtoull(tool_json_text(row, "seed", "0"), NULL, 10);
        to->n_dead = (uint32_t)tool_json_number(row, "dead_components");
        to->n_sweeps = (uint32_t)tool_json_number(row, "sweeps");
        to->fit = number(row, "fit");
        to->objective = number(row, "objective");
        to->held_out = number(row, "held_out_rmse");
        to->seconds = tool_json_number(row, "seconds");
        to->score = number(row, "score");
        if (best != NULL && best->number != 0)
            m->rank[(to - m->row) / m->restarts].best = (uint32_t)(to - m->row);
    }
    for (struct cp_models_rank *to = m->rank; rank != NULL; rank = rank->next, to++) {
        to->rank = (uint32_t)tool_json_number(rank, "rank");
        to->least_fit = number(rank, "least_fit");
        to->mean_score = number(rank, "mean_score");
        to->least_score = number(rank, "least_score");
        to->consistency = number(rank, "core_consistency");
        to->normalised = number(rank, "core_normalised");
    }
    for (uint32_t k = 0; k < m->n_ranks; k++)
        if (m->rank[k].best / m->restarts != k)
            return ts_fail(err, TS_EFORMAT, "%s: rank %u has no best model", path, m->rank[k].rank);
    return 0;
}

int cp_models_load(const char *dir, struct cp_models *ret, struct ts_err *err)
{
    char *path = join(dir, TS_MODELS_JSON, err);
    struct tool_json_doc doc = { 0 };
    struct cp_models m = { 0 };
    int rc = path == NULL ? TS_ENOMEM : tool_json_read(path, &doc, err);
    if (rc == 0)
        rc = take_table(doc.value, path, &m, err);
    if (rc == 0)
        *ret = m;
    else
        cp_models_free(&m);
    tool_json_free(&doc);
    free(path);
    return rc;
}

/* ---- for people ---- */

static void put_number(char text[TS_NUM_CHARS], const char *format, double x)
{
    if (isfinite(x))
        snprintf(text, TS_NUM_CHARS, format, x);
    else
        snprintf(text, TS_NUM_CHARS, "-");
}

enum { MODEL, FIT, OBJECTIVE, HELD_OUT, SWEEPS, SECONDS, ENDED, SCORE, N_COLUMNS };

void cp_models_print_row(const struct cp_models *m, uint32_t i, int head)
{
    const struct cp_models_row *row = &m->row[i];
    char text[N_COLUMNS][TS_NUM_CHARS];
    const char *cell[N_COLUMNS];
    struct tool_column column[N_COLUMNS] = {
        [MODEL] = { .name = "model", .width = 12, .left = 1 },
        [FIT] = { .name = "fit", .width = 11 },
        [OBJECTIVE] = { .name = "objective",
                        .width = 13,
                        .drop = isfinite(row->held_out)    ? 3
                                : isfinite(row->objective) ? 1
                                                           : 2 },
        [HELD_OUT] = { .name = "held out", .width = 9, .drop = isfinite(row->held_out) ? 0 : 4 },
        [SWEEPS] = { .name = "sweeps", .width = 6 },
        [SECONDS] = { .name = "seconds", .width = 9 },
        [ENDED] = { .name = "ended", .width = 10, .left = 1 },
        [SCORE] = { .name = "score", .width = 8, .drop = 1 },
    };
    uint32_t shown = tool_table_fit(column, N_COLUMNS, TOOL_LEAST_COLUMNS);
    if (!isfinite(row->objective))
        shown &= ~(1u << OBJECTIVE);
    if (!isfinite(row->held_out))
        shown &= ~(1u << HELD_OUT);
    if (!isfinite(row->score))
        shown &= ~(1u << SCORE);
    if (head)
        tool_table_head(column, N_COLUMNS, shown);
    snprintf(text[MODEL], TS_NUM_CHARS, "%.30s", row->name);
    snprintf(text[ENDED], TS_NUM_CHARS, "%.30s", row->ended);
    snprintf(text[SWEEPS], TS_NUM_CHARS, "%u", row->n_sweeps);
    put_number(text[FIT], "%.9f", row->fit);
    put_number(text[OBJECTIVE], "%.7e", row->objective);
    put_number(text[HELD_OUT], "%.6g", row->held_out);
    put_number(text[SECONDS], "%.3f", row->seconds);
    put_number(text[SCORE], "%.6f", row->score);
    for (uint32_t c = 0; c < N_COLUMNS; c++)
        cell[c] = text[c];
    tool_table_row(column, N_COLUMNS, shown, cell);
    tool_flush();
}

enum { RANK, BEST, BEST_FIT, LEAST_FIT, MEAN_SCORE, LEAST_SCORE, CORE, N_OF_RANK };

void cp_models_print_ranks(const struct cp_models *m)
{
    static const struct tool_column column[N_OF_RANK] = {
        [RANK] = { .name = "rank", .width = 4 },
        [BEST] = { .name = "best", .width = 12, .left = 1 },
        [BEST_FIT] = { .name = "fit", .width = 11 },
        [LEAST_FIT] = { .name = "least fit", .width = 11 },
        [MEAN_SCORE] = { .name = "score", .width = 8 },
        [LEAST_SCORE] = { .name = "least", .width = 8 },
        [CORE] = { .name = "core %", .width = 9 },
    };
    uint32_t shown = (1u << N_OF_RANK) - 1;
    if (m->restarts == 1)
        shown &= ~(1u << LEAST_FIT | 1u << MEAN_SCORE | 1u << LEAST_SCORE);
    if (!isfinite(m->rank[0].consistency))
        shown &= ~(1u << CORE);
    tool_table_head(column, N_OF_RANK, shown);
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        const struct cp_models_rank *rank = &m->rank[k];
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
