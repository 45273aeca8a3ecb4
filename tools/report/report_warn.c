/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the warnings about a decomposition and writes them as JSON. */
#include "tools/report/report_warn.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define ALIKE         0.95 /* congruence above which two components count as the same */
#define CANCELLING    10
#define BAD_CONDITION 1e10
#define MOST_PAIRS    8

static void open_kind(struct tool_json *j, const char *kind)
{
    tool_json_object(j, NULL);
    tool_json_str(j, "kind", kind);
}

static void warn_end(struct tool_json *j, const struct ts_json_value *run)
{
    const struct ts_json_value *sweeps = ts_json_get(run, "sweeps"), *s, *before = NULL;
    const char *ended = ts_json_text(run, "ended", "");
    if (strcmp(ended, "iterations") == 0 && sweeps != NULL && sweeps->n > 1) {
        for (s = sweeps->first; s->next != NULL; s = s->next)
            before = s;
        open_kind(j, "iterations");
        tool_json_f64(j, "change", ts_json_number(s, "fit") - ts_json_number(before, "fit"));
        tool_json_close(j);
    } else if (strncmp(ended, "stopped", 7) == 0) {
        open_kind(j, "stopped");
        tool_json_close(j);
    }
}

static void warn_singular(struct tool_json *j, const struct ts_json_value *history)
{
    const struct ts_json_value *sweeps = ts_json_get(history, "sweeps");
    uint32_t n = 0;
    double first = 0, last = 0;
    for (const struct ts_json_value *s = sweeps == NULL ? NULL : sweeps->first; s != NULL;
         s = s->next)
        if (model_view_sweep_number(s, "singular_modes") > 0) {
            last = ts_json_number(s, "sweep");
            first = n++ == 0 ? last : first;
        }
    if (n == 0)
        return;
    open_kind(j, "singular");
    tool_json_u64(j, "n", n);
    tool_json_f64(j, "first", first);
    tool_json_f64(j, "last", last);
    tool_json_close(j);
}

static void warn_pairs(struct tool_json *j, const struct report_figures *f)
{
    uint32_t n = 0;
    for (uint32_t a = 1; a < f->n; a++)
        for (uint32_t b = 0; b < a; b++) {
            const double x = f->congruence[(size_t)a * f->n + b];
            if (fabs(x) < ALIKE || n++ >= MOST_PAIRS)
                continue;
            open_kind(j, x > 0 ? "alike" : "opposite");
            tool_json_u64(j, "first", b + 1);
            tool_json_u64(j, "second", a + 1);
            tool_json_f64(j, "correlation", x);
            tool_json_close(j);
        }
    if (n <= MOST_PAIRS)
        return;
    open_kind(j, "more_pairs");
    tool_json_u64(j, "n", n - MOST_PAIRS);
    tool_json_close(j);
}

static void warn_condition(struct tool_json *j, const struct report_figures *f)
{
    for (uint32_t m = 0; m < f->order && f->singular != NULL && f->n > 1; m++) {
        const double *s = f->singular + (size_t)m * f->n;
        if (!(s[0] > BAD_CONDITION * s[f->n - 1]))
            continue;
        open_kind(j, "condition");
        tool_json_u64(j, "mode", m + 1);
        tool_json_f64(j, "ratio", s[f->n - 1] / s[0]);
        tool_json_close(j);
    }
}

static void warn_tensor(struct tool_json *j, const struct model_view *v)
{
    const struct ts_json_value *t = ts_json_get(v->run, "tensor");
    char checksum[17];
    if (t == NULL || v->tensor == NULL)
        return;
    snprintf(checksum, sizeof checksum, "%016" PRIx64, v->tensor->hash);
    if (strcmp(checksum, ts_json_text(t, "checksum", "")) == 0)
        return;
    open_kind(j, "other_tensor");
    tool_json_str(j, "path", v->tensor->path);
    tool_json_close(j);
}

void report_warn_put(struct tool_json *j, const struct model_view *v,
                     const struct report_figures *f)
{
    tool_json_array(j, "warnings");
    warn_end(j, v->run);
    warn_singular(j, v->history);
    warn_pairs(j, f);
    if (f->cancelling > CANCELLING) {
        open_kind(j, "cancelling");
        tool_json_f64(j, "times", f->cancelling);
        tool_json_close(j);
    }
    warn_condition(j, f);
    warn_tensor(j, v);
    tool_json_close(j);
}
