/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints a report on a new tensor, as text or JSON. */
#include "tools/build/build_report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/common/tool_progress.h"
#include "tools/common/tool_term.h"

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
        tool_words_putf(&w, "left out %s line%s with missing fields", ts_num_count(a, r->n_missing),
                        tool_plural(r->n_missing));
    tool_words_start(&w, "");
    tool_words_put(&w, "bytes per nonzero");
    for (uint32_t m = 0; m < r->order; m++)
        tool_words_putf(&w, "%.2f%s", ts_tensor_bytes_per_nnz(t, m), m + 1 < r->order ? "," : "");
    tool_words_putf(&w, "(random cells: %.2f)", ts_tensor_entropy_bound(t));
    tool_words_start(&w, "");
    tool_words_putf(&w, "%s, %s nonzeros/s%s", ts_num_duration(a, ns),
                    ts_num_short(b, (double)r->input_nnz / (1e-9 * (double)ns + 1e-9)),
                    r->n_runs > 0 ? "," : "");
    if (r->n_runs > 0)
        tool_words_putf(&w, "through %s sorted run%s on disk", ts_num_count(c, r->n_runs),
                        tool_plural(r->n_runs));
    tool_words_end(&w);
}

int build_report_print(const struct ts_cmd *cmd, const struct ts_build_options *o,
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
    else if (!tool_quiet())
        report_text(o, r, t);
    ts_tensor_close(t);
    return 0;
}
