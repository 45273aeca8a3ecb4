/* SPDX-License-Identifier: BSD-3-Clause */
/* Divides one allocation of device memory among all arrays of a member (GPU) except its shards. */
#include "gpu/rows/dense_kernel.h"
#include "gpu/sparse/edge_kernel.h"
#include "gpu/sparse/errors_kernel.h"
#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_device.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/sparse/loss_kernel.h"
#include "gpu/observed/observed_long.h"
#include "gpu/sparse/score_kernel.h"
#include "gpu/rows/step_kernel.h"
#include "gpu/sparse/weigh_kernel.h"

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the address of the next `bytes` of the allocation at `base`, and advances *used. base
 * NULL: only advances *used. */
static void *take_bytes(char *base, uint64_t *used, uint64_t bytes)
{
    char *at = base == NULL ? NULL : base + *used;
    *used += (bytes + 255) / 256 * 256;
    return at;
}

/* The largest numbers of shares (one thread block's nonzeros each), shards and rows over all
 * modes. */
struct sizes {
    uint64_t shares, shards, rows;
};

/* Assigns parts of the allocation to the arrays of a model that descends by the gradient of a
 * loss. */
static void lay_out_loss(const struct ts_gpu_model *of, const struct sizes *most,
                         struct ts_gpu_replica *my, char *base, uint64_t *used)
{
    const struct ts_gpu *g = of->gpu;
    const uint64_t column = 8 * (uint64_t)of->ld, n_drawn = ts_descent_most(of->rank);
    for (uint32_t m = 0; m < g->tensor->order; m++)
        my->group_sum[m] = take_bytes(base, used, ts_step_groups(g->mode[m].n_rows) * column);
    my->losses = take_bytes(base, used, 8 * TS_LOSS_SUMS * most->shares);
    my->closed = take_bytes(base, used, column);
    my->upto = take_bytes(base, used, column + 8);
    my->column = take_bytes(base, used, n_drawn * column);
    my->weight = take_bytes(base, used, 8 * n_drawn);
    my->cell_part = take_bytes(base, used, 2 * TS_STEP_PARTS * column);
    my->of_group = take_bytes(base, used, 8 * ts_step_groups(most->rows));
}

/* Assigns parts of the allocation to the arrays of a model's replica. */
static void lay_out_model(const struct ts_gpu_model *of, const struct sizes *most,
                          struct ts_gpu_replica *my, char *base, uint64_t *used)
{
    const struct ts_gpu *g = of->gpu;
    const uint64_t row = ts_gpu_row_bytes(of), wide = ts_gpu_edge_bytes(of, 1);
    const uint64_t square = (uint64_t)of->ld * of->ld;
    const struct ts_gpu_mode *last = &g->mode[g->tensor->order - 1];
    for (uint32_t m = 0; m < g->tensor->order; m++)
        my->factor[m] = take_bytes(base, used, g->mode[m].n_rows * row);
    my->product = of->keeps_rest ? take_bytes(base, used, last->n_rows * wide) : NULL;
    my->apart = g->apart_rows > 0 ? take_bytes(base, used, g->apart_rows * row) : NULL;
    my->phi = g->multiplies ? take_bytes(base, used, g->apart_rows * row) : NULL;
    my->judged = g->multiplies ? take_bytes(base, used, 8 * TS_WEIGH_SUMS * most->shares) : NULL;
    my->part = g->observes && !ts_gpu_observed_long(of)
                   ? take_bytes(base, used,
                                2 * ts_observed_units(of->ld) * most->shares *
                                    ts_gpu_observed_part_bytes(of))
                   : NULL;
    my->ends = g->observes
                   ? take_bytes(base, used, 2 * most->shards * ts_gpu_observed_part_bytes(of))
                   : NULL;
    my->place = NULL;
    if (g->observes && ts_gpu_observed_long(of)) {
        const uint64_t places = ts_gpu_observed_places(of);
        my->place = take_bytes(base, used, places * ts_observed_long_bytes(of->ld));
        my->lock = take_bytes(base, used, places * sizeof *my->lock);
    }
    my->errors = g->observes || g->holds_out
                     ? take_bytes(base, used, 8 * TS_ERRORS_SUMS * most->shares)
                     : NULL;
    my->score_share =
        g->scores ? take_bytes(base, used, most->shares * sizeof *my->score_share) : NULL;
    my->score_slice =
        g->slices ? take_bytes(base, used, ts_gpu_scores_rows(g) * sizeof *my->score_slice) : NULL;
    my->score_part =
        g->slices
            ? take_bytes(base, used, 2 * TS_SCORE_UNITS * most->shares * sizeof *my->score_part)
            : NULL;
    if (g->descends)
        lay_out_loss(of, most, my, base, used);
    my->edge = take_bytes(base, used, 2 * more(most->shares * row, last->n_shares * wide));
    my->shard_edge = take_bytes(
        base, used, more(ts_edge_count(most->shards) * row, ts_edge_count(last->n_shards) * wide));
    my->row_inner = take_bytes(base, used, 8 * most->rows);
    my->parts = take_bytes(base, used, 8 * ts_dense_scratch(of->ld));
    my->sums = take_bytes(base, used, 8 * TS_DENSE_SUM_SCRATCH);
    my->gram = take_bytes(base, used, 8 * (square + 2));
    my->w = take_bytes(base, used, ts_gpu_host_bytes(of->ld, g->apart_rows > 0));
    my->inner = base == NULL ? NULL : my->gram + square;
}

/* Returns the array for the row numbers of a model's partial sums over observed cells. The number
 * of these depends on the model's units (parts of a share), so each model after the first has its
 * own array. The first model, and models without such sums, use the member's edge_row. */
static uint32_t *lay_out_edge_rows(const struct ts_gpu_model *of, const struct ts_gpu_member *me,
                                   uint64_t shares, char *base, uint64_t *used)
{
    if (of->number == 0 || !of->gpu->observes || ts_gpu_observed_long(of))
        return me->edge_row;
    return take_bytes(base, used, 8 * shares * ts_observed_units(of->ld));
}

uint64_t ts_gpu_layout(const struct ts_gpu *g, struct ts_gpu_member *me, char *base)
{
    struct sizes most = { 0 };
    uint64_t used = 0;
    for (uint32_t m = 0; m < g->tensor->order; m++) {
        const struct ts_gpu_mode *mode = &g->mode[m];
        me->shard_row[m] = take_bytes(base, &used, 4 * ts_edge_count(mode->n_shards));
        me->boundary[m] = take_bytes(base, &used, 4 * mode->n_boundary);
        me->table[m].entry = take_bytes(base, &used, mode->n_shards * sizeof *me->table[m].entry);
        most.shares = more(most.shares, mode->n_shares);
        most.shards = more(most.shards, mode->n_shards);
        most.rows = more(most.rows, mode->n_rows);
    }
    me->edge_row = take_bytes(base, &used,
                              8 * most.shares * (g->observes || g->slices ? TS_OBSERVED_UNITS : 1));
    me->dict = take_bytes(base, &used, 8 * (uint64_t)g->tensor->header.n_dict + 8);
    me->stage = take_bytes(base, &used, 8 * g->stage);
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
    return ts_gpu_layout(g, &none, NULL);
}
