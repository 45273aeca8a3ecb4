/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the figures of a decomposition as JSON. */
#include "tools/report/report_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cp/tstream_cp.h"
#include "tools/report/report_models.h"
#include "tools/report/report_warn.h"
#include "tools/common/tool.h"
#include "tools/common/tool_version.h"

#define MOST_SWEEPS 400u /* most points of a curve with a point for each sweep */
#define MOST_TICKS  4u

/* ---- numbers and texts from run.json ---- */

static void copy_text(struct tool_json *j, const struct ts_json_value *from, const char *key)
{
    tool_json_str(j, key, ts_json_text(from, key, NULL));
}

static double number_or_nan(const struct ts_json_value *from, const char *key)
{
    const struct ts_json_value *v = ts_json_get(from, key);
    return v != NULL && v->kind == TS_JSON_NUMBER ? v->number : NAN;
}

static void copy_number(struct tool_json *j, const struct ts_json_value *from, const char *key)
{
    tool_json_f64(j, key, number_or_nan(from, key));
}

static void put_run(struct tool_json *j, const struct ts_json_value *run)
{
    static const char *const text[] = { "start",  "end",  "program", "version",
                                        "commit", "host", "cpu" };
    const struct ts_json_value *gpus = ts_json_get(run, "gpus"),
                               *options = ts_json_get(run, "options");
    tool_json_object(j, "run");
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        copy_text(j, run, text[i]);
    copy_number(j, run, "cpus");
    copy_number(j, run, "threads");
    tool_json_array(j, "gpus");
    for (const struct ts_json_value *g = gpus == NULL ? NULL : gpus->first; g != NULL;
         g = g->next) {
        tool_json_object(j, NULL);
        copy_number(j, g, "number");
        copy_text(j, g, "name");
        tool_json_close(j);
    }
    tool_json_close(j);
    tool_json_array(j, "options");
    for (const struct ts_json_value *o = options == NULL ? NULL : options->first; o != NULL;
         o = o->next) {
        char number[32];
        if (!tstream_cp_chosen(o))
            continue;
        tstream_cp_number(o, number, sizeof number);
        tool_json_object(j, NULL);
        tool_json_str(j, "name", o->key);
        tool_json_str(j, "value",
                      o->kind == TS_JSON_NUMBER   ? number
                      : o->kind == TS_JSON_STRING ? o->text
                                                  : NULL);
        tool_json_close(j);
    }
    tool_json_close(j);
    tool_json_close(j);
}

/* Writes one number (such as the fit) of each sweep. If there are more sweeps than points of the
 * curve, writes that of the last sweep in each of equal ranges. Returns the sum over all sweeps. */
static double put_sweep_numbers(struct tool_json *j, const struct ts_json_value *sweeps,
                                const char *key)
{
    const uint32_t n = sweeps->n, points = n < MOST_SWEEPS ? n : MOST_SWEEPS;
    double sum = 0;
    uint64_t i = 0;
    tool_json_array(j, key);
    for (const struct ts_json_value *s = sweeps->first; s != NULL; s = s->next, i++) {
        const double x = model_view_sweep_number(s, key);
        sum += isnan(x) ? 0 : x;
        if ((i + 1) * points / n > i * points / n)
            tool_json_f64(j, NULL, x);
    }
    tool_json_close(j);
    return sum;
}

static double sum_of_sweeps(const struct ts_json_value *sweeps, const char *key)
{
    double sum = 0, any = NAN;
    for (const struct ts_json_value *s = sweeps->first; s != NULL; s = s->next) {
        const double x = model_view_sweep_number(s, key);
        sum += isnan(x) ? 0 : x;
        any = isnan(x) ? any : 0;
    }
    return sum + any;
}

