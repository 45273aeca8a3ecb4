/* SPDX-License-Identifier: BSD-3-Clause */
/* A member's memory and streams: how the allocation is divided, what is sent once, and a first run
 * of every kernel. */
#include <cuda_runtime.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/dense_kernel.h"
#include "gpu/edge_kernel.h"
#include "gpu/errors_kernel.h"
#include "gpu/gpu_cells.h"
#include "gpu/gpu_fail.h"
#include "gpu/held_kernel.h"
#include "gpu/loss_kernel.h"
#include "gpu/observed_long.h"
#include "gpu/score_kernel.h"
#include "gpu/simplex_kernel.h"
#include "gpu/step_kernel.h"
#include "gpu/weigh_kernel.h"

static int check(struct ts_err *err, ts_gpu_error e, const char *what)
{
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, what);
}

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the next `bytes` of the allocation at `base`. base is NULL while only the sum is
 * wanted. */
static void *take(char *base, uint64_t *used, uint64_t bytes)
{
    char *at = base == NULL ? NULL : base + *used;
    *used += (bytes + 255) / 256 * 256;
    return at;
}

/* What is divided: of all modes the largest numbers of things. */
struct sizes {
    uint64_t shares, shards, rows;
};

/* Of a model by another loss. */
static void lay_out_loss(const struct ts_gpu_model *of, const struct sizes *most,
                         struct ts_gpu_replica *my, char *base, uint64_t *used)
{
    const struct ts_gpu *g = of->gpu;
    const uint64_t column = 8 * (uint64_t)of->ld, n_drawn = ts_descent_most(of->rank);
    for (uint32_t m = 0; m < g->tensor->order; m++)
        my->group_sum[m] = take(base, used, ts_step_groups(g->mode[m].n_rows) * column);
    my->losses = take(base, used, 8 * TS_LOSS_SUMS * most->shares);
    my->closed = take(base, used, column);
    my->upto = take(base, used, column + 8);
    my->column = take(base, used, n_drawn * column);
    my->weight = take(base, used, 8 * n_drawn);
    my->cell_part = take(base, used, 2 * TS_STEP_PARTS * column);
    my->of_group = take(base, used, 8 * ts_step_groups(most->rows));
}

/* Divides a part of the allocation among what a model has. */
static void lay_out_model(const struct ts_gpu_model *of, const struct sizes *most,
                          struct ts_gpu_replica *my, char *base, uint64_t *used)
{
    const struct ts_gpu *g = of->gpu;
    const uint64_t row = ts_gpu_row_bytes(of), wide = ts_gpu_edge_bytes(of, 1);
    const uint64_t square = (uint64_t)of->ld * of->ld;
    const struct ts_gpu_mode *last = &g->mode[g->tensor->order - 1];
    for (uint32_t m = 0; m < g->tensor->order; m++)
        my->factor[m] = take(base, used, g->mode[m].n_rows * row);
    my->product = of->keeps_rest ? take(base, used, last->n_rows * wide) : NULL;
    my->apart = g->apart_rows > 0 ? take(base, used, g->apart_rows * row) : NULL;
    my->phi = g->multiplies ? take(base, used, g->apart_rows * row) : NULL;
    my->judged = g->multiplies ? take(base, used, 8 * TS_WEIGH_SUMS * most->shares) : NULL;
    my->part =
        g->observes && !ts_gpu_observed_long(of)
            ? take(base, used,
                   2 * ts_observed_units(of->ld) * most->shares * ts_gpu_observed_part_bytes(of))
            : NULL;
    my->ends =
        g->observes ? take(base, used, 2 * most->shards * ts_gpu_observed_part_bytes(of)) : NULL;
    my->place = NULL;
    if (g->observes && ts_gpu_observed_long(of)) {
        const uint64_t places = ts_gpu_observed_places(of);
        my->place = take(base, used, places * ts_observed_long_bytes(of->ld));
        my->lock = take(base, used, places * sizeof *my->lock);
    }
    my->errors =
        g->observes || g->holds_out ? take(base, used, 8 * TS_ERRORS_SUMS * most->shares) : NULL;
    my->score_share = g->scores ? take(base, used, most->shares * sizeof *my->score_share) : NULL;
    my->score_slice =
        g->slices ? take(base, used, ts_gpu_scores_rows(g) * sizeof *my->score_slice) : NULL;
    my->score_part =
        g->slices ? take(base, used, 2 * TS_SCORE_UNITS * most->shares * sizeof *my->score_part)
                  : NULL;
    if (g->descends)
        lay_out_loss(of, most, my, base, used);
    my->edge = take(base, used, 2 * more(most->shares * row, last->n_shares * wide));
    my->shard_edge = take(
        base, used, more(ts_edge_count(most->shards) * row, ts_edge_count(last->n_shards) * wide));
    my->row_inner = take(base, used, 8 * most->rows);
    my->parts = take(base, used, 8 * ts_dense_scratch(of->ld));
    my->sums = take(base, used, 8 * TS_DENSE_SUM_SCRATCH);
    my->gram = take(base, used, 8 * (square + 2));
    my->w = take(base, used, ts_gpu_host_bytes(of->ld, g->apart_rows > 0));
    my->inner = base == NULL ? NULL : my->gram + square;
}

