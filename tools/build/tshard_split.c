/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard split: divides a tensor into two, one to fit a model to and one to test it. */
#include <float.h>
#include <libgen.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/build/build_opts.h"
#include "tools/build/build_report.h"
#include "tools/common/tool.h"
#include "tools/tshard.h"

struct split_args {
    const char *share, *train, *test;
    uint64_t seed;
    struct build_opts build;
};

#define AT(field) offsetof(struct split_args, field)
static const struct ts_opt split_opts[] = {
    { "hold-out", 0, TS_OPT_STRING, AT(share), "20%", "SHARE",
      "share of the nonzeros for the second tensor. 'fold 2/5' is the second fifth, as in "
      "tstream cp" },
    { "seed", 's', TS_OPT_U64, AT(seed), "1", "N", "seed of the choice" },
    { "train", 0, TS_OPT_STRING, AT(train), NULL, "NAME.tsh",
      "name of the first tensor, with the rest. Default: the name of the tensor with .train.tsh" },
    { "test", 0, TS_OPT_STRING, AT(test), NULL, "NAME.tsh",
      "name of the second tensor, with the held-out nonzeros. Default: the name of the tensor "
      "with .test.tsh" },
    BUILD_FORCE_OPT(AT(build)),
    BUILD_PLACE_OPTS(AT(build)),
    { 0 },
};

static int is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether both paths lead to the same directory, like a.tsh and ./a.tsh. The directories need not
 * exist. */
static int is_same_place(const char *a, const char *b)
{
    char *copy[4] = { strdup(a), strdup(a), strdup(b), strdup(b) };
    int ret = strcmp(a, b) == 0 || is_same_file(a, b);
    if (!ret && copy[0] != NULL && copy[1] != NULL && copy[2] != NULL && copy[3] != NULL)
        ret = strcmp(basename(copy[0]), basename(copy[2])) == 0 &&
              is_same_file(dirname(copy[1]), dirname(copy[3]));
    for (int i = 0; i < 4; i++)
        free(copy[i]);
    return ret;
}

/* Checks that both of the new tensors have a nonzero value. A tensor of zeros cannot be built, so
 * this must be found before the other tensor is built. */
static int check_sides(const struct ts_tensor *t, const struct ts_hold_out *hold_out,
                       const char *const out[2], struct ts_err *err)
{
    struct ts_pick_sides sides;
    int rc = ts_tensor_is_sparse(t, "a copy of its nonzeros is", err);
    if (rc == 0)
        rc = ts_pick_count_sides(hold_out, t, &tool_stop, &sides, err);
    for (int i = 0; i < 2 && rc == 0; i++)
        if (sides.squares[i] < DBL_MIN)
            rc = ts_fail(err, TS_EFORMAT,
                         "%s would have %s: another --hold-out or --seed may give it some", out[i],
                         sides.nnz[i] == 0 ? "no nonzeros" : "no values whose squares are above 0");
    return rc;
}

static int split(const struct ts_cmd *cmd, const struct split_args *args, const struct ts_tensor *t,
                 const char *const out[2], struct ts_err *err)
{
    struct ts_build_options o = { 0 };
    struct tool_progress progress;
    struct ts_build_report report;
    struct ts_pick pick = { .hold_out = { .seed = args->seed } };
    int rc = ts_hold_out_part(args->share, &pick.hold_out.share, &pick.hold_out.from, err);
    if (rc == 0)
        rc = build_opts_apply(&args->build, &o, &progress, err);
    build_opts_like(t, &o);
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = is_same_place(out[i], t->path)
                 ? ts_fail(err, TS_EARG,
                           "%s is the tensor itself, which is read for each of the two: name "
                           "another place",
                           out[i])
                 : tool_outside(out[i], t->path, err);
        if (rc == 0 && !args->build.force && access(out[i], F_OK) == 0)
            rc = ts_fail(err, TS_EBUSY, "%s exists; --force replaces it", out[i]);
    }
    tool_progress_start(&progress, "counting both sides", "", 0);
    if (rc == 0)
        rc = tool_writes(out[0], TS_BUILDING_SUFFIX, "--train", err);
    if (rc == 0)
        rc = tool_writes(out[1], TS_BUILDING_SUFFIX, "--test", err);
    /* checks the places of both results before a tensor is built */
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = ts_build_dir_check(out[i], args->build.force, err);
    if (rc == 0)
        rc = check_sides(t, &pick.hold_out, out, err);
    tool_progress_end(&progress);
    for (int i = 0; i < 2 && rc == 0; i++) {
        o.out = out[i];
        o.place = i == 0 ? "--train" : "--test";
        pick.side = i == 0 ? TS_PICK_KEPT : TS_PICK_HELD;
        rc = ts_build_tensor(&o, t, &pick, &report, err);
        tool_progress_end(&progress);
        if (rc == 0)
            rc = build_report_print(cmd, &o, &report, args->build.json, err);
    }
    return rc;
}

static int run_split(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct split_args args = { 0 };
    struct ts_tensor *t;
    struct ts_err err = { 0 };
    char *operand[argc], *name[2] = { NULL };
    uint32_t n;
    int rc = tool_parse(cmd, argc, argv, &args, &n, operand, NULL);
    if (rc >= 0)
        return rc;
    if (tshard_open(operand[0], &t, &err) < 0)
        return tool_fail(cmd, &err);
    name[0] = args.train != NULL ? strdup(args.train) : build_opts_name(t->path, ".train.tsh");
    name[1] = args.test != NULL ? strdup(args.test) : build_opts_name(t->path, ".test.tsh");
    if (name[0] == NULL || name[1] == NULL)
        rc = ts_fail(&err, TS_ENOMEM, "out of memory");
    else if (is_same_place(name[0], name[1]))
        rc = ts_fail(&err, TS_EARG, "--train and --test are two tensors, and have two names");
    else
        rc = split(cmd, &args, t, (const char *const *)name, &err);
    ts_tensor_close(t);
    free(name[0]);
    free(name[1]);
    return rc == TS_EARG ? tool_usage(cmd, "%s", err.text) : rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_split_cmd = {
    .program = "tshard",
    .name = "split",
    .operands = "TENSOR.tsh",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "divide the nonzeros of a tensor into two tensors",
    .text =
        "Puts each nonzero into one of two tensors, chosen by a hash of its cell and the seed. "
        "The second tensor gets a share of about SHARE. Both have the sizes, names and labels of "
        "the original, so a model of one can be compared with the other. The two are built "
        "within --memory.",
    .examples =
        "tshard split ratings.tsh --hold-out 20%\n  write ratings.train.tsh, and ratings.test.tsh with a fifth\n"
        "tshard split amazon.tsh --hold-out 'fold 2/5'\n  hold out the second fifth, as the second models of tstream cp --folds 5\n",
    .opts = split_opts,
    .run = run_split,
};
