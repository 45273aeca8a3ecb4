/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the table of several models that a model belongs to, and recommends a rank. */
#include "tools/report/report_models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cp/cp_models.h"

char *report_models_of(const char *path)
{
    size_t end = strlen(path);
    char *dir;
    while (end > 1 && path[end - 1] == '/')
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    while (end > 1 && path[end - 1] == '/')
        end--;
    dir = end == 0 ? strdup(".") : strndup(path, end);
    if (dir != NULL && ts_models_there(dir))
        return dir;
    free(dir);
    return NULL;
}

/* ---- the recommended rank ---- */

/* least mean factor match score at which the models of a rank count as having equal components */
#define SAME_FACTORS 0.9
/* least core consistency, in percent, of a rank that can be recommended */
#define CONSISTENT  50.0
#define OF_BEST_FIT 0.95 /* a rank with this fraction of the best fit is high enough */

/* Returns the smallest rank whose cross-validation error exceeds the least error by at most one
 * standard error. */
static uint32_t choose_by_error(const struct ts_models_table *m)
{
    const struct ts_models_rank *best = &m->rank[0];
    uint32_t choice = 0;
    for (uint32_t k = 0; k < m->n_ranks; k++)
        best = m->rank[k].error < best->error ? &m->rank[k] : best;
    for (uint32_t k = 0; k < m->n_ranks; k++)
        if (m->rank[k].error <= best->error + fmax(0, best->standard_error) &&
            (choice == 0 || m->rank[k].rank < choice))
            choice = m->rank[k].rank;
    return choice;
}

/* Returns the largest rank whose figure (such as a mean score) is at least `least`; 0: none. */
static uint32_t choose_largest(const struct ts_models_table *m,
                               double (*figure)(const struct ts_models_rank *), double least)
{
    uint32_t choice = 0;
    for (uint32_t k = 0; k < m->n_ranks; k++)
        if (figure(&m->rank[k]) >= least && m->rank[k].rank > choice)
            choice = m->rank[k].rank;
    return choice;
}

static double mean_score(const struct ts_models_rank *rank)
{
    return rank->mean_score;
}

static double consistency(const struct ts_models_rank *rank)
{
    return rank->consistency;
}

static uint32_t choose_by_fit(const struct ts_models_table *m)
{
    double best = -INFINITY;
    uint32_t choice = 0;
    for (uint32_t k = 0; k < m->n_ranks; k++)
        best = fmax(best, m->row[m->rank[k].best].fit);
    for (uint32_t k = 0; k < m->n_ranks; k++)
        if (m->row[m->rank[k].best].fit >= OF_BEST_FIT * best &&
            (choice == 0 || m->rank[k].rank < choice))
            choice = m->rank[k].rank;
    return best > 0 ? choice : 0;
}

/* Returns the recommended rank and sets *by to the criterion. 0: no recommendation. */
static uint32_t choose(const struct ts_models_table *m, const char **by)
{
    uint32_t choice = 0;
    *by = NULL;
    if (m->n_ranks < 2)
        return 0;
    if (isfinite(m->rank[0].error)) {
        *by = "held_out";
        return choose_by_error(m);
    }
    if (isfinite(m->rank[0].mean_score)) {
        choice = choose_largest(m, mean_score, SAME_FACTORS);
        *by = "score";
    }
    if (choice == 0 && isfinite(m->rank[0].consistency)) {
        choice = choose_largest(m, consistency, CONSISTENT);
        *by = "consistency";
    }
    if (choice == 0) {
        choice = choose_by_fit(m);
        *by = "fit";
    }
    return choice;
}

void report_models_put(struct tool_json *j, const struct ts_models_table *m)
{
    const char *by;
    const uint32_t choice = choose(m, &by);
    tool_json_object(j, "models");
    tool_json_f64(j, "choice", choice > 0 ? choice : NAN);
    tool_json_str(j, "by", choice > 0 ? by : NULL);
    ts_models_table_json(m, j);
    tool_json_close(j);
}

/* ---- the table of models ---- */

int report_models_find(const struct ts_model *model, struct ts_models_table *ret,
                       struct ts_err *err)
{
    struct ts_open_dir *above = NULL;
    struct ts_err why;
    char *path;
    int rc, replaced;
    *ret = (struct ts_models_table){ 0 };
    if (model->dir == NULL)
        return 0;
    if (asprintf(&path, "%s/..", model->path) < 0)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", model->path);
    rc = ts_open_dir_inside(model->dir, "..", path, &above, &why);
    free(path);
    if (rc == 0 && ts_models_there_in(above) && ts_models_table_load(above, ret, &why) < 0)
        *ret = (struct ts_models_table){ 0 };
    replaced = ts_open_dir_stale(rc, &why) || (rc == 0 && ts_open_dir_replaced(above));
    ts_open_dir_close(above);
    if (replaced)
        ts_models_table_free(ret);
    return replaced ? ts_open_dir_fail(model->path, err) : 0;
}
