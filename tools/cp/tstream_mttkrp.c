/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_mttkrp.c - tstream mttkrp: times one MTTKRP, and compares it with a simple loop. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/common/array_opts.h"
#include "tools/common/common_opts.h"
#include "tools/common/engine_note.h"
#include "tools/common/processor_opts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_mode.h"
#include "tools/common/tool_ranks.h"
#include "tools/tstream.h"
#include "tools/tstream_operand.h"
#include "tools/common/tstream_ranks.h"
#include "tools/cp/tstream_times.h"

struct mttkrp_args {
    uint32_t mode; /* the mode of the product, from 1; 0 until find_mode */
    uint32_t rank, reps, threads;
    uint64_t seed, host_bytes;
    int precision, check, details, force, json, quiet;
    struct ts_processor processor;
    struct array_opts array;
    const char *mode_text, *trace;
};

#define AT(field) offsetof(struct mttkrp_args, field)
static const struct ts_opt mttkrp_opts[] = {
    { "mode", 'k', TS_OPT_STRING, AT(mode_text), "1", "K|NAME",
      "mode of the product, from 1, or its name" },
    { "rank", 'r', TS_OPT_U32, AT(rank), "16", "N",
      "number of columns of each factor matrix, 1 to 2048" },
    { "reps", 'n', TS_OPT_U32, AT(reps), "5", "N", "number of repetitions" },
    { "seed", 's', TS_OPT_U64, AT(seed), "1", "N", "seed of the random factors" },
    TOOL_THREADS_OPT(AT(threads)),
    TOOL_HOST_MEMORY_OPT(AT(host_bytes)),
    { "precision", 'p', TS_OPT_CHOICE, AT(precision), "float32", "float32|float64",
      "precision of factor matrices and products" },
    { "check", 'c', TS_OPT_FLAG, AT(check), NULL, NULL,
      "compare with a simple loop in float64. This needs memory for two more float64 copies of "
      "the factors" },
    TSTREAM_PROCESSOR_OPTS(AT(processor)),
    ARRAY_OPTS(AT(array)),
    TSTREAM_TIMES_OPTS(AT(details), AT(trace)),
    { "force", 0, TS_OPT_FLAG, AT(force), NULL, NULL,
      "replace an existing trace at --trace. Other files are never touched" },
    TOOL_QUIET_OPT(AT(quiet)),
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "print a JSON object on each line of standard output, with the figures of --details" },
    { 0 },
};

/* ---- the simple loop, which computes the MTTKRP for comparison ---- */

struct obvious {
    const struct ts_tensor *tensor;
    uint32_t mode, rank;
    double *factor[TS_MAX_ORDER]; /* n_rows x rank each: the factors; factor[mode] is the product */
    /* n_rows x rank: sums of the magnitudes of the product's terms, relative to which errors are
     * measured */
    double *size;
    void *raw;
};

static size_t matrix_bytes(const struct obvious *o, uint32_t mode)
{
    return ts_used(o->tensor, mode) * o->rank * sizeof(double);
}

static void obvious_free(struct obvious *o)
{
    for (uint32_t m = 0; m < o->tensor->order; m++)
        ts_bigmem_free(o->factor[m], matrix_bytes(o, m));
    ts_bigmem_free(o->size, matrix_bytes(o, o->mode));
    ts_bigmem_free(o->raw, ts_tensor_raw_bytes(o->tensor));
}

static int obvious_new(const struct ts_engine *e, struct obvious *o, struct ts_err *err)
{
    int rc = ts_bigmem_new(ts_tensor_raw_bytes(o->tensor), "a shard", &o->raw, err);
    if (rc == 0)
        rc = ts_bigmem_new(matrix_bytes(o, o->mode), "the sizes of sums", (void **)&o->size, err);
    for (uint32_t m = 0; m < o->tensor->order && rc == 0; m++) {
        rc = ts_bigmem_new(matrix_bytes(o, m), "a factor matrix", (void **)&o->factor[m], err);
        if (rc == 0 && m != o->mode)
            rc = e->backend->get_rows(e->be, m, 0, ts_used(o->tensor, m), o->factor[m], err);
    }
    return rc;
}

