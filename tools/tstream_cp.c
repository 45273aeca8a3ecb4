/* tstream_cp.c - tstream cp: a CP decomposition by alternating least squares. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/num.h"
#include "cpd/als.h"
#include "cpd/model_write.h"
#include "tools/tool.h"
#include "tools/tool_line.h"
#include "tools/tstream.h"
#include "tools/tstream_engine.h"
#include "tools/tstream_operand.h"
#include "tools/tstream_times.h"

struct cp_args {
    uint32_t rank, iters, threads;
    double tol;
    uint64_t seed, host_bytes;
    int precision, rows, details, json, no_output;
    struct tstream_processor processor;
    const char *init, *out, *format, *trace;
};

#define AT(field) offsetof(struct cp_args, field)
static const struct ts_opt cp_opts[] = {
    { "rank", 'r', TS_OPT_U32, AT(rank), "16", "N", "columns of each factor matrix" },
    { "iters", 'i', TS_OPT_U32, AT(iters), "50", "N", "most sweeps over all modes" },
    { "tol", 0, TS_OPT_DOUBLE, AT(tol), "1e-5", "X",
      "stop when the fit changes by less than this from one sweep to the next; 0 runs all sweeps" },
    { "seed", 's', TS_OPT_U64, AT(seed), "1", "N", "of the random initial factors" },
    { "init", 0, TS_OPT_STRING, AT(init), "random", "random|FILE",
      "initial factors: random numbers in [0, 1), or a ktensor file or directory of factors" },
    { "threads", 't', TS_OPT_U32, AT(threads), "0", "N",
      "threads; 0 takes all CPUs. The result does not depend on it" },
    { "host-memory", 'm', TS_OPT_SIZE, AT(host_bytes), NULL, "SIZE",
      "memory for shards; what does not fit is streamed from disk. Factor matrices come on top. "
      "Default: what the machine has free, less an eighth and 128M" },
    { "precision", 'p', TS_OPT_CHOICE, AT(precision), "float32", "float32|float64",
      "of factor matrices and products; Gram matrices, solves and fit are float64 always" },
    { "out", 'o', TS_OPT_STRING, AT(out), NULL, "DIR",
      "directory for the factors, written whole or not at all. Default: the tensor's name with .cp "
      "instead of .tsh, in the current directory" },
    { "format", 'f', TS_OPT_STRING, AT(format), "ktensor", "LIST",
      "any of ktensor (Tensor Toolbox text), npy (NumPy), splatt, divided by commas" },
    { "rows", 0, TS_OPT_CHOICE, AT(rows), "all", "all|used",
      "rows of the factors written: one per index, zeros for empty slices, or those of used slices "
      "alone with a file that names their indices" },
    { "no-output", 'n', TS_OPT_FLAG, AT(no_output), NULL, NULL, "write no factors" },
    TSTREAM_PROCESSOR_OPTS(AT(processor)),
    TSTREAM_TIMES_OPTS(AT(details), AT(trace)),
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "one JSON object a line on standard output: an event \"start\", for each mode \"mode\" with "
      "what --details tells, for each sweep \"sweep\", then \"done\"" },
    { 0 },
};

struct report {
    const struct ts_cmd *cmd;
    const struct cp_args *args;
    const struct tstream_engine *engine;
    uint64_t bytes_read; /* in all sweeps */
    int noted;           /* what the kernel refused was said */
    int headed;          /* the columns have their names */
    struct tool_progress progress; /* of the sweep under way */
    _Atomic uint64_t done_nnz;     /* in it, over all modes */
    struct ts_trace *trace;        /* or NULL */
};

static void start_progress(struct report *r)
{
    const struct ts_tensor *t = r->engine->tensor;
    r->done_nnz = 0;
    tool_progress_start(&r->progress, "sweep", "nonzeros", t->order * t->nnz);
}

