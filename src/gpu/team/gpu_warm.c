/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches every kernel that a member (GPU) may need, so that its code is loaded and its memory can
 * be measured. */
#include <cuda_runtime.h>
#include <stdlib.h>

#include "gpu/rows/dense_kernel.h"
#include "gpu/sparse/edge_kernel.h"
#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_device.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/sparse/held_kernel.h"
#include "gpu/observed/observed_long.h"
#include "gpu/rows/simplex_kernel.h"
#include "gpu/sparse/weigh_kernel.h"

/* Packs a shard of one nonzero, and copies it to the device memory for parts of a Gram matrix,
 * which is unused now. */
static int pack_one(const struct ts_gpu *g, struct ts_gpu_member *me, struct ts_disk_shard *entry,
                    struct ts_err *err)
{
    const uint32_t zero = 0, *level[TS_MAX_ORDER], *code[2] = { &zero, &zero };
    const uint32_t n_codes = ts_header_codes(&g->tensor->header);
    void *raw = malloc(ts_shard_bound(g->tensor->order, n_codes, 1));
    ts_gpu_error e;
    if (raw == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    for (uint32_t l = 0; l < g->tensor->order; l++)
        level[l] = &zero;
    ts_shard_pack(g->tensor->order, n_codes, 1, level, code, raw, entry);
    e = cudaMemcpy(me->replica[0].parts, raw, entry->raw_bytes, cudaMemcpyHostToDevice);
    TRY(e, cudaStreamSynchronize(NULL));
    free(raw);
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "copying to the GPU");
}

/* Launches the kernels for products that are summed in float64, as far as this tensor needs
 * them. */
static ts_gpu_error warm_wide(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              struct ts_gpu_mttkrp *args)
{
    const struct ts_gpu *g = of->gpu;
    struct ts_gpu_replica *my = &me->replica[of->number];
    const uint32_t last = g->tensor->order - 1;
    ts_gpu_error e;
    args->out_float = my->product == NULL;
    args->out = my->product != NULL ? (void *)my->product : my->factor[0];
    e = ts_mttkrp_launch_wide(args, me->dense);
    TRY(e, ts_edge_fold_shards(TS_FLOAT64, args, my->shard_edge, me->dense));
    if (my->product == NULL)
        TRY(e, ts_edge_fold_to_float(1, my->shard_edge, me->shard_row[0], of->ld, args->out,
                                     me->dense));
    else
        TRY(e, ts_edge_fold(TS_FLOAT64, 1, my->shard_edge, me->shard_row[last], of->ld, args->out,
                            me->dense));
    if (my->product != NULL)
        TRY(e, ts_dense_solve_products(my->product, (float *)my->factor[last], NULL, 1, of->ld,
                                       my->w, my->row_inner, me->dense));
    return e;
}

/* Launches the kernels for a model of counts. The rows that they compute are not used. */
static ts_gpu_error warm_weigh(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                               const struct ts_gpu_mttkrp *args)
{
    const struct ts_gpu *g = of->gpu;
    struct ts_gpu_replica *my = &me->replica[of->number];
    struct ts_gpu_weigh weigh = { .own = my->apart };
    ts_gpu_error e = ts_weigh_launch(g->precision, args, &weigh, me->dense);
    weigh.hold_out.share = g->holds_out ? 0.5 : 0;
    TRY(e, ts_weigh_launch(g->precision, args, &weigh, me->dense));
    weigh.judged = my->judged;
    TRY(e, ts_weigh_launch(g->precision, args, &weigh, me->dense));
    weigh.hold_out.share = 0;
    TRY(e, ts_weigh_launch(g->precision, args, &weigh, me->dense));
    return e;
}

/* Launches the kernel for products that count held-out cells as zeros, and those for errors of a
 * model. */
static ts_gpu_error warm_held(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              const struct ts_gpu_mttkrp *args)
{
    const struct ts_gpu *g = of->gpu;
    struct ts_gpu_replica *my = &me->replica[of->number];
    const struct ts_gpu_held held = { .hold_out = { 0 } };
    ts_gpu_error e = ts_held_launch(g->precision, args, &held, me->dense);
    if (my->errors != NULL)
        TRY(e, ts_gpu_errors_warm(of, me, args));
    return e;
}