static void obvious_block(struct obvious *o, const struct ts_block *b)
{
    const struct ts_tensor *t = o->tensor;
    const uint8_t *level = t->mode[o->mode].disk.level;
    for (uint32_t p = 0; p < b->n; p++) {
        const double value = ts_tensor_value(t, b->code[0][p], b->code[1][p]);
        const size_t at = (size_t)b->level[0][p] * o->rank;
        for (uint32_t r = 0; r < o->rank; r++) {
            double term = value;
            for (uint32_t l = 1; l < t->order; l++)
                term *= o->factor[level[l]][(size_t)b->level[l][p] * o->rank + r];
            o->factor[o->mode][at + r] += term;
            o->size[at + r] += fabs(term);
        }
    }
}

/* Adds the terms of the product for the cells of a slab (a part of a dense tensor), one after
 * another. */
static void obvious_slab(struct obvious *o, const struct ts_slab_view *v)
{
    const struct ts_dense *d = o->tensor->dense;
    const uint64_t first = v->part.row * d->inner + v->part.col;
    for (uint64_t i = 0; i < v->part.rows * v->part.cols; i++) {
        uint64_t index[TS_DENSE_MAX_ORDER];
        double value;
        size_t at;
        ts_dense_get_f64(d, v->cells, i, 1, &value);
        ts_dense_index(d, first + i, index);
        at = index[o->mode] * o->rank;
        for (uint32_t r = 0; r < o->rank; r++) {
            double term = value;
            for (uint32_t m = 0; m < o->tensor->order; m++)
                term *= m == o->mode ? 1 : o->factor[m][index[m] * o->rank + r];
            o->factor[o->mode][at + r] += term;
            o->size[at + r] += fabs(term);
        }
    }
}

static int obvious_slabs(struct obvious *o, struct ts_feed *feed, struct ts_err *err)
{
    struct ts_slabs *slabs = ts_feed_slabs(feed);
    struct ts_slab_view v;
    int rc;
    ts_slabs_leave(slabs, 0); /* also reads slabs that are resident on a GPU */
    ts_slabs_rewind(slabs);
    while ((rc = ts_slabs_next(slabs, &v, err)) > 0)
        obvious_slab(o, &v);
    return rc;
}

static int obvious_run(struct obvious *o, struct ts_err *err)
{
    const struct ts_mode *m = &o->tensor->mode[o->mode];
    struct ts_block *block = calloc(1, sizeof *block);
    int rc = block == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for a block") : 0;
    for (uint64_t s = 0; s < m->disk.n_shards && rc == 0; s++) {
        rc = ts_stop_asked(&tool_stop) ? ts_fail(err, TS_ESTOP, "stopped")
                                       : ts_tensor_read_shard(o->tensor, o->mode, s, o->raw, err);
        for (uint32_t b = 0; rc == 0 && b < m->shard[s].n_blocks; b++) {
            rc = ts_tensor_block(o->tensor, o->mode, s, o->raw, b, block, err);
            if (rc == 0)
                obvious_block(o, block);
        }
    }
    free(block);
    return rc;
}

/* Sets *ret to the largest error of an entry of the product, relative to the sum of the magnitudes
 * of its terms. */
static int compare(const struct ts_engine *e, struct obvious *o, double *ret, struct ts_err *err)
{
    const uint64_t n = ts_used(o->tensor, o->mode);
    double *row = malloc(o->rank * sizeof *row), worst = 0;
    int rc = row == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for a row") : 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        rc = ts_stop_asked(&tool_stop) ? ts_fail(err, TS_ESTOP, "stopped")
                                       : e->backend->get_rows(e->be, o->mode, i, 1, row, err);
        for (uint32_t r = 0; rc == 0 && r < o->rank; r++) {
            const double want = o->factor[o->mode][i * o->rank + r],
                         size = o->size[i * o->rank + r];
            const double off = fabs(row[r] - want) / (size > 0 ? size : 1);
            worst = off > worst || isnan(off) ? off : worst;
        }
    }
    free(row);
    *ret = worst;
    return rc;
}

static int check(const struct ts_engine *e, const struct mttkrp_args *args, struct ts_err *err)
{
    /* partial sums have at most about 10^4 terms: errors are well below n * epsilon */
    const double most = args->precision == TS_FLOAT32 ? 1e-4 : 1e-12;
    struct obvious o = { .tensor = e->tensor, .mode = args->mode - 1, .rank = args->rank };
    double off = 0;
    int rc = obvious_new(e, &o, err);
    if (rc == 0)
        rc = e->tensor->dense != NULL ? obvious_slabs(&o, e->feed, err) : obvious_run(&o, err);
    if (rc == 0)
        rc = compare(e, &o, &off, err);
    obvious_free(&o);
    if (rc == 0 && !(off <= most))
        rc = ts_fail(err, TS_EFORMAT,
                     "the product is wrong: off by %.3g of the sum of its terms, at most %.0e is "
                     "rounding",
                     off, most);
    if (rc < 0)
        return rc;
    if (args->json) {
        struct tool_json j;
        tool_json_open(&j, stdout);
        tool_json_str(&j, "event", "check");
        tool_json_f64(&j, "error", off);
        tool_json_close(&j);
    } else
        printf("check: off by at most %.2e of the sum of magnitudes (limit %.0e)\n", off, most);
    return 0;
}

