/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws charts, matrices and curves as SVG. */
#include "tools/report/report_draw.h"

#include <math.h>
#include <stdlib.h>

/* ---- charts ---- */

#define WIDTH  360
#define HEIGHT 180
#define LEFT   58
#define RIGHT  352
#define TOP    10
#define BOTTOM 160
#define MOST   1e300 /* largest value that is drawn, so that ranges are finite */
#define LEAST  1e-17 /* smallest value on a logarithmic axis; smaller ones are rounding */

struct chart {
    double *y; /* n points of each series of the chart, one series after the other; NaN: no point */
    uint32_t n, series;
    int bars, log; /* bars: the values are drawn as bars; log: the axis is logarithmic */
};

struct scale {
    double first, last; /* the range of y, or of its logarithm */
    int log;
};

static double scaled(const struct scale *s, double y)
{
    return s->log ? log10(y) : y;
}

static double y_at(const struct scale *s, double y)
{
    return BOTTOM - (BOTTOM - TOP) * (scaled(s, y) - s->first) / (s->last - s->first);
}

static int is_point(const struct chart *c, double y)
{
    return fabs(y) < MOST && (!c->log || y > 0);
}

static struct scale find_scale(const struct chart *c)
{
    struct scale s = { .first = INFINITY, .last = -INFINITY, .log = c->log };
    const uint64_t n = (uint64_t)c->n * c->series;
    for (uint64_t i = 0; i < n; i++)
        if (is_point(c, c->y[i])) {
            s.first = fmin(s.first, scaled(&s, c->y[i]));
            s.last = fmax(s.last, scaled(&s, c->y[i]));
        }
    if (c->bars)
        s.first = fmin(s.first, 0);
    if (!(s.first <= s.last)) /* no series has a point */
        s.first = s.last = 0;
    if (s.log) {
        s.first = floor(s.first);
        s.last = ceil(s.last);
    }
    if (s.last - s.first < 1e-12 * fmax(1, fabs(s.last)))
        s.last = s.first + (s.log ? 1 : fmax(1e-9, fabs(s.last) * 0.1));
    return s;
}

/* Returns a step of 1, 2 or 5 times a power of ten, such that three to six steps fit the range. */
static double find_step(double range)
{
    const double power = pow(10, floor(log10(range / 3)));
    const double by = range / 3 / power;
    return power * (by >= 5 ? 5 : by >= 2 ? 2 : 1);
}

static void put_y_axis(FILE *to, const struct scale *s)
{
    const double range = s->last - s->first;
    const double step = s->log ? ceil(range / 5) : find_step(range);
    const int digits = s->log ? 0 : step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
    for (double y = ceil(s->first / step - 1e-9) * step; y <= s->last + 1e-9 * range; y += step) {
        const double at = BOTTOM - (BOTTOM - TOP) * (y - s->first) / range;
        fprintf(to, "<path class=\"g\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" class=\"e\">",
                LEFT, at, RIGHT, LEFT - 5, at + 4);
        if (s->log)
            fprintf(to, "1e%.0f", y);
        else if (fabs(y) >= 1e6 || (digits > 6))
            fprintf(to, "%.3g", fabs(y) < 1e-9 * range ? 0 : y);
        else
            fprintf(to, "%.*f", digits, fabs(y) < 1e-9 * range ? 0 : y);
        fputs("</text>", to);
    }
}

static double x_at(const struct chart *c, uint32_t i)
{
    const double width = RIGHT - LEFT;
    if (c->bars)
        return LEFT + width * (i + 0.5) / c->n;
    return c->n > 1 ? LEFT + width * i / (c->n - 1) : LEFT + width / 2;
}

static void put_x_axis(FILE *to, const struct chart *c)
{
    fprintf(to, "<text x=\"%.0f\" y=\"%d\" class=\"%c\">1</text>", x_at(c, 0), BOTTOM + 15,
            c->bars ? 'm' : 's');
    if (c->n > 1)
        fprintf(to, "<text x=\"%.0f\" y=\"%d\" class=\"%c\">%u</text>", x_at(c, c->n - 1),
                BOTTOM + 15, c->bars ? 'm' : 'e', c->n);
}

static void put_line(FILE *to, const struct chart *c, const struct scale *s, uint32_t series)
{
    const double *y = c->y + (uint64_t)series * c->n;
    int pen = 0;
    fprintf(to, "<path class=\"l l%u\" d=\"", series % 6);
    for (uint32_t i = 0; i < c->n; i++) {
        if (!is_point(c, y[i])) {
            pen = 0;
            continue;
        }
        fprintf(to, "%c%.1f %.1f", pen ? 'L' : 'M', x_at(c, i), y_at(s, y[i]));
        pen = 1;
    }
    fputs("\"/>", to);
    if (c->n <= 60)
        for (uint32_t i = 0; i < c->n; i++)
            if (is_point(c, y[i]))
                fprintf(to, "<circle class=\"d%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>", series % 6,
                        x_at(c, i), y_at(s, y[i]));
}

