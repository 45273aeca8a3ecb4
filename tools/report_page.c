/* SPDX-License-Identifier: BSD-3-Clause */
/* The sections of the page of tstream report. */
#include "tools/report_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/report_html.h"
#include "tools/report_models.h"
#include "tools/report_style.h"
#include "tools/report_warn.h"
#include "tools/tool.h"
#include "tools/tool_version.h"

#define NAME_CHARS  40   /* of a name in a list */
#define MOST_SWEEPS 400u /* points of a chart over sweeps */

/* ---- small parts ---- */

static void term(FILE *to, const char *name, const char *text)
{
    fprintf(to, "<dt>%s</dt><dd>", name);
    report_text(to, text, 0);
    fputs("</dd>\n", to);
}

static const char *count(char *buf, double x)
{
    return ts_num_count(buf, x >= 0 && x < 1.8e19 ? (uint64_t)x : 0);
}

static double weight_of(const struct report_page *p, uint32_t component)
{
    return p->view->model->weight[p->view->by_weight[component]];
}

static const char *tone_of(const char *ended)
{
    return strcmp(ended, "converged") == 0 || strcmp(ended, "exact") == 0 ? "good" : "paused";
}

/* ---- the head ---- */

static void put_title(FILE *to, const char *path)
{
    size_t end = strlen(path), start;
    char name[512];
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        ;
    snprintf(name, sizeof name, "%.*s", (int)(end - start < 500 ? end - start : 500), path + start);
    report_text(to, name, 0);
}

static void put_shape(FILE *to, const struct report_page *p)
{
    char number[TS_NUM_CHARS];
    for (uint32_t m = 0; m < p->scan->order; m++)
        fprintf(to, "%s%s", m > 0 ? " \xc3\x97 " : "", ts_num_count(number, p->scan->mode[m].dim));
}

static void put_head(FILE *to, const struct report_page *p)
{
    const struct ts_json_value *run = p->view->run;
    const struct ts_json_value *sweeps = ts_json_get(run, "sweeps");
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
          "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>",
          to);
    put_title(to, p->view->model->path);
    fprintf(to, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<header><h1>", report_style);
    put_title(to, p->view->model->path);
    fprintf(to, "</h1>\n<p class=\"big\">%u component%s of a tensor of ", p->view->model->rank,
            tool_plural(p->view->model->rank));
    put_shape(to, p);
    fputs("</p>\n", to);
    if (run != NULL) {
        const char *ended = ts_json_text(run, "ended", "?");
        fprintf(to, "<p class=\"big\">fit %.6f after %u sweep%s, <span class=\"%s\">",
                ts_json_number(run, "fit"), sweeps == NULL ? 0 : sweeps->n,
                tool_plural(sweeps == NULL ? 0 : sweeps->n), tone_of(ended));
        report_text(to, strcmp(ended, "iterations") == 0 ? "not converged" : ended, 0);
        fputs("</span></p>\n", to);
    }
    fputs("</header>\n", to);
}

/* ---- run and tensor ---- */

static void put_tensor(FILE *to, const struct report_page *p)
{
    const struct ts_json_value *t = ts_json_get(p->view->run, "tensor");
    const double cells = ts_json_number(t, "nnz");
    char a[TS_NUM_CHARS], text[64];
    double density = cells;
    for (uint32_t m = 0; m < p->scan->order; m++)
        density /= (double)p->scan->mode[m].dim;
    fputs("<dl>\n", to);
    term(to, "tensor",
         t != NULL                 ? ts_json_text(t, "path", "?")
         : p->view->tensor != NULL ? p->view->tensor->path
                                   : "not known");
    fputs("<dt>shape</dt><dd>", to);
    put_shape(to, p);
    fputs("</dd>\n", to);
    if (t != NULL) {
        snprintf(text, sizeof text, "%s, density %.3g", count(a, cells), density);
        term(to, "nonzeros", text);
        snprintf(text, sizeof text, "%.9g", ts_json_number(t, "norm"));
        term(to, "norm", text);
        term(to, "checksum", ts_json_text(t, "checksum", "?"));
    }
    term(to, "names",
         p->view->tensor != NULL ? p->view->tensor->path : "none: indices are numbers from 1");
    fputs("</dl>\n", to);
}

