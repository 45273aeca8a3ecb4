/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard gen: makes synthetic tensors, as shards or as text. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/build/build_opts.h"
#include "tools/build/build_report.h"
#include "tools/export/export_room.h"
#include "tools/build/gen_truth.h"
#include "tools/common/tool.h"
#include "tools/tshard.h"

#define TEXT_PIECE UINT64_C(16384) /* number of nonzeros that are drawn at a time */

struct gen_args {
    const char *out, *dims, *value_range, *truth;
    uint64_t nnz, seed;
    struct ts_opt_list law;
    uint32_t planted, ratings;
    double noise;
    struct build_opts build;
};

#define AT(field) offsetof(struct gen_args, field)
static const struct ts_opt gen_opts[] = {
    { "output", 'o', TS_OPT_STRING, AT(out), NULL, "NAME",
      "name of the result. NAME.tsh is a tensor directory; any other name is text, compressed if "
      "it ends in .gz. - is standard output" },
    { "dims", 0, TS_OPT_STRING, AT(dims), "1000x1000x1000", "IxJxK", "sizes of the modes" },
    { "nnz", 'n', TS_OPT_U64, AT(nnz), "1M", "N",
      "number of draws. Draws of the same cell are added in a .tsh; in text they stay separate "
      "lines" },
    { "law", 0, TS_OPT_LIST, AT(law), NULL, "uniform|power:A",
      "distribution of the indices, once for all modes or once for each. power:A draws the k-th "
      "most popular index with a share of about k^-A. Default: uniform" },
    { "planted", 0, TS_OPT_U32, AT(planted), "0", "RANK",
      "draw dense blocks of a known decomposition of this rank. It has --nnz nonzeros, or a few "
      "percent fewer if the blocks do not divide evenly" },
    { "truth", 0, TS_OPT_STRING, AT(truth), NULL, "FILE",
      "write the factors of --planted or --ratings to a ktensor file. It is compressed if its "
      "name ends in .gz" },
    { "ratings", 0, TS_OPT_U32, AT(ratings), "0", "RANK",
      "draw --nnz different cells of a dense model of this rank, all equally likely. Their "
      "values have mean 0 and standard deviation 1. tstream cp --observed should recover the "
      "model" },
    { "noise", 0, TS_OPT_DOUBLE, AT(noise), "0", "S",
      "noise with standard deviation S. With --planted it multiplies each value by 1 + noise; "
      "with --ratings it is added" },
    { "value", 0, TS_OPT_STRING, AT(value_range), "1..5", "A..B|real",
      "values: whole numbers from A to B, or real numbers in (0, 1]" },
    { "seed", 's', TS_OPT_U64, AT(seed), "1", "N", "seed of the draws" },
    BUILD_OPTS(AT(build)),
    { 0 },
};

static int parse_laws(const struct ts_opt_list *laws, struct ts_synth *s, struct ts_err *err)
{
    if (laws->n > 1 && laws->n != s->order)
        return ts_fail(err, TS_EARG,
                       "--law is given %u times; once, or once for each of the %u "
                       "modes",
                       laws->n, s->order);
    for (uint32_t m = 0; m < s->order && laws->n > 0; m++) {
        const char *text = laws->item[laws->n == 1 ? 0 : m];
        char *end;
        if (strcmp(text, "uniform") == 0)
            continue;
        if (strncmp(text, "power:", 6) != 0)
            return ts_fail(err, TS_EARG, "--law %s: expected uniform or power:A", text);
        s->power[m] = strtod(text + 6, &end);
        if (end == text + 6 || *end != '\0')
            return ts_fail(err, TS_EARG, "--law %s: expected uniform or power:A", text);
    }
    return 0;
}

static int parse_values(const char *text, struct ts_synth *s, struct ts_err *err)
{
    int end = 0;
    if (strcmp(text, "real") == 0)
        return 0;
    if (sscanf(text, "%" SCNu64 "..%" SCNu64 "%n", &s->value_first, &s->value_last, &end) != 2 ||
        text[end] != '\0' || s->value_last == 0 || strchr(text, '-') != NULL)
        return ts_fail(err, TS_EARG, "--value %s: expected A..B, whole numbers from 0 up, or real",
                       text);
    return 0;
}