/* From the threads that compute, once a shard. */
static void count_done(void *ctx, uint64_t nnz)
{
    struct report *r = ctx;
    tool_progress_update(&r->progress, atomic_fetch_add(&r->done_nnz, nnz) + nnz);
}

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static double nnz_per_s(const struct report *r, const struct ts_als_sweep *s)
{
    const struct ts_tensor *t = r->engine->tensor;
    return s->total_ns == 0 ? 0 : (double)t->order * (double)t->nnz / seconds(s->total_ns);
}

static void print_json(const struct report *r, const struct ts_als_sweep *s)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "sweep");
    tool_json_u64(&j, "sweep", s->sweep);
    tool_json_f64(&j, "fit", s->fit);
    tool_json_f64(&j, "change", s->change);
    tool_json_f64(&j, "seconds", seconds(s->total_ns));
    tool_json_f64(&j, "nnz_per_s", nnz_per_s(r, s));
    tool_json_u64(&j, "bytes_read", s->bytes_read);
    tool_json_f64(&j, "wait_seconds", seconds(s->wait_ns));
    tool_json_f64(&j, "copy_seconds", seconds(s->copy_ns));
    tool_json_f64(&j, "kernel_seconds", seconds(s->kernel_ns));
    tool_json_f64(&j, "solve_seconds", seconds(s->solve_ns));
    tool_json_f64(&j, "exposed_seconds", seconds(s->exposed_ns));
    tool_json_f64(&j, "imbalance", s->imbalance);
    tool_json_u64(&j, "singular_modes", s->n_singular);
    tool_json_close(&j);
}

static void print_head(struct report *r)
{
    if (r->headed)
        return;
    if (r->args->details)
        tstream_times_head();
    printf("sweep          fit     change   seconds  nonzeros/s        read     wait    copy  kernel   "
           "solve\n");
    r->headed = 1;
}

static void print_mode(void *ctx, const struct ts_als_mode *m)
{
    struct report *r = ctx;
    struct tool_json j;
    if (r->args->json) {
        tool_json_open(&j, stdout);
        tool_json_str(&j, "event", "mode");
        tool_json_u64(&j, "sweep", m->sweep);
        tool_json_u64(&j, "mode", m->mode + 1);
        tool_json_f64(&j, "seconds", seconds(m->total_ns));
        tool_json_f64(&j, "imbalance", tstream_times_imbalance(m->times));
        tstream_times_json(&j, m->times);
        tool_json_close(&j);
    } else if (r->args->details) {
        tool_line_erase();
        print_head(r);
        tstream_times_print(m->mode, m->times);
        tool_flush();
    }
}

static void print_sweep(void *ctx, const struct ts_als_sweep *s)
{
    struct report *r = ctx;
    char rate[TS_NUM_CHARS], bytes[TS_NUM_CHARS];
    struct ts_feed_stats stats;
    tool_progress_end(&r->progress);
    r->bytes_read += s->bytes_read;
    if (!r->noted) {
        ts_feed_stats(r->engine->feed, &stats);
        r->bytes_read += stats.bytes_read;
        tstream_engine_note(r->cmd, &stats);
        r->noted = 1;
    }
    if (r->args->json) {
        print_json(r, s);
        start_progress(r);
        return;
    }
    print_head(r);
    printf("%5u %12.9f %10.2e %9.3f %11s %11s  %7.3f %7.3f %7.3f %7.3f\n", s->sweep, s->fit,
           s->change, seconds(s->total_ns), ts_num_short(rate, nnz_per_s(r, s)),
           ts_num_bytes(bytes, s->bytes_read), seconds(s->wait_ns), seconds(s->copy_ns),
           seconds(s->kernel_ns), seconds(s->solve_ns));
    tool_flush();
    start_progress(r);
}

