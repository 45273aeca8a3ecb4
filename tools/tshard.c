/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard.c - the command table of tshard. */
#include "tools/tshard.h"

#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

#include "api/tools.h"
#include "tools/common/tool.h"

static const char description[] =
    "tshard makes a directory of a tensor in a text file, or in a table with names. For each mode "
    "the directory has a copy of the nonzeros, sorted for the mode and packed into shards of a "
    "few bytes per nonzero. tstream decomposes such a directory within a given amount of memory.";

static const struct tool_entry files[] = {
    { "NAME.tsh",
      "A tensor: a directory with an index and, for each mode, a copy of the nonzeros sorted for "
      "it. It holds no absolute path and can be moved. After an append it has a directory for each "
      "segment.",
      NULL },
    { "NAME.tsh.building",
      "The same during a build, with temporary files unless --tmp names another directory. A "
      "killed build leaves it, and the next build of that name clears it.",
      "build gen" },
    { "NAME.modeK.map, NAME.modeK.map.gz",
      "Names of the indices of mode K, one a line. They are used if they are beside the input.",
      "build plan" },
    { "FILE.partial", "The text of FILE until it is complete.", "export gen" },
    { 0 },
};

static const struct tool_entry environment[] = {
    { "TMPDIR", "Directory for temporary files if --tmp is not given.",
      "build gen split select plan" },
    { "OMP_STACKSIZE", "Stack of a thread, which counts as memory. At least 256K.",
      "build plan verify export gen split select" },
    { "OMP_NUM_THREADS", "Number of threads if --threads is not given.",
      "build plan verify export gen split select" },
    { "OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME",
      "How long a waiting thread spins before it sleeps. By default waits are short.",
      "build verify export gen split select" },
    { "TERM",
      "A line with the progress of a command appears on a terminal, unless TERM is \"dumb\".",
      "build verify export gen split select" },
    { "COLUMNS", "Width of the terminal, if the terminal does not report it. Tables fit it.",
      "build gen split select info" },
    { "NO_COLOR", "If it is set and not empty, output has no colours.",
      "build gen split select info" },
    { 0 },
};

static const struct tool_entry related[] = {
    { "build", "tshard-plan tshard-info tshard-verify tstream-cp", NULL },
    { "plan", "tshard-build tstream-plan", NULL },
    { "info", "tshard-verify tshard-export tstream-info", NULL },
    { "verify", "tshard-build tshard-info", NULL },
    { "index", "tshard-info tstream-cp", NULL },
    { "export", "tshard-info tshard-build tstream-export", NULL },
    { "split", "tshard-select tstream-cp tstream-score", NULL },
    { "part", "tshard-verify tstream-cp", NULL },
    { "select", "tshard-split tshard-info tstream-cp", NULL },
    { "gen", "tshard-build tstream-cp tstream-compare", NULL },
    { "append", "tshard-build tshard-undo tshard-compact tshard-info", NULL },
    { "undo", "tshard-append tshard-info", NULL },
    { "compact", "tshard-append tshard-drop tstream-cp", NULL },
    { "drop", "tshard-append tshard-select tshard-info", NULL },
    { 0 },
};

static int tshard_reads(struct ts_tensor **t, struct ts_err *err)
{
    const int rc = tool_reads((*t)->path, err);
    if (rc < 0)
        ts_tensor_close(*t);
    return rc;
}

int tshard_open(const char *operand, struct ts_tensor **ret, struct ts_err *err)
{
    char *path = tool_operand(operand, ".tsh");
    const int rc = path == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", operand)
                                : ts_tensor_open(path, ret, err);
    free(path);
    return rc < 0 ? rc : tshard_reads(ret, err);
}

int tshard_open_any(const char *operand, struct ts_tensor **ret, struct ts_err *err)
{
    return ts_tensor_is_array(operand) ? ts_tensor_open_any(operand, ret, err)
                                       : tshard_open(operand, ret, err);
}

int tshard_has_option(const struct ts_cmd *cmd, uint64_t given, const char *name)
{
    for (uint32_t i = 0; cmd->opts[i].name != NULL; i++)
        if (strcmp(cmd->opts[i].name, name) == 0)
            return (given >> i & 1) != 0;
    return 0;
}

char *tshard_segmented(const char *operand)
{
    char *path = tool_operand(operand, ".tsh");
    struct ts_segments *s = NULL;
    const int listed = path != NULL && !ts_tensor_is_array(path) &&
                       ts_segments_open(path, &s, NULL) == 0 && s->listed;
    ts_segments_close(s);
    if (!listed) {
        free(path);
        return NULL;
    }
    return path;
}

int tshard_run(int argc, char **argv)
{
    static const struct ts_cmd *const cmds[] = {
        &tshard_build_cmd,   &tshard_plan_cmd,   &tshard_info_cmd,
        &tshard_verify_cmd,  &tshard_export_cmd, &tshard_split_cmd,
        &tshard_index_cmd,   &tshard_part_cmd,   &tshard_select_cmd,
        &tshard_gen_cmd,     &tshard_append_cmd, &tshard_undo_cmd,
        &tshard_compact_cmd, &tshard_drop_cmd,   NULL
    };
    static const char *const other[] = { "cp",     "fit",     "status",  "top",
                                         "report", "compare", "predict", "score",
                                         "mttkrp", "devices", "bench",   NULL };
    static const struct tool_program program = {
        .name = "tshard",
        .summary = "packs sparse tensors into shards",
        .cmds = cmds,
        .first_steps =
            "  tshard build TABLE.csv          pack a table into TABLE.tsh, for tstream cp\n"
            "  tshard info TABLE.tsh           print the shape and the number of nonzeros\n"
            "  tshard build -h                 show the most important options\n",
        .description = description,
        .files = files,
        .environment = environment,
        .related = related,
        .see_also = "tstream",
    };
#ifdef M_ARENA_MAX
    /* otherwise malloc reserves 64 MiB of address space for each thread, even with a limit */
    mallopt(M_ARENA_MAX, 2);
#endif
    tool_sibling("tstream", other);
    return tool_main(&program, argc, argv);
}