static void put_sweeps(struct tool_json *j, const struct ts_json_value *sweeps)
{
    static const struct {
        const char *key, *part;
    } part[] = { { "wait_seconds", "waiting for shards" },
                 { "copy_seconds", "copying to devices" },
                 { "kernel_seconds", "computing products" },
                 { "solve_seconds", "solving for rows" } };
    double total;
    tool_json_object(j, "sweeps");
    tool_json_u64(j, "n", sweeps->n);
    put_sweep_numbers(j, sweeps, "fit");
    total = put_sweep_numbers(j, sweeps, "seconds");
    tool_json_f64(j, "total_seconds", total);
    tool_json_f64(j, "mean_seconds", total / sweeps->n);
    tool_json_array(j, "parts");
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        const double s = sum_of_sweeps(sweeps, part[i].key);
        if (isnan(s))
            continue;
        tool_json_object(j, NULL);
        tool_json_str(j, "part", part[i].part);
        tool_json_f64(j, "seconds", s);
        tool_json_f64(j, "relative", total > 0 ? s / total : 0);
        tool_json_close(j);
    }
    tool_json_close(j);
    tool_json_close(j);
}

/* ---- the model and its tensor ---- */

/* Returns the last component of a path, without the ending; malloc'ed. NULL: out of memory. */
static char *last_name(const char *path, const char *ending)
{
    size_t end = strlen(path), start;
    const size_t n = strlen(ending);
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        ;
    if (end - start > n && memcmp(path + end - n, ending, n) == 0)
        end -= n;
    return strndup(path + start, end - start);
}

static void put_title(struct tool_json *j, const struct report_parts *p)
{
    const char *tensor = ts_json_text(ts_json_get(p->view->run, "tensor"), "path",
                                      p->view->tensor != NULL ? p->view->tensor->path : NULL);
    char *title =
        tensor != NULL ? last_name(tensor, ".tsh") : last_name(p->view->model->path, ".cp");
    tool_json_str(j, "title", title);
    free(title);
}

/* Returns the path of the tensor whose labels are used, or of the model if the labels are its own;
 * NULL: there are no labels. */
static const char *whose_labels(const struct model_view *v)
{
    const struct ts_model_names *n = v->names;
    int some = 0;
    if (v->tensor != NULL && (n == NULL || n->tensor.checksum == v->tensor->hash))
        return v->tensor->path;
    for (uint32_t m = 0; m < v->model->order; m++)
        some |= model_view_has_labels(v, m);
    return some ? v->model->path : NULL;
}

static void put_tensor(struct tool_json *j, const struct report_parts *p)
{
    const struct ts_json_value *t = ts_json_get(p->view->run, "tensor");
    const char *names = whose_labels(p->view);
    double density = number_or_nan(t, "nnz");
    for (uint32_t m = 0; m < p->scan->order; m++)
        density /= (double)p->scan->mode[m].dim;
    tool_json_object(j, "tensor");
    tool_json_str(j, "path",
                  ts_json_text(t, "path", p->view->tensor != NULL ? p->view->tensor->path : NULL));
    copy_number(j, t, "nnz");
    tool_json_f64(j, "density", density);
    copy_number(j, t, "norm");
    copy_text(j, t, "checksum");
    tool_json_str(j, "names", names);
    tool_json_close(j);
}

const char *report_unlisted(const struct ts_json_value *run)
{
    const struct ts_json_value *t = ts_json_get(run, "tensor"),
                               *observed = ts_json_get(ts_json_get(run, "options"), "observed"),
                               *shape = ts_json_get(t, "shape");
    double cells = 1;
    for (const struct ts_json_value *d = shape == NULL ? NULL : shape->first; d != NULL;
         d = d->next)
        cells *= d->number;
    if (observed == NULL || observed->kind != TS_JSON_BOOL)
        return NULL;
    if (observed->number != 0)
        return "unknown";
    return shape != NULL && ts_json_number(t, "nnz") < cells ? "zeros" : NULL;
}

/* Writes those members of a mode that both the list of modes and each component have. */
static void put_mode_name(struct tool_json *j, const struct report_parts *p, uint32_t m)
{
    tool_json_u64(j, "mode", m + 1);
    tool_json_str(j, "name", model_view_mode_name(p->view, m));
    tool_json_bool(j, "line", p->scan->mode[m].is_line);
}

static void put_modes(struct tool_json *j, const struct report_parts *p)
{
    tool_json_array(j, "modes");
    for (uint32_t m = 0; m < p->scan->order; m++) {
        tool_json_object(j, NULL);
        put_mode_name(j, p, m);
        tool_json_u64(j, "dim", p->scan->mode[m].dim);
        tool_json_u64(j, "rows", p->scan->mode[m].n_rows);
        tool_json_close(j);
    }
    tool_json_close(j);
}

