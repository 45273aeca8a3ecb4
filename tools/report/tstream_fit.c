/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_fit.c - tstream fit: computes the fit of a model to a tensor in float64. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/common/array_opts.h"
#include "tools/common/common_opts.h"
#include "tools/common/engine_note.h"
#include "tools/common/processor_opts.h"
#include "tools/common/tool.h"
#include "tools/cp/cp_models.h"
#include "tools/common/tool_ranks.h"
#include "tools/common/tool_term.h"
#include "tools/tstream.h"
#include "tools/tstream_operand.h"
#include "tools/common/tstream_ranks.h"

struct fit_args {
    uint32_t threads;
    uint64_t host_bytes;
    int diagnose, json, quiet;
    struct ts_processor processor;
    struct array_opts array;
    const char *model; /* path of the model, the first operand */
};

#define AT(field) offsetof(struct fit_args, field)
static const struct ts_opt fit_opts[] = {
    TOOL_THREADS_OPT(AT(threads)),
    TOOL_HOST_MEMORY_OPT(AT(host_bytes)),
    TSTREAM_PROCESSOR_OPTS(AT(processor)),
    ARRAY_OPTS(AT(array)),
    { "diagnose", 0, TS_OPT_FLAG, AT(diagnose), NULL, NULL,
      "also compute the core consistency. It is near 100 % if the data support all components. "
      "It runs on CPU cores; rank^modes is at most 2^24" },
    TOOL_QUIET_OPT(AT(quiet)),
    TOOL_JSON_OPT(AT(json)),
    { 0 },
};

struct progress {
    struct tool_progress line;
    _Atomic uint64_t done_nnz;
};

/* Shows the progress. Computing threads call it after each shard, which has nnz nonzeros. */
static void count_done(void *ctx, uint64_t nnz)
{
    struct progress *p = ctx;
    tool_progress_update(&p->line, atomic_fetch_add(&p->done_nnz, nnz) + nnz);
}

/* Whether the error of the fit may change its sixth digit after the point, and the third digit of
 * 1 - fit. */
static int is_rough(const struct ts_exact_fit *f)
{
    return !(f->error <= fmax(1e-6, 1e-3 * (1 - f->fit)));
}

struct outcome {
    /* which of the known cells the fit is over, in words; NULL if it is over all cells */
    const char *cells;
    struct ts_exact_fit fit;
    uint64_t bytes_read, ns;
    struct ts_core core; /* the core consistency, with --diagnose */
};

static void print_core(const struct ts_core *core)
{
    printf("core consistency %.4g %%, normalised %.4g %%\n", core->consistency, core->normalised);
}

static void print_outcome(const struct fit_args *args, const char *tensor, uint32_t rank,
                          const struct outcome *o)
{
    const struct ts_exact_fit *f = &o->fit;
    char time[TS_NUM_CHARS];
    struct tool_json j;
    if (!args->json) {
        struct tool_words w = { .indent = 4, .columns = tool_columns() };
        tool_words_start(&w, "fit");
        if (o->cells == NULL)
            tool_words_putf(&w, "%.9f (within %.1g), residual norm %.9g, model norm %.9g, %s",
                            f->fit, f->error, f->residual, f->model_norm,
                            ts_num_duration(time, o->ns));
        else
            tool_words_putf(&w,
                            "%.9f (within %.1g) at %s, residual norm %.9g there, model norm %.9g "
                            "over all cells, %s",
                            f->fit, f->error, o->cells, f->residual, f->model_norm,
                            ts_num_duration(time, o->ns));
        tool_words_end(&w);
        if (args->diagnose)
            print_core(&o->core);
        return;
    }
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "fit");
    tool_json_str(&j, "model", args->model);
    tool_json_str(&j, "tensor", tensor);
    tool_json_u64(&j, "rank", rank);
    tool_json_str(&j, "cells", o->cells == NULL ? "all" : "known");
    tool_json_f64(&j, "fit", f->fit);
    tool_json_f64(&j, "error", f->error);
    tool_json_f64(&j, "residual_norm", f->residual);
    tool_json_f64(&j, "model_norm", f->model_norm);
    tool_json_f64(&j, "tensor_norm", f->norm);
    tool_json_f64(&j, "seconds", (double)o->ns * 1e-9);
    tool_json_u64(&j, "bytes_read", o->bytes_read);
    tool_json_f64(&j, "core_consistency", args->diagnose ? o->core.consistency : NAN);
    tool_json_f64(&j, "core_normalised", args->diagnose ? o->core.normalised : NAN);
    tool_json_close(&j);
}

