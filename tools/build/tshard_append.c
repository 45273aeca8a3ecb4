/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard append, undo and compact: add nonzeros to a tensor, take the last addition back, and merge
 * all additions. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/build/build_opts.h"
#include "tools/build/build_report.h"
#include "tools/build/segments_report.h"
#include "tools/common/common_opts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_ranks.h"
#include "tools/tshard.h"

static void tell(void *cmd, const struct ts_err *why)
{
    tool_note(cmd, "%s", why->text);
}

/* ------------------------------------------------------------------ append */

static void print_appended(const struct tshard_build_job *job, const struct ts_build_report *b,
                           const struct ts_append_report *r)
{
    char a[TS_NUM_CHARS], c[TS_NUM_CHARS], d[TS_NUM_CHARS], e[TS_NUM_CHARS], path[4096];
    struct tool_json j;
    if (job->json) {
        tool_json_open(&j, stdout);
        tool_json_str(&j, "tensor", job->o->out);
        tool_json_u64(&j, "segment", r->n_segments);
        tool_json_u64(&j, "segments_merged", r->compacted);
        tool_json_u64(&j, "nnz", r->segment.nnz);
        tool_json_u64(&j, "input_nnz", b->input_nnz);
        tool_json_u64(&j, "duplicates_merged", b->n_duplicates);
        tool_json_u64(&j, "zeros_dropped", b->n_zeros);
        tool_json_u64(&j, "lines_left_out", b->n_missing);
        tool_json_u64(&j, "bytes", r->segment.bytes);
        tool_json_array(&j, "shape");
        for (uint32_t m = 0; m < b->order; m++)
            tool_json_u64(&j, NULL, b->dim[m]);
        tool_json_close(&j);
        tool_json_close(&j);
    } else if (!job->quiet) {
        printf("%s: appended %s nonzero%s as segment %" PRIu32 " (read %s, merged %s duplicate%s, "
               "dropped %s zero%s)\n",
               tool_plain(job->o->out, path, sizeof path), ts_num_count(a, r->segment.nnz),
               tool_plural(r->segment.nnz), r->n_segments, ts_num_count(c, b->input_nnz),
               ts_num_count(d, b->n_duplicates), tool_plural(b->n_duplicates),
               ts_num_count(e, b->n_zeros), tool_plural(b->n_zeros));
    }
}

/* Parses the value of --compact-at: "25%" gives 0.25, and "never" gives 0. */
static int share_of(const char *text, double *ret, struct ts_err *err)
{
    char *end;
    *ret = 0;
    if (strcmp(text, "never") == 0)
        return 0;
    *ret = strtod(text, &end) / 100;
    if (end != text && strcmp(end, "%") == 0 && *ret > 0 && *ret <= 100)
        return 0;
    return ts_fail(err, TS_EARG, "--compact-at %s: expected a share such as 25%%, or never", text);
}

static int append(const struct ts_cmd *cmd, const struct tshard_build_job *job, struct ts_err *err)
{
    struct ts_append_conf conf = { .path = job->o->out,
                                   .build = job->o,
                                   .paths = job->paths,
                                   .n_paths = job->n_paths,
                                   .said = job->said,
                                   .plan = job->plan,
                                   .repeat = job->repeat,
                                   .time = (uint64_t)time(NULL) };
    struct ts_build_report build;
    struct ts_append_report report;
    int rc;
    if (share_of(job->compact_at, &conf.compact_at, err) < 0)
        return err->code;
    if (tool_ranks() != NULL)
        return ts_fail(err, TS_EARG, "one process appends, and several were started");
    tool_progress_start(job->progress, "opening", "", 0);
    rc = ts_append_paths(&conf, &build, &report, err);
    tool_progress_end(job->progress);
    if (rc < 0)
        return rc;
    if (report.compacted > 0 && !job->quiet)
        tool_note(cmd, "%s: merged its %" PRIu32 " segments first (--compact-at %s)", conf.path,
                  report.compacted, job->compact_at);
    tool_warn(cmd, &build.rounded);
    tool_warn(cmd, &report.warn);
    tool_in_place(conf.path);
    print_appended(job, &build, &report);
    for (uint32_t i = 0; i < build.n_notes; i++)
        tool_note(cmd, "%s", build.note[i]);
    return tool_flushed(err);
}

