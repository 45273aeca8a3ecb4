/* SPDX-License-Identifier: BSD-3-Clause */
/* Finishes a pass: solves the rows that shards share, makes updates that read the old rows, and
 * computes the Gram matrix. */
#include <cuda_runtime.h>

#include "base/trace.h"
#include "gpu/rows/dense_kernel.h"
#include "gpu/sparse/edge_kernel.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_gather.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/team/gpu_team.h"

/* From this many columns on, members (GPUs) divide the rows of an update that reads the old rows.
 * The time to update a row grows with the square of the columns, the time to send it linearly; at
 * 32 columns these are about equal over NVLink. */
#define SHARE_COLUMNS 64

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "row solves");
}

/* Prepares, for a model, the spans that the member (GPU) sends last: rows that it computed in
 * ranges of other members, and edge rows (partial sums) of all its shards. */
static ts_gpu_error prepare_product(struct ts_gpu_product *r)
{
    struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu_board *b = &p->g->board;
    const struct ts_gpu_mode *m = p->mode;
    const uint32_t number = p->me->number, k = b->n_chunks;
    const uint64_t bytes = ts_gpu_gather_row_bytes(r);
    struct ts_exchange_part *rows = &r->of->sent.rows[k][number];
    ts_gpu_error e = cudaSuccess;
    uint64_t row, n;
    ts_gpu_gather_open(p, number, rows);
    for (uint64_t i = 0; i < m->n_shards && e == cudaSuccess; i++) {
        const int mine = i >= m->first[number] && i < m->first[number + 1];
        if (mine || b->taken[i] != number || !ts_gpu_gather_rows_of(r, i, i, &row, &n))
            continue;
        ts_gpu_gather_add(p, number, rows, row * bytes, n * bytes);
        e = ts_gpu_rows_solve(r, row, NULL, n);
    }
    ts_gpu_gather_inner(r, number, k);
    ts_gpu_gather_edges(r, number);
    return e;
}

/* Prepares the last gathers of a pass, for all models. */
static ts_gpu_error prepare_last(struct ts_gpu_pass *p)
{
    ts_gpu_error e = cudaSuccess;
    for (uint32_t k = 0; k < p->n && e == cudaSuccess; k++)
        e = prepare_product(&p->product[k]);
    TRY(e, cudaEventRecord(p->me->ready, p->me->dense));
    return e;
}

static int exchange_rest(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    ts_gpu_error e;
    /* now all shards are taken, and `taken` has the member (GPU) of each */
    int rc = ts_gpu_team_barrier(g, err);
    if (rc == 0)
        rc = ts_gpu_rows_advance(p, err);
    if (rc < 0)
        return rc;
    e = prepare_last(p);
    if (e != cudaSuccess)
        return fail(err, e);
    /* all members (GPUs) have published their last parts (spans to be sent) */
    rc = ts_gpu_team_barrier(g, err);
    if (rc == 0)
        rc = ts_gpu_rows_send(p, err);
    if (rc < 0)
        return rc;
    e = cudaStreamWaitEvent(p->me->send, p->me->ready, 0);
    if (e != cudaSuccess)
        return fail(err, e);
    for (uint32_t k = 0; k < p->n && rc == 0; k++) {
        struct ts_gpu_product *r = &p->product[k];
        rc = ts_gpu_gather_buffer(r, ts_gpu_solves_observed(r) ? TS_GPU_ENDS : TS_GPU_SHARD_EDGE,
                                  r->of->sent.edges, err);
    }
    if (rc == 0 && atomic_load(&g->board.any_stolen))
        rc = ts_gpu_gather_rows(p, g->board.n_chunks, err);
    return rc == 0 ? ts_gpu_rows_receive(p, err) : rc;
}

/* Makes the stream `send` wait for all work enqueued on the stream `dense` so far. */
static ts_gpu_error send_after_dense(struct ts_gpu_member *me)
{
    const ts_gpu_error e = cudaEventRecord(me->ready, me->dense);
    return e == cudaSuccess ? cudaStreamWaitEvent(me->send, me->ready, 0) : e;
}

