/* SPDX-License-Identifier: BSD-3-Clause */
/* Options, progress and the report of tshard build, gen, split and select. */
#include "tools/build_common.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/tool_term.h"

static _Atomic uint64_t build_work; /* of the one build that a command makes at a time */

static void show(void *arg, const struct ts_build_step *step)
{
    struct tool_progress *p = arg;
    const char *unit = strcmp(step->unit, "bytes") == 0 ? "bytes" /* it must stay */
                       : *step->unit == '\0'            ? ""
                                                        : "nonzeros";
    char what[TOOL_PROGRESS_CHARS];
    snprintf(what, sizeof what, "phase %" PRIu32 "/%" PRIu32 ", %s", step->phase, step->n_phases,
             step->what);
    if (strcmp(p->what, what) != 0) {
        tool_progress_start(p, what, unit, step->total);
        tool_progress_count(p, &build_work, step->work);
        if (step->alike > 0)
            tool_progress_rest(p, 0, step->alike, "build about");
    }
    tool_progress_update(p, step->done);
}

static void warn(void *arg, const struct ts_err *text)
{
    (void)arg;
    tool_progress_warn(text->text);
}

int build_common_apply(const struct build_common *c, struct ts_build_options *o,
                       struct tool_progress *progress, struct ts_err *err)
{
    int rc;
    o->force = c->force;
    o->value_bytes = c->values == 0 ? 4 : 8;
    o->tmp = c->tmp != NULL ? c->tmp : getenv("TMPDIR");
    if (o->tmp != NULL && *o->tmp == '\0')
        o->tmp = NULL;
    rc = tool_threads_check(c->threads, err);
    if (rc == 0)
        rc = ts_build_budget(c->memory, c->shard, c->threads, o, err);
    if (rc < 0)
        return rc;
    memset(progress, 0, sizeof *progress);
    o->progress = show;
    o->progress_arg = progress;
    o->work = &build_work;
    o->no_space_check = c->no_space_check;
    o->note = warn;
    tool_catch_signals();
    o->stop = &tool_stop;
    return 0;
}

void build_common_like(const struct ts_tensor *t, struct ts_build_options *o)
{
    o->value_bytes = t->header.value_bytes;
    o->duplicates =
        (t->header.flags & TS_TENSOR_DUPLICATES) != 0 ? TS_DUPLICATES_KEEP : TS_DUPLICATES_SUM;
    o->zeros = (t->header.flags & TS_TENSOR_ZEROS) != 0;
    o->weights = ts_tensor_weighted(t);
}

char *build_common_name(const char *path, const char *suffix)
{
    size_t n = strlen(path), first = n;
    char *ret = NULL;
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (first = n; first > 0 && path[first - 1] != '/'; first--)
        ;
    if (n - first > 4 && strncmp(path + n - 4, ".tsh", 4) == 0)
        n -= 4;
    return asprintf(&ret, "%.*s%s", (int)(n - first), path + first, suffix) < 0 ? NULL : ret;
}

static void report_json(const struct ts_cmd *cmd, const struct ts_build_options *o,
                        const struct ts_build_report *r, const struct ts_tensor *t)
{
    const double seconds = 1e-9 * (double)(r->read_ns + r->merge_ns + r->pack_ns + r->sync_ns);
    struct tool_json j;
    (void)cmd;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "tensor", o->out);
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < r->order; m++)
        tool_json_u64(&j, NULL, r->dim[m]);
    tool_json_close(&j);
    tool_json_u64(&j, "nnz", r->nnz);
    tool_json_u64(&j, "read", r->input_nnz);
    tool_json_u64(&j, "duplicates", r->n_duplicates);
    tool_json_u64(&j, "zeros", r->n_zeros);
    tool_json_u64(&j, "rounded_to_zero", r->n_rounded);
    tool_json_u64(&j, "missing", r->n_missing);
    tool_json_f64(&j, "entropy_bound", ts_tensor_entropy_bound(t));
    tool_json_array(&j, "bytes_per_nnz");
    for (uint32_t m = 0; m < r->order; m++)
        tool_json_f64(&j, NULL, ts_tensor_bytes_per_nnz(t, m));
    tool_json_close(&j);
    tool_json_u64(&j, "runs", r->n_runs);
    tool_json_u64(&j, "memory", o->memory);
    tool_json_u64(&j, "peak_bytes", ts_machine_peak_bytes());
    tool_json_u64(&j, "threads", o->threads);
    tool_json_f64(&j, "seconds", seconds);
    tool_json_f64(&j, "read_seconds", 1e-9 * (double)r->read_ns);
    tool_json_f64(&j, "merge_seconds", 1e-9 * (double)r->merge_ns);
    tool_json_f64(&j, "pack_seconds", 1e-9 * (double)r->pack_ns);
    tool_json_f64(&j, "sync_seconds", 1e-9 * (double)r->sync_ns);
    tool_json_f64(&j, "exchange_seconds", 1e-9 * (double)r->exchange_ns);
    tool_json_close(&j);
}