/* Where parts of observed cells are: units of models differ. The first model has those that are of shares elsewhere. */
static uint32_t *lay_out_edge_rows(const struct ts_gpu_model *of, const struct ts_gpu_member *me,
                                   uint64_t shares, char *base, uint64_t *used)
{
    if (of->number == 0 || !of->gpu->observes || ts_gpu_observed_long(of))
        return me->edge_row;
    return take(base, used, 8 * shares * ts_observed_units(of->ld));
}

/* Divides one allocation among everything but the shards; returns its size. */
static uint64_t lay_out(const struct ts_gpu *g, struct ts_gpu_member *me, char *base)
{
    struct sizes most = { 0 };
    uint64_t used = 0;
    for (uint32_t m = 0; m < g->tensor->order; m++) {
        const struct ts_gpu_mode *mode = &g->mode[m];
        me->shard_row[m] = take(base, &used, 4 * ts_edge_count(mode->n_shards));
        me->boundary[m] = take(base, &used, 4 * mode->n_boundary);
        me->table[m].entry = take(base, &used, mode->n_shards * sizeof *me->table[m].entry);
        most.shares = more(most.shares, mode->n_shares);
        most.shards = more(most.shards, mode->n_shards);
        most.rows = more(most.rows, mode->n_rows);
    }
    me->edge_row =
        take(base, &used, 8 * most.shares * (g->observes || g->slices ? TS_OBSERVED_UNITS : 1));
    me->dict = take(base, &used, 8 * (uint64_t)g->tensor->header.n_dict + 8);
    me->stage = take(base, &used, 8 * g->stage);
    for (uint32_t k = 0; k < g->n_models; k++) {
        struct ts_gpu_replica none, *my = base == NULL ? &none : &me->replica[k];
        lay_out_model(&g->model[k], &most, my, base, &used);
        my->edge_row = lay_out_edge_rows(&g->model[k], me, most.shares, base, &used);
    }
    if (g->cells != NULL)
        ts_gpu_cells_lay_out(g, me, base, &used);
    return used;
}

uint64_t ts_gpu_device_work_bytes(const struct ts_gpu *g)
{
    struct ts_gpu_member none = { 0 };
    return lay_out(g, &none, NULL);
}

/* Sends the tables of every mode that never change. */
static ts_gpu_error send_constants(const struct ts_gpu *g, struct ts_gpu_member *me)
{
    const struct ts_tensor *t = g->tensor;
    ts_gpu_error e = cudaSuccess;
    for (uint32_t m = 0; m < t->order && e == cudaSuccess; m++) {
        const struct ts_gpu_mode *mode = &g->mode[m];
        uint32_t *row = malloc((2 * mode->n_shards + 1) * sizeof *row);
        if (row == NULL)
            return cudaErrorMemoryAllocation;
        for (uint64_t i = 0; i < mode->n_shards; i++) {
            row[2 * i] = mode->shard[i].row_first;
            row[2 * i + 1] = mode->shard[i].row_last;
        }
        e = cudaMemcpy(me->shard_row[m], row, 8 * mode->n_shards, cudaMemcpyHostToDevice);
        TRY(e, cudaMemcpy(me->boundary[m], mode->boundary, 4 * mode->n_boundary,
                          cudaMemcpyHostToDevice));
        free(row);
    }
    if (t->header.n_dict > 0)
        TRY(e, cudaMemcpy(me->dict, t->dict, 8 * (size_t)t->header.n_dict, cudaMemcpyHostToDevice));
    return e;
}