/* Gathers the rows and sums of the units (TS_DESCEND_UNIT rows each) first[i] .. first[i + 1] - 1
 * that member i computed. */
static int gather_units(struct ts_gpu_product *r, const uint64_t *first, struct ts_err *err)
{
    struct ts_gpu_pass *p = r->pass;
    const uint64_t row = ts_gpu_row_bytes(r->of), n_rows = p->mode->n_rows,
                   n_units = ts_descend_units(n_rows);
    struct ts_exchange_span rows[TS_MAX_TEAM], sums[TS_MAX_TEAM][2];
    struct ts_exchange_part rows_of[TS_MAX_TEAM], sums_of[TS_MAX_TEAM];
    int rc;
    for (uint32_t i = 0; i < p->g->n_members; i++) {
        const uint64_t top = first[i] * TS_DESCEND_UNIT, bottom = first[i + 1] * TS_DESCEND_UNIT,
                       bytes = 8 * (first[i + 1] - first[i]);
        const uint64_t n = (bottom < n_rows ? bottom : n_rows) - top;
        rows[i] = (struct ts_exchange_span){ top * row, n * row };
        sums[i][0] = (struct ts_exchange_span){ 8 * first[i], bytes };
        sums[i][1] = (struct ts_exchange_span){ 8 * (n_units + first[i]), bytes };
        rows_of[i] = (struct ts_exchange_part){ &rows[i], bytes > 0 };
        sums_of[i] = (struct ts_exchange_part){ sums[i], bytes > 0 ? 2 : 0 };
    }
    rc = ts_gpu_gather_buffer(r, TS_GPU_FACTOR, rows_of, err);
    if (rc == 0)
        rc = ts_gpu_gather_buffer(r, TS_GPU_ROW_INNER, sums_of, err);
    return rc == 0 ? ts_gpu_rows_receive(p, err) : rc;
}

/* Makes an update that reads the old rows, once all products have arrived. Each member (GPU)
 * updates an equal part of the units (32 rows each) and sends the rows; if sending would take
 * longer than computing, each member updates all units. */
static int update_own(struct ts_gpu_product *r, struct ts_err *err)
{
    struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    const uint64_t n_units = ts_descend_units(p->mode->n_rows);
    const int shared = g->n_members > 1 && r->of->ld >= SHARE_COLUMNS;
    uint64_t first[TS_MAX_TEAM + 1];
    ts_gpu_error e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "rows", TS_TRACE_SOLVE, me->dense);
    for (uint32_t i = 0; i <= g->n_members; i++)
        first[i] = n_units * i / g->n_members;
    if (e == cudaSuccess && shared)
        e = ts_gpu_dense_own(r->of, me, p->ask->mode, r->update, r->sums, r->wide,
                             first[me->number], first[me->number + 1] - first[me->number]);
    else if (e == cudaSuccess)
        e = ts_gpu_dense_own(r->of, me, p->ask->mode, r->update, r->sums, r->wide, 0, n_units);
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    if (shared)
        TRY(e, send_after_dense(me));
    if (e != cudaSuccess)
        return fail(err, e);
    return shared ? gather_units(r, first, err) : 0;
}

/* Each member (GPU) computes an equal number of parts of the Gram matrix (sums over some rows) and
 * sends them to all. If there is one member, sum_up ends the timing of this work. */
