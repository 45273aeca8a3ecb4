/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads all factor matrices once and keeps the figures that the page shows. */
#include "tools/report/report_scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_ROWS 8   /* a mode with fewer rows never counts as a sequence, such as time */
#define ALIKE      0.5 /* von Neumann ratio below which neighbouring rows count as similar */

struct scan {
    const struct model_view *view;
    struct report_mode *mode;
    uint32_t components;
    double *x;          /* the current row of the factor, for the components shown */
    double *before;     /* the row before it */
    double *sum, *sum2; /* for each component: sum of the entries, and of their squares */
    double steps;       /* sum of the squared differences of each row to the row before */
    int out_of_range;
};

static void add_gram(struct scan *s)
{
    const uint32_t n = s->components;
    for (uint32_t a = 0; a < n; a++) {
        double *row = s->mode->gram + (size_t)a * n;
        const double x = s->x[a];
        for (uint32_t b = 0; b <= a; b++)
            row[b] += x * s->x[b];
    }
}

static void add_point(struct scan *s, uint64_t index)
{
    struct report_mode *m = s->mode;
    const uint32_t at = report_axis_point(&m->axis, index, m->n_points);
    for (uint32_t c = 0; c < s->components; c++) {
        float *low = m->low + (size_t)c * m->n_points + at;
        float *high = m->high + (size_t)c * m->n_points + at;
        const float x = (float)s->x[c];
        *low = x < *low ? x : *low;
        *high = x > *high ? x : *high;
    }
}

static int scan_rows(void *ctx, uint64_t first, uint64_t n, const uint64_t *index, const double *x,
                     struct ts_err *err)
{
    struct scan *s = ctx;
    const uint32_t rank = s->view->model->rank;
    (void)err;
    for (uint64_t i = 0; i < n; i++) {
        double *swap = s->before;
        s->before = s->x;
        s->x = swap;
        for (uint32_t c = 0; c < s->components; c++) {
            const double now = x[i * rank + s->view->by_weight[c]];
            s->x[c] = now;
            s->sum[c] += now;
            s->sum2[c] += now * now;
            if (first + i > 0)
                s->steps += (now - s->before[c]) * (now - s->before[c]);
            ts_strongest_add(&s->mode->top[c], now, index[i]);
        }
        add_gram(s);
        if (index[i] < s->mode->dim)
            add_point(s, index[i]);
        else
            s->out_of_range = 1;
    }
    return 0;
}

/* ---- whether a mode is a sequence ---- */

static double von_neumann(const struct scan *s)
{
    double spread = 0;
    for (uint32_t c = 0; c < s->components; c++)
        spread += s->sum2[c] - s->sum[c] * s->sum[c] / (double)s->mode->n_rows;
    return spread > 0 ? s->steps / (2 * spread) : 1;
}

/* Computes the von Neumann ratio for the points of the chart's lines, which are in the order of the
 * values of names. */
static double ratio_of_points(const struct report_mode *m, uint32_t components)
{
    double steps = 0, spread = 0;
    for (uint32_t c = 0; c < components; c++) {
        double sum = 0, sum2 = 0, before = 0;
        uint32_t n = 0;
        for (uint32_t i = 0; i < m->n_points; i++) {
            const size_t at = (size_t)c * m->n_points + i;
            const double x = ((double)m->low[at] + (double)m->high[at]) / 2;
            if (m->low[at] > m->high[at])
                continue;
            steps += n > 0 ? (x - before) * (x - before) : 0;
            sum += x;
            sum2 += x * x;
            before = x;
            n++;
        }
        spread += n > 0 ? sum2 - sum * sum / n : 0;
    }
    return spread > 0 ? steps / (2 * spread) : 1;
}

static int is_line(const struct scan *s, const struct report_conf *conf, uint32_t mode)
{
    const struct report_mode *m = s->mode;
    if (conf->lines_given)
        return conf->lines >> mode & 1;
    if (m->n_rows < LEAST_ROWS || m->axis.order == REPORT_NO_ORDER)
        return 0;
    if (m->axis.order == REPORT_ASCENDING)
        return 1;
    return (m->axis.order == REPORT_BY_INDEX ? m->ratio : ratio_of_points(m, s->components)) <
           ALIKE;
}

/* ---- reading the rows of a mode ---- */

/* Returns the largest index of a row. Without a tensor, it may exceed the number of rows. */
static uint64_t largest_index(const struct model_view *v, uint32_t mode, struct ts_err *err)
{
    uint64_t *index = NULL, most = 0;
    if (v->tensor == NULL && v->model->n_rows[mode] > 0 &&
        ts_model_index(v->model, mode, &index, err) == 0 && index != NULL)
        most = index[v->model->n_rows[mode] - 1];
    free(index);
    return most;
}