static int compute(const struct ts_cmd *cmd, const struct ts_engine *e, struct ts_model *model,
                   struct progress *progress, struct outcome *ret, struct ts_err *err)
{
    const struct ts_exact_fit_conf conf = { .tensor = e->tensor,
                                            .backend = e->backend,
                                            .be = e->be,
                                            .feed = e->feed,
                                            .model = model,
                                            .threads = e->threads,
                                            .comm = tool_ranks(),
                                            .stop = tool_ranks_stop() };
    const uint64_t start = ts_clock_ns();
    struct ts_feed_stats stats;
    int rc;
    tool_progress_start(&progress->line, "product", "nonzeros",
                        e->tensor->nnz / tool_ranks_count());
    rc = ts_exact_fit_run(&conf, &ret->fit, err);
    tool_progress_end(&progress->line);
    if (rc < 0)
        return rc;
    ts_feed_stats(e->feed, &stats);
    engine_note_feed(cmd, &stats);
    ret->bytes_read = stats.bytes_read;
    ret->ns = ts_clock_ns() - start;
    return 0;
}

/* Computes the core consistency. The engine is closed, so its memory is free for the model and the
 * pseudo-inverses. */
static int diagnose(const struct ts_cmd *cmd, const struct fit_args *args, const char *path,
                    struct progress *progress, struct ts_core *ret, struct ts_err *err)
{
    struct ts_core_conf conf = { .done = count_done, .done_ctx = progress, .stop = &tool_stop };
    struct ts_kruskal *kruskal = NULL;
    struct ts_tensor *tensor = NULL;
    struct ts_model *model = NULL;
    int rc = ts_threads_get(args->threads, 0, &conf.threads, err);
    if (rc == 0)
        rc = ts_tensor_open_any(path, &tensor, err);
    if (rc == 0)
        rc = ts_model_open(args->model, &model, err);
    if (rc == 0)
        rc = ts_kruskal_read(model, &tool_stop, &kruskal, err);
    if (rc == 0) {
        conf.tensor = tensor;
        conf.model = kruskal;
        progress->done_nnz = 0;
        tool_progress_start(&progress->line, "core", "nonzeros", tensor->nnz);
        rc = ts_core_run(&conf, ret, err);
        tool_progress_end(&progress->line);
    }
    if (rc == 0 && ret->n_singular > 0)
        tool_note(
            cmd,
            "columns of the model depend on each other in %u mode%s: the core consistency says "
            "little there",
            ret->n_singular, tool_plural(ret->n_singular));
    ts_kruskal_free(kruskal);
    ts_model_close(model);
    ts_tensor_close(tensor);
    return rc;
}

static int report(const struct ts_cmd *cmd, const struct fit_args *args, const char *path,
                  uint32_t rank, const struct outcome *o, struct ts_err *err)
{
    print_outcome(args, path, rank, o);
    if (is_rough(&o->fit))
        tool_note(cmd,
                  "the components are so large beside the model, or the rows so full, that "
                  "rounding may change the fit by %.1g",
                  o->fit.error);
    return tool_flushed(err);
}

/* Chooses the mode of the product, and the memory, before the processor is set up. Fails if the
 * tensor has other labels than the model. */
static int plan(struct ts_engine_conf *ec, const struct ts_model *model, int diagnose, int *known,
                struct ts_err *err)
{
    struct ts_tensor *t;
    int rc = ts_tensor_open_any(ec->path, &t, err);
    if (rc < 0)
        return rc;
    ec->only_mode = (int)ts_exact_fit_mode(t);
    ec->own_bytes = ts_exact_fit_bytes(t, model);
    *known = ts_known_fit_wanted(t);
    rc = ts_model_names_check(model->path, model->names, t, UINT32_MAX, &tool_stop, err);
    if (rc == 0)
        rc = diagnose ? ts_tensor_is_unweighted(t, "a core consistency", err) : 0;
    ts_tensor_close(t);
    return rc;
}

/* Checks that all ranks (processes) have the same model. */
static int same_ranks(const struct fit_args *args, const struct ts_model *model,
                      const struct ts_tensor *t, int rc, struct ts_err *err)
{
    char text[512];
    uint64_t weights = 0;
    for (uint32_t r = 0; r < model->rank; r++) {
        uint64_t bits;
        memcpy(&bits, &model->weight[r], sizeof bits);
        weights = ts_mix(weights ^ bits);
    }
    snprintf(text, sizeof text, "%.400s %u %016" PRIx64 " %016" PRIx64, args->model, model->rank,
             weights, ts_model_sign(model));
    return tstream_ranks_same(t, text, rc, err);
}

