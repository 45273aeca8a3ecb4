/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects, compares, writes and reads the table of several models. */
#include "engine/models_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_read.h"
#include "engine/run_record.h"
#include "format/arrays/array_name.h"
#include "model/match.h"

int ts_models_table_new(const uint32_t *ranks, uint32_t n_ranks, uint32_t restarts, uint64_t seed,
                        struct ts_models_table *ret, struct ts_err *err)
{
    struct ts_models_table m = { .n = n_ranks * restarts,
                                 .n_ranks = n_ranks,
                                 .restarts = restarts };
    m.row = calloc(m.n, sizeof *m.row);
    m.rank = calloc(m.n_ranks, sizeof *m.rank);
    if (m.row == NULL || m.rank == NULL) {
        ts_models_table_free(&m);
        return ts_fail(err, TS_ENOMEM, "out of memory for a table of models");
    }
    for (uint32_t i = 0; i < m.n; i++) {
        struct ts_models_row *row = &m.row[i];
        row->rank = ranks[i / m.restarts];
        row->seed = seed + i % m.restarts;
        row->fit = row->objective = row->held_out = row->held_out_loss = row->score = NAN;
        ts_models_name(row->rank, row->seed, row->name);
    }
    for (uint32_t k = 0; k < m.n_ranks; k++)
        m.rank[k] = (struct ts_models_rank){ .rank = ranks[k],
                                             .best = k * m.restarts,
                                             .least_fit = NAN,
                                             .mean_score = NAN,
                                             .least_score = NAN,
                                             .consistency = NAN,
                                             .normalised = NAN,
                                             .error = NAN,
                                             .standard_error = NAN };
    *ret = m;
    return 0;
}

int ts_models_table_new_folds(const uint32_t *ranks, uint32_t n_ranks, uint32_t folds,
                              uint64_t seed, struct ts_models_table *ret, struct ts_err *err)
{
    const int rc = ts_models_table_new(ranks, n_ranks, folds, seed, ret, err);
    if (rc < 0)
        return rc;
    ret->folds = 1;
    for (uint32_t i = 0; i < ret->n; i++) {
        struct ts_models_row *row = &ret->row[i];
        row->seed = seed;
        row->fold = i % folds + 1;
        ts_models_fold_name(row->rank, row->fold, row->name);
    }
    return 0;
}

int ts_models_table_same_cells(const struct ts_models_table *m, uint32_t a, uint32_t b)
{
    return m->row[a].fold == m->row[b].fold && m->row[a].seed == m->row[b].seed;
}

double ts_models_table_error(const struct ts_models_row *row)
{
    return isfinite(row->held_out) ? row->held_out : row->held_out_loss;
}

void ts_models_table_fold_errors(struct ts_models_table *m, uint32_t k)
{
    const uint32_t n = m->restarts;
    const struct ts_models_row *row = &m->row[(size_t)k * n];
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += ts_models_table_error(&row[i]) / n;
    for (uint32_t i = 0; i < n; i++) {
        const double off = ts_models_table_error(&row[i]) - sum;
        squares += off * off;
    }
    m->rank[k].error = sum;
    m->rank[k].standard_error = sqrt(squares / (n - 1) / n);
}

void ts_models_table_free(struct ts_models_table *m)
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

/* Returns the number that a JSON object has as member `key`; NaN if it is null or missing. */
static double number(const struct ts_json_value *object, const char *key)
{
    const struct ts_json_value *v = ts_json_get(object, key);
    return v != NULL && v->kind == TS_JSON_NUMBER ? v->number : NAN;
}

/* Reads the record of one model's run. */
static int read_record(const struct ts_open_dir *dir, const char *name, struct ts_json_doc *ret,
                       struct ts_err *err)
{
    struct ts_open_dir *own = NULL;
    char *path = join(ts_open_dir_path(dir), name, err);
    int rc = path == NULL ? TS_ENOMEM : ts_open_dir_inside(dir, name, path, &own, err);
    if (rc == 0)
        rc = ts_json_read_in(own, TS_RUN_RECORD_NAME, ret, err);
    if (rc == 0)
        rc = ts_fail(err, TS_EFORMAT, "%s: it has no file named " TS_RUN_RECORD_NAME, path);
    ts_open_dir_close(own);
    free(path);
    return rc;
}