static int start_mode(const struct model_view *v, uint32_t mode, const struct report_conf *conf,
                      struct scan *s, struct ts_err *err)
{
    struct report_mode *m = s->mode;
    struct ts_err none;
    const uint32_t n = conf->components;
    const uint64_t last = largest_index(v, mode, &none), rows = v->model->n_rows[mode];
    size_t points;
    int bad;
    m->n_rows = rows;
    m->dim = model_view_dim(v, mode);
    if (last >= m->dim)
        m->dim = last + 1;
    if (report_axis_new(v, mode, m->dim, &m->axis, err) < 0)
        return err->code;
    m->n_points = m->axis.places < conf->n_points ? (uint32_t)m->axis.places : conf->n_points;
    points = (size_t)n * m->n_points;
    m->gram = calloc((size_t)n * n, sizeof *m->gram);
    m->low = calloc(points + 1, sizeof *m->low);
    m->high = calloc(points + 1, sizeof *m->high);
    m->top = calloc(n, sizeof *m->top);
    s->x = calloc(n, sizeof *s->x);
    s->before = calloc(n, sizeof *s->before);
    s->sum = calloc(n, sizeof *s->sum);
    s->sum2 = calloc(n, sizeof *s->sum2);
    bad = m->gram == NULL || m->low == NULL || m->high == NULL || m->top == NULL || s->x == NULL ||
          s->before == NULL || s->sum == NULL || s->sum2 == NULL;
    for (uint32_t c = 0; c < n && !bad; c++)
        bad = ts_strongest_new(&m->top[c], rows < conf->n_top ? (uint32_t)rows : conf->n_top) < 0;
    return bad ? ts_fail(err, TS_ENOMEM, "%s: out of memory", v->model->path) : 0;
}

/* Sets the ranges of indices to their initial values. A range without indices is empty: low is
 * above high. A range with an index that has no row starts with 0, the value of that index. */
static void start_points(struct scan *s)
{
    struct report_mode *m = s->mode;
    const int missing = m->n_rows != m->dim, placed = m->axis.at != NULL;
    for (size_t i = 0; i < (size_t)s->components * m->n_points; i++) {
        m->low[i] = missing && !placed ? 0 : __FLT_MAX__;
        m->high[i] = missing && !placed ? 0 : -__FLT_MAX__;
    }
    for (uint64_t i = 0; i < m->dim && missing && placed; i++) {
        const uint32_t at = report_axis_point(&m->axis, i, m->n_points);
        for (uint32_t c = 0; c < s->components; c++)
            m->low[(size_t)c * m->n_points + at] = m->high[(size_t)c * m->n_points + at] = 0;
    }
}

static void end_gram(const struct scan *s)
{
    const uint32_t n = s->components;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++)
            s->mode->gram[(size_t)b * n + a] = s->mode->gram[(size_t)a * n + b];
}

static int scan_mode(struct model_view *v, uint32_t mode, const struct report_conf *conf,
                     struct report_mode *ret, struct ts_err *err)
{
    struct scan s = { .view = v, .mode = ret, .components = conf->components };
    int rc = start_mode(v, mode, conf, &s, err);
    if (rc == 0) {
        start_points(&s);
        rc = model_view_walk(v, mode, scan_rows, &s, err);
    }
    if (rc == 0 && s.out_of_range)
        rc = ts_fail(err, TS_EFORMAT, "%s: mode %" PRIu32 " has an index beyond %" PRIu64,
                     v->model->path, mode + 1, ret->dim);
    for (uint32_t c = 0; c < conf->components && rc == 0; c++)
        ts_strongest_sort(&ret->top[c]);
    if (rc == 0) {
        end_gram(&s);
        ret->ratio = von_neumann(&s);
        ret->is_line = is_line(&s, conf, mode);
        rc = model_view_labels(v, mode, ret->top, conf->components, err);
    }
    free(s.x);
    free(s.before);
    free(s.sum);
    free(s.sum2);
    return rc;
}

int report_scan_new(struct model_view *v, const struct report_conf *conf, struct report_scan *ret,
                    struct ts_err *err)
{
    int rc = 0;
    memset(ret, 0, sizeof *ret);
    ret->order = v->model->order;
    ret->components = conf->components;
    for (uint32_t m = 0; m < ret->order && rc == 0; m++)
        rc = scan_mode(v, m, conf, &ret->mode[m], err);
    return rc;
}

void report_scan_free(struct report_scan *s)
{
    for (uint32_t m = 0; m < s->order; m++) {
        struct report_mode *mode = &s->mode[m];
        for (uint32_t c = 0; c < s->components && mode->top != NULL; c++)
            ts_strongest_free(&mode->top[c]);
        free(mode->top);
        free(mode->gram);
        free(mode->low);
        free(mode->high);
        report_axis_free(&mode->axis);
    }
}
