/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream bench: measures a part of the engine alone. So far, this is the exchange of GPUs. */
#include "api/tools.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"
#include "tools/tstream.h"

#define LEAST_BYTES (UINT64_C(1) << 20)
#define MOST_BYTES  (UINT64_C(1) << 30)

struct bench_args {
    const char *gpus;
    uint64_t bytes;
    int kind, json, quiet;
};

#define AT(field) offsetof(struct bench_args, field)
static const struct ts_opt bench_opts[] = {
    { "gpus", 'g', TS_OPT_STRING, AT(gpus), NULL, "N|LIST",
      "GPUs that exchange: the first N usable ones, or a list of numbers such as 0,2. Default: "
      "all" },
    { "bytes", 'b', TS_OPT_SIZE, AT(bytes), NULL, "SIZE",
      "size of the whole buffer. Default: a range from 1M to 1G" },
    { "kind", 'k', TS_OPT_CHOICE, AT(kind), "auto", "auto|nccl|copy|host",
      "kind of exchange. nccl: a ring of NCCL sends and receives. copy: copies from GPU to GPU. "
      "host: through host memory. auto: what a run would take, which is copy if all GPUs reach "
      "each other's memory, otherwise nccl if available" },
    TOOL_QUIET_OPT(AT(quiet)),
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "print a JSON object on each line of standard output" },
    { 0 },
};

struct row {
    uint64_t bytes, ns;
    int unequal;
};

static const char *name_of(enum ts_exchange_kind used)
{
    static const char *const name[] = {
        [TS_EXCHANGE_NCCL] = "nccl", [TS_EXCHANGE_COPY] = "copy", [TS_EXCHANGE_HOST] = "host"
    };
    return name[used];
}

static void print_row(enum ts_exchange_kind used, const struct bench_args *args, uint32_t n,
                      const struct row *r)
{
    const double rate = (double)r->bytes / (double)r->ns * 1e9;
    const double bus = rate * (n - 1) / n;
    char size[TS_NUM_CHARS];
    if (args->json) {
        struct tool_json j;
        tool_json_open(&j, stdout);
        tool_json_str(&j, "event", "exchange");
        tool_json_str(&j, "kind", name_of(used));
        tool_json_u64(&j, "gpus", n);
        tool_json_u64(&j, "bytes", r->bytes);
        tool_json_str(&j, "parts", r->unequal ? "unequal" : "equal");
        tool_json_f64(&j, "seconds", (double)r->ns * 1e-9);
        tool_json_f64(&j, "algorithm_bytes_per_s", rate);
        tool_json_f64(&j, "bus_bytes_per_s", bus);
        tool_json_close(&j);
        return;
    }
    printf("%10s  %-8s %11.1f %14.2f %11.2f\n", ts_num_bytes(size, r->bytes),
           r->unequal ? "unequal" : "equal", (double)r->ns * 1e-3, rate * 1e-9, bus * 1e-9);
    tool_flush();
}

static int measure(const struct ts_cmd *cmd, const struct ts_gpu_part *gpu,
                   struct ts_exchange_speed *s, const struct bench_args *args, uint32_t n,
                   struct ts_err *err)
{
    const struct ts_exchange *x = gpu->speed_of(s);
    const enum ts_exchange_kind used = gpu->exchange_used(x);
    const uint64_t first = args->bytes > 0 ? args->bytes : LEAST_BYTES;
    const uint64_t last = args->bytes > 0 ? args->bytes : MOST_BYTES;
    if (gpu->exchange_note(x) != NULL)
        tool_note(cmd, "exchanging by copies: %s", gpu->exchange_note(x));
    if (!args->json)
        printf("%u GPUs exchange by %s\n     bytes  parts      time (us)   algbw (GB/s) "
               "busbw (GB/s)\n",
               n, name_of(used));
    for (int unequal = 0; unequal < 2; unequal++)
        for (uint64_t bytes = first; bytes <= last; bytes *= 4) {
            struct row row = { .bytes = bytes, .unequal = unequal };
            const int rc = gpu->speed_run(s, bytes, unequal, &row.ns, err);
            if (rc < 0)
                return rc;
            print_row(used, args, n, &row);
            if (ts_stop_asked(&tool_stop))
                return ts_fail(err, TS_ESTOP, "stopped");
        }
    return 0;
}