/* Prints the shortest text that reads back as the same value. */
static int print_value(char *to, size_t room, double x, uint32_t value_bytes)
{
    for (int digits = value_bytes == 4 ? 6 : 15;; digits++) {
        const int n = snprintf(to, room, "%.*g", digits, x);
        const double back = strtod(to, NULL);
        if (back == x || (value_bytes == 4 && (float)back == (float)x) || digits == 17)
            return n;
    }
}

/* Writes a line for each nonzero of the batch at `at`, which has room for all. Returns the end. */
static char *put_lines(char *at, const struct ts_synth *s, const struct ts_batch *b)
{
    for (uint64_t i = 0; i < b->n; i++) {
        for (uint32_t m = 0; m < s->order; m++) {
            at = ts_decimal_u64(at, b->index[i * s->order + m] + 1);
            *at++ = ' ';
        }
        at += print_value(at, TS_DECIMAL_CHARS, ts_value_of_bits(b->value[i], s->value_bytes),
                          s->value_bytes);
        *at++ = '\n';
    }
    return at;
}

static int write_text(const struct ts_cmd *cmd, const struct ts_synth *s, const char *path,
                      const struct build_opts *build, struct ts_err *err)
{
    const size_t line_chars = s->order * 14 + TS_DECIMAL_CHARS + 1;
    char *text = malloc(TEXT_PIECE * line_chars + TS_DECIMAL_CHARS), *packed = NULL;
    struct export_sink sink = { .fd = -1 };
    struct ts_batch b = { 0 };
    struct ts_err warn = { 0 };
    struct tool_progress progress;
    size_t room = 0;
    int rc = text == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", path)
                          : ts_batch_new(s->order, TEXT_PIECE, &b, err);
    if (rc == 0)
        rc = export_sink_open(path, build->force, "--output", &sink, err);
    if (rc == 0 && !build->no_space_check)
        rc = export_room_check(&sink, "--output", export_room_of_draws(s), err);
    tool_progress_start(&progress, "writing draws", "nonzeros", s->nnz);
    for (uint64_t first = 0; first < s->nnz && rc == 0; first += TEXT_PIECE) {
        const uint64_t left = s->nnz - first;
        const char *bytes = text;
        size_t n;
        ts_batch_clear(&b);
        ts_synth_draw(s, first, left < TEXT_PIECE ? left : TEXT_PIECE, &b);
        tool_progress_update(&progress, first);
        n = (size_t)(put_lines(text, s, &b) - text);
        if (sink.gzip) {
            rc = export_sink_pack(text, n, &packed, &room, &n, err);
            bytes = packed;
        }
        if (rc == 0)
            rc = export_sink_write(&sink, bytes, n, err);
        if (rc == 0 && ts_stop_asked(&tool_stop))
            rc = ts_fail(err, TS_ESTOP, "%s: stopped; nothing is left behind", path);
    }
    if (rc == 0)
        rc = export_sink_commit(&sink, &warn, err);
    tool_progress_end(&progress);
    export_sink_close(&sink);
    tool_warn(cmd, &warn);
    ts_batch_free(&b);
    free(packed);
    free(text);
    return rc;
}

/* Writes the factors of a planted model to a temporary file, before the tensor is made. The file
 * gets its name after the tensor does. */
static int begin_truth(const struct gen_args *args, const struct ts_synth *s, uint64_t memory,
                       struct export_sink *truth, struct ts_err *err)
{
    int rc = args->truth == NULL
                 ? 0
                 : export_sink_open(args->truth, args->build.force, "--truth", truth, err);
    if (rc == 0 && args->truth != NULL && !args->build.no_space_check)
        rc = export_room_check(truth, "--truth", export_room_of_truth(s), err);
    if (rc == 0 && args->truth != NULL)
        rc = gen_truth_write(s, memory, truth, err);
    return rc;
}

static int end_truth(const struct ts_cmd *cmd, struct export_sink *truth, int rc,
                     struct ts_err *err)
{
    struct ts_err warn = { 0 };
    if (rc == 0 && truth->fd >= 0)
        rc = export_sink_commit(truth, &warn, err);
    export_sink_close(truth);
    tool_warn(cmd, &warn);
    return rc;
}