static void put_options(FILE *to, const struct ts_json_value *options)
{
    fputs("<dt>options</dt><dd>", to);
    for (const struct ts_json_value *o = options == NULL ? NULL : options->first; o != NULL;
         o = o->next) {
        if (o->kind == TS_JSON_NULL || o->key == NULL ||
            (o->kind == TS_JSON_BOOL && o->number == 0))
            continue;
        fputs("--", to);
        report_text(to, o->key, 0);
        if (o->kind == TS_JSON_NUMBER)
            fprintf(to, " %.10g", o->number);
        else if (o->kind == TS_JSON_STRING) {
            putc(' ', to);
            report_text(to, o->text, 0);
        }
        putc(' ', to);
    }
    fputs("</dd>\n", to);
}

static void put_run(FILE *to, const struct ts_json_value *run)
{
    const struct ts_json_value *gpus = ts_json_get(run, "gpus");
    char text[512];
    fputs("<dl>\n", to);
    snprintf(text, sizeof text, "%s to %s", ts_json_text(run, "start", "?"),
             ts_json_text(run, "end", "?"));
    term(to, "run", text);
    snprintf(text, sizeof text, "%s %s, commit %s", ts_json_text(run, "program", "?"),
             ts_json_text(run, "version", "?"), ts_json_text(run, "commit", "?"));
    term(to, "program", text);
    snprintf(text, sizeof text, "%s, %.0f of %.0f CPUs%s%s", ts_json_text(run, "host", "?"),
             ts_json_number(run, "threads"), ts_json_number(run, "cpus"),
             *ts_json_text(run, "cpu", "") != '\0' ? ", " : "", ts_json_text(run, "cpu", ""));
    term(to, "machine", text);
    for (const struct ts_json_value *g = gpus == NULL ? NULL : gpus->first; g != NULL;
         g = g->next) {
        snprintf(text, sizeof text, "%.0f, %s", ts_json_number(g, "number"),
                 ts_json_text(g, "name", "?"));
        term(to, "GPU", text);
    }
    put_options(to, ts_json_get(run, "options"));
    fputs("</dl>\n", to);
}

static void put_facts(FILE *to, const struct report_page *p)
{
    fputs("<section class=\"facts\">\n", to);
    put_tensor(to, p);
    if (p->view->run != NULL)
        put_run(to, p->view->run);
    fputs("</section>\n", to);
}

/* ---- charts ---- */

/* A number of each sweep; where there are too many, the last one of equal ranges. NaN where it
 * is not said. */
struct sweeps {
    double y[MOST_SWEEPS];
    uint32_t n;
    double first, step;
    double sum;
    int any;
};

static void read_sweeps(const struct ts_json_value *run, const char *key, struct sweeps *ret)
{
    const struct ts_json_value *sweeps = ts_json_get(run, "sweeps");
    const uint32_t n = sweeps == NULL ? 0 : sweeps->n;
    uint32_t i = 0;
    memset(ret, 0, sizeof *ret);
    ret->n = n < MOST_SWEEPS ? n : MOST_SWEEPS;
    for (const struct ts_json_value *s = n > 0 ? sweeps->first : NULL; s != NULL;
         s = s->next, i++) {
        const struct ts_json_value *v = ts_json_get(s, key);
        const int said = v != NULL && v->kind == TS_JSON_NUMBER;
        ret->y[(uint64_t)i * ret->n / n] = said ? v->number : NAN;
        ret->sum += said ? v->number : 0;
        ret->any |= said;
    }
}

static void put_weights(FILE *to, const struct report_page *p)
{
    double *y = malloc(p->scan->components * sizeof *y);
    struct report_chart c = { .title = "weights of components",
                              .x_name = "component",
                              .x_first = 1,
                              .y = y,
                              .n = p->scan->components,
                              .bars = 1,
                              .from_zero = 1,
                              .unit = "" };
    for (uint32_t i = 0; i < c.n && y != NULL; i++)
        y[i] = weight_of(p, i);
    if (y != NULL)
        report_chart_put(to, &c);
    free(y);
}

