/* SPDX-License-Identifier: BSD-3-Clause */
/* The warnings of the page of tstream report. */
#include "tools/report_warn.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/report_html.h"

#define ALIKE         0.95 /* congruence above which two components count as the same */
#define CANCELLING    10
#define BAD_CONDITION 1e10
#define MOST_PAIRS    8

struct list {
    FILE *to;
    int open;
};

static FILE *item(struct list *l)
{
    fputs(l->open ? "</li>\n<li>" : "<section><ul class=\"warn\">\n<li>", l->to);
    l->open = 1;
    return l->to;
}

static void warn_end(struct list *l, const struct ts_json_value *run)
{
    const struct ts_json_value *sweeps = ts_json_get(run, "sweeps"), *s, *before = NULL;
    const char *ended = ts_json_text(run, "ended", "");
    if (strcmp(ended, "iterations") == 0 && sweeps != NULL && sweeps->n > 1) {
        for (s = sweeps->first; s->next != NULL; s = s->next)
            before = s;
        fprintf(
            item(l),
            "The run ended at --iters before it converged: the fit still changed by %.2g in the last sweep. "
            "tstream cp --resume with more --iters goes on.",
            ts_json_number(s, "fit") - ts_json_number(before, "fit"));
    } else if (strncmp(ended, "stopped", 7) == 0) {
        fputs("The run was ", item(l));
        report_text(l->to, ended, 0);
        fputs("; tstream cp --resume goes on.", l->to);
    }
}

static void warn_singular(struct list *l, const struct ts_json_value *run)
{
    const struct ts_json_value *sweeps = ts_json_get(run, "sweeps");
    uint32_t n = 0;
    double first = 0, last = 0;
    for (const struct ts_json_value *s = sweeps == NULL ? NULL : sweeps->first; s != NULL;
         s = s->next)
        if (ts_json_number(s, "singular_modes") > 0) {
            last = ts_json_number(s, "sweep");
            first = n++ == 0 ? last : first;
        }
    if (n > 0)
        fprintf(
            item(l),
            "In %u sweep%s (%.0f to %.0f) the equations of a mode were singular to rounding, and a pseudo-inverse "
            "took the place of the inverse: components are alike, or the rank is too high.",
            n, ts_num_plural(n), first, last);
}

static void warn_pairs(struct list *l, const struct report_figures *f)
{
    uint32_t n = 0;
    for (uint32_t a = 1; a < f->n; a++)
        for (uint32_t b = 0; b < a; b++) {
            const double x = f->congruence[(size_t)a * f->n + b];
            if (fabs(x) < ALIKE || n++ >= MOST_PAIRS)
                continue;
            fprintf(
                item(l),
                "Components <a href=\"#c%u\">%u</a> and <a href=\"#c%u\">%u</a> %s (correlation %.3f).",
                b + 1, b + 1, a + 1, a + 1,
                x > 0 ? "are nearly the same: a lower rank may do"
                      : "nearly cancel each other: neither means anything alone",
                x);
        }
    if (n > MOST_PAIRS)
        fprintf(item(l), "%u more pairs of components are as alike.", n - MOST_PAIRS);
}

static void warn_condition(struct list *l, const struct report_figures *f)
{
    for (uint32_t m = 0; m < f->order && f->singular != NULL && f->n > 1; m++) {
        const double *s = f->singular + (size_t)m * f->n;
        if (s[0] > BAD_CONDITION * s[f->n - 1])
            fprintf(
                item(l),
                "The equations of mode %u are nearly singular: the smallest singular value of V is %.1e of the "
                "largest.",
                m + 1, s[f->n - 1] / s[0]);
    }
}

static void warn_tensor(struct list *l, const struct model_view *v)
{
    const struct ts_json_value *t = ts_json_get(v->run, "tensor");
    char checksum[17];
    if (t == NULL || v->tensor == NULL)
        return;
    snprintf(checksum, sizeof checksum, "%016" PRIx64, v->tensor->hash);
    if (strcmp(checksum, ts_json_text(t, "checksum", "")) == 0)
        return;
    fputs("Names are of ", item(l));
    report_text(l->to, v->tensor->path, 0);
    fputs(", which is another tensor than the one decomposed, or was built anew.", l->to);
}

void report_warn_put(FILE *to, const struct model_view *v, const struct report_figures *f)
{
    struct list l = { .to = to };
    warn_end(&l, v->run);
    warn_singular(&l, v->run);
    warn_pairs(&l, f);
    if (f->cancelling > CANCELLING)
        fprintf(
            item(&l),
            "Components cancel each other: their squared norms sum up to %.3g times that of the model.",
            f->cancelling);
    warn_condition(&l, f);
    warn_tensor(&l, v);
    if (l.open)
        fputs("</li>\n</ul></section>\n", to);
}
