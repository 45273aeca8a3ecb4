/* SPDX-License-Identifier: BSD-3-Clause */
/* Escapes text for HTML, and draws lines and bars as SVG. */
#include "tools/report_html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

/* ---- text ---- */

/* Characters that XML does not allow, controls, and what changes the direction of text. */
static int is_forbidden(const unsigned char *s, size_t n)
{
    return ts_json_acts(ts_json_code_point(s, n)) ||
           (n == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe);
}

static void put_character(FILE *to, const unsigned char *s, size_t n)
{
    switch (s[0]) {
    case '&':
        fputs("&amp;", to);
        break;
    case '<':
        fputs("&lt;", to);
        break;
    case '>':
        fputs("&gt;", to);
        break;
    case '"':
        fputs("&quot;", to);
        break;
    case '\'':
        fputs("&#39;", to);
        break;
    default:
        fwrite(s, 1, n, to);
    }
}

void report_text(FILE *to, const char *text, uint32_t most)
{
    const unsigned char *s = (const unsigned char *)text;
    for (uint32_t done = 0; *s != '\0'; done++) {
        const size_t length = tool_utf8_length(s), n = length > 0 ? length : 1;
        if (most > 0 && done + 1 == most && s[n] != '\0') {
            fputs("\xe2\x80\xa6", to);
            return;
        }
        if (length == 0 || is_forbidden(s, n))
            fputs("\xef\xbf\xbd", to);
        else
            put_character(to, s, n);
        s += n;
    }
}

/* ---- charts ---- */

#define WIDTH  360
#define HEIGHT 190
#define LEFT   58
#define RIGHT  352
#define TOP    10
#define BOTTOM 160
#define MOST   1e300 /* of a value: the range of all is finite then */

struct scale {
    double first, last; /* of y, or of its logarithm */
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

static int is_point(const struct report_chart *c, double y)
{
    return fabs(y) < MOST && (!c->log || y > 0);
}

static struct scale find_scale(const struct report_chart *c)
{
    struct scale s = { .first = INFINITY, .last = -INFINITY, .log = c->log };
    const uint64_t n = (uint64_t)c->n * (c->series > 0 ? c->series : 1);
    for (uint64_t i = 0; i < n; i++)
        if (is_point(c, c->y[i])) {
            s.first = fmin(s.first, scaled(&s, c->y[i]));
            s.last = fmax(s.last, scaled(&s, c->y[i]));
        }
    if (c->from_zero)
        s.first = fmin(s.first, 0);
    if (!(s.first <= s.last)) /* there is no point */
        s.first = s.last = 0;
    if (s.log) {
        s.first = floor(s.first);
        s.last = ceil(s.last);
    }
    if (s.last - s.first < 1e-12 * fmax(1, fabs(s.last)))
        s.last = s.first + (s.log ? 1 : fmax(1e-9, fabs(s.last) * 0.1));
    return s;
}

/* Steps of 1, 2 or 5 times a power of ten, three to six of them. */
static double find_step(double range)
{
    const double power = pow(10, floor(log10(range / 3)));
    const double by = range / 3 / power;
    return power * (by >= 5 ? 5 : by >= 2 ? 2 : 1);
}

static void put_y_axis(FILE *to, const struct report_chart *c, const struct scale *s)
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
        fprintf(to, "%s</text>", c->unit);
    }
}

static double x_at(const struct report_chart *c, uint32_t i)
{
    const double width = RIGHT - LEFT;
    if (c->bars)
        return LEFT + width * (i + 0.5) / c->n;
    return c->n > 1 ? LEFT + width * i / (c->n - 1) : LEFT + width / 2;
}

static void put_x_axis(FILE *to, const struct report_chart *c)
{
    const double first = c->x_first, last = c->x_first + (c->n - 1);
    fprintf(to, "<text x=\"%.0f\" y=\"%d\" class=\"%c\">%.0f</text>", x_at(c, 0), BOTTOM + 15,
            c->bars ? 'm' : 's', first);
    if (c->n > 1)
        fprintf(to, "<text x=\"%.0f\" y=\"%d\" class=\"%c\">%.0f</text>", x_at(c, c->n - 1),
                BOTTOM + 15, c->bars ? 'm' : 'e', last);
    fprintf(to, "<text x=\"%d\" y=\"%d\" class=\"m\">%s</text>", (LEFT + RIGHT) / 2, BOTTOM + 27,
            c->x_name);
}