static int is_directory_name(const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    return n > 4 && strncmp(path + n - 4, ".tsh", 4) == 0;
}

static int run_gen(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct gen_args args;
    struct ts_build_options o = { 0 };
    struct ts_build_report report;
    struct tool_progress progress = { 0 };
    struct ts_synth s = { 0 };
    struct export_sink truth = { .fd = -1 };
    struct ts_err err = { 0 };
    uint32_t n = 0;
    int rc, status = tool_parse(cmd, argc, argv, &args, &n, argv, NULL);
    if (status >= 0)
        return status;
    if (args.out == NULL)
        return tool_usage(cmd, "-o is needed: NAME.tsh, NAME.tns or -");
    if (args.planted > 0 && args.law.n > 0)
        return tool_usage(cmd, "--planted and --law exclude each other");
    if (args.ratings > 0 && (args.law.n > 0 || args.planted > 0))
        return tool_usage(cmd, "--ratings and --%s exclude each other",
                          args.planted > 0 ? "planted" : "law");
    if (args.planted == 0 && args.ratings == 0 && args.noise != 0)
        return tool_usage(cmd, "--noise is for --planted and --ratings");
    if (args.planted == 0 && args.ratings == 0 && args.truth != NULL)
        return tool_usage(cmd, "--truth is for --planted and --ratings");
    rc = build_opts_apply(&args.build, &o, &progress, &err);
    o.out = args.out;
    s.nnz = args.nnz;
    s.seed = args.seed;
    s.planted = args.ratings > 0 ? args.ratings : args.planted;
    s.ratings = args.ratings > 0;
    s.noise = args.noise;
    s.value_bytes = o.value_bytes;
    if (rc == 0)
        rc = build_opts_dims(args.dims, s.dim, &err);
    s.order = rc > 0 ? (uint32_t)rc : 0;
    if (rc >= 0)
        rc = parse_laws(&args.law, &s, &err);
    if (rc == 0)
        rc = parse_values(args.value_range, &s, &err);
    if (rc == 0)
        rc = ts_synth_init(&s, &err);
    if (rc < 0)
        return rc == TS_ENOMEM ? tool_fail(cmd, &err) : tool_usage(cmd, "%s", err.text);
    rc = is_directory_name(args.out) ? tool_writes(args.out, TS_BUILDING_SUFFIX, "--output", &err)
                                     : tool_writes_file(args.out, "--output", &err);
    if (rc == 0)
        rc = begin_truth(&args, &s, o.memory, &truth, &err);
    if (rc == 0 && is_directory_name(args.out)) {
        rc = ts_build_synth(&o, &s, &report, &err);
        tool_progress_end(&progress);
        if (rc == 0)
            rc = build_report_print(cmd, &o, &report, args.build.json, &err);
    } else if (rc == 0) {
        rc = write_text(cmd, &s, args.out, &args.build, &err);
    }
    rc = end_truth(cmd, &truth, rc, &err);
    return rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_gen_cmd = {
    .program = "tshard",
    .name = "gen",
    .operands = "",
    .min_operands = 0,
    .max_operands = 0,
    .summary = "make synthetic tensors, as shards or as text",
    .text = "The same options make the same tensor on any machine and with any number of threads. "
            "Text holds the draws, one a line. A .tsh is what tshard build makes of that text.",
    .examples =
        "tshard gen --dims 30000x40000x50000 --nnz 10M -o uniform.tsh\n  ten million uniform draws with values 1 to 5\n"
        "tshard gen --dims 400x300x200 --law power:1.1 --nnz 1M -o p.tns.gz\n  popular indices, as text\n"
        "tshard gen --planted 8 --noise 0.1 --dims 500x400x300 --nnz 2M -o p.tsh\n  a tensor whose decomposition of rank 8 has a fit of about 0.9\n"
        "tshard gen --ratings 5 --noise 0.3 --dims 6000x4000x50 --nnz 12M -o r.tsh\n  one percent of all ratings; completion has an RMSE of about 0.3\n",
    .opts = gen_opts,
    .run = run_gen,
};