static ts_gpu_error warm_product(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                 const struct ts_gpu_shard *shard)
{
    const struct ts_gpu *g = of->gpu;
    struct ts_gpu_replica *my = &me->replica[of->number];
    struct ts_gpu_mttkrp args = ts_gpu_device_args(of, me);
    ts_gpu_error e;
    args.one = *shard;
    args.n_shares = 1;
    args.share_blocks = TS_PARTITION_BLOCKS;
    args.out = my->factor[0];
    for (uint32_t l = 1; l < g->tensor->order; l++)
        args.factor[l - 1] = my->factor[l];
    e = ts_mttkrp_launch(g->precision, &args, me->dense);
    TRY(e, ts_edge_fold_shards(g->precision, &args, my->shard_edge, me->dense));
    TRY(e, ts_edge_fold(g->precision, 1, my->shard_edge, me->shard_row[0], of->ld, my->factor[0],
                        me->dense));
    if (my->apart != NULL && my->phi != NULL)
        TRY(e, warm_weigh(of, me, &args));
    /* with `descends` too: the initialization computes singular vectors with these kernels */
    if (g->observes || g->descends || g->holds_out)
        TRY(e, warm_held(of, me, &args));
    if (my->score_share != NULL)
        TRY(e, ts_gpu_scores_warm(of, me, &args));
    if (my->part != NULL || (my->place != NULL && of->rank <= TS_OBSERVED_LONG_MOST))
        TRY(e, ts_gpu_observed_warm(of, me, &args));
    if (my->apart != NULL && my->losses != NULL)
        TRY(e, ts_gpu_loss_warm(of, me, &args));
    return e == cudaSuccess && g->precision == TS_FLOAT32 ? warm_wide(of, me, &args) : e;
}

/* Whether the device can solve for rows of the model, which must fit in shared memory as a whole.
 * If it cannot, the run only needs products. */
static int solves(const struct ts_gpu_model *of, const struct ts_gpu_member *me)
{
    return of->ld <= ts_dense_most(me->device);
}

/* Arguments of a copy that is launched as a graph, so that the driver's memory for graphs is
 * measured too. */
struct small_copy {
    const struct ts_gpu_replica *my;
    uint64_t bytes;
    ts_gpu_stream stream;
};

static ts_gpu_error enqueue_copy(void *ctx)
{
    const struct small_copy *c = ctx;
    return ts_dense_copy(c->my->w, c->my->host, c->bytes, c->stream);
}

static ts_gpu_error warm_graph(const struct ts_gpu_model *of, const struct ts_gpu_member *me)
{
    struct small_copy c = { &me->replica[of->number], 8 * (uint64_t)of->ld, me->dense };
    struct ts_gpu_graph graph = { 0 };
    ts_gpu_error e =
        ts_gpu_graph_launch(&graph, &(struct ts_gpu_graph_key){ 0 }, c.stream, enqueue_copy, &c);
    TRY(e, cudaStreamSynchronize(c.stream));
    ts_gpu_graph_free(&graph);
    return e;
}

static ts_gpu_error warm_dense(const struct ts_gpu_model *of, struct ts_gpu_member *me)
{
    const struct ts_gpu *g = of->gpu;
    struct ts_gpu_replica *my = &me->replica[of->number];
    const enum ts_precision p = g->precision;
    const ts_gpu_stream s = me->dense;
    void *a = my->factor[0];
    ts_gpu_error e = ts_dense_copy(my->w, my->host, 8 * (uint64_t)of->ld, s);
    if (solves(of, me))
        TRY(e, ts_dense_solve_rows(p, a, NULL, 1, of->ld, my->w, NULL, s));
    if (solves(of, me))
        TRY(e, ts_dense_solve_rows(p, a, g->cells == NULL ? me->boundary[0] : NULL, 1, of->ld,
                                   my->w, my->row_inner, s));
    TRY(e, ts_dense_sum(my->row_inner, 1, my->sums, my->inner, s));
    TRY(e, ts_dense_gram_part(p, a, 1, of->ld, 0, 1, my->parts, s));
    TRY(e, ts_dense_gram_finish(1, of->ld, my->parts, my->gram, s));
    if (of->ld <= TS_DENSE_BY_VALUE)
        TRY(e, ts_dense_scale_by(p, a, 1, of->ld, my->host, of->rank, s));
    else
        TRY(e, ts_dense_scale(p, a, 1, of->ld, my->w, s));
    TRY(e, ts_dense_get(p, a, 1, of->ld, of->rank, me->stage, s));
    TRY(e, ts_dense_put(p, a, 1, of->ld, of->rank, me->stage, s));
    TRY(e, warm_graph(of, me));
    return e;
}