/* ---- timing of the products ---- */

static void print_rep(const struct ts_engine *e, const struct mttkrp_args *args, uint32_t rep,
                      uint64_t ns, const struct ts_backend_times *times, uint64_t bytes_read)
{
    const double s = (double)ns * 1e-9, rate = (double)e->tensor->nnz / s;
    const struct ts_dense *d = e->tensor->dense;
    const double packed = d != NULL ? (double)(d->cells * d->cell_bytes)
                                    : (double)e->tensor->mode[args->mode - 1].disk.shards_bytes;
    const struct ts_device_times mean = tstream_times_mean(times);
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    if (args->json) {
        struct tool_json j;
        tool_json_open(&j, stdout);
        tool_json_str(&j, "event", "mttkrp");
        tool_json_u64(&j, "rep", rep);
        tool_json_f64(&j, "seconds", s);
        tool_json_f64(&j, "nnz_per_s", rate);
        tool_json_f64(&j, "packed_bytes_per_s", packed / s);
        tool_json_u64(&j, "bytes_read", bytes_read);
        tool_json_f64(&j, "wait_seconds", (double)mean.wait_ns * 1e-9);
        tool_json_f64(&j, "copy_seconds", (double)mean.copy_ns * 1e-9);
        tool_json_f64(&j, "kernel_seconds", (double)mean.kernel_ns * 1e-9);
        tool_json_f64(&j, "imbalance", tstream_times_imbalance(times));
        tstream_times_json(&j, times);
        tool_json_close(&j);
        return;
    }
    if (rep == 1 && args->details)
        tstream_times_head();
    if (rep == 1)
        printf(
            "  rep    seconds  nonzeros/s  packed GB/s        read     wait     copy   kernel\n");
    if (args->details)
        tstream_times_print(args->mode - 1, times);
    printf("%5u %10.4f %11s %12.3f %11s  %7.3f  %7.3f  %7.3f\n", rep, s, ts_num_short(a, rate),
           packed / s * 1e-9, ts_num_bytes(b, bytes_read), (double)mean.wait_ns * 1e-9,
           (double)mean.copy_ns * 1e-9, (double)mean.kernel_ns * 1e-9);
    tool_flush();
}

static int time_reps(const struct ts_cmd *cmd, const struct ts_engine *e,
                     const struct mttkrp_args *args, struct ts_trace *trace, struct ts_err *err)
{
    const struct ts_init_conf init = { .tensor = e->tensor,
                                       .backend = e->backend,
                                       .be = e->be,
                                       .rank = args->rank,
                                       .threads = e->threads,
                                       .seed = args->seed,
                                       .stop = &tool_stop };
    int rc = 0;
    for (uint32_t m = 0; m < e->tensor->order && rc == 0; m++)
        rc = ts_init_mode(&init, m, NULL, err);
    for (uint32_t rep = 1; rep <= args->reps && rc == 0; rep++) {
        struct ts_backend_times times = { 0 };
        struct ts_feed_stats stats;
        uint64_t start = ts_clock_ns();
        ts_feed_rewind(e->feed);
        rc = e->backend->pass(&(struct ts_request){ .be = e->be }, 1, args->mode - 1, e->feed,
                              &times, err);
        if (rc < 0)
            return rc;
        ts_trace_add(trace, TS_TRACE_MODES, "product", start, ts_clock_ns(), args->mode - 1,
                     TS_TRACE_NO_SHARD, 0);
        start = ts_clock_ns() - start;
        ts_feed_stats(e->feed, &stats);
        if (rep == 1)
            engine_note_feed(cmd, &stats);
        if ((args->details || args->json) && ts_backend_can(e->backend, TS_CAN_RANKS))
            rc = e->backend->tell_ranks(e->be, args->mode - 1, &times, 0, err);
        if (rc < 0)
            return rc;
        print_rep(e, args, rep, start, &times, stats.bytes_read);
        if (ts_stop_asked(&tool_stop))
            return ts_fail(err, TS_ESTOP, "stopped");
    }
    return rc;
}

