/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of models on the page of one of them. */
#include "tools/report_models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cp_models.h"
#include "tools/report_html.h"

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

static void put_number(FILE *to, const char *format, double x)
{
    fputs("<td>", to);
    if (isfinite(x))
        fprintf(to, format, x);
    fputs("</td>", to);
}

static void put_model(FILE *to, const struct ts_models_table *m, uint32_t i)
{
    const struct ts_models_row *row = &m->row[i];
    const struct ts_models_rank *rank = &m->rank[i / m->restarts];
    fputs("<tr><td>", to);
    report_text(to, row->name, 0);
    fprintf(to, "%s</td>", rank->best == i ? " (best)" : "");
    put_number(to, "%.6f", row->fit);
    fprintf(to, "<td>%u</td><td>", row->n_sweeps);
    report_text(to, row->ended, 0);
    fputs("</td>", to);
    put_number(to, "%.4f", m->restarts > 1 ? row->score : NAN);
    put_number(to, "%.4g", rank->best == i ? rank->consistency : NAN);
    fputs("</tr>\n", to);
}

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

void report_models_put(FILE *to, const struct ts_models_table *m)
{
    if (m->n == 0)
        return;
    fputs(
        "<section><h2>Ranks and starts</h2>\n<p class=\"mu\">Models that were computed with this one. "
        "The score tells how alike the components are to those of the best model of the rank; 1: the same "
        "ones.</p>\n<table><tr><th>model</th><th>fit</th><th>sweeps</th><th>ended</th><th>score</th>"
        "<th>core consistency, %</th></tr>\n",
        to);
    for (uint32_t i = 0; i < m->n; i++)
        put_model(to, m, i);
    fputs("</table></section>\n", to);
}