/* Stream priorities. Work that others wait for comes before work that fills the GPU. When a thread
 * block ends, its place goes to a waiting kernel of the highest priority. So in the middle of a
 * kernel over thousands of kept partitions, the rows of a finished chunk are solved and sent, and
 * shards that came over the link are computed on, which frees their slots. */
static ts_gpu_error make_streams(struct ts_gpu_member *me)
{
    int least, greatest, middle;
    ts_gpu_error e = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    middle = least > greatest ? least - 1 : least;
    TRY(e, cudaStreamCreateWithPriority(&me->copy, cudaStreamNonBlocking, greatest));
    TRY(e, cudaStreamCreateWithPriority(&me->dense, cudaStreamNonBlocking, greatest));
    TRY(e, cudaStreamCreateWithPriority(&me->send, cudaStreamNonBlocking, greatest));
    for (int i = 0; i < TS_GPU_STREAMS && e == cudaSuccess; i++)
        e = cudaStreamCreateWithPriority(&me->compute[i], cudaStreamNonBlocking, middle);
    for (int i = 0; i < TS_GPU_KEPT_STREAMS && e == cudaSuccess; i++)
        e = cudaStreamCreateWithPriority(&me->keeping[i], cudaStreamNonBlocking, least);
    return e;
}

static ts_gpu_error make_event(ts_gpu_event *ret, ts_gpu_error so_far)
{
    return so_far != cudaSuccess ? so_far : cudaEventCreateWithFlags(ret, cudaEventDisableTiming);
}

static ts_gpu_error make_events(struct ts_gpu_member *me)
{
    ts_gpu_error e = cudaSuccess;
    for (int i = 0; i < TS_GPU_STREAMS + TS_GPU_KEPT_STREAMS; i++)
        e = make_event(&me->joined[i], e);
    for (int i = 0; i < TS_GPU_CHUNKS; i++)
        e = make_event(&me->solved[i], e);
    for (int i = 0; i < TS_GPU_SLOTS; i++) {
        struct ts_gpu_early *early = &me->slot[i].early;
        e = make_event(&me->slot[i].used, e);
        TRY(e, cudaEventCreate(&early->began));
        TRY(e, cudaEventCreate(&early->arrived));
    }
    for (int i = 0; i < TS_GPU_LENT; i++)
        e = make_event(&me->copied[i], e);
    e = make_event(&me->ready, e);
    e = make_event(&me->received, e);
    e = make_event(&me->over, e);
    e = make_event(&me->scaled, e);
    return e == cudaSuccess ? ts_gpu_log_open(&me->log) : e;
}

/* Page-locked memory, a part of it for each model. */
static ts_gpu_error lock_memory(const struct ts_gpu *g, struct ts_gpu_member *me)
{
    const int own = g->apart_rows > 0;
    uint64_t bytes = 0;
    ts_gpu_error e;
    char *at;
    for (uint32_t k = 0; k < g->n_models; k++)
        bytes += ts_gpu_locked_bytes(g->model[k].ld, own);
    e = cudaHostAlloc(&me->locked, bytes, cudaHostAllocDefault);
    if (e != cudaSuccess)
        return e;
    memset(me->locked, 0, bytes);
    at = me->locked;
    for (uint32_t k = 0; k < g->n_models; k++) {
        const uint32_t ld = g->model[k].ld;
        me->replica[k].host = at;
        me->replica[k].host_scale = (double *)(at + ts_gpu_host_bytes(ld, own));
        at += ts_gpu_locked_bytes(ld, own);
    }
    return e;
}

int ts_gpu_device_open(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err)
{
    const uint64_t bytes = ts_gpu_device_work_bytes(g);
    int cache = 0;
    ts_gpu_error e = cudaSetDevice(me->device);
    me->replica = calloc(g->n_models, sizeof *me->replica);
    me->product = calloc(g->n_models, sizeof *me->product);
    if (me->replica == NULL || me->product == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u models", g->n_models);
    TRY(e, cudaMalloc((void **)&me->memory, bytes));
    if (e != cudaSuccess)
        return check(err, e, "memory for the factor matrices");
    lay_out(g, me, me->memory);
    e = cudaMemset(me->memory, 0, bytes);
    TRY(e, cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, me->device));
    me->cache_bytes = cache > 0 ? (uint64_t)cache : 0;
    TRY(e, lock_memory(g, me));
    TRY(e, send_constants(g, me));
    TRY(e, cudaDeviceSynchronize()); /* streams made below do not wait for the default one */
    TRY(e, make_streams(me));
    TRY(e, make_events(me));
    return check(err, e, "setting the GPU up");
}