/* Where the time of all sweeps went: each a bar against their sum. */
static void put_kinds(FILE *to, const struct ts_json_value *run, double total)
{
    static const char *const key[] = { "wait_seconds", "copy_seconds", "kernel_seconds",
                                       "solve_seconds" };
    static const char *const name[] = { "waiting for shards", "copying to devices",
                                        "computing products", "solving for rows" };
    struct sweeps s;
    double share[4];
    char text[4][TS_NUM_CHARS];
    int any = 0;
    for (int i = 0; i < 4; i++) {
        read_sweeps(run, key[i], &s);
        any |= s.any;
        share[i] = total > 0 ? s.sum / total : 0;
        ts_num_seconds(text[i], s.sum);
    }
    if (!any)
        return;
    fputs(
        "<figure><figcaption>where the time of the sweeps went, of the whole; parts may overlap</figcaption>"
        "<ol class=\"bars\">",
        to);
    report_bars_put(to, share, 4);
    for (int i = 0; i < 4; i++)
        fprintf(to, "<li><span>%s</span><b>%s, %.0f %%</b></li>", name[i], text[i], 100 * share[i]);
    fputs("</ol></figure>\n", to);
}

static void put_sweeps(FILE *to, const struct report_page *p)
{
    struct sweeps s;
    struct report_chart c = { .x_name = "sweep", .x_first = 1, .y = s.y, .unit = "" };
    char title[160], a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    double total;
    read_sweeps(p->view->run, "fit", &s);
    if (s.n == 0)
        return;
    c.n = s.n;
    c.title = "fit by sweep";
    report_chart_put(to, &c);
    read_sweeps(p->view->run, "seconds", &s);
    total = s.sum;
    c.n = s.n;
    snprintf(title, sizeof title, "seconds by sweep: %s in all, %s a sweep",
             ts_num_seconds(a, total), ts_num_seconds(b, total / s.n));
    c.title = title;
    c.bars = c.from_zero = 1;
    c.unit = " s";
    report_chart_put(to, &c);
    put_kinds(to, p->view->run, total);
}

static void put_singular(FILE *to, const struct report_page *p)
{
    const struct report_figures *f = p->figures;
    struct report_chart c = { .title = "singular values of V of each mode, sorted",
                              .x_name = "number",
                              .x_first = 1,
                              .y = f->singular,
                              .n = f->n,
                              .series = f->order,
                              .log = 1,
                              .open = 1,
                              .unit = "" };
    double *y;
    if (f->singular == NULL)
        return;
    y = malloc((size_t)f->order * f->n * sizeof *y);
    if (y == NULL)
        return;
    for (size_t i = 0; i < (size_t)f->order * f->n; i++)
        y[i] = fmax(f->singular[i], 1e-17); /* rounding, where they are zeros */
    c.y = y;
    report_chart_put(to, &c);
    free(y);
    fputs("<p>", to);
    for (uint32_t m = 0; m < f->order; m++)
        fprintf(to, "<span class=\"k%u\">\xe2\x80\x94 mode %u</span> ", m % 6, m + 1);
    fputs("</p></figure>\n", to);
}

static void put_charts(FILE *to, const struct report_page *p)
{
    fputs("<section><h2>Figures</h2>\n<div class=\"charts\">\n", to);
    put_weights(to, p);
    put_sweeps(to, p);
    if (p->scan->components > 1) {
        report_matrix_put(
            to, "correlation of components: the product over modes of the cosine of their columns",
            p->figures->congruence, p->figures->n);
        put_singular(to, p);
    }
    fputs("</div>\n", to);
    if (p->scan->components > 1 && p->figures->singular != NULL)
        fputs(
            "<p class=\"mu\">V of a mode is the elementwise product of the other modes&#39; Gram matrices of normed "
            "columns; least squares takes its inverse. Values that fall towards 1e-10 of the first say that the mode "
            "is badly determined.</p>\n",
            to);
    fputs("</section>\n", to);
}

/* ---- components ---- */

static void put_mode_title(FILE *to, const struct report_page *p, uint32_t mode)
{
    const char *name = model_view_mode_name(p->view, mode);
    char a[TS_NUM_CHARS];
    fprintf(to, "<h4>mode %u", mode + 1);
    if (name != NULL) {
        fputs(", <bdi>", to);
        report_text(to, name, NAME_CHARS);
        fputs("</bdi>", to);
    }
    fprintf(to, " \xc2\xb7 %s row%s</h4>", ts_num_count(a, p->scan->mode[mode].n_rows),
            tool_plural(p->scan->mode[mode].n_rows));
}

