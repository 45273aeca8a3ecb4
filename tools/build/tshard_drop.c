/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard drop: drops slices of a tensor. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/build/build_opts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_mode.h"
#include "tools/tshard.h"

struct drop_args {
    struct ts_opt_list before, after;
    struct build_opts build;
};

#define AT(field) offsetof(struct drop_args, field)
static const struct ts_opt drop_opts[] = {
    { "before", 0, TS_OPT_LIST, AT(before), NULL, "MODE=LABEL",
      "drop the slices of a mode that come before this one. MODE is a number or a name. LABEL is a "
      "number as in the input, a name, or a date, which may be cut short: 2024-01" },
    { "after", 0, TS_OPT_LIST, AT(after), NULL, "MODE=LABEL",
      "drop the slices of a mode that come after this one" },
    BUILD_PLACE_OPTS(AT(build)),
    { 0 },
};

/* Adds to cut[] the labels that an option gives: --before (after 0) drops the slices before them,
 * --after (after 1) those after them. */
static int add_cuts(const struct ts_tensor *t, const struct ts_opt_list *list, int after,
                    struct ts_append_cut cut[], uint32_t *n, struct ts_err *err)
{
    const struct tool_modes modes = tool_modes_of(t);
    int rc = 0;
    for (uint32_t i = 0; i < list->n && rc == 0; i++) {
        const char *text = list->item[i], *equals = strchr(text, '=');
        const char *option = after ? "after" : "before";
        if (equals == NULL || equals[1] == '\0')
            return ts_fail(err, TS_EARG, "--%s %s: expected MODE=LABEL", option, text);
        cut[*n] = (struct ts_append_cut){ .label = equals + 1, .after = after };
        rc = tool_mode_find(&modes, option, text, (size_t)(equals - text), &cut[*n].mode, err);
        ++*n;
    }
    return rc;
}

static int print_dropped(const char *name, const struct drop_args *args,
                         const struct ts_append_report *r, struct ts_err *err)
{
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], path[4096];
    struct ts_tensor *t = NULL;
    struct tool_json j;
    int rc = ts_tensor_open(name, &t, err);
    if (rc < 0)
        return rc;
    if (args->build.json) {
        tool_json_open(&j, stdout);
        tool_json_str(&j, "tensor", name);
        tool_json_u64(&j, "nnz_dropped", r->dropped);
        tool_json_u64(&j, "nnz", t->nnz);
        tool_json_array(&j, "rows");
        for (uint32_t m = 0; m < t->order; m++)
            tool_json_u64(&j, NULL, t->mode[m].disk.n_rows);
        tool_json_close(&j);
        tool_json_close(&j);
    } else if (!args->build.quiet) {
        printf("%s: dropped %s nonzero%s, %s left\n", tool_plain(name, path, sizeof path),
               ts_num_count(a, r->dropped), tool_plural(r->dropped), ts_num_count(b, t->nnz));
    }
    ts_tensor_close(t);
    return tool_flushed(err);
}

static int drop(const struct ts_cmd *cmd, const struct drop_args *args, int has_shard,
                const char *path, struct ts_err *err)
{
    struct ts_append_cut cut[2 * TS_OPT_LIST_MAX];
    struct ts_build_options o = { 0 };
    struct tool_progress progress;
    struct ts_append_report report = { 0 };
    struct ts_tensor *t = NULL;
    uint32_t n = 0;
    int rc = build_opts_apply(&args->build, &o, &progress, err);
    if (rc == 0)
        rc = ts_tensor_open(path, &t, err);
    if (rc == 0)
        rc = add_cuts(t, &args->before, 0, cut, &n, err);
    if (rc == 0)
        rc = add_cuts(t, &args->after, 1, cut, &n, err);
    ts_tensor_close(t);
    if (rc < 0)
        return rc;
    if (!has_shard)
        o.shard_bytes = 0;
    tool_progress_start(&progress, "opening", "", 0);
    rc = ts_append_drop(path, cut, n, &o, &report, err);
    tool_progress_end(&progress);
    if (rc < 0)
        return rc;
    tool_warn(cmd, &report.warn);
    tool_in_place(path);
    return print_dropped(path, args, &report, err);
}

static int run_drop(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct drop_args args = { 0 };
    struct ts_err err = { 0 };
    char *operand[argc], *path;
    uint64_t given = 0;
    uint32_t n;
    int rc = tool_parse(cmd, argc, argv, &args, &n, operand, &given);
    if (rc >= 0)
        return rc;
    if (args.before.n + args.after.n == 0)
        return tool_usage(cmd, "--before or --after is needed: what is to be dropped");
    path = tool_operand(operand[0], ".tsh");
    rc = path == NULL ? ts_fail(&err, TS_ENOMEM, "out of memory")
                      : drop(cmd, &args, tshard_has_option(cmd, given, "shard"), path, &err);
    free(path);
    return rc == TS_EARG ? tool_usage(cmd, "%s", err.text) : rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_drop_cmd = {
    .program = "tshard",
    .name = "drop",
    .operands = "TENSOR.tsh",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "forget the slices before or after one of a mode",
    .text =
        "Builds a tensor without the nonzeros of these slices, within --memory, and puts it in the "
        "place of the old one when it is complete. Segments are merged. Sizes, names and labels "
        "stay, so an index means the same as before; tshard info shows how many slices are used. "
        "Slices of a mode of names are in the order of their indices. What is dropped does not "
        "come back: tshard undo takes back only appends that follow.",
    .examples =
        "tshard drop r.tsh --before week=2026-01-12\n  forget the weeks before this one\n"
        "tshard drop amazon.tsh --after 3=10\n  forget the slices of mode 3 after index 10\n",
    .opts = drop_opts,
    .run = run_drop,
};