static void put_bars(FILE *to, const struct chart *c, const struct scale *s)
{
    const double wide = (double)(RIGHT - LEFT) / c->n;
    const double zero = y_at(s, 0);
    fputs("<path class=\"b\" d=\"", to);
    for (uint32_t i = 0; i < c->n; i++)
        if (is_point(c, c->y[i]))
            fprintf(to, "M%.1f %.1fh%.1fV%.1fh-%.1fz", x_at(c, i) - wide * 0.4, zero, wide * 0.8,
                    y_at(s, c->y[i]), wide * 0.8);
    fputs("\"/>", to);
}

static void put_chart(FILE *to, const struct chart *c)
{
    const struct scale s = find_scale(c);
    fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"chart\">", WIDTH, HEIGHT);
    put_y_axis(to, &s);
    put_x_axis(to, c);
    if (c->bars)
        put_bars(to, c, &s);
    for (uint32_t i = 0; i < c->series && !c->bars; i++)
        put_line(to, c, &s, i);
    fputs("</svg>", to);
}

static double number_of(const struct ts_json_value *v)
{
    return v->kind == TS_JSON_NUMBER ? v->number : NAN;
}

/* Returns the numbers of an array, malloc'ed; NULL: no numbers, or out of memory. */
static double *read_numbers(const struct ts_json_value *v)
{
    double *x = v == NULL || v->n == 0 ? NULL : malloc(v->n * sizeof *x);
    uint32_t i = 0;
    for (const struct ts_json_value *e = x == NULL ? NULL : v->first; e != NULL; e = e->next)
        x[i++] = number_of(e);
    return x;
}

static void draw(FILE *to, const struct ts_json_value *numbers, int bars)
{
    struct chart c = { .y = read_numbers(numbers), .series = 1, .bars = bars };
    if (c.y == NULL)
        return;
    c.n = numbers->n;
    put_chart(to, &c);
    free(c.y);
}

void report_draw_line(FILE *to, const struct ts_json_value *numbers)
{
    draw(to, numbers, 0);
}

void report_draw_bars(FILE *to, const struct ts_json_value *numbers)
{
    draw(to, numbers, 1);
}

void report_draw_log(FILE *to, const struct ts_json_value *objects)
{
    const struct ts_json_value *first =
        ts_json_get(objects == NULL ? NULL : objects->first, "values");
    struct chart c = { .n = first == NULL ? 0 : first->n, .log = 1 };
    if (c.n > 0)
        c.y = malloc((size_t)objects->n * c.n * sizeof *c.y);
    if (c.y == NULL)
        return;
    for (const struct ts_json_value *o = objects->first; o != NULL; o = o->next) {
        const struct ts_json_value *values = ts_json_get(o, "values"), *v = values->first;
        for (uint32_t i = 0; i < c.n; i++, v = v->next)
            c.y[(size_t)c.series * c.n + i] = fmax(number_of(v), LEAST);
        c.series++;
    }
    put_chart(to, &c);
    free(c.y);
}

/* ---- the drawing of a matrix ---- */

#define LEVELS 10
#define FEW    9u /* most rows of a matrix that is drawn as a small one */

/* Draws the squares of all entries that have this level (1 to 10) and sign, as one SVG path. */
static void put_level(FILE *to, const double *x, uint32_t n, int level, int negative)
{
    int any = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++) {
            const double v = x[(size_t)i * n + j];
            if ((v < 0) != negative || (int)ceil(fmin(fabs(v), 1) * LEVELS - 1e-9) != level)
                continue;
            if (!any)
                fprintf(to, "<path class=\"%c\" fill-opacity=\"%.1f\" d=\"", negative ? 'n' : 'b',
                        (double)level / LEVELS);
            fprintf(to, "M%u %uh1v1h-1z", j, i);
            any = 1;
        }
    if (any)
        fputs("\"/>", to);
}