static void put_line_mode(FILE *to, const struct report_mode *m, uint32_t component, uint32_t base)
{
    const size_t at = (size_t)component * m->n_points;
    char a[TS_NUM_CHARS];
    float low = 0, high = 0;
    report_line_put(to, m->low + at, m->high + at, m->n_points);
    for (uint32_t i = 0; i < m->n_points; i++) {
        low = m->low[at + i] < low ? m->low[at + i] : low;
        high = m->high[at + i] > high ? m->high[at + i] : high;
    }
    fputs("<div class=\"ends\"><bdi>", to);
    report_text(to, m->first_name != NULL ? m->first_name : base == 0 ? "0" : "1", NAME_CHARS / 2);
    fprintf(to, "</bdi><span>%.3g to %.3g</span><bdi>", (double)low, (double)high);
    report_text(to, m->last_name != NULL ? m->last_name : ts_num_count(a, m->dim - 1 + base),
                NAME_CHARS / 2);
    fputs("</bdi></div>", to);
}

static void put_strongest(FILE *to, const struct ts_strongest *l, uint32_t base)
{
    double *x = malloc((l->n + 1) * sizeof *x);
    const double most = l->n > 0 ? fabs(l->at[0].value) : 0;
    if (x == NULL)
        return;
    for (uint32_t i = 0; i < l->n; i++)
        x[i] = most > 0 ? l->at[i].value / most : 0;
    fputs("<ol class=\"bars\">", to);
    report_bars_put(to, x, l->n);
    for (uint32_t i = 0; i < l->n; i++) {
        const struct ts_strong *s = &l->at[i];
        char number[TS_NUM_CHARS];
        fputs("<li><bdi>", to);
        report_text(to,
                    s->label != NULL && *s->label != '\0' ? s->label
                                                          : ts_num_count(number, s->index + base),
                    NAME_CHARS);
        fprintf(to, "</bdi><b>%#.3g</b></li>", s->value);
    }
    fputs("</ol>", to);
    free(x);
}

static void put_component(FILE *to, const struct report_page *p, uint32_t c)
{
    const double first = fabs(weight_of(p, 0));
    fprintf(to, "<article id=\"c%u\"><h3>%u \xc2\xb7 weight %.6g", c + 1, c + 1, weight_of(p, c));
    if (first > 0 && c > 0)
        fprintf(to, " <span class=\"mu\">(%.3g of the first)</span>", weight_of(p, c) / first);
    fputs("</h3>\n<div class=\"modes\">\n", to);
    for (uint32_t m = 0; m < p->scan->order; m++) {
        const struct report_mode *mode = &p->scan->mode[m];
        fputs("<div>", to);
        put_mode_title(to, p, m);
        if (mode->is_line)
            put_line_mode(to, mode, c, model_view_base(p->view));
        put_strongest(to, &mode->top[c], model_view_base(p->view));
        fputs("</div>\n", to);
    }
    fputs("</div></article>\n", to);
}

static void put_components(FILE *to, const struct report_page *p)
{
    const uint32_t n = p->scan->components, rank = p->view->model->rank;
    fputs("<section><h2>Components</h2>\n", to);
    fputs(
        "<p class=\"mu\">By weight. In each mode the strongest indices; in a mode that is a sequence, such as time, "
        "the whole column as a line. A second colour is a negative entry.</p>\n",
        to);
    if (n < rank)
        fprintf(
            to,
            "<p>The %u heaviest of %u are shown, here and in the figures above; --components shows others.</p>\n",
            n, rank);
    if (n > 6) {
        fputs("<nav>", to);
        for (uint32_t c = 0; c < n; c++)
            fprintf(to, "<a href=\"#c%u\">%u</a> ", c + 1, c + 1);
        fputs("</nav>\n", to);
    }
    for (uint32_t c = 0; c < n; c++)
        put_component(to, p, c);
    fputs("</section>\n", to);
}

void report_page_put(FILE *to, const struct report_page *p)
{
    put_head(to, p);
    report_warn_put(to, p->view, p->figures);
    put_facts(to, p);
    report_models_put(to, p->models);
    put_charts(to, p);
    put_components(to, p);
    fprintf(to, "<footer>made by tstream %s (commit %s)</footer>\n</body>\n</html>\n",
            tool_version(), tool_commit());
}