static void print_start(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
                        const struct tstream_engine *e)
{
    struct tool_json j;
    if (!args->json)
        return;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "start");
    tool_json_str(&j, "tensor", path);
    tool_json_u64(&j, "nnz", e->tensor->nnz);
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < e->tensor->order; m++)
        tool_json_u64(&j, NULL, e->tensor->mode[m].disk.dim);
    tool_json_close(&j);
    tool_json_str(&j, "backend", e->backend->name);
    tool_json_u64(&j, "threads", e->threads);
    tool_json_u64(&j, "host_bytes", e->host_bytes);
    tool_json_u64(&j, "factor_bytes", e->factor_bytes);
    tool_json_array(&j, "gpus");
    for (uint32_t i = 0; i < e->n_devices; i++)
        tool_json_i64(&j, NULL, e->device[i]);
    tool_json_close(&j);
    tool_json_u64(&j, "library_bytes", e->library_bytes);
    tool_json_options(&j, cmd, args);
    tool_json_close(&j);
}

/* Most memory that this process ever had resident. */
static uint64_t peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

static void print_done(const struct report *r, const struct ts_als_result *res, const char *out,
                       uint64_t total_ns)
{
    struct tool_json j;
    char total[TS_NUM_CHARS];
    if (!r->args->json) {
        printf("fit %.9f after %u sweeps (%s), %s", res->fit, res->sweeps,
               res->converged ? "converged" : "not converged", ts_num_duration(total, total_ns));
        if (out != NULL)
            printf(", factors in %s", out);
        printf("\n");
        return;
    }
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "done");
    tool_json_f64(&j, "fit", res->fit);
    tool_json_u64(&j, "sweeps", res->sweeps);
    tool_json_bool(&j, "converged", res->converged);
    tool_json_f64(&j, "seconds", seconds(total_ns));
    tool_json_u64(&j, "bytes_read", r->bytes_read);
    tool_json_u64(&j, "peak_bytes", peak_bytes());
    tool_json_str(&j, "out", out);
    tool_json_close(&j);
}

static int decompose(struct report *r, struct ts_model *model, struct ts_model_out *out,
                     const char *out_dir, struct ts_err *err)
{
    const struct cp_args *args = r->args;
    const struct tstream_engine *e = r->engine;
    const uint64_t start = ts_clock_ns();
    const struct ts_als_conf conf = {
        .init = { .tensor = e->tensor, .backend = e->backend, .be = e->be, .rank = args->rank,
                  .threads = e->threads, .seed = args->seed, .model = model, .stop = &tool_stop },
        .feed = e->feed,
        .precision = args->precision,
        .iters = args->iters,
        .tol = args->tol,
        .mode = print_mode,
        .sweep = print_sweep,
        .ctx = r,
        .trace = r->trace,
    };
    struct ts_als_result result;
    int rc;
    start_progress(r);
    rc = ts_als_run(&conf, &result, err);
    tool_progress_end(&r->progress);
    if (rc < 0)
        return rc;
    if (out != NULL)
        rc = ts_model_write(out, e->be, result.weight, err);
    if (rc == 0)
        print_done(r, &result, out_dir, ts_clock_ns() - start);
    free(result.weight);
    return rc == 0 ? tool_flushed(err) : rc;
}

/* With the engine open and, where factors are wanted, their directory begun. */
static int run_engine(struct report *r, struct ts_model_conf *mc, struct ts_model *model,
                      const char *path, struct ts_err *err)
{
    const struct tstream_engine *e = r->engine;
    struct ts_model_out *out = NULL;
    int rc = 0;
    mc->tensor = e->tensor;
    mc->backend = e->backend;
    mc->threads = e->threads;
    if (!r->args->no_output)
        rc = ts_model_begin(mc, &out, err);
    if (rc == 0) {
        print_start(r->cmd, r->args, path, e);
        rc = decompose(r, model, out, out == NULL ? NULL : mc->dir, err);
    }
    ts_model_end(out);
    return rc;
}