/* ---- the components ---- */

/* Writes the name of an end of a chart's line: the label of the index there, or else the index. */
static void put_end(struct tool_json *j, const char *key, const char *label, double value)
{
    char number[TS_NUM_CHARS];
    tool_json_str(j, key, label != NULL ? label : ts_num_count(number, (uint64_t)value));
}

static void put_points(struct tool_json *j, const char *key, const float *x, const float *low,
                       const float *high, uint32_t n)
{
    tool_json_array(j, key);
    for (uint32_t i = 0; i < n; i++)
        tool_json_f64(j, NULL, low[i] <= high[i] ? (double)x[i] : NAN);
    tool_json_close(j);
}

static void put_line(struct tool_json *j, const struct report_mode *m, uint32_t component)
{
    const size_t at = (size_t)component * m->n_points;
    struct report_tick tick[MOST_TICKS];
    const uint32_t n = report_axis_ticks(&m->axis, tick, MOST_TICKS);
    put_end(j, "first", m->axis.least, m->axis.first);
    put_end(j, "last", m->axis.most, m->axis.last);
    tool_json_array(j, "ticks");
    for (uint32_t i = 0; i < n; i++) {
        tool_json_object(j, NULL);
        tool_json_f64(j, "percent", tick[i].percent);
        tool_json_f64(j, "value", tick[i].value);
        tool_json_close(j);
    }
    tool_json_close(j);
    put_points(j, "low", m->low + at, m->low + at, m->high + at, m->n_points);
    put_points(j, "high", m->high + at, m->low + at, m->high + at, m->n_points);
}

static void put_strongest(struct tool_json *j, const struct ts_strongest *l, uint32_t base)
{
    const double most = l->n > 0 ? fabs(l->at[0].value) : 0;
    tool_json_array(j, "strongest");
    for (uint32_t i = 0; i < l->n; i++) {
        tool_json_object(j, NULL);
        tool_json_u64(j, "index", l->at[i].index + base);
        tool_json_str(j, "label", l->at[i].label);
        tool_json_f64(j, "value", l->at[i].value);
        tool_json_f64(j, "relative", most > 0 ? l->at[i].value / most : 0);
        tool_json_close(j);
    }
    tool_json_close(j);
}

static void put_component(struct tool_json *j, const struct report_parts *p, uint32_t c)
{
    const double *weight = p->view->model->weight;
    const double first = fabs(weight[p->view->by_weight[0]]), w = weight[p->view->by_weight[c]];
    tool_json_object(j, NULL);
    tool_json_u64(j, "component", c + 1);
    tool_json_f64(j, "weight", w);
    tool_json_f64(j, "relative", first > 0 ? w / first : 0);
    tool_json_bool(j, "empty", w == 0);
    tool_json_array(j, "modes");
    for (uint32_t m = 0; m < p->scan->order; m++) {
        const struct report_mode *mode = &p->scan->mode[m];
        tool_json_object(j, NULL);
        put_mode_name(j, p, m);
        if (mode->is_line)
            put_line(j, mode, c);
        put_strongest(j, &mode->top[c], model_view_base(p->view));
        tool_json_close(j);
    }
    tool_json_close(j);
    tool_json_close(j);
}

/* Whether any entry that the page shows is negative. */
static int has_negative(const struct report_scan *s)
{
    for (uint32_t m = 0; m < s->order; m++) {
        const struct report_mode *mode = &s->mode[m];
        const size_t points = mode->is_line ? (size_t)s->components * mode->n_points : 0;
        for (uint32_t c = 0; c < s->components; c++)
            for (uint32_t i = 0; i < mode->top[c].n; i++)
                if (mode->top[c].at[i].value < 0)
                    return 1;
        for (size_t i = 0; i < points; i++)
            if (mode->low[i] < 0)
                return 1;
    }
    return 0;
}

/* ---- figures of the model ---- */