static int run_append(const struct ts_cmd *cmd, int argc, char **argv)
{
    return tshard_append_command(cmd, argc, argv, append);
}

const struct ts_cmd tshard_append_cmd = {
    .program = "tshard",
    .name = "append",
    .operands = "TENSOR.tsh FILE...",
    .min_operands = 2,
    .max_operands = UINT32_MAX,
    .summary = "append files to a tensor, as a new segment",
    .text =
        "Reads files as tshard build does and puts their nonzeros beside what the tensor has, as a "
        "segment. Of the tensor, only labels are read. New indices, names and times "
        "make the modes longer. An index, a name and a time mean the same slice as before.\n\n"
        "The options of the build are remembered: transform, bins, columns and others. Options "
        "that are not given are those of the build, and columns of a table are found by the names of "
        "its header. An option that differs is refused. So is a tensor that does not say how it "
        "was built, because an older version made it.\n\n"
        "Values of a cell that several segments have are added. If the tensor was built with "
        "--duplicates error, such a cell is refused, and an append reads all segments. "
        "A tensor of --transform log1p or binary needs that, because these hold for the whole sum "
        "of a cell. "
        "Files whose nonzeros are those of a segment are refused, unless --repeat is given.\n\n"
        "The segment appears whole or not at all. Runs that have the tensor open go on with what "
        "they opened. A second writer is refused, and a reader that merges is waited for. Mode, owner, group and ACLs of the tensor stay. tshard undo takes the last segment back. If the "
        "existing segments have become large, they are merged first, as tshard compact does "
        "(--compact-at). The "
        "first command that reads the cells merges the segments, and keeps the result beside "
        "them. tshard compact puts it in their place.",
    .examples =
        "tshard append amazon.tsh monday.tns\n  append the nonzeros of a file\n"
        "tshard append r.tsh new.csv\n  append a table with the same columns, and continue its weeks\n",
    .opts = tshard_append_opts,
    .run = run_append,
};

/* ------------------------------------------------------------------ undo */

struct undo_args {
    int json, quiet;
};

static const struct ts_opt undo_opts[] = {
    TOOL_QUIET_OPT(offsetof(struct undo_args, quiet)),
    TOOL_JSON_OPT(offsetof(struct undo_args, json)),
    { 0 },
};

static void print_undone(const char *name, const struct undo_args *args,
                         const struct ts_append_report *r)
{
    char a[TS_NUM_CHARS], date[SEGMENT_TIME_CHARS], path[4096];
    struct tool_json j;
    if (args->json) {
        tool_json_open(&j, stdout);
        tool_json_str(&j, "tensor", name);
        tool_json_u64(&j, "segments", r->n_segments);
        tool_json_u64(&j, "nnz", r->segment.nnz);
        tool_json_str(&j, "time", segment_time(r->segment.time, date));
        tool_json_close(&j);
    } else if (!args->quiet) {
        printf("%s: took back segment %" PRIu32 " of %s, with %s nonzero%s\n",
               tool_plain(name, path, sizeof path), r->n_segments + 1,
               segment_time(r->segment.time, date), ts_num_count(a, r->segment.nnz),
               tool_plural(r->segment.nnz));
    }
}