/* Packs a shard of one nonzero into the memory where parts of a Gram matrix will be. */
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
    return check(err, e, "copying to the GPU");
}

/* Runs those kernels for products in float64 that this tensor needs. */
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

/* Of a model of counts; the rows that it leaves do not matter. */
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

/* Where cells may be held out. */
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
    const struct ts_disk_header *h = &g->tensor->header;
    struct ts_gpu_mttkrp args = {
        .one = *shard,
        .n_shares = 1,
        .share_blocks = TS_PARTITION_BLOCKS,
        .n_levels = g->tensor->order - 1,
        .value_kind = h->value_kind,
        .n_codes = ts_header_codes(h),
        .weights = (uint32_t)ts_tensor_weighted(g->tensor),
        .value_base = h->value_base,
        .dict = me->dict,
        .out = my->factor[0],
        .edge = my->edge,
        .edge_row = me->edge_row,
        .ld = of->ld,
    };
    ts_gpu_error e;
    for (uint32_t l = 1; l < g->tensor->order; l++)
        args.factor[l - 1] = my->factor[l];
    e = ts_mttkrp_launch(g->precision, &args, me->dense);
    TRY(e, ts_edge_fold_shards(g->precision, &args, my->shard_edge, me->dense));
    TRY(e, ts_edge_fold(g->precision, 1, my->shard_edge, me->shard_row[0], of->ld, my->factor[0],
                        me->dense));
    if (my->apart != NULL && my->phi != NULL)
        TRY(e, warm_weigh(of, me, &args));
    if (g->observes || g->descends || g->holds_out) /* singular vectors to start from, too */
        TRY(e, warm_held(of, me, &args));
    if (my->score_share != NULL)
        TRY(e, ts_gpu_scores_warm(of, me, &args));
    if (my->part != NULL || (my->place != NULL && of->rank <= TS_OBSERVED_LONG_MOST))
        TRY(e, ts_gpu_observed_warm(of, me, &args));
    if (my->apart != NULL && my->losses != NULL)
        TRY(e, ts_gpu_loss_warm(of, me, &args));
    return e == cudaSuccess && g->precision == TS_FLOAT32 ? warm_wide(of, me, &args) : e;
}

/* Solves need shared memory for whole rows; where there is none for rows as long, only products are wanted. */
static int solves(const struct ts_gpu_model *of, const struct ts_gpu_member *me)
{
    return of->ld <= ts_dense_most(me->device);
}

/* What a graph takes of the driver is memory, too. */
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

/* Descends on a row of zeros, which stays. */
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
        e = ts_gpu_cells_warm(g, me);
        TRY(e, ts_gpu_cells_pairs_warm(g, me));
    } else {
        shard.n_blocks = entry.n_blocks;
        shard.nnz = entry.nnz;
    }
    for (uint32_t k = 0; k < g->n_models && g->cells == NULL; k++) /* the first model's `parts` are
                                                                    * the shard */
        TRY(e, warm_product(&g->model[k], me, &shard));
    for (uint32_t k = 0; k < g->n_models; k++) {
        TRY(e, warm_dense(&g->model[k], me));
        if (me->replica[k].apart != NULL)
            TRY(e, warm_own(&g->model[k], me));
    }
    TRY(e, cudaStreamSynchronize(me->dense));
    return check(err, e, "the first kernels");
}

int ts_gpu_device_store(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err)
{
    ts_gpu_error e = cudaSetDevice(me->device);
    if (g->store_bytes > 0)
        TRY(e, cudaMalloc((void **)&me->store, g->store_bytes));
    if (e != cudaSuccess)
        return check(err, e, "memory for shards");
    for (uint32_t i = 0; i < g->n_slots; i++)
        me->slot[i].addr = me->store + i * g->slot_bytes;
    me->kept = me->store + g->n_slots * g->slot_bytes;
    if (g->cells != NULL)
        ts_gpu_cells_store(g, me);
    return 0;
}