/* Computes the fit of known cells, on CPU cores. Returns TS_EARG if the fit is not over known cells
 * alone. */
static int compute_known(const struct ts_cmd *cmd, const struct fit_args *args, const char *path,
                         const struct ts_model *told, struct progress *progress,
                         struct outcome *ret, struct ts_err *err)
{
    struct ts_score_conf conf = { .comm = tool_ranks(), .stop = tool_ranks_stop() };
    struct ts_engine_conf ec = { .path = path,
                                 .stop = &tool_stop,
                                 .precision = TS_FLOAT64,
                                 .host_bytes = args->host_bytes,
                                 .processor = { .cpu = 1 },
                                 .comm = tool_ranks(),
                                 .unknown = 1,
                                 .needs = TS_CAN(CELLS),
                                 .done = count_done,
                                 .done_ctx = progress };
    const uint64_t start = ts_clock_ns();
    struct ts_engine e = { 0 };
    struct ts_kruskal *kruskal = NULL;
    struct ts_model *model = NULL;
    struct ts_tensor *t = NULL;
    struct ts_feed_stats stats;
    int rc = ts_tensor_open_any(path, &t, err);
    if (rc == 0)
        rc = ts_model_open(args->model, &model, err);
    if (rc == 0)
        rc = ts_kruskal_read(model, &tool_stop, &kruskal, err);
    if (rc == 0)
        rc = ts_known_fit_shape(kruskal, t, err);
    if (rc == 0)
        rc = ts_threads_get(args->threads, 0, &ec.threads, err);
    if (rc == 0) {
        ec.tensor = t;
        ec.rank = kruskal->rank;
        ec.only_mode = (int)ts_exact_fit_mode(t);
        ec.own_bytes = ts_score_bytes(t, (uint32_t)ec.only_mode, kruskal->rank, ec.threads,
                                      tool_ranks_count(), 0, 0);
        rc = ts_engine_open(&ec, &e, err);
    }
    if (rc == 0 && !ts_known_fit_wanted(t))
        rc = ts_fail(err, TS_EARG, "%s: all its cells count", path);
    rc = same_ranks(args, told, t, rc, err);
    if (rc == 0) {
        conf.tensor = t;
        conf.backend = e.backend;
        conf.be = e.be;
        conf.feed = e.feed;
        conf.model = kruskal;
        conf.mode = (uint32_t)ec.only_mode;
        conf.threads = e.threads;
        tool_progress_start(&progress->line, "scores", "nonzeros", t->nnz / tool_ranks_count());
        rc = ts_known_fit_run(&conf, &ret->fit, err);
        tool_progress_end(&progress->line);
        ts_feed_stats(e.feed, &stats);
        engine_note_feed(cmd, &stats);
        ret->bytes_read = stats.bytes_read;
        ret->ns = ts_clock_ns() - start;
        ret->cells = ts_tensor_weighted(t) ? "listed cells by their weights" : "known cells";
    }
    ts_engine_close(&e);
    ts_kruskal_free(kruskal);
    ts_model_close(model);
    ts_tensor_close(t);
    return rc;
}

static int open_and_compute(const struct ts_cmd *cmd, const void *parsed, const char *path,
                            struct ts_err *err)
{
    const struct fit_args *args = parsed;
    struct progress progress = { 0 };
    struct ts_engine_conf ec = { .path = path,
                                 .stop = &tool_stop,
                                 .threads = args->threads,
                                 .precision = TS_FLOAT64,
                                 .host_bytes = args->host_bytes,
                                 .processor = args->processor,
                                 .comm = tool_ranks(),
                                 .done = count_done,
                                 .done_ctx = &progress };
    struct ts_engine e = { 0 };
    struct ts_model *model = NULL;
    struct outcome o = { 0 };
    uint32_t rank;
    int known = 0, planned = 0, rc = tstream_ranks_choose(&ec.processor, err);
    if (rc == 0 && args->diagnose && tool_ranks() != NULL)
        rc = ts_fail(err, TS_EARG, "--diagnose is computed by one process");
    if (rc == 0)
        rc = ts_model_open(args->model, &model, err);
    if (rc < 0)
        return rc;
    ec.rank = rank = model->rank;
    if (args->diagnose)
        rc = ts_core_check(model->order, model->rank, err);
    if (rc == 0)
        rc = plan(&ec, model, args->diagnose, &known, err);
    planned = rc == 0;
    if (rc == 0 && !known)
        rc = ts_engine_open(&ec, &e, err);
    if (planned && rc == TS_EARG && e.tensor == NULL &&
        /* TS_EARG for a dense tensor: perhaps some of its cells are NaN, that is unknown */
        ts_tensor_is_array(path)) {
        struct ts_err other;
        known = compute_known(cmd, args, path, model, &progress, &o, &other) == 0;
        rc = known ? 0 : rc;
    } else if (rc == 0 && known) {
        rc = compute_known(cmd, args, path, model, &progress, &o, err);
    }
    if (!known)
        rc = same_ranks(args, model, e.tensor, rc, err);
    if (rc == 0 && !known) {
        engine_note_processor(cmd, &e);
        tstream_ranks_note(cmd, &e);
        rc = compute(cmd, &e, model, &progress, &o, err);
    }
    ts_engine_close(&e);
    rc = tstream_ranks_end(rc, err);
    ts_model_close(model);
    if (rc == 0 && args->diagnose)
        rc = diagnose(cmd, args, path, &progress, &o.core, err);
    return rc == 0 ? report(cmd, args, path, rank, &o, err) : rc;
}