int ts_models_table_read(struct ts_models_table *m, uint32_t i, const struct ts_open_dir *dir,
                         struct ts_err *err)
{
    struct ts_models_row *row = &m->row[i];
    struct ts_json_doc doc = { 0 };
    const struct ts_json_value *sweeps, *last = NULL;
    const int rc = read_record(dir, row->name, &doc, err);
    if (rc < 0)
        return rc;
    sweeps = ts_json_get(doc.value, "sweeps");
    row->seconds = 0;
    for (const struct ts_json_value *s = sweeps == NULL ? NULL : sweeps->first; s != NULL;
         s = s->next) {
        row->seconds += ts_json_number(s, "seconds");
        last = s;
    }
    row->done = 1;
    row->fit = number(doc.value, "fit");
    row->objective = number(last, "objective");
    row->held_out = number(doc.value, "held_out_rmse");
    row->held_out_loss = number(doc.value, "held_out_loss");
    row->best_sweep = ts_json_u32(doc.value, "best_sweep");
    row->n_dead = ts_json_u32(last, "dead_components");
    row->n_sweeps = sweeps == NULL ? 0 : sweeps->n;
    snprintf(row->ended, sizeof row->ended, "%s", ts_json_text(doc.value, "ended", "?"));
    ts_json_free(&doc);
    return 0;
}

/* ---- the best model, and the scores of the others ---- */

static int is_better(const struct ts_models_row *a, const struct ts_models_row *b)
{
    if (isfinite(a->held_out) &&
        /* errors are compared first: a higher rank always has a better fit at cells that are not
         * held out */
        isfinite(b->held_out))
        return a->held_out < b->held_out;
    if (isfinite(a->held_out_loss) && isfinite(b->held_out_loss))
        return a->held_out_loss < b->held_out_loss;
    if (isfinite(a->objective) && isfinite(b->objective))
        return a->objective < b->objective;
    return a->fit > b->fit || (!isnan(a->fit) && isnan(b->fit));
}

/* How a model is opened. The rows of an open model can be read only once, so each score opens both
 * models again. */
struct opener {
    ts_models_open_fn *open;
    void *ctx;
    uint32_t threads;
    const volatile sig_atomic_t *stop;
};

static int score(const struct opener *o, uint32_t best, uint32_t row, double *ret,
                 struct ts_err *err)
{
    struct ts_match_conf conf = { .threads = o->threads, .stop = o->stop };
    struct ts_match match = { 0 };
    struct ts_match_pair *pair = NULL;
    int rc = o->open(o->ctx, best, &conf.a, err);
    if (rc == 0)
        rc = o->open(o->ctx, row, &conf.b, err);
    if (rc == 0)
        rc = ts_match_run(&conf, &match, err);
    if (rc == 0 && (pair = calloc(ts_match_pairs(&match), sizeof *pair)) == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for pairs of components");
    if (rc == 0)
        rc = ts_match_assign(&match, TS_MATCH_GREEDY, 1, pair, ret, err);
    free(pair);
    ts_match_free(&match);
    ts_model_close(conf.a);
    ts_model_close(conf.b);
    return rc;
}

static int match_rank(struct ts_models_table *m, uint32_t k, const struct opener *o,
                      struct ts_err *err)
{
    struct ts_models_rank *rank = &m->rank[k];
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
        m->row[i].score = 1;
        if (i == rank->best)
            continue;
        rc = score(o, rank->best, i, &m->row[i].score, err);
        sum += m->row[i].score;
        rank->least_score = fmin(rank->least_score, m->row[i].score);
    }
    if (m->restarts > 1)
        rank->mean_score = sum / (m->restarts - 1);
    return rc;
}

int ts_models_table_match(struct ts_models_table *m, ts_models_open_fn *open, void *ctx,
                          uint32_t threads, const volatile sig_atomic_t *stop, struct ts_err *err)
{
    const struct opener o = { open, ctx, threads, stop };
    int rc = 0;
    for (uint32_t k = 0; k < m->n_ranks && rc == 0; k++)
        rc = match_rank(m, k, &o, err);
    return rc;
}

/* ---- writing the table of models ---- */

void ts_models_table_json(const struct ts_models_table *m, struct ts_json *j)
{
    ts_json_array(j, "models");
    for (uint32_t i = 0; i < m->n; i++) {
        const struct ts_models_row *row = &m->row[i];
        ts_json_object(j, NULL);
        ts_json_str(j, "model", row->name);
        ts_json_u64(j, "rank", row->rank);
        ts_json_u64(j, "seed", row->seed);
        ts_json_f64(j, "fold", row->fold > 0 ? row->fold : NAN);
        ts_json_f64(j, "fit", row->fit);
        ts_json_f64(j, "objective", row->objective);
        ts_json_f64(j, "held_out_rmse", row->held_out);
        ts_json_f64(j, "held_out_loss", row->held_out_loss);
        ts_json_u64(j, "dead_components", row->n_dead);
        ts_json_u64(j, "sweeps", row->n_sweeps);
        ts_json_f64(j, "seconds", row->seconds);
        ts_json_str(j, "ended", row->ended);
        ts_json_f64(j, "score", row->score);
        ts_json_bool(j, "best", m->rank[i / m->restarts].best == i);
        ts_json_close(j);
    }
    ts_json_close(j);
    ts_json_array(j, "ranks");
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        const struct ts_models_rank *rank = &m->rank[k];
        ts_json_object(j, NULL);
        ts_json_u64(j, "rank", rank->rank);
        ts_json_str(j, "best", m->row[rank->best].name);
        ts_json_u64(j, "starts", m->restarts);
        ts_json_f64(j, "fit", m->row[rank->best].fit);
        ts_json_f64(j, "least_fit", rank->least_fit);
        ts_json_f64(j, "mean_score", rank->mean_score);
        ts_json_f64(j, "least_score", rank->least_score);
        ts_json_f64(j, "core_consistency", rank->consistency);
        ts_json_f64(j, "core_normalised", rank->normalised);
        ts_json_f64(j, "held_out", rank->error);
        ts_json_f64(j, "standard_error", rank->standard_error);
        ts_json_close(j);
    }
    ts_json_close(j);
}

