/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the list of the segments of a tensor. */
#include "tools/build/segments_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <tstream.h>

#include "tools/common/tool_term.h"

const char *segment_time(uint64_t seconds, char ret[SEGMENT_TIME_CHARS])
{
    const time_t t = (time_t)seconds;
    struct tm tm;
    ret[0] = '\0';
    if (seconds > 0 && gmtime_r(&t, &tm) != NULL)
        strftime(ret, SEGMENT_TIME_CHARS, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return ret;
}

static void print_json(const struct ts_segments *s, const struct ts_tensor *last, uint64_t nnz,
                       uint64_t bytes)
{
    char text[TS_CELL_SUM_CHARS], date[SEGMENT_TIME_CHARS];
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "tensor", s->path);
    tool_json_u64(&j, "format_version", TS_FORMAT_SEGMENTS);
    tool_json_u64(&j, "order", s->order);
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < s->order; m++)
        tool_json_u64(&j, NULL, ts_dim(last, m));
    tool_json_close(&j);
    tool_json_u64(&j, "stored_nnz", nnz);
    tool_json_u64(&j, "bytes", bytes);
    tool_json_bool(&j, "merged", s->merged);
    tool_json_array(&j, "segments");
    for (uint32_t i = 0; i < s->n; i++) {
        const struct ts_disk_segment *e = &s->entry[i];
        const struct ts_cell_sum cell = { e->nnz, { e->cell[0], e->cell[1] } };
        const struct ts_cell_sum record = { e->n_records, { e->record[0], e->record[1] } };
        tool_json_object(&j, NULL);
        tool_json_u64(&j, "segment", i + 1);
        tool_json_str(&j, "time", segment_time(e->time, date));
        tool_json_u64(&j, "nnz", e->nnz);
        tool_json_u64(&j, "bytes", e->bytes);
        tool_json_str(&j, "record_sum", e->n_records > 0 ? ts_cell_sum_text(&record, text) : NULL);
        tool_json_str(&j, "cell_sum", e->n_records > 0 ? ts_cell_sum_text(&cell, text) : NULL);
        tool_json_close(&j);
    }
    tool_json_close(&j);
    tool_json_close(&j);
}

static void print_text(const struct ts_segments *s, const struct ts_tensor *last, uint64_t nnz,
                       uint64_t bytes)
{
    struct tool_words w = { .indent = 14, .columns = tool_columns() };
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], date[SEGMENT_TIME_CHARS], path[4096];
    printf("%s\n", tool_plain(s->path, path, sizeof path));
    tool_words_start(&w, "  shape");
    for (uint32_t m = 0; m < s->order; m++)
        tool_words_putf(&w, "%s%s", ts_num_count(a, ts_dim(last, m)), m + 1 < s->order ? " x" : "");
    tool_words_start(&w, "  nonzeros");
    tool_words_putf(&w, "%s in %" PRIu32 " segment%s; a cell in several counts several times",
                    ts_num_count(a, nnz), s->n, tool_plural(s->n));
    tool_words_start(&w, "  on disk");
    tool_words_putf(&w, "%s", ts_num_bytes(b, bytes));
    tool_words_start(&w, "  merged");
    tool_words_putf(&w, "%s",
                    s->merged ? "yes, beside the segments"
                              : "not yet: by the first command that reads the cells");
    tool_words_end(&w);
    printf("\n  segment  %-20s  %16s  %10s\n", "appended (UTC)", "nonzeros", "size");
    for (uint32_t i = 0; i < s->n; i++)
        printf("  %7" PRIu32 "  %-20s  %16s  %10s\n", i + 1, segment_time(s->entry[i].time, date),
               ts_num_count(a, s->entry[i].nnz), ts_num_bytes(b, s->entry[i].bytes));
}

int segments_info(const char *path, int json, struct ts_err *err)
{
    struct ts_segments *s = NULL;
    struct ts_tensor *last = NULL;
    uint64_t nnz = 0, bytes = 0;
    int rc = ts_segments_open(path, &s, err);
    if (rc == 0 && !s->listed)
        rc = ts_fail(err, TS_EBUSY, "%s: was changed meanwhile", path);
    if (rc == 0)
        rc = ts_segments_tensor(s, s->n - 1, &last, err);
    for (uint32_t i = 0; rc == 0 && i < s->n; i++) {
        nnz += s->entry[i].nnz;
        bytes += s->entry[i].bytes;
    }
    if (rc == 0)
        (json ? print_json : print_text)(s, last, nnz, bytes);
    ts_tensor_close(last);
    ts_segments_close(s);
    return rc < 0 ? rc : tool_flushed(err);
}