static int run_fit(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct fit_args args;
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand), *name = NULL;
    int status =
        operand == NULL ? 1 : tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && ts_processor_check(&args.processor, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 && array_opts_name(&args.array, operand[1], &name, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0) {
        char *model = tool_operand(operand[0], ".cp");
        args.model = model != NULL ? model : operand[0];
        status = tstream_operand_work(cmd, name, &args, open_and_compute);
        free(model);
        free(name);
    }
    free(operand);
    return status;
}

const struct ts_cmd tstream_fit = {
    .program = "tstream",
    .name = "fit",
    .operands = "MODEL TENSOR.tsh",
    .min_operands = 2,
    .max_operands = 2,
    .summary = "compute the exact fit of a model of any program",
    .text =
        "Prints the fit 1 - |X - M| / |X| of a model M of the tensor X, the norms of X - M and "
        "of M, and the time. Unlisted cells are zeros and count. TENSOR may be a dense tensor "
        "(tstream cp --help). If cells are unknown (NaN) or have weights, the fit is that of "
        "tstream cp --observed. It covers the known cells only, each with its weight, and is "
        "computed on CPU cores. The residual norm then also covers the known cells only; the "
        "norm of the model covers all cells.\n\n"
        "MODEL is a ktensor file of Tensor Toolbox, pyttb or tstream, or a directory. A "
        "directory holds model.ktensor, or weights.npy and modeK.npy (float32 or float64), or "
        "lambda.mat and modeK.mat of SPLATT. A factor has a row for each index of a mode, for "
        "the indices in modeK.index (numbers from 1, one a line), or for the used indices of the "
        "tensor. Columns can have any norm; weights may be negative or zero.\n\n"
        "Products are float64, and other sums have twice as many digits. So components that are "
        "far larger than the model and cancel do no harm. \"within\" (\"error\" in --json) "
        "estimates the effect of rounding: about 1e-14 / (1 - fit), and 1e-7 for an exact model. "
        "A note appears if it exceeds 1e-6 and 0.1 % of 1 - fit.\n\n"
        "Several processes of an MPI launcher compute the fit together, on CPU cores or, with "
        "--gpus, on the GPUs of each, with the same digits.\n\n"
        "--diagnose prints the core consistency of Bro and Kiers: 100 (1 - |G - T|^2 / rank). G "
        "is the core X x_1 A_1^+ ... x_N A_N^+. T is 1 where all indices are equal and 0 "
        "elsewhere. It also prints the normalised form of the N-way toolbox, with |G|^2 in place "
        "of the rank. Weights are divided equally among the modes.\n\n"
        "Near 100 % the components are separate and not too many. Near 0 or far below, the rank "
        "is too high, or the tensor does not have this form. Unlisted cells are zeros here as "
        "well, so even a useful model of noisy counts has a low value. All cells of a dense tensor "
        "must be known. --diagnose needs memory for a second set of factors in float64 and runs on CPU cores. It costs rank operations "
        "for each nonzero, rank^2 for each fibre, and rank^modes for each slice of the mode with "
        "the fewest slices.",
    .examples =
        "tstream fit amazon.cp amazon.tsh\n  compute the fit of a result of tstream cp\n"
        "tstream fit r3.cp aminoacid.tsh --diagnose\n  are three components too many?\n"
        "tstream fit other.ktensor amazon.tsh --host-memory 4G --json\n  the model of another program, with 4 GiB for shards\n",
    .opts = fit_opts,
    .run = run_fit,
};