static void put_json(const struct ts_models_table *m, const struct ts_models_writer *who,
                     const struct ts_tensor *t, char *const *text, const size_t *n, FILE *to)
{
    char checksum[17], *real = ts_array_name_real(who->tensor);
    struct ts_json j;
    ts_json_open(&j, to);
    ts_json_str(&j, "program", "tstream");
    ts_json_str(&j, "version", who->version);
    ts_json_str(&j, "commit", who->commit);
    snprintf(checksum, sizeof checksum, "%016" PRIx64, t->hash);
    ts_json_object(&j, "tensor");
    ts_json_str(&j, "path", real != NULL ? real : who->tensor);
    ts_json_str(&j, "checksum", checksum);
    ts_json_close(&j);
    ts_json_options(&j, who->opts, who->args);
    ts_models_table_json(m, &j);
    ts_json_seal(&j, text, n);
    ts_json_close(&j);
    free(real);
}

/* Writes a number with all digits, or an empty cell if it is not finite. */
static void put_cell(FILE *to, double x)
{
    if (isfinite(x))
        fprintf(to, "\t%.17g", x);
    else
        fputc('\t', to);
}

static void put_tsv(const struct ts_models_table *m, FILE *to)
{
    fprintf(to, "model\trank\tseed\tfit\tobjective\tdead_components\tsweeps\tseconds\tended\tscore"
                "\tbest\tcore_consistency\theld_out_rmse\theld_out_loss\n");
    for (uint32_t i = 0; i < m->n; i++) {
        const struct ts_models_row *row = &m->row[i];
        const struct ts_models_rank *rank = &m->rank[i / m->restarts];
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
        put_cell(to, row->held_out_loss);
        fputc('\n', to);
    }
}

static int link_best(const struct ts_models_table *m, int to, const char *dir, struct ts_err *err)
{
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        char name[32];
        snprintf(name, sizeof name, "best.r%u", m->rank[k].rank);
        /* a link of this name may be left from a process that was killed here */
        (void)unlinkat(to, name, 0);
        if (symlinkat(m->row[m->rank[k].best].name, to, name) != 0)
            return ts_fail_errno(err, TS_EIO, "%s/%s: cannot be linked", dir, name);
    }
    return 0;
}

int ts_models_table_write(const struct ts_models_table *m, const struct ts_models_writer *who,
                          const struct ts_tensor *t, int to, const char *dir, struct ts_err *err)
{
    static const char *const name[] = { TS_MODELS_JSON, TS_MODELS_TSV };
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        char *text = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&text, &n);
        if (f != NULL && i == 0)
            put_json(m, who, t, &text, &n, f);
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

/* ---- reading the table of models ---- */

/* Returns the first element of an array in `object`, and sets *n to their number. NULL if the array
 * is empty or missing. */
static const struct ts_json_value *items(const struct ts_json_value *object, const char *key,
                                         uint32_t *n)
{
    const struct ts_json_value *v = ts_json_get(object, key);
    *n = v != NULL && v->kind == TS_JSON_ARRAY ? v->n : 0;
    return *n > 0 ? v->first : NULL;
}

/* Whether a run of several models may have written this row. This matters because names lead to
 * files. */
static int is_row(const struct ts_models_row *row, const struct ts_models_rank *rank)
{
    char name[TS_MODELS_NAME_CHARS];
    if (row->fold > 0)
        ts_models_fold_name(row->rank, row->fold, name);
    else
        ts_models_name(row->rank, row->seed, name);
    return row->rank == rank->rank && row->rank > 0 && row->rank <= TS_MAX_RANK &&
           strcmp(row->name, name) == 0 && row->n_dead <= row->rank;
}

/* Where a number is in struct ts_models_row or ts_models_rank, and its name in a JSON file. A
 * number that is null or missing there becomes NAN. */