static void report_text(const struct ts_build_options *o, const struct ts_build_report *r,
                        const struct ts_tensor *t)
{
    const uint64_t ns = r->read_ns + r->merge_ns + r->pack_ns + r->sync_ns;
    struct tool_words w = { .columns = tool_columns() };
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], c[TS_NUM_CHARS];
    tool_words_put(&w, o->out);
    w.at += printf(":");
    w.indent = 2;
    for (uint32_t m = 0; m < r->order; m++)
        tool_words_putf(&w, "%s%s", ts_num_count(a, r->dim[m]), m + 1 < r->order ? " x" : ",");
    tool_words_putf(&w, "%s nonzero%s", ts_num_count(a, r->nnz), tool_plural(r->nnz));
    tool_words_start(&w, "");
    tool_words_putf(
        &w, "read %s, %s %s duplicate%s, dropped %s zero%s%s", ts_num_count(a, r->input_nnz),
        o->duplicates == TS_DUPLICATES_KEEP ? "kept" : "merged", ts_num_count(b, r->n_duplicates),
        tool_plural(r->n_duplicates), ts_num_count(c, r->n_zeros), tool_plural(r->n_zeros),
        r->n_missing > 0 ? "," : "");
    if (r->n_missing > 0)
        tool_words_putf(&w, "left out %s line%s with missing fields",
                        ts_num_count(a, r->n_missing), tool_plural(r->n_missing));
    tool_words_start(&w, "");
    tool_words_put(&w, "bytes per nonzero");
    for (uint32_t m = 0; m < r->order; m++)
        tool_words_putf(&w, "%.2f%s", ts_tensor_bytes_per_nnz(t, m), m + 1 < r->order ? "," : "");
    tool_words_putf(&w, "(entropy bound %.2f)", ts_tensor_entropy_bound(t));
    tool_words_start(&w, "");
    tool_words_putf(&w, "%s, %s nonzeros/s%s", ts_num_duration(a, ns),
                    ts_num_short(b, (double)r->input_nnz / (1e-9 * (double)ns + 1e-9)),
                    r->n_runs > 0 ? "," : "");
    if (r->n_runs > 0)
        tool_words_putf(&w, "through %s sorted run%s on disk", ts_num_count(c, r->n_runs),
                        tool_plural(r->n_runs));
    tool_words_end(&w);
}

int build_common_report(const struct ts_cmd *cmd, const struct ts_build_options *o,
                        const struct ts_build_report *r, int json, struct ts_err *err)
{
    struct ts_tensor *t;
    struct ts_err why;
    const int rc = ts_tensor_open(o->out, &t, &why);
    tool_warn(cmd, &r->rounded);
    tool_warn(cmd, &r->warn);
    tool_in_place(o->out);
    if (rc < 0)
        return ts_fail(err, rc, "%s is in place, but cannot be opened for the report: %s", o->out,
                       why.text);
    if (json)
        report_json(cmd, o, r, t);
    else
        report_text(o, r, t);
    ts_tensor_close(t);
    return 0;
}

int build_common_dims(const char *text, uint64_t dim[TS_MAX_ORDER], struct ts_err *err)
{
    const char *p = text;
    for (uint32_t n = 0;; p++) {
        uint64_t v = 0;
        const char *start = p;
        for (; *p >= '0' && *p <= '9' && v <= TS_MAX_DIM; p++)
            v = 10 * v + (uint64_t)(*p - '0');
        if (p == start || v == 0 || v > TS_MAX_DIM || (*p != '\0' && *p != 'x'))
            return ts_fail(err, TS_EARG, "--dims %s: expected sizes from 1 to 2^40 like 30x40x50",
                           text);
        if (n == TS_MAX_ORDER)
            return ts_fail(err, TS_EARG, "--dims %s: at most %u modes are possible", text,
                           TS_MAX_ORDER);
        dim[n++] = v;
        if (*p == '\0')
            return (int)n;
    }
}
