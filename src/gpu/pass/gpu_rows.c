/* SPDX-License-Identifier: BSD-3-Clause */
/* Solves for the complete rows in a pass, and sends them to the other members (GPUs), one chunk
 * (part of the member's range of shards) after another. */
#include <cuda_runtime.h>

#include "base/trace.h"
#include "gpu/rows/dense_kernel.h"
#include "gpu/team/gpu_device.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_gather.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/team/gpu_team.h"

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "row solves");
}

ts_gpu_error ts_gpu_rows_join(struct ts_gpu_pass *p)
{
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = cudaSuccess;
    for (int i = 0; i < TS_GPU_STREAMS && e == cudaSuccess; i++) {
        if ((p->unjoined & 1u << i) == 0)
            continue;
        e = cudaEventRecord(me->joined[i], me->compute[i]);
        TRY(e, cudaStreamWaitEvent(me->dense, me->joined[i], 0));
    }
    p->unjoined = 0;
    return e;
}

/* Calls the function `ready` of all models' updates, which computes the matrices that updates
 * need. */
static int make_ready(struct ts_gpu_pass *p, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < p->n && rc == 0; k++) {
        const struct ts_row_update *update = p->product[k].update;
        if (update != NULL && update->ready != NULL)
            rc = update->ready(update->ctx, err);
    }
    return rc;
}

int ts_gpu_rows_prepare(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu_board *b = &p->g->board;
    enum ts_gpu_ready is = TS_GPU_NOT_READY;
    ts_gpu_error e = cudaSuccess;
    uint32_t n = 0;
    int rc = 0;
    if (p->updating)
        return 0;
    if (atomic_compare_exchange_strong(&b->ready, &is, TS_GPU_GETTING_READY)) {
        rc = make_ready(p, err);
        if (rc == 0)
            atomic_store(&b->ready, TS_GPU_READY);
    }
    while (rc == 0 && atomic_load(&b->ready) != TS_GPU_READY) {
        ts_gpu_team_pause(&n);
        rc = ts_gpu_team_failed(p->g, err);
    }
    if (rc < 0)
        return rc;
    p->updating = 1;
    for (uint32_t k = 0; k < p->n && e == cudaSuccess; k++)
        if (p->product[k].update != NULL && !ts_gpu_solves_observed(&p->product[k]))
            e = ts_gpu_device_send_update(p->product[k].of, p->me, p->product[k].update);
    return e == cudaSuccess ? 0 : fail(err, e);
}

ts_gpu_error ts_gpu_rows_solve(struct ts_gpu_product *r, uint64_t row, const uint32_t *list,
                               uint64_t n)
{
    const struct ts_gpu *g = r->pass->g;
    struct ts_gpu_member *me = r->pass->me;
    const struct ts_gpu_replica *my = r->my;
    const uint32_t ld = r->of->ld;
    char *rows = my->factor[r->pass->ask->mode] + row * ts_gpu_row_bytes(r->of);
    double *inner = ts_gpu_gather_with_inner(r) ? my->row_inner + row : NULL;
    ts_gpu_error e;
    if (r->update == NULL || r->apart || n == 0 || ts_gpu_solves_observed(r))
        return cudaSuccess;
    e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "rows", TS_TRACE_SOLVE, me->dense);
    if (e == cudaSuccess && r->wide && my->product != NULL)
        e = ts_dense_solve_products(my->product + row * ld, (float *)rows, list, n, ld, my->w,
                                    inner, me->dense);
    else if (e == cudaSuccess)
        e = ts_dense_solve_rows(g->precision, rows, list, n, ld, my->w, inner, me->dense);
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e;
}

/* Solves the member's rows of chunk c (a part of its range) for a model, and adds them as its k-th
 * part to be sent. */
static ts_gpu_error solve_chunk(struct ts_gpu_product *r, uint32_t c, uint32_t k)
{
    struct ts_gpu_pass *p = r->pass;
    const uint64_t end = ts_gpu_chunk(p->g, p->mode, p->me->number, c + 1);
    struct ts_exchange_part *part = &r->of->sent.rows[k][p->me->number];
    uint64_t first = ts_gpu_chunk(p->g, p->mode, p->me->number, c), last, row, n;
    ts_gpu_error e = cudaSuccess;
    ts_gpu_gather_open(p, p->me->number, part);
    for (; e == cudaSuccess && ts_gpu_gather_next_run(p, p->me->number, &first, &last, end);
         first = last + 1) {
        if (!ts_gpu_gather_rows_of(r, first, last, &row, &n))
            continue;
        ts_gpu_gather_add(p, p->me->number, part, row * ts_gpu_gather_row_bytes(r),
                          n * ts_gpu_gather_row_bytes(r));
        e = ts_gpu_rows_solve(r, row, NULL, n);
    }
    ts_gpu_gather_inner(r, p->me->number, k);
    return e;
}

/* Solves the member's rows of chunk c (a part of its range), then tells the other members (GPUs)
 * that these rows can be gathered. */
static int publish(struct ts_gpu_pass *p, uint32_t c, struct ts_err *err)
{
    struct ts_gpu_board *b = &p->g->board;
    struct ts_gpu_member *me = p->me;
    const uint32_t k = p->n_published;
    const int rc = ts_gpu_rows_prepare(p, err);
    ts_gpu_error e;
    if (rc < 0)
        return rc;
    e = ts_gpu_rows_join(p);
    for (uint32_t i = 0; i < p->n && e == cudaSuccess; i++)
        e = solve_chunk(&p->product[i], c, k);
    TRY(e, cudaEventRecord(me->solved[k], me->dense));
    if (e != cudaSuccess)
        return fail(err, e);
    p->published |= 1u << c;
    p->n_published++;
    atomic_store(&b->n_published[me->number], p->n_published);
    return 0;
}

int ts_gpu_rows_send(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    while (p->n_sent < g->board.n_chunks) {
        ts_gpu_error e;
        int rc;
        for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++)
            if (atomic_load(&g->board.n_published[i]) <= p->n_sent)
                return 0;
        e = cudaStreamWaitEvent(p->me->send, p->me->solved[p->n_sent], 0);
        if (e != cudaSuccess)
            return fail(err, e);
        rc = ts_gpu_gather_rows(p, p->n_sent, err);
        if (rc == 0)
            rc = ts_gpu_gather_end(p, err);
        if (rc < 0)
            return rc;
        p->n_sent++;
    }
    return 0;
}

int ts_gpu_rows_advance(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct ts_gpu_board *b = &p->g->board;
    int rc;
    if (p->g->n_members == 1)
        return 0;
    rc = p->g->comm == NULL ? 0 : ts_gpu_team_failed(p->g, err);
    for (uint32_t c = 0; c < b->n_chunks && rc == 0; c++) {
        if ((p->published & 1u << c) != 0)
            continue;
        if (atomic_load(&b->left[p->me->number][c]) == 0)
            rc = publish(p, c, err);
        else if (p->g->comm != NULL) /* other processes expect the chunks in ascending order */
            break;
    }
    /* a gather that blocks the host is made at the end of the pass */
    if (rc < 0 || ts_exchange_blocks(p->g->exchange))
        return rc;
    return ts_gpu_rows_send(p, err);
}
