/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_devices.c - tstream devices: prints which devices a run would use, and why. */
#include <stdlib.h>

#include "api/tools.h"
#include "tools/common/common_opts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_term.h"
#include "tools/tstream.h"

struct devices_args {
    int json, quiet;
};

static const struct ts_opt devices_opts[] = {
    TOOL_QUIET_OPT(offsetof(struct devices_args, quiet)),
    TOOL_JSON_OPT(offsetof(struct devices_args, json)),
    { 0 },
};

/* Returns the GPU that a run uses without --gpus: the first usable one; n if none is usable. */
static int default_gpu(const struct ts_gpu_device *d, int n)
{
    int i = 0;
    while (i < n && !d[i].usable)
        i++;
    return i;
}

static void json_gpus(struct tool_json *j, const struct ts_gpu_device *d, int n)
{
    tool_json_array(j, "gpus");
    for (int i = 0; i < n; i++) {
        tool_json_object(j, NULL);
        tool_json_i64(j, "number", d[i].number);
        tool_json_str(j, "name", d[i].name);
        tool_json_i64(j, "major", d[i].major);
        tool_json_i64(j, "minor", d[i].minor);
        tool_json_u64(j, "total_bytes", d[i].total_bytes);
        tool_json_u64(j, "free_bytes", d[i].free_bytes);
        tool_json_bool(j, "usable", d[i].usable);
        tool_json_str(j, "why", d[i].usable ? NULL : d[i].why);
        tool_json_bool(j, "default", i == default_gpu(d, n));
        tool_json_close(j);
    }
    tool_json_close(j);
}

static void print_gpus(const struct ts_gpu_device *d, int n, const char *why)
{
    struct tool_words w = { .indent = n > 0 ? 7 : 8, .columns = tool_columns() };
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    int usable = 0;
    for (int i = 0; i < n; i++) {
        snprintf(a, sizeof a, "GPU %d:", d[i].number);
        tool_words_start(&w, a);
        tool_words_putf(&w, "%s, compute capability %d.%d,", d[i].name, d[i].major, d[i].minor);
        if (d[i].usable)
            tool_words_putf(&w, "%s free of %s%s", ts_num_bytes(a, d[i].free_bytes),
                            ts_num_bytes(b, d[i].total_bytes),
                            i == default_gpu(d, n) ? ": used by default" : "");
        else
            tool_words_putf(&w, "not used, because %s", d[i].why);
        usable += d[i].usable;
    }
    if (n == 0) {
        tool_words_start(&w, "no GPU:");
        tool_words_put(&w, why);
    }
    tool_words_end(&w);
    if (usable > 1)
        printf("--gpus %d uses %s of them\n", usable < TS_MAX_DEVICES ? usable : TS_MAX_DEVICES,
               usable > TS_MAX_DEVICES ? "that many"
               : usable == 2           ? "both"
                                       : "all");
}

/* Lists the GPUs. Returns their number; if it is 0, *why says why. *ret is NULL if memory ran out.
 * Sets *no_nccl: why several GPUs cannot exchange through NCCL; code 0 if they can. */
static int list_gpus(struct ts_gpu_device **ret, struct ts_err *why, struct ts_err *no_nccl)
{
    const struct ts_gpu_part *part;
    char text[160] = "";
    int n = 0, usable = 0;
    no_nccl->code = 0;
    *ret = calloc(TS_GPU_MAX_DEVICES, sizeof **ret);
    if (*ret == NULL || ts_gpu_part_find(&part, why) <= 0)
        return 0;
    n = part->devices(*ret, text);
    ts_fail(why, TS_ECUDA, "%s", text);
    for (int i = 0; i < n; i++)
        usable += (*ret)[i].usable;
    if (usable > 1)
        (void)part->check_nccl(no_nccl);
    return n;
}

static int run_devices(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct devices_args args;
    struct ts_machine machine;
    struct ts_gpu_device *gpu;
    struct ts_err why, no_nccl;
    struct tool_json j;
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    uint32_t n_operands;
    int n;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    const int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    free(operand);
    if (status >= 0)
        return status;
    ts_machine_get(&machine);
    n = list_gpus(&gpu, &why, &no_nccl);
    if (gpu == NULL)
        return tool_fail(cmd, &(struct ts_err){ .code = TS_ENOMEM, .text = "out of memory" });
    if (args.json) {
        tool_json_open(&j, stdout);
        json_gpus(&j, gpu, n);
        tool_json_str(&j, "no_gpu", n == 0 ? why.text : NULL);
        tool_json_str(&j, "no_nccl", no_nccl.code < 0 ? no_nccl.text : NULL);
    } else {
        print_gpus(gpu, n, why.text);
        if (no_nccl.code < 0)
            printf("no NCCL: %s\n", no_nccl.text);
    }
    free(gpu);
    if (args.json) {
        tool_json_u64(&j, "cpus", machine.cpus);
        tool_json_u64(&j, "total_bytes", machine.total_bytes);
        tool_json_u64(&j, "free_bytes", machine.free_bytes);
        tool_json_close(&j);
    } else
        printf("CPU: %u cores, %s of memory free of %s\n", machine.cpus,
               ts_num_bytes(a, machine.free_bytes), ts_num_bytes(b, machine.total_bytes));
    return 0;
}

const struct ts_cmd tstream_devices = {
    .program = "tstream",
    .name = "devices",
    .operands = "",
    .summary = "list the GPUs and CPUs that a run would use, and why",
    .text =
        "Lists the GPUs and whether each is usable, and the CPUs and memory of this process. A "
        "run takes the first usable GPU unless --gpus or --cpu is given. CUDA_VISIBLE_DEVICES "
        "hides and orders GPUs, as in every CUDA program. If something that GPUs need is missing, "
        "a sentence says what: the GPU part of tstream, a driver, or NCCL for several GPUs.",
    .examples = "tstream devices\n  list all devices\n",
    .opts = devices_opts,
    .run = run_devices,
};
