/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream.c - the command table of tstream. */
#include "tools/tstream.h"

#include <stddef.h>
#include <stdlib.h>

#include "tools/common/settings_page.h"
#include "tools/common/tool.h"

static const char description[] =
    "tstream computes the CP decomposition (CANDECOMP/PARAFAC) of a sparse tensor that tshard "
    "build has packed, by alternating least squares on CPU cores or GPUs. Nonzeros that do not "
    "fit in host memory or GPU memory are streamed. Further commands show a decomposition, "
    "evaluate it and write it in other forms.";

static const struct tool_entry files[] = {
    { "NAME.tsh", "A tensor of tshard build or tshard gen: a directory. It is only read.",
      "cp plan fit info top report export predict score mttkrp" },
    { "X.cp",
      "The result of tstream cp: factors and weights, run.json (the record of the run), and the "
      "last checkpoint (state), from which --resume continues. With several ranks or starts it "
      "has a directory for each model, and a table of the models.",
      "cp plan status fit info top compare report export predict score" },
    { "X.cp.partial",
      "The same during the run, or after it was stopped or killed: checkpoints, run.json and "
      "status.json. tstream status X.cp reads it.",
      "cp plan status info" },
    { "FILE.partial", "The file of --trace or --output until it is complete.",
      "cp mttkrp report export predict score" },
    { 0 },
};

#define COMPUTING "cp plan fit mttkrp devices bench"

static const struct tool_entry environment[] = {
    { "CUDA_VISIBLE_DEVICES", "Hides and orders GPUs, as in every CUDA program.", COMPUTING },
    { "CUDA_DEVICE_MAX_CONNECTIONS", "Hardware queues of a GPU. The default is 32.", COMPUTING },
    { "NCCL_*", "Settings of NCCL, if several GPUs use it. NCCL_NVLS_ENABLE is set to 0.",
      "cp plan mttkrp bench" },
    { "TMPDIR",
      "Directory for temporary files: tables of names that do not fit in memory, and lines that wait for their turn.",
      "predict score" },
    { "OMP_STACKSIZE", "Stack of a thread, which counts as memory. At least 256K.",
      "cp plan fit compare predict score mttkrp" },
    { "OMP_NUM_THREADS", "Number of threads if --threads is not given.",
      "cp plan fit compare predict score mttkrp" },
    { "OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME",
      "How long a waiting thread spins before it sleeps. By default waits are short.",
      "cp plan fit compare predict score mttkrp" },
    { "TERM",
      "A line with the progress of a command appears on a terminal, unless TERM is \"dumb\".",
      "cp fit report export predict score mttkrp" },
    { "COLUMNS", "Width of the terminal, if the terminal does not report it. Tables fit it.",
      "cp plan status fit info top compare devices" },
    { "TSTREAM_RANK_TIMEOUT",
      "With several processes: if one of them is silent for this number of seconds, all end. The default is 7; 0 means no limit.",
      "cp" },
    { "OMPI_MCA_pml",
      "Setting of Open MPI. If all processes are on one machine, the default is ob1, because they then start sooner.",
      "cp" },
    { "TSTREAM_ROWS_TO",
      "With several processes on CPU cores: \"all\" sends updated rows to all processes, \"needing\" only to "
      "those that need them. By default the cheaper one is chosen for each mode. It must be the same in all processes.",
      "cp" },
    { "TSTREAM_OWN_FACTORS",
      "With several processes on CPU cores: 1 gives each process its own factors, also on one machine.",
      "cp" },
    { "NO_COLOR", "If it is set and not empty, output has no colours.",
      "cp plan status fit info top compare devices" },
    { 0 },
};

static const struct tool_entry related[] = {
    { "cp",
      "tshard-build tstream-plan tstream-status tstream-fit tstream-info tstream-top "
      "tstream-report",
      NULL },
    { "plan", "tstream-cp tstream-devices tshard-plan", NULL },
    { "status", "tstream-cp tstream-info", NULL },
    { "fit", "tstream-cp tstream-compare", NULL },
    { "info", "tstream-cp tstream-status tshard-info", NULL },
    { "top", "tstream-report tstream-export", NULL },
    { "compare", "tstream-fit tstream-cp tshard-gen", NULL },
    { "predict", "tstream-score tstream-cp tstream-export", NULL },
    { "score", "tstream-predict tstream-fit tstream-cp", NULL },
    { "report", "tstream-top tstream-info tstream-export", NULL },
    { "export", "tstream-top tshard-export", NULL },
    { "mttkrp", "tstream-cp tstream-bench", NULL },
    { "devices", "tstream-plan tstream-bench", NULL },
    { "bench", "tstream-devices tstream-mttkrp", NULL },
    { 0 },
};

void tstream_environment(void)
{
    /* by default all CUDA streams share 8 queues, and work waits for earlier work in its queue */
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    (void)setenv("NCCL_NVLS_ENABLE", "0", 1); /* src/gpu/exchange/exchange_nccl.c says why */
}

int tstream_run(int argc, char **argv)
{
    static const struct ts_cmd *const cmds[] = { &tstream_cp,      &tstream_plan,   &tstream_status,
                                                 &tstream_fit,     &tstream_info,   &tstream_top,
                                                 &tstream_compare, &tstream_report, &tstream_export,
                                                 &tstream_predict, &tstream_score,  &tstream_mttkrp,
                                                 &tstream_devices, &tstream_bench,  NULL };
    static const struct tool_program program = {
        .name = "tstream",
        .summary = "decomposes sparse tensors that do not fit into memory",
        .cmds = cmds,
        .first_steps =
            "  tstream cp NAME.tsh --rank 16   decompose a tensor that tshard build made\n"
            "  tstream report NAME.cp          write a page about the result, for a browser\n"
            "  tstream cp -h                   show the most important options\n",
        .description = description,
        .files = files,
        .environment = environment,
        .related = related,
        .see_also = "tshard",
        .options_page = settings_page,
    };
    static const char *const other[] = { "build",  "verify", "index", "gen",     "split", "part",
                                         "select", "append", "undo",  "compact", "drop", NULL };
    tool_sibling("tshard", other);
    return tool_main(&program, argc, argv);
}