/* Sends the rows of the product from all ranks (processes) to every rank. */
static int collect_rows(const struct ts_engine *e, const struct mttkrp_args *args,
                        struct ts_err *err)
{
    double *gram = malloc(sizeof *gram * args->rank * args->rank);
    const int rc = gram == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for a Gram matrix")
                                : e->backend->gram(e->be, args->mode - 1, gram, err);
    free(gram);
    return rc;
}

/* Sets args->mode, from 1, to the mode that --mode names. */
static int find_mode(const char *path, struct mttkrp_args *args, struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    struct tool_modes modes;
    int rc = ts_tensor_open_any(path, &t, err);
    if (rc < 0)
        return rc;
    modes = tool_modes_of(t);
    rc = tool_mode_option(&modes, path, args->mode_text, 0, &args->mode, err);
    ts_tensor_close(t);
    return rc;
}

static int measure(const struct ts_cmd *cmd, const void *parsed, const char *path,
                   struct ts_err *err)
{
    struct mttkrp_args found = *(const struct mttkrp_args *)parsed;
    const struct mttkrp_args *args = &found;
    struct ts_engine_conf conf = { .path = path,
                                   .stop = &tool_stop,
                                   .rank = args->rank,
                                   .threads = args->threads,
                                   .precision = args->precision,
                                   .host_bytes = args->host_bytes,
                                   .processor = args->processor,
                                   .comm = tool_ranks(),
                                   .products = 1 };
    struct ts_engine e = { 0 };
    char text[128];
    int rc = tstream_ranks_choose(&conf.processor, err);
    if (rc == 0)
        rc = find_mode(path, &found, err);
    conf.only_mode = (int)args->mode - 1;
    if (rc == 0)
        rc = tstream_trace_open(tool_ranks_speaks() ? args->trace : NULL, args->force, path,
                                &conf.trace, err);
    if (rc == 0)
        rc = ts_engine_open(&conf, &e, err);
    snprintf(text, sizeof text, "%u %u %u %" PRIu64 " %d %d %d %d", args->mode, args->rank,
             args->reps, args->seed, (int)args->precision, args->check, args->details, args->json);
    rc = tstream_ranks_same(e.tensor, text, rc, err);
    if (rc == 0) {
        engine_note_processor(cmd, &e);
        tstream_ranks_note(cmd, &e);
        rc = time_reps(cmd, &e, args, conf.trace, err);
        rc = tool_ranks_agree(rc, err);
        if (rc == 0 && args->check && tool_ranks() != NULL)
            rc = collect_rows(&e, args, err);
        if (rc == 0 && args->check)
            rc = check(&e, args, err);
    }
    ts_engine_close(&e);
    rc = tstream_ranks_end(rc, err);
    return tstream_trace_close(cmd, conf.trace, rc, err);
}

static int run_mttkrp(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct mttkrp_args args;
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand), *name = NULL;
    int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && (args.rank == 0 || args.rank > TS_MAX_RANK))
        status = tool_usage(cmd, "--rank must be 1 to %u", TS_MAX_RANK);
    if (status < 0 && args.reps == 0)
        status = tool_usage(cmd, "--reps must be at least 1");
    if (status < 0 && tool_threads_check(args.threads, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 && ts_processor_check(&args.processor, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 &&
        array_opts_name(&args.array, n_operands > 0 ? operand[0] : "", &name, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0)
        status = tstream_operand_work(cmd, n_operands > 0 ? name : NULL, &args, measure);
    free(name);
    free(operand);
    return status;
}

const struct ts_cmd tstream_mttkrp = {
    .program = "tstream",
    .name = "mttkrp",
    .operands = "[TENSOR.tsh]",
    .max_operands = 1,
    .summary = "time MTTKRP, the main product of a decomposition, for one mode",
    .text =
        "Computes the matricized tensor times Khatri-Rao product of one mode with random factors "
        "several times. It prints seconds, nonzeros per second and packed bytes per second. The "
        "first time includes reading the shards that stay in memory and checking all shards. "
        "TENSOR may be a dense tensor (tstream cp --help); packed bytes are then those of its "
        "cells.\n\n"
        "Several processes of an MPI launcher compute a part each, on CPU cores or, with --gpus, "
        "on the GPUs of each.",
    .examples =
        "tstream mttkrp --mode 2 --rank 32 --check\n  time mode 2 and compare with a simple loop\n",
    .opts = mttkrp_opts,
    .run = run_mttkrp,
};