/* Everything that can be refused is, before the work. */
static int prepare(const struct ts_cmd *cmd, const void *parsed, const char *path,
                   struct ts_err *err)
{
    const struct cp_args *args = parsed;
    struct tstream_engine e;
    struct report r = { .cmd = cmd, .args = args, .engine = &e };
    struct tstream_engine_conf ec = { .path = path, .rank = args->rank, .threads = args->threads,
                                      .precision = args->precision, .host_bytes = args->host_bytes,
                                      .processor = args->processor, .only_mode = -1,
                                      .done = count_done, .done_ctx = &r };
    struct ts_model_conf mc = { .used_rows = args->rows, .rank = args->rank,
                                .precision = args->precision, .stop = &tool_stop };
    struct ts_model *model = NULL;
    char *named = args->out != NULL ? strdup(args->out) : tstream_operand_swap(path, ".cp");
    int rc = named == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", path)
                           : ts_model_formats(args->format, &mc.formats, err);
    mc.dir = named;
    if (rc == 0 && args->out != NULL)
        rc = tool_outside(args->out, path, err);
    if (rc == 0 && strcmp(args->init, "random") != 0)
        rc = ts_model_open(args->init, &model, err);
    if (rc == 0)
        rc = tstream_trace_open(args->trace, path, &r.trace, err);
    ec.trace = r.trace;
    if (rc == 0)
        rc = tstream_engine_open(&ec, &e, err);
    if (rc == 0) {
        tstream_engine_note_processor(r.cmd, &e);
        rc = run_engine(&r, &mc, model, path, err);
        tstream_engine_close(&e);
    }
    rc = tstream_trace_close(r.trace, rc, err);
    ts_model_close(model);
    free(named);
    return rc;
}

static int run_cp(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct cp_args args;
    struct ts_err err;
    uint32_t n_operands, formats;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    int status = operand == NULL
                     ? 1
                     : tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && args.iters == 0)
        status = tool_usage(cmd, "--iters must be at least 1");
    if (status < 0 && (args.rank == 0 || args.rank > TS_MAX_RANK))
        status = tool_usage(cmd, "--rank must be 1 to %u", TS_MAX_RANK);
    if (status < 0 && !(args.tol >= 0))
        status = tool_usage(cmd, "--tol must not be negative");
    if (status < 0 && ts_model_formats(args.format, &formats, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 && tstream_processor_check(&args.processor, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0)
        status = tstream_operand_work(cmd, n_operands > 0 ? operand[0] : NULL, &args, prepare);
    free(operand);
    return status;
}

const struct ts_cmd tstream_cp = {
    .program = "tstream",
    .name = "cp",
    .operands = "[TENSOR.tsh]",
    .max_operands = 1,
    .summary = "decompose a tensor into rank-one components (CP-ALS)",
    .text =
        "Fits a sum of rank-one tensors to a sparse tensor by alternating least squares. Shards that "
        "do not fit into --host-memory are streamed from disk, read ahead of the computation.\n\n"
        "Without an operand the one .tsh of the current directory is taken. Each sweep prints its "
        "fit (1 - |X - model| / |X|), its change, wall seconds, nonzeros per second (each mode "
        "counts), bytes read, and where the time went: waiting for shards, copying them to a "
        "device, computing products, solving for rows; with several GPUs the mean over them. "
        "--details, --json and --trace tell more: an event \"mode\" of --json has an array \"devices\" "
        "with, for each GPU or the CPU (whose \"gpu\" is null), nonzeros, bytes sent to it for the mode, "
        "of these \"early_bytes\" while the mode before ended, seconds of each kind, and \"share\", its "
        "part of the mode in the next sweep. \"imbalance\" is the kernel time of the slowest over the "
        "mean, \"exposed_seconds\" exchange while nothing computed.\n\n"
        "The factors are 2-normed, sorted by weight, and their signs are fixed: the entry of largest "
        "magnitude of a column is positive where signs can be moved in pairs. They are the same "
        "bits for any number of threads or GPUs and any memory budget. Interrupted, the command writes "
        "nothing.",
    .examples = "tstream cp --rank 32\n  decompose the tensor of this directory\n"
                "tstream cp amazon.tsh --host-memory 4G --format npy --out result\n"
                "  stream it within 4 GiB, NumPy files into result/\n"
                "tstream cp --gpus 4 --details --trace cp.json\n"
                "  on four GPUs, telling what each of them did when\n",
    .opts = cp_opts,
    .run = run_cp,
};