static void put_line(FILE *to, const struct report_chart *c, const struct scale *s, uint32_t series)
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

static void put_bars(FILE *to, const struct report_chart *c, const struct scale *s)
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

void report_chart_put(FILE *to, const struct report_chart *c)
{
    const struct scale s = find_scale(c);
    fprintf(to,
            "<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" "
            "aria-label=\"%s\">",
            c->title, WIDTH, HEIGHT, c->title);
    put_y_axis(to, c, &s);
    put_x_axis(to, c);
    if (c->bars)
        put_bars(to, c, &s);
    for (uint32_t i = 0; i < (c->series > 0 ? c->series : 1) && !c->bars; i++)
        put_line(to, c, &s, i);
    fputs(c->open ? "</svg>" : "</svg></figure>\n", to);
}

/* ---- a matrix ---- */

#define LEVELS 10

/* One path a level holds all of its squares. */
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

void report_matrix_put(FILE *to, const char *title, const double *x, uint32_t n)
{
    const double text = n / 22.0, room = 3 * text;
    fprintf(to,
            "<figure><figcaption>%s</figcaption><svg class=\"mx\" viewBox=\"%.2f %.2f %.2f %.2f\" "
            "role=\"img\" aria-label=\"%s\"><path class=\"z\" d=\"M0 0",
            title, -room, -text / 2, n + room + text / 2, n + 2 * text, title);
    for (uint32_t i = 0; i < n; i++)
        fputs("h1v1", to);
    fputs("H0z\"/>", to);
    for (int level = 1; level <= LEVELS; level++)
        for (int negative = 0; negative < 2; negative++)
            put_level(to, x, n, level, negative);
    for (uint32_t i = 0; i<n; i += n> 16 ? (n + 7) / 8 : n > 8 ? 2 : 1)
        fprintf(to, "<text x=\"%.2f\" y=\"%.2f\" class=\"e\" style=\"font-size:%.2fpx\">%u</text>",
                -text / 2, i + 0.5 + text / 3, text, i + 1);
    fputs("</svg></figure>\n", to);
}

/* ---- factors ---- */

#define LINE_WIDTH  1000
#define LINE_HEIGHT 250

/* Smallest, then largest value of each range: a line that goes through both, from left to right. */
void report_line_put(FILE *to, const float *low, const float *high, uint32_t n)
{
    double first = 0, last = 0;
    int x = 0, y = 0;
    for (uint32_t i = 0; i < n; i++) {
        first = low[i] < first ? low[i] : first;
        last = high[i] > last ? high[i] : last;
    }
    if (!(last > first))
        last = first + 1;
    fprintf(
        to,
        "<svg class=\"fl\" viewBox=\"0 -4 %d %d\" preserveAspectRatio=\"none\"><path class=\"g\" "
        "d=\"M0 %.0fh%d\"/><path class=\"l l0\" d=\"",
        LINE_WIDTH, LINE_HEIGHT + 8, LINE_HEIGHT * last / (last - first), LINE_WIDTH);
    for (uint32_t i = 0; i < n; i++) {
        const int at = n > 1 ? (int)((uint64_t)i * LINE_WIDTH / (n - 1)) : LINE_WIDTH / 2;
        const int a = (int)lround(LINE_HEIGHT * (last - low[i]) / (last - first));
        const int b = (int)lround(LINE_HEIGHT * (last - high[i]) / (last - first));
        if (i == 0)
            fprintf(to, "M%d %d", at, a);
        else
            fprintf(to, "l%d%s%d", at - x, a < y ? "" : " ", a - y);
        if (b != a)
            fprintf(to, "v%d", b - a);
        x = at;
        y = b;
    }
    fputs("\"/></svg>", to);
}

void report_bars_put(FILE *to, const double *x, uint32_t n)
{
    fprintf(to, "<svg class=\"fb\" viewBox=\"0 0 100 %u\" preserveAspectRatio=\"none\">", n);
    for (int negative = 0; negative < 2; negative++) {
        int any = 0;
        for (uint32_t i = 0; i < n; i++) {
            if ((x[i] < 0) != negative)
                continue;
            if (!any)
                fprintf(to, "<path class=\"%c\" d=\"", negative ? 'n' : 'b');
            fprintf(to, "M0 %u.1h%.0fv.8H0z", i, 100 * fmin(fabs(x[i]), 1));
            any = 1;
        }
        if (any)
            fputs("\"/>", to);
    }
    fputs("</svg>", to);
}