/* Launches the updates that read the old rows on a row of zeros, which does not change. */
static ts_gpu_error warm_own(const struct ts_gpu_model *of, struct ts_gpu_member *me)
{
    const struct ts_gpu *g = of->gpu;
    struct ts_gpu_replica *my = &me->replica[of->number];
    struct ts_descend d = {
        .precision = g->precision,
        .m = my->apart,
        .a = my->factor[0],
        .n_rows = 1,
        .ld = of->ld,
        .n_units = 1,
        .g = my->w,
        .table = my->w + (size_t)of->ld * of->ld,
        .rounds = 1,
        .rank = of->rank,
        .inverse = my->w + ((size_t)of->ld + TS_DESCEND_TABLE) * of->ld,
        .rho = 1,
        .inner = my->row_inner,
        .scratch = my->parts,
    };
    ts_gpu_error e = cudaMemsetAsync(my->w, 0, ts_gpu_host_bytes(of->ld, 1), me->dense);
    TRY(e, cudaMemsetAsync(my->apart, 0, ts_gpu_row_bytes(of), me->dense));
    for (d.simple = 0; d.simple < 2 && e == cudaSuccess; d.simple++)
        e = ts_descend_rows(&d, me->dense);
    TRY(e, ts_simplex_rows(&d, me->dense));
    TRY(e, ts_descend_keep(&d, me->dense));
    if (e != cudaSuccess || my->product == NULL)
        return e;
    d.wide = 1;
    d.m = my->product;
    for (d.simple = 0; d.simple < 2 && e == cudaSuccess; d.simple++)
        e = ts_descend_rows(&d, me->dense);
    TRY(e, ts_simplex_rows(&d, me->dense));
    return e == cudaSuccess ? ts_descend_keep(&d, me->dense) : e;
}

/* Launches the kernels for products of a dense tensor, on one cell. The contents of the tables do
 * not matter. */
static ts_gpu_error warm_products(struct ts_gpu *g, struct ts_gpu_member *me)
{
    const struct ts_cells_shape *s = &g->cells->shape;
    const struct ts_gpu_cells_member *m = &g->cells->member[me->number];
    const struct ts_cells_cut one = ts_cells_cut_of(1, 1, 1);
    const struct ts_cells_x x = {
        .cell = m->b, .narrow = s->narrow, .pitch = s->cols, .n_rows = 1, .n_cols = 1
    };
    ts_gpu_error e = ts_cells_along(&x, m->b, s->rank, s->ld, 32, m->scratch, 0, me->dense);
    TRY(e, ts_cells_across(&x, &one, m->u, m->v, 1, s->rank, s->ld, m->scratch, me->dense));
    TRY(e, ts_cells_add(m->w, m->scratch, s->ld, s->ld, 1, 1, me->dense));
    return e;
}

/* Launches the kernels for a dense tensor. */
static ts_gpu_error warm_cells(struct ts_gpu *g, struct ts_gpu_member *me)
{
    const struct ts_gpu_model *of = &g->model[0];
    const struct ts_gpu_cells_member *m = &g->cells->member[me->number];
    struct ts_cells_target t;
    uint32_t others[TS_MAX_ORDER];
    ts_gpu_error e = warm_products(g, me);
    ts_cells_target_of(&g->cells->shape, 0, &t, others);
    t.others.precision = g->precision;
    t.others.factor_ld = of->ld;
    for (uint32_t l = 0; l < t.others.n; l++)
        t.others.factor[l] = me->replica[0].factor[others[l]];
    TRY(e, ts_cells_gather(&t, ts_cells_is_outer(&g->cells->shape, 0) ? m->scratch : m->w, 0, 0, 1,
                           m->acc, me->dense));
    return e;
}

int ts_gpu_device_warm(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    struct ts_disk_shard entry = { 0 };
    struct ts_gpu_shard shard = { .raw = (void *)me->replica[0].parts };
    ts_gpu_error e = cudaSuccess;
    int rc;
    (void)arg;
    if (g->tensor->nnz == 0)
        return 0;
    rc = g->cells != NULL ? 0 : pack_one(g, me, &entry, err);
    if (rc < 0)
        return rc;
    if (g->cells != NULL) {
        e = warm_cells(g, me);
        TRY(e, ts_gpu_cells_pairs_warm(g, me));
    } else {
        shard.n_blocks = entry.n_blocks;
        shard.nnz = entry.nnz;
    }
    /* the first model's `parts` hold the packed shard of one nonzero */
    for (uint32_t k = 0; k < g->n_models && g->cells == NULL; k++)
        TRY(e, warm_product(&g->model[k], me, &shard));
    for (uint32_t k = 0; k < g->n_models; k++) {
        TRY(e, warm_dense(&g->model[k], me));
        if (me->replica[k].apart != NULL)
            TRY(e, warm_own(&g->model[k], me));
    }
    TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "the first kernels");
}