static int gram_parts(struct ts_gpu_product *r, struct ts_err *err)
{
    struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    const uint32_t ld = r->of->ld, n_parts = ts_dense_gram_parts(ld, p->mode->n_rows);
    const uint64_t bytes = 8 * ts_dense_part_elements(ld);
    struct ts_exchange_span span[TS_MAX_TEAM];
    struct ts_exchange_part part[TS_MAX_TEAM];
    uint32_t first[TS_MAX_TEAM + 1];
    ts_gpu_error e;
    int rc;
    for (uint32_t i = 0; i <= g->n_members; i++)
        first[i] = (uint32_t)((uint64_t)n_parts * i / g->n_members);
    for (uint32_t i = 0; i < g->n_members; i++) {
        span[i] = (struct ts_exchange_span){ first[i] * bytes, (first[i + 1] - first[i]) * bytes };
        part[i] = (struct ts_exchange_part){ &span[i], first[i + 1] > first[i] };
    }
    e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "Gram matrix", TS_TRACE_SOLVE, me->dense);
    if (part[me->number].n > 0)
        TRY(e, ts_dense_gram_part(g->precision, r->my->factor[p->ask->mode], p->mode->n_rows, ld,
                                  first[me->number], first[me->number + 1] - first[me->number],
                                  r->my->parts, me->dense));
    if (g->n_members > 1) {
        TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
        TRY(e, send_after_dense(me));
    }
    if (e != cudaSuccess)
        return fail(err, e);
    if (g->n_members == 1)
        return 0;
    rc = ts_gpu_gather_buffer(r, TS_GPU_PARTS, part, err);
    return rc == 0 ? ts_gpu_rows_receive(p, err) : rc;
}

/* On member 0: computes the Gram matrix from its parts, and the other sums, and copies them to host
 * memory. */
static ts_gpu_error sum_up(struct ts_gpu_product *r)
{
    struct ts_gpu_pass *p = r->pass;
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = cudaSuccess;
    if (p->g->n_members > 1)
        e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "Gram matrix", TS_TRACE_SOLVE, me->dense);
    TRY(e, ts_gpu_dense_sum_up(r->of, me, p->ask->mode, r->update, r->sums));
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e;
}

/* Solves for the rows that several shards have in common, whose sums are complete now. With one
 * member (GPU), and for a dense tensor, solves for all rows. */
static ts_gpu_error finish_rows(struct ts_gpu_product *r)
{
    const struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    const uint32_t mode = p->ask->mode, ld = r->of->ld;
    ts_gpu_error e = cudaSuccess;
    if (p->mode->n_shards > 0 && !p->alone && r->args.out_float)
        e = ts_edge_fold_to_float(p->mode->n_shards, r->my->shard_edge, me->shard_row[mode], ld,
                                  r->args.out, me->dense);
    else if (p->mode->n_shards > 0 && !p->alone)
        e = ts_edge_fold(r->wide ? TS_FLOAT64 : g->precision, p->mode->n_shards, r->my->shard_edge,
                         me->shard_row[mode], ld, r->args.out, me->dense);
    if (e != cudaSuccess)
        return e;
    if (g->n_members == 1 || g->cells != NULL)
        return ts_gpu_rows_solve(r, 0, NULL, p->mode->n_rows);
    return ts_gpu_rows_solve(r, 0, me->boundary[mode], p->mode->n_boundary);
}

/* Finishes a pass over observed cells, where each row has its own Gram matrix. */
static int finish_observed(struct ts_gpu_product *r, struct ts_err *err)
{
    struct ts_gpu_member *me = r->pass->me;
    ts_gpu_error e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "rows", TS_TRACE_SOLVE, me->dense);
    TRY(e, ts_gpu_observed_finish(r));
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* Finishes a model's pass on this member (GPU). All rows from other members have arrived on its
 * device, except rows that several shards share, which are computed here. */
static int finish_product(struct ts_gpu_product *r, struct ts_err *err)
{
    ts_gpu_error e;
    int rc;
    if (ts_gpu_solves_observed(r))
        return finish_observed(r, err);
    e = ts_gpu_gather_sends_edges(r) ? finish_rows(r) : cudaSuccess;
    if (r->rounds > 0)
        TRY(e, ts_gpu_multiply_spans(r));
    rc = e == cudaSuccess ? 0 : fail(err, e);
    if (rc < 0 || r->update == NULL)
        return rc;
    if (r->apart)
        rc = update_own(r, err);
    if (rc == 0)
        rc = gram_parts(r, err);
    if (rc == 0 && r->pass->me == ts_gpu_first(r->pass->g)) {
        e = sum_up(r);
        rc = e == cudaSuccess ? 0 : fail(err, e);
    }
    return rc;
}

