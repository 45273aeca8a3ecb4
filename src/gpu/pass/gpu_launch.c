/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches the kernels of a pass for shards: products of its models or other requests, and sums of
 * rows that several shares (thread blocks' parts) of a shard have in common. */
#include <cuda_runtime.h>
#include <string.h>

#include "gpu/sparse/edge_kernel.h"
#include "gpu/dense/gpu_cells.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/sparse/held_kernel.h"

static struct ts_gpu_mttkrp args_of(const struct ts_gpu_product *r, const struct ts_gpu_shards *s)
{
    struct ts_gpu_mttkrp args = r->args;
    args.one = s->one;
    args.many = s->many;
    args.n_many = s->n_many;
    args.n_shares = s->n_shares;
    return args;
}

/* Returns the most models of one launch, which read their factors in turn: so many that the factors
 * fit in the second-level cache. With more models, rows would be read from memory. */
static uint32_t most_beside(const struct ts_gpu_pass *p, const struct ts_gpu_product *r)
{
    const uint32_t most = ts_mttkrp_models(p->g->precision, r->args.ld);
    uint64_t bytes = 0, fit;
    for (uint32_t m = 0; m < p->g->tensor->order; m++)
        if (m != p->ask->mode)
            bytes += p->g->mode[m].n_rows * ts_gpu_row_bytes(r->of);
    fit = bytes > 0 ? p->me->cache_bytes / 4 * 3 / bytes : most;
    return fit < 1 ? 1 : fit < most ? (uint32_t)fit : most;
}

/* Adds models after `first` to a launch, as many as one launch takes. Returns the number of models
 * in the launch. */
static uint32_t add_beside(const struct ts_gpu_pass *p, uint32_t first, struct ts_gpu_mttkrp *args,
                           struct ts_gpu_beside beside[TS_MTTKRP_MODELS - 1])
{
    const uint32_t most = most_beside(p, &p->product[first]);
    uint32_t n = 1;
    for (; n < most && first + n < p->n; n++) {
        const struct ts_gpu_product *r = &p->product[first + n];
        struct ts_gpu_beside *to = &beside[n - 1];
        if (r->wide || r->of->hold_out.share > 0 || r->args.ld != args->ld)
            break;
        memcpy(to->factor, r->args.factor, sizeof to->factor);
        to->out = r->args.out;
        to->edge = r->args.edge;
    }
    args->n_beside = n - 1;
    args->beside = beside;
    return n;
}

/* Launches the product of a model that counts held-out cells as zeros. */
static ts_gpu_error launch_held(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                ts_gpu_stream stream)
{
    const struct ts_gpu *g = r->of->gpu;
    struct ts_gpu_held held = { .hold_out = r->of->hold_out };
    ts_gpu_find_levels(g, r->pass->ask->mode, held.level);
    return r->wide ? ts_held_launch_wide(args, &held, stream)
                   : ts_held_launch(g->precision, args, &held, stream);
}

/* Launches the kernels for the requests of several models, from `first` on, as many as one launch
 * takes, and sets *n to their number. */
static ts_gpu_error launch_some(const struct ts_gpu_pass *p, const struct ts_gpu_shards *s,
                                uint32_t first, uint32_t *n, ts_gpu_stream stream)
{
    const struct ts_gpu_product *r = &p->product[first];
    struct ts_gpu_mttkrp args = args_of(r, s);
    struct ts_gpu_beside beside[TS_MTTKRP_MODELS - 1];
    *n = 1;
    switch (p->ask->kind) {
    case TS_REQUEST_ROWS:
        return ts_gpu_observed_launch(r, &args, stream);
    case TS_REQUEST_MULTIPLY:
        return ts_gpu_multiply_launch(r, &args, stream);
    case TS_REQUEST_DESCEND:
        return ts_gpu_gradient_launch(r, &args, stream);
    case TS_REQUEST_ERRORS:
        return ts_gpu_errors_launch(r, &args, stream);
    case TS_REQUEST_LOSSES:
        return ts_gpu_losses_launch(r, &args, stream);
    case TS_REQUEST_SCORES:
        return ts_gpu_scores_launch(r, &args, stream);
    case TS_REQUEST_PRODUCT:
    case TS_REQUEST_CELLS:
    case TS_N_REQUEST_KINDS:
        break;
    }
    if (r->of->hold_out.share > 0)
        return launch_held(r, &args, stream);
    if (r->wide)
        return ts_mttkrp_launch_wide(&args, stream);
    *n = add_beside(p, first, &args, beside);
    return ts_mttkrp_launch(p->g->precision, &args, stream);
}

ts_gpu_error ts_gpu_launch_products(const struct ts_gpu_pass *p, const struct ts_gpu_shards *s,
                                    ts_gpu_stream stream)
{
    ts_gpu_error e = cudaSuccess;
    for (uint32_t k = 0, n; k < p->n && e == cudaSuccess; k += n)
        e = launch_some(p, s, k, &n, stream);
    return e;
}

ts_gpu_error ts_gpu_launch_due(const struct ts_gpu_pass *p)
{
    ts_gpu_error e = cudaSuccess;
    for (uint32_t k = 0, n = 1; k < p->n && e == cudaSuccess; k += n)
        for (uint32_t i = 0; i < p->n_due && e == cudaSuccess; i++)
            e = launch_some(p, &p->due[i].shards, k, &n, p->me->compute[p->due[i].stream]);
    for (uint32_t i = 0; i < p->n_due && e == cudaSuccess; i++)
        e = ts_gpu_fold_shards(p, &p->due[i].shards, p->me->compute[p->due[i].stream]);
    return e;
}

ts_gpu_error ts_gpu_fold_shards(const struct ts_gpu_pass *p, const struct ts_gpu_shards *s,
                                ts_gpu_stream stream)
{
    ts_gpu_error e = cudaSuccess;
    /* MULTIPLY has added the edges (partial sums of rows) in each round already; a pass that only
     * sums computes no rows */
    if (p->ask->kind == TS_REQUEST_MULTIPLY || ts_gpu_only_sums(p->ask))
        return e;
    for (uint32_t k = 0; k < p->n && e == cudaSuccess; k++) {
        const struct ts_gpu_product *r = &p->product[k];
        const struct ts_gpu_mttkrp args = args_of(r, s);
        if (ts_gpu_solves_observed(r))
            e = ts_gpu_observed_fold(r, &args, stream);
        else
            e = ts_edge_fold_shards(r->wide ? TS_FLOAT64 : p->g->precision, &args,
                                    p->alone ? NULL : r->my->shard_edge, stream);
    }
    return e;
}