static int choose_all(struct ts_backend_conf *conf, struct ts_err *err)
{
    const struct ts_gpu_part *gpu;
    struct ts_err none;
    char why[160];
    int there;
    if (ts_gpu_part_find(&gpu, &none) <= 0)
        return ts_fail(err, TS_ECUDA, "no GPU can be used: %s", none.text);
    there = gpu->count(why);
    for (int i = 0; i < there && conf->n_devices < TS_MAX_DEVICES; i++)
        if (gpu->usable(i, why))
            conf->device[conf->n_devices++] = i;
    return conf->n_devices > 0 ? 0 : ts_fail(err, TS_ECUDA, "no GPU can be used: %s", why);
}

static int exchange_between(const struct ts_cmd *cmd, const struct bench_args *args,
                            const struct ts_backend_conf *conf, struct ts_err *err)
{
    const struct ts_gpu_part *gpu;
    struct ts_exchange_speed *s = NULL;
    int rc;
    if (ts_gpu_part_find(&gpu, err) <= 0)
        return TS_ECUDA;
    rc = gpu->speed_new(conf->device, conf->n_devices, (enum ts_exchange_kind)args->kind,
                        args->bytes > 0 ? args->bytes : MOST_BYTES, &tool_stop, &s, err);
    if (rc == 0)
        rc = measure(cmd, gpu, s, args, conf->n_devices, err);
    gpu->speed_free(s);
    return rc;
}

static int bench_exchange(const struct ts_cmd *cmd, const struct bench_args *args,
                          struct ts_err *err)
{
    const struct ts_processor want = { .gpus = args->gpus };
    const struct ts_backend *backend;
    struct ts_backend_conf conf = { .n_devices = 0 };
    const int rc = args->gpus == NULL ? choose_all(&conf, err)
                                      : ts_processor_choose(&want, &backend, &conf, NULL, err);
    if (rc < 0)
        return rc;
    if (conf.n_devices < 2)
        return ts_fail(err, TS_ELIMIT, "an exchange takes at least 2 GPUs, and %u %s",
                       conf.n_devices, args->gpus == NULL ? "can be used" : "asked for");
    return exchange_between(cmd, args, &conf, err);
}

static int run_bench(const struct ts_cmd *cmd, int argc, char **argv)
{
    static const char *const names[] = { "exchange", NULL };
    struct bench_args args;
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && strcmp(operand[0], names[0]) != 0) {
        const char *near = ts_opt_nearest(operand[0], names);
        status = tool_usage(cmd, "there is nothing to measure named '%s'%s%s%s", operand[0],
                            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    if (status < 0 && args.gpus != NULL) {
        const struct ts_processor want = { .gpus = args.gpus };
        if (ts_processor_check(&want, &err) < 0)
            status = tool_usage(cmd, "%s", err.text);
    }
    if (status < 0) {
        tool_catch_signals();
        status = bench_exchange(cmd, &args, &err) < 0 ? tool_fail(cmd, &err) : 0;
    }
    free(operand);
    return status;
}

const struct ts_cmd tstream_bench = {
    .program = "tstream",
    .name = "bench",
    .operands = "exchange",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "measure the exchange between GPUs",
    .text =
        "exchange: each GPU has a part of a buffer at the start and all of it at the end, like "
        "the rows of a factor matrix in each sweep. The received bytes are checked first. Then "
        "it prints the median of nine, for parts of equal sizes, and for parts in the ratio 1 : "
        "2 : 3 and so on.\n\n"
        "algbw is the size of the whole buffer over the time. busbw is algbw times (n - 1) / n "
        "for n GPUs: the mean number of bytes that a GPU received, over the time. nccl-tests of "
        "NVIDIA define both in this way for an all-gather.\n\n"
        "NCCL takes at most 8 multiprocessors, and leaves the others to computation. "
        "NCCL_MAX_CTAS in the environment changes that.",
    .examples =
        "tstream bench exchange\n  use all GPUs; print a table from 1 MiB to 1 GiB\n"
        "tstream bench exchange --gpus 0,1 --kind copy --bytes 256M\n  measure one size, with copies\n",
    .opts = bench_opts,
    .run = run_bench,
};