void report_draw_matrix(FILE *to, const struct ts_json_value *rows)
{
    const uint32_t n = rows == NULL ? 0 : rows->n;
    const double text = n / (n < FEW ? 12.0 : 22.0), room = 3 * text;
    double *x = n == 0 ? NULL : malloc((size_t)n * n * sizeof *x);
    size_t at = 0;
    if (x == NULL)
        return;
    for (const struct ts_json_value *r = rows->first; r != NULL; r = r->next)
        for (const struct ts_json_value *v = r->first; v != NULL && at < (size_t)n * n; v = v->next)
            x[at++] = number_of(v);
    fprintf(to,
            "<svg style=\"max-width:%urem\" viewBox=\"%.2f %.2f %.2f %.2f\" role=\"img\" "
            "aria-label=\"matrix\"><path class=\"z\" d=\"M0 0",
            n < FEW ? 12u : 22u, -room, -text / 2, n + room + text / 2, n + 2 * text);
    for (uint32_t i = 0; i < n; i++)
        fputs("h1v1", to);
    fputs("H0z\"/>", to);
    for (int level = 1; level <= LEVELS; level++)
        for (int negative = 0; negative < 2; negative++)
            put_level(to, x, n, level, negative);
    for (uint32_t i = 0; i<n; i += n> 16 ? (n + 7) / 8 : n > 8 ? 2 : 1)
        fprintf(to, "<text x=\"%.2f\" y=\"%.2f\" class=\"e\" style=\"font-size:%.2fpx\">%u</text>",
                -text / 2, i + 0.5 + text / 3, text, i + 1);
    fputs("</svg>", to);
    free(x);
}

/* ---- curves of ranges ---- */

#define CURVE_WIDTH  1000
#define CURVE_HEIGHT 250

struct curve {
    double *low, *high;
    uint32_t n;
    double least, most; /* least and largest value of the axis, with 0 between them */
};

static int curve_x(const struct curve *c, uint32_t i)
{
    return c->n > 1 ? (int)((uint64_t)i * CURVE_WIDTH / (c->n - 1)) : CURVE_WIDTH / 2;
}

static int curve_y(const struct curve *c, double y)
{
    return (int)lround(CURVE_HEIGHT * (c->most - y) / (c->most - c->least));
}

/* Draws the area between zero and the largest positive, or the smallest negative values. */
static void put_area(FILE *to, const struct curve *c, int negative)
{
    const int zero = curve_y(c, 0);
    fprintf(to, "<path class=\"%s\" d=\"M0 %d", negative ? "an" : "ab", zero);
    for (uint32_t i = 0; i < c->n; i++) {
        if (isnan(c->low[i]))
            continue;
        fprintf(to, "L%d %d", curve_x(c, i),
                curve_y(c, negative ? fmin(c->low[i], 0) : fmax(c->high[i], 0)));
    }
    fprintf(to, "V%dz\"/>", zero);
}

/* Draws a line from the smallest to the largest value of each range, from left to right. */
static void put_zigzag(FILE *to, const struct curve *c)
{
    int x = 0, y = 0, pen = 0;
    fputs("<path class=\"l l0\" d=\"", to);
    for (uint32_t i = 0; i < c->n; i++) {
        const int at = curve_x(c, i);
        int a, b;
        if (isnan(c->low[i]))
            continue;
        a = curve_y(c, c->low[i]);
        b = curve_y(c, c->high[i]);
        if (!pen)
            fprintf(to, "M%d %d", at, a);
        else
            fprintf(to, "l%d%s%d", at - x, a < y ? "" : " ", a - y);
        if (b != a)
            fprintf(to, "v%d", b - a);
        pen = 1;
        x = at;
        y = b;
    }
    fputs("\"/>", to);
}

void report_draw_curve(FILE *to, const struct ts_json_value *object)
{
    const struct ts_json_value *low = ts_json_get(object, "low");
    struct curve c = { .low = read_numbers(low),
                       .high = read_numbers(ts_json_get(object, "high")) };
    c.n = c.low != NULL && c.high != NULL ? low->n : 0;
    for (uint32_t i = 0; i < c.n; i++) {
        c.least = fmin(c.least, c.low[i]);
        c.most = fmax(c.most, c.high[i]);
    }
    if (!(c.most > c.least))
        c.most = c.least + 1;
    if (c.n > 0) {
        fprintf(to,
                "<svg class=\"fl\" viewBox=\"0 -4 %d %d\" preserveAspectRatio=\"none\">"
                "<path class=\"g\" d=\"M0 %dh%d\"/>",
                CURVE_WIDTH, CURVE_HEIGHT + 8, curve_y(&c, 0), CURVE_WIDTH);
        if (c.most > 0)
            put_area(to, &c, 0);
        if (c.least < 0)
            put_area(to, &c, 1);
        put_zigzag(to, &c);
        fputs("</svg>", to);
    }
    free(c.low);
    free(c.high);
}