static void close_events(struct ts_gpu_member *me)
{
    ts_gpu_event *const each[] = { &me->ready, &me->received, &me->over, &me->scaled };
    for (int i = 0; i < 4; i++)
        if (*each[i] != NULL)
            cudaEventDestroy(*each[i]);
    for (int i = 0; i < TS_GPU_STREAMS + TS_GPU_KEPT_STREAMS; i++)
        if (me->joined[i] != NULL)
            cudaEventDestroy(me->joined[i]);
    for (int i = 0; i < TS_GPU_CHUNKS; i++)
        if (me->solved[i] != NULL)
            cudaEventDestroy(me->solved[i]);
    for (int i = 0; i < TS_GPU_SLOTS; i++) {
        const struct ts_gpu_slot *slot = &me->slot[i];
        const ts_gpu_event of[] = { slot->used, slot->early.began, slot->early.arrived };
        for (int k = 0; k < 3; k++)
            if (of[k] != NULL)
                cudaEventDestroy(of[k]);
    }
    for (int i = 0; i < TS_GPU_LENT; i++)
        if (me->copied[i] != NULL)
            cudaEventDestroy(me->copied[i]);
    ts_gpu_log_close(&me->log);
}

void ts_gpu_device_close(struct ts_gpu_member *me)
{
    ts_gpu_stream *const each[] = { &me->copy, &me->dense, &me->send };
    const int there = me->memory != NULL && cudaSetDevice(me->device) == cudaSuccess;
    for (uint32_t k = 0; there && k < me->gpu->n_models; k++)
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            ts_gpu_graph_free(&me->replica[k].rest[m]);
    free(me->free_place);
    free(me->replica);
    free(me->product);
    if (!there)
        return;
    for (int i = 0; i < 3; i++)
        if (*each[i] != NULL)
            cudaStreamDestroy(*each[i]);
    for (int i = 0; i < TS_GPU_STREAMS; i++)
        if (me->compute[i] != NULL)
            cudaStreamDestroy(me->compute[i]);
    for (int i = 0; i < TS_GPU_KEPT_STREAMS; i++)
        if (me->keeping[i] != NULL)
            cudaStreamDestroy(me->keeping[i]);
    close_events(me);
    cudaFreeHost(me->locked);
    cudaFree(me->store);
    cudaFree(me->memory);
}

/* rank x rank values to the model's `w`, as ld x ld. */
static ts_gpu_error send_matrix(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const double *from)
{
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const size_t bytes = 8 * (size_t)of->ld * of->ld;
    memset(my->host, 0, bytes);
    for (uint32_t i = 0; i < of->rank; i++)
        memcpy((double *)my->host + (size_t)i * of->ld, from + (size_t)i * of->rank,
               8 * (size_t)of->rank);
    return ts_dense_copy(my->w, my->host, bytes, me->dense);
}

/* Steps and weights of the columns, zeros from the rank on. */
static void fill_table(const struct ts_gpu_model *of, const struct ts_row_update *how,
                       double *table)
{
    const uint32_t ld = of->ld;
    memset(table, 0, 8 * (size_t)TS_DESCEND_TABLE * ld);
    for (uint32_t r = 0; r < of->rank; r++) {
        const double square = how->matrix == NULL ? 0 : how->matrix[(size_t)r * of->rank + r];
        const int counts = square > 0 && isfinite(1 / square);
        table[TS_DESCEND_INVERSE * ld + r] = counts ? 1 / square : 0;
        table[TS_DESCEND_THRESHOLD * ld + r] = how->l1 == 0 ? 0
                                               : counts     ? how->l1 / square
                                                            : INFINITY;
        table[TS_DESCEND_LOWER * ld + r] = how->lower;
        table[TS_DESCEND_UPPER * ld + r] = how->upper;
        table[TS_DESCEND_WEIGHT * ld + r] = how->weight == NULL ? 1 : how->weight[r];
    }
}

ts_gpu_error ts_gpu_device_send_update(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                       const struct ts_row_update *how)
{
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const uint64_t bytes = ts_gpu_host_bytes(of->ld, how->kind == TS_ROW_SIMPLEX);
    double *host = my->host;
    if (!ts_row_reads_old(how->kind))
        return send_matrix(of, me, how->matrix);
    memset(host, 0, bytes);
    for (uint32_t i = 0; i < of->rank && how->matrix != NULL; i++)
        memcpy(host + (size_t)i * of->ld, how->matrix + (size_t)i * of->rank, 8 * (size_t)of->rank);
    fill_table(of, how, host + (size_t)of->ld * of->ld);
    for (uint32_t i = 0; i < of->rank && how->kind == TS_ROW_SIMPLEX; i++)
        memcpy(host + ((size_t)of->ld + TS_DESCEND_TABLE + i) * of->ld,
               how->inverse + (size_t)i * of->rank, 8 * (size_t)of->rank);
    return ts_dense_copy(my->w, host, bytes, me->dense);
}