struct figure {
    const char *name;
    size_t at;
};

static void take_figures(const struct ts_json_value *object, const struct figure *figure, size_t n,
                         void *to)
{
    for (size_t i = 0; i < n; i++)
        *(double *)(void *)((char *)to + figure[i].at) = number(object, figure[i].name);
}

static void take_row(struct ts_models_row *to, const struct ts_json_value *row)
{
#define AT(field) offsetof(struct ts_models_row, field)
    static const struct figure figure[] = { { "fit", AT(fit) },
                                            { "objective", AT(objective) },
                                            { "held_out_rmse", AT(held_out) },
                                            { "held_out_loss", AT(held_out_loss) },
                                            { "score", AT(score) } };
#undef AT
    snprintf(to->name, sizeof to->name, "%s", ts_json_text(row, "model", "?"));
    snprintf(to->ended, sizeof to->ended, "%s", ts_json_text(row, "ended", "?"));
    to->done = 1;
    to->rank = ts_json_u32(row, "rank");
    to->fold = ts_json_u32(row, "fold");
    to->seed = strtoull(ts_json_text(row, "seed", "0"), NULL, 10);
    to->n_dead = ts_json_u32(row, "dead_components");
    to->n_sweeps = ts_json_u32(row, "sweeps");
    to->seconds = ts_json_number(row, "seconds");
    take_figures(row, figure, sizeof figure / sizeof *figure, to);
}

static void take_one_rank(struct ts_models_rank *to, const struct ts_json_value *rank)
{
#define AT(field) offsetof(struct ts_models_rank, field)
    static const struct figure figure[] = {
        { "least_fit", AT(least_fit) },          { "mean_score", AT(mean_score) },
        { "least_score", AT(least_score) },      { "core_consistency", AT(consistency) },
        { "core_normalised", AT(normalised) },   { "held_out", AT(error) },
        { "standard_error", AT(standard_error) }
    };
#undef AT
    to->rank = ts_json_u32(rank, "rank");
    to->best = UINT32_MAX;
    take_figures(rank, figure, sizeof figure / sizeof *figure, to);
}

static int take_table(const struct ts_json_value *object, const char *path,
                      struct ts_models_table *m, struct ts_err *err)
{
    const struct ts_json_value *row = items(object, "models", &m->n);
    const struct ts_json_value *rank = items(object, "ranks", &m->n_ranks);
    if (m->n_ranks == 0 || m->n == 0 || m->n % m->n_ranks != 0)
        return ts_fail(err, TS_EFORMAT, "%s: is no table of models", path);
    m->restarts = m->n / m->n_ranks;
    m->row = calloc(m->n, sizeof *m->row);
    m->rank = calloc(m->n_ranks, sizeof *m->rank);
    if (m->row == NULL || m->rank == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    for (struct ts_models_rank *to = m->rank; rank != NULL; rank = rank->next, to++)
        take_one_rank(to, rank);
    for (uint32_t i = 0; row != NULL; row = row->next, i++) {
        const struct ts_json_value *best = ts_json_get(row, "best");
        struct ts_models_rank *own = &m->rank[i / m->restarts];
        take_row(&m->row[i], row);
        m->folds |= m->row[i].fold > 0;
        if (best != NULL && best->number != 0)
            own->best = i;
        if (!is_row(&m->row[i], own))
            return ts_fail(err, TS_EFORMAT, "%s: row %u is of no model of the run", path, i + 1);
    }
    for (uint32_t k = 0; k < m->n_ranks; k++)
        if (m->rank[k].best == UINT32_MAX)
            return ts_fail(err, TS_EFORMAT, "%s: rank %u has no best model", path, m->rank[k].rank);
    return 0;
}

int ts_models_table_take(const struct ts_json_doc *doc, const char *path,
                         struct ts_models_table *ret, struct ts_err *err)
{
    struct ts_models_table m = { 0 };
    const int rc = take_table(doc->value, path, &m, err);
    if (rc == 0)
        *ret = m;
    else
        ts_models_table_free(&m);
    return rc;
}

int ts_models_table_load(const struct ts_open_dir *dir, struct ts_models_table *ret,
                         struct ts_err *err)
{
    char *path = join(ts_open_dir_path(dir), TS_MODELS_JSON, err);
    struct ts_json_doc doc = { 0 };
    int rc = path == NULL ? TS_ENOMEM : ts_json_read_in(dir, TS_MODELS_JSON, &doc, err);
    if (rc == 0)
        rc = ts_fail(err, TS_EFORMAT, "%s: there is no such file", path);
    if (rc > 0)
        rc = ts_models_table_take(&doc, path, ret, err);
    ts_json_free(&doc);
    free(path);
    return rc;
}