static int run_undo(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct undo_args args = { 0 };
    struct ts_build_options o = { .stop = &tool_stop };
    struct ts_append_report report;
    struct ts_err err = { 0 };
    char *operand[argc], *path;
    uint32_t n;
    int rc = tool_parse(cmd, argc, argv, &args, &n, operand, NULL);
    if (rc >= 0)
        return rc;
    tool_catch_signals();
    if (!args.quiet) {
        o.note = tell;
        o.note_arg = (void *)cmd;
    }
    path = tool_operand(operand[0], ".tsh");
    rc = path == NULL ? ts_fail(&err, TS_ENOMEM, "out of memory")
                      : ts_append_undo(path, &o, &report, &err);
    if (rc == 0) {
        tool_warn(cmd, &report.warn);
        tool_in_place(path);
        print_undone(path, &args, &report);
        rc = tool_flushed(&err);
    }
    free(path);
    return rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_undo_cmd = {
    .program = "tshard",
    .name = "undo",
    .operands = "TENSOR.tsh",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "take back what was appended last",
    .text =
        "Removes the last segment of a tensor. If one segment is left, the tensor has the bytes "
        "that it had before the first append. What tshard compact merged is not taken apart.",
    .examples = "tshard undo ratings.tsh\n  take back the last tshard append\n",
    .opts = undo_opts,
    .run = run_undo,
};

/* ------------------------------------------------------------------ compact */

struct compact_args {
    struct build_opts build;
};

static const struct ts_opt compact_opts[] = {
    BUILD_PLACE_OPTS(offsetof(struct compact_args, build)),
    { 0 },
};

static int print_compacted(const char *name, const struct compact_args *args,
                           const struct ts_append_report *r, struct ts_err *err)
{
    char a[TS_NUM_CHARS], path[4096];
    struct ts_tensor *t = NULL;
    struct tool_json j;
    int rc = ts_tensor_open(name, &t, err);
    if (rc < 0)
        return rc;
    if (args->build.json) {
        tool_json_open(&j, stdout);
        tool_json_str(&j, "tensor", name);
        tool_json_u64(&j, "segments_merged", r->n_segments);
        tool_json_u64(&j, "nnz", t->nnz);
        tool_json_close(&j);
    } else if (!args->build.quiet && r->n_segments > 0) {
        printf("%s: merged %" PRIu32 " segments into one, with %s nonzero%s\n",
               tool_plain(name, path, sizeof path), r->n_segments, ts_num_count(a, t->nnz),
               tool_plural(t->nnz));
    } else if (!args->build.quiet) {
        printf("%s: is one segment, so there is nothing to merge\n",
               tool_plain(name, path, sizeof path));
    }
    ts_tensor_close(t);
    return tool_flushed(err);
}

/* Merges the segments of a tensor, for tshard compact. has_shard: 1 if --shard was given. */
static int compact(const struct ts_cmd *cmd, const struct compact_args *args, int has_shard,
                   const char *path, struct ts_err *err)
{
    struct ts_build_options o = { 0 };
    struct tool_progress progress;
    struct ts_append_report report = { 0 };
    int rc = build_opts_apply(&args->build, &o, &progress, err);
    if (rc < 0)
        return rc;
    if (!has_shard)
        o.shard_bytes = 0;
    if (!args->build.quiet) {
        o.note = tell;
        o.note_arg = (void *)cmd;
    }
    tool_progress_start(&progress, "opening", "", 0);
    rc = ts_append_compact(path, &o, &report, err);
    tool_progress_end(&progress);
    if (rc < 0)
        return rc;
    tool_warn(cmd, &report.warn);
    if (report.remade)
        tool_note(cmd, "%s/merged was damaged, so the segments were merged again", path);
    tool_in_place(path);
    return print_compacted(path, args, &report, err);
}

static int run_compact(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct compact_args args = { 0 };
    struct ts_err err = { 0 };
    char *operand[argc], *path;
    uint64_t given = 0;
    uint32_t n;
    int rc = tool_parse(cmd, argc, argv, &args, &n, operand, &given);
    if (rc >= 0)
        return rc;
    path = tool_operand(operand[0], ".tsh");
    rc = path == NULL ? ts_fail(&err, TS_ENOMEM, "out of memory")
                      : compact(cmd, &args, tshard_has_option(cmd, given, "shard"), path, &err);
    free(path);
    return rc == TS_EARG ? tool_usage(cmd, "%s", err.text) : rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_compact_cmd = {
    .program = "tshard",
    .name = "compact",
    .operands = "TENSOR.tsh",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "merge all segments of a tensor into one",
    .text =
        "Builds one tensor of the nonzeros of all segments, within --memory, and puts it in their "
        "place when it is complete. If a command has merged them, its result is checked and taken, "
        "unless --shard is given. Values of a cell are added. If these sums are exact (whole "
        "numbers below 2^24 in float32) or no cell is in two segments, the cells are those of a "
        "build of all files in their order. One exception: a cell whose values add up to 0 within "
        "one segment counts as a zero that was dropped.",
    .examples = "tshard compact ratings.tsh --memory 4G\n  merge what was appended\n",
    .opts = compact_opts,
    .run = run_compact,
};