/* Enqueues on the stream `dense` all kernels that follow the product, to be recorded as a graph. */
static ts_gpu_error enqueue_rest(void *ctx)
{
    struct ts_gpu_product *r = ctx;
    const struct ts_gpu_pass *p = r->pass;
    ts_gpu_error e = ts_gpu_kept_fold(p);
    TRY(e, finish_rows(r));
    TRY(e, ts_dense_gram_part(p->g->precision, r->my->factor[p->ask->mode], p->mode->n_rows,
                              r->of->ld, 0, ts_dense_gram_parts(r->of->ld, p->mode->n_rows),
                              r->my->parts, p->me->dense));
    TRY(e, ts_gpu_dense_sum_up(r->of, p->me, p->ask->mode, r->update, r->sums));
    return e;
}

/* Launches the rest of a pass (the kernels after the product) as a graph, if all shards stay on the
 * device. The log times it as one piece of work, since it cannot record marks inside a graph. */
static int launch_rest(struct ts_gpu_product *r, struct ts_err *err)
{
    const struct ts_gpu_pass *p = r->pass;
    struct ts_gpu_member *me = p->me;
    const struct ts_gpu_graph_key key = {
        .version = p->mode->version,
        .out = r->args.out,
        .flags = r->wide | r->args.out_float << 1 | (r->sums->inner != NULL) << 2 |
                 (r->sums->size != NULL) << 3,
    };
    ts_gpu_error e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "rows", TS_TRACE_SOLVE, me->dense);
    ts_gpu_log_pause(&me->log, 1);
    if (e == cudaSuccess) {
        e = ts_gpu_graph_launch(&r->my->rest[p->ask->mode], &key, me->dense, enqueue_rest, r);
        /* no memory for the graph: enqueue the kernels one by one */
        if (e == cudaErrorMemoryAllocation) {
            (void)cudaGetLastError();
            e = enqueue_rest(r);
        }
    }
    ts_gpu_log_pause(&me->log, 0);
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* Notes that no factor is being scaled any more. */
static void end_scaling(const struct ts_gpu *g, struct ts_gpu_member *me)
{
    me->scaling = 0;
    for (uint32_t k = 0; k < g->n_models; k++)
        me->replica[k].scaling = 0;
}

int ts_gpu_rows_finish(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    int rc = ts_gpu_rows_prepare(p, err);
    ts_gpu_error e = rc == 0 ? ts_gpu_rows_join(p) : cudaSuccess;
    if (e != cudaSuccess)
        rc = fail(err, e);
    if (rc == 0 && g->n_members > 1 && g->cells == NULL)
        rc = exchange_rest(p, err);
    for (uint32_t k = 0; k < p->n && rc == 0; k++)
        rc = p->as_graph ? launch_rest(&p->product[k], err) : finish_product(&p->product[k], err);
    if (rc < 0)
        return rc;
    e = cudaEventRecord(me->over, me->dense);
    if (e != cudaSuccess)
        return fail(err, e);
    rc = ts_gpu_team_wait(g, me, me->over, err);
    if (rc < 0)
        return rc;
    end_scaling(g, me);
    e = ts_gpu_log_end(&me->log);
    if (e != cudaSuccess)
        return fail(err, e);
    if (g->exchange != NULL)
        rc = ts_exchange_check(g->exchange, me->number, err);
    for (uint32_t k = 0; k < p->n && rc == 0 && me == ts_gpu_first(g); k++)
        if (ts_gpu_solves_observed(&p->product[k]))
            ts_gpu_observed_copy_out(&p->product[k]);
        else if (p->product[k].update != NULL)
            ts_gpu_dense_copy_out(p->product[k].of, p->product[k].update, p->product[k].sums);
    return rc;
}
