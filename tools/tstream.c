/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream.c - the command table of tstream. */
#include "tools/tstream.h"

#include <stddef.h>
#include <stdlib.h>

#include "tools/settings_page.h"
#include "tools/tool.h"

static const char description[] =
    "tstream computes the CP decomposition (CANDECOMP/PARAFAC) of a sparse tensor that tshard "
    "build has packed, by alternating least squares on CPU cores or GPUs. The nonzeros may be "
    "more than host memory and GPU memory hold: they are streamed. Further commands show a "
    "decomposition, judge it and write it in other forms.";

static const struct tool_entry files[] = {
    { "NAME.tsh", "A tensor that tshard build or tshard gen made: a directory. It is read only.",
      "cp plan fit info top report export predict score mttkrp" },
    { "X.cp",
      "The result of tstream cp: factors and weights, run.json (how it was computed), and state, "
      "from which --resume goes on. Of several ranks or starts a directory for each model, and their table.",
      "cp plan status fit info top compare report export predict score" },
    { "X.cp.partial",
      "The same while the run is under way, or after it was stopped or killed: states, run.json "
      "and status.json. tstream status X.cp reads it.",
      "cp plan status info" },
    { "FILE.partial",
      "What is written to FILE, as --trace or --output name it, until it is complete.",
      "cp mttkrp report export predict score" },
    { 0 },
};

#define COMPUTING "cp plan fit mttkrp devices bench"

static const struct tool_entry environment[] = {
    { "CUDA_VISIBLE_DEVICES", "Hides and orders GPUs, as in every CUDA program.", COMPUTING },
    { "CUDA_DEVICE_MAX_CONNECTIONS", "Queues of a GPU's hardware; set to 32 where it is not set.",
      COMPUTING },
    { "NCCL_*", "Read by NCCL, where several GPUs exchange by it. NCCL_NVLS_ENABLE is set to 0.",
      "cp plan mttkrp bench" },
    { "TMPDIR",
      "Directory for temporary files: tables of names that do not fit into memory, lines that wait for their turn.",
      "predict score" },
    { "OMP_STACKSIZE", "Stack of a thread, which counts as memory. At least 256K.",
      "cp plan fit compare predict score mttkrp" },
    { "OMP_NUM_THREADS", "Number of threads where --threads is not given.",
      "cp plan fit compare predict score mttkrp" },
    { "OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME",
      "How long a waiting thread spins before it sleeps. Where none is set, waits are short.",
      "cp plan fit compare predict score mttkrp" },
    { "TERM", "The line that tells how far a command is comes on a terminal that is not \"dumb\".",
      "cp fit report export predict score mttkrp" },
    { "COLUMNS", "Columns of the terminal, where it does not tell them itself. Tables fit it.",
      "cp plan status fit info top compare devices" },
    { "TSTREAM_RANK_TIMEOUT",
      "Of several processes: seconds without a word of one of them after which all end. 7 where it is not set; 0: no limit.",
      "cp" },
    { "OMPI_MCA_pml",
      "Read by Open MPI. Set to ob1 where it is not set and all processes are on one machine, which then start sooner.",
      "cp" },
    { "TSTREAM_ROWS_TO",
      "Of processes on CPU cores: \"all\" sends updated rows to all, \"needing\" to those that need them "
      "alone; otherwise what is cheaper, mode by mode. The same in all.",
      "cp" },
    { "TSTREAM_OWN_FACTORS",
      "Of several processes on CPU cores: where it is 1 each has its own factors, also of those on one machine.",
      "cp" },
    { "NO_COLOR", "Where it is set and not empty, nothing is coloured.",
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
    /* By default all streams share 8 queues, and work waits for earlier work in the same queue. */
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    (void)setenv("NCCL_NVLS_ENABLE", "0", 1); /* src/gpu/exchange_nccl.c says why */
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
        .first_steps = "  tstream cp NAME.tsh --rank 16   decompose a tensor that tshard build made\n"
                       "  tstream report NAME.cp          write a page about the result, for a browser\n"
                       "  tstream cp -h                   show the most important options\n",
        .description = description,
        .files = files,
        .environment = environment,
        .related = related,
        .see_also = "tshard",
        .options_page = settings_page,
    };
    static const char *const other[] = { "build", "verify", "index",  "gen",
                                         "split", "part",   "select", NULL };
    tool_sibling("tshard", other);
    return tool_main(&program, argc, argv);
}
