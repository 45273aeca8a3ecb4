/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream.c - the command table of tstream. */
#include "tools/tstream.h"

#include <stddef.h>

#include "tools/tool.h"

static const char files[] =
    "NAME.tsh\n"
    "A tensor that tshard build or tshard gen made: a directory. It is read only.\n"
    "X.cp\n"
    "The result of tstream cp: factors and weights, run.json (how it was computed), and state, from "
    "which --resume goes on.\n"
    "X.cp.partial\n"
    "The same while the run is under way, or after it was stopped or killed: states, run.json and "
    "status.json. tstream status X.cp reads it.\n";

static const char environment[] =
    "CUDA_VISIBLE_DEVICES\n"
    "Hides and orders GPUs, as in every CUDA program.\n"
    "CUDA_DEVICE_MAX_CONNECTIONS\n"
    "Queues of a GPU's hardware; set to 32 where it is not set.\n"
    "NCCL_*\n"
    "Read by NCCL, where several GPUs exchange by it. NCCL_NVLS_ENABLE is set to 0.\n"
    "OMP_STACKSIZE\n"
    "Stack of a thread, which counts as memory.\n"
    "TERM\n"
    "The line that tells how far a command is comes on a terminal that is not \"dumb\".\n";

int main(int argc, char **argv)
{
    static const struct ts_cmd *const cmds[] = { &tstream_cp,
                                                 &tstream_plan,
                                                 &tstream_status,
                                                 &tstream_fit,
                                                 &tstream_info,
                                                 &tstream_top,
                                                 &tstream_compare,
                                                 &tstream_report,
                                                 &tstream_export,
                                                 &tstream_mttkrp,
                                                 &tstream_devices,
                                                 &tstream_bench,
                                                 NULL };
    static const struct tool_program program = {
        .name = "tstream",
        .summary = "decomposes sparse tensors that do not fit into memory",
        .cmds = cmds,
        .files = files,
        .environment = environment,
        .see_also = "tshard",
    };
    static const char *const other[] = { "build", "verify", "gen", NULL };
    tool_sibling("tshard", other);
    return tool_main(&program, argc, argv);
}
