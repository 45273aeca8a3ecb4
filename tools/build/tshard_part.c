/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard part: copies the shards that one of several processes reads to a directory of their
 * own. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/build/build_opts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_launch.h"
#include "tools/tshard.h"

#define MOST_PARTS 65536u

struct part_args {
    const char *part, *out;
    uint32_t parts;
    int force, quiet, no_space_check;
};

#define AT(field) offsetof(struct part_args, field)
static const struct ts_opt part_opts[] = {
    { "part", 0, TS_OPT_STRING, AT(part), NULL, "K/N",
      "part K of N, from 1: the shards of process K of N. With several processes on each host, "
      "it is the part of host K of N" },
    { "parts", 0, TS_OPT_U32, AT(parts), "0", "N",
      "number of parts. Each of N processes started by mpirun or srun copies its own part" },
    { "output", 'o', TS_OPT_STRING, AT(out), NULL, "NAME.tsh",
      "directory to write. Default: the name of the tensor with .part2of4.tsh" },
    { "force", 'f', TS_OPT_FLAG, AT(force), NULL, NULL,
      "replace an existing result. The existing result stays until the new one is complete. Files "
      "that tshard did not write are never touched" },
    TOOL_SPACE_OPT(AT(no_space_check)),
    { "quiet", 'q', TS_OPT_FLAG, AT(quiet), NULL, NULL, "do not print what was written" },
    { 0 },
};

/* Sets *ret to the number of this part and the number of all parts, from the options. Returns -1,
 * or the exit status after a usage error. */
static int which(const struct ts_cmd *cmd, const struct part_args *args, struct ts_part *ret)
{
    int end = 0;
    uint32_t rank;
    if ((args->part == NULL) == (args->parts == 0))
        return tool_usage(cmd, "give --part K/N, or --parts N where mpirun or srun has started N");
    if (args->part != NULL &&
        (sscanf(args->part, "%5" SCNu32 "/%5" SCNu32 "%n", &ret->part, &ret->n, &end) != 2 ||
         args->part[end] != '\0' || ret->part == 0 || ret->part > ret->n || ret->n > MOST_PARTS))
        return tool_usage(cmd, "--part %s: is not K/N, 1/4 to 4/4", args->part);
    if (args->part != NULL)
        return -1;
    if (!tool_launch_place(&rank, &ret->n) || ret->n != args->parts)
        return tool_usage(cmd,
                          "--parts %u: was not started by mpirun or srun as one of so many "
                          "processes; --part K/N says which part is wanted",
                          args->parts);
    ret->part = rank + 1;
    return -1;
}

static void find_shards(const struct ts_tensor *t, struct ts_part *p)
{
    for (uint32_t m = 0; m < t->order; m++)
        ts_share_shards_of(t->mode[m].shard, t->mode[m].disk.n_shards, p->n, p->part - 1,
                           &p->first[m], &p->end[m]);
}

static void count_done(void *ctx, uint64_t bytes)
{
    tool_progress_update(ctx, bytes);
}

static int write_part(const struct ts_cmd *cmd, const struct part_args *args,
                      const struct ts_tensor *t, struct ts_part part, const char *out,
                      struct ts_err *err)
{
    struct tool_progress progress;
    struct ts_part_conf conf = { .tensor = t,
                                 .out = out,
                                 .force = args->force,
                                 .no_space_check = args->no_space_check,
                                 .stop = &tool_stop,
                                 .done = count_done,
                                 .ctx = &progress };
    struct ts_err warn = { 0 };
    char a[TS_NUM_CHARS], name[4096];
    uint64_t bytes;
    int rc;
    find_shards(t, &part);
    conf.part = part;
    tool_progress_start(&progress, "copying", "bytes", ts_part_shard_bytes(t, &part));
    rc = ts_part_write(&conf, &bytes, &warn, err);
    tool_progress_end(&progress);
    if (rc < 0)
        return rc;
    tool_warn(cmd, &warn);
    tool_in_place(out);
    if (!args->quiet)
        printf("%s: part %u of %u: shards of %s, checked\n", tool_plain(out, name, sizeof name),
               part.part, part.n, ts_num_bytes(a, bytes));
    return tool_flushed(err);
}

static int run_part(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct part_args args = { 0 };
    struct ts_part part = { 0 };
    struct ts_tensor *t;
    struct ts_err err = { 0 };
    char *operand[argc], *out, ending[64];
    uint32_t n;
    int rc = tool_parse(cmd, argc, argv, &args, &n, operand, NULL);
    if (rc < 0)
        rc = which(cmd, &args, &part);
    if (rc >= 0)
        return rc;
    tool_catch_signals();
    if (tshard_open(operand[0], &t, &err) < 0)
        return tool_fail(cmd, &err);
    snprintf(ending, sizeof ending, ".part%uof%u.tsh", part.part, part.n);
    out = args.out != NULL ? strdup(args.out) : build_opts_name(t->path, ending);
    rc = out == NULL ? ts_fail(&err, TS_ENOMEM, "out of memory") : tool_outside(out, t->path, &err);
    if (rc == 0)
        rc = write_part(cmd, &args, t, part, out, &err);
    ts_tensor_close(t);
    free(out);
    return rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tshard_part_cmd = {
    .program = "tshard",
    .name = "part",
    .operands = "TENSOR.tsh",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "copy the part of a tensor that one of several machines reads",
    .text =
        "Use it for runs of tstream cp on several machines with disks of their own. The part has "
        "the index of the tensor and, for each mode, the shards that process K of N reads. Each "
        "shard is checked while it is copied. Give all parts the same name on the disks of their "
        "machines, so that one command starts the run.\n\n"
        "The files of a part are as long as those of the tensor and have holes. They take the "
        "disk space of their shards only, also with rsync -S and tar -S. Reading a missing shard "
        "is an error that names the shard. tshard verify checks the shards of a part.",
    .examples =
        "tshard part /shared/amazon.tsh --part 2/4 -o /local/amazon.tsh\n  copy the part of the second of four machines\n"
        "srun -n 4 tshard part /shared/amazon.tsh --parts 4 -o /local/amazon.tsh\n  copy the parts of all four machines\n",
    .opts = part_opts,
    .aliases = (const struct ts_opt_alias[]){ { "out", "output" }, { NULL, NULL } },
    .old_names = "out",
    .run = run_part,
};