static void put_numbers(struct tool_json *j, const char *key, const double *x, uint32_t n)
{
    tool_json_array(j, key);
    for (uint32_t i = 0; i < n; i++)
        tool_json_f64(j, NULL, x[i]);
    tool_json_close(j);
}

static void put_figures(struct tool_json *j, const struct report_parts *p)
{
    const struct report_figures *f = p->figures;
    tool_json_array(j, "weights");
    for (uint32_t c = 0; c < f->n; c++)
        tool_json_f64(j, NULL, p->view->model->weight[p->view->by_weight[c]]);
    tool_json_close(j);
    tool_json_f64(j, "cancelling", f->cancelling);
    tool_json_array(j, "correlation");
    for (uint32_t a = 0; a < f->n && f->n > 1; a++)
        put_numbers(j, NULL, f->congruence + (size_t)a * f->n, f->n);
    tool_json_close(j);
    tool_json_array(j, "singular");
    for (uint32_t m = 0; m < f->order && f->singular != NULL && f->n > 1; m++) {
        tool_json_object(j, NULL);
        tool_json_u64(j, "mode", m + 1);
        tool_json_str(j, "name", model_view_mode_name(p->view, m));
        put_numbers(j, "values", f->singular + (size_t)m * f->n, f->n);
        tool_json_close(j);
    }
    tool_json_close(j);
}

/* Returns in words how a run ended, from history.json, which only tells whether it converged. */
static const char *end_of_history(const struct ts_json_value *history)
{
    const int exact = ts_json_number(history, "exact") != 0;
    return exact                                       ? "exact"
           : ts_json_number(history, "converged") != 0 ? "converged"
                                                       : "not converged";
}

static void put_end_of_run(struct tool_json *j, const struct model_view *v)
{
    const struct ts_json_value *run = v->run, *sweeps = ts_json_get(v->history, "sweeps"), *last;
    const char *ended = ts_json_text(run, "ended", NULL);
    const int only_history = run == NULL && sweeps != NULL && sweeps->n > 0;
    double fit = number_or_nan(run, "fit");
    for (last = only_history ? sweeps->first : NULL; last != NULL; last = last->next)
        fit = number_or_nan(last, "fit");
    if (only_history && !isnan(number_or_nan(v->history, "fit")))
        fit = number_or_nan(v->history, "fit");
    if (only_history)
        ended = end_of_history(v->history);
    tool_json_f64(j, "fit", fit);
    tool_json_str(j, "ended", ended);
    tool_json_bool(j, "converged",
                   ended != NULL &&
                       (strcmp(ended, "converged") == 0 || strcmp(ended, "exact") == 0));
    tool_json_str(j, "unlisted", report_unlisted(run));
}

void report_json_put(FILE *to, const struct report_parts *p)
{
    const struct ts_json_value *run = p->view->run;
    const struct ts_json_value *sweeps = ts_json_get(p->view->history, "sweeps");
    struct tool_json j;
    tool_json_open(&j, to);
    put_title(&j, p);
    tool_json_str(&j, "model", p->view->model->path);
    tool_json_str(&j, "version", tool_version());
    tool_json_str(&j, "commit", tool_commit());
    tool_json_u64(&j, "rank", p->view->model->rank);
    tool_json_u64(&j, "shown", p->scan->components);
    tool_json_u64(&j, "order", p->scan->order);
    put_end_of_run(&j, p->view);
    put_tensor(&j, p);
    put_modes(&j, p);
    report_warn_put(&j, p->view, p->figures);
    tool_json_bool(&j, "negative", has_negative(p->scan));
    tool_json_array(&j, "components");
    for (uint32_t c = 0; c < p->scan->components; c++)
        put_component(&j, p, c);
    tool_json_close(&j);
    if (p->models->n > 0)
        report_models_put(&j, p->models);
    else
        tool_json_str(&j, "models", NULL);
    if (sweeps != NULL && sweeps->n > 0)
        put_sweeps(&j, sweeps);
    else
        tool_json_str(&j, "sweeps", NULL);
    put_figures(&j, p);
    if (run != NULL)
        put_run(&j, run);
    else
        tool_json_str(&j, "run", NULL);
    tool_json_close(&j);
}
