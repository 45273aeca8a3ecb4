/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a pass over the cells of a dense tensor: cells that stay on a device are computed on first.
 * The other slabs are sent as the feed lends them, and a chunk is computed on once all its slabs
 * were copied. In this picture, -> is the order within a stream, => a wait for an event:
 *
 *   [copy]   slot's last kernel => slab -> slab ... of a chunk -> the next chunk
 *   [dense]  the chunk's last copy => its kernels
 *
 * One thread enqueues for all devices, in the order of the array. */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/trace.h"
#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_pass.h"
#include "gpu/team/gpu_team.h"
#include "stream/feed/slabs.h"

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "MTTKRP");
}

/* The slabs that the feed lent last, in order, whose copies to devices may still run. Each has the
 * event after its copy. */
struct ring {
    ts_gpu_event copied[TS_GPU_CELLS_HOLD];
    /* member (GPU) that the slab is copied to; NULL: no copy */
    struct ts_gpu_member *of[TS_GPU_CELLS_HOLD];
    uint32_t next;
};

struct walk {
    struct ts_gpu_cells_job *job;
    struct ts_slabs *slabs;
    struct ring ring;
    struct ts_gpu_slot *slot; /* slot of the chunk that is being sent; NULL: the chunk stays */
    uint64_t since_ns, bytes; /* start time of sending the chunk, and its size */
};

/* Waits for the copy of the slab at entry `at` of the ring, the oldest one. The slab may then be
 * overwritten. */
static int settle(struct walk *w, uint32_t at, struct ts_err *err)
{
    struct ts_gpu_member *of = w->ring.of[at];
    int rc;
    if (of == NULL)
        return 0;
    rc = ts_gpu_team_wait(w->job->g, of, w->ring.copied[at], err);
    w->ring.of[at] = NULL;
    return rc;
}

static int wait_for_marks(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err)
{
    uint32_t n = 0;
    int rc = 0;
    while (rc == 0 && !ts_gpu_log_room(&me->log)) {
        ts_gpu_team_pause(&n);
        rc = ts_gpu_team_failed(g, err);
    }
    return rc;
}

/* Enqueues the computation on a block of cells. The block's copy to the device ends before the
 * stream reaches this computation. */
static ts_gpu_error compute(struct ts_gpu_cells_job *j, struct ts_gpu_member *me,
                            const struct ts_gpu_cells_block *block, const char *what)
{
    struct ts_gpu_pass *p = j->pass[me->number];
    ts_gpu_error e = ts_gpu_log_start(&me->log, TS_GPU_KERNEL, what, TS_TRACE_KERNEL, me->dense);
    TRY(e, j->compute(j, me, block));
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    p->nnz += block->n_rows * block->n_cols;
    return e;
}

static ts_gpu_error compute_kept(struct ts_gpu_cells_job *j, struct ts_gpu_member *me)
{
    const struct ts_gpu_cells *c = j->g->cells;
    const struct ts_gpu_cells_member *m = &c->member[me->number];
    const uint64_t row = j->rest ? m->y_end : m->row;
    const struct ts_gpu_cells_block block = { .cell = m->kept + (row - m->row) * c->shape.cols *
                                                                    c->shape.cell_bytes,
                                              .row = row,
                                              .n_rows = m->kept_end - row,
                                              .n_cols = c->shape.cols,
                                              .pitch = c->shape.cols };
    ts_gpu_error e = cudaSetDevice(me->device);
    return e == cudaSuccess ? compute(j, me, &block, "kept cells") : e;
}

/* ---- copies of slabs to devices */

/* Converts the cells of a slab to the device's type, into a page-locked buffer. */
static void convert(const struct ts_gpu_cells *c, const struct ts_slab_view *v, void *to)
{
    ts_dense_get_all(c->shape.dense, v->cells, v->part.rows * v->part.cols, c->shape.narrow,
                     c->threads, to);
}

/* Enqueues the copy of a slab. */
static int send(struct walk *w, struct ts_gpu_member *me, const struct ts_slab_view *v, void *to,
                struct ts_err *err)
{
    struct ts_gpu_cells *c = w->job->g->cells;
    const uint32_t at = w->ring.next;
    const uint64_t bytes = v->part.rows * v->part.cols * c->shape.cell_bytes;
    const void *from = v->cells;
    ts_gpu_error e;
    if (c->stage[at] != NULL) {
        convert(c, v, c->stage[at]);
        from = c->stage[at];
    }
    e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, me->copy);
    TRY(e, cudaEventRecord(me->copied[at], me->copy));
    if (e != cudaSuccess) {
        (void)cudaStreamSynchronize(me->copy);
        return fail(err, e);
    }
    w->ring.copied[at] = me->copied[at];
    w->ring.of[at] = me;
    w->ring.next = (at + 1) % TS_GPU_CELLS_HOLD;
    w->job->pass[me->number]->bytes += bytes;
    return 0;
}

/* Returns the chunk that a slab belongs to, without the address of its cells. */
static struct ts_gpu_cells_block chunk_of(const struct ts_cells_shape *s,
                                          const struct ts_dense_part *part)
{
    struct ts_gpu_cells_block b = { .row = part->row / s->chunk_rows * s->chunk_rows,
                                    .col = part->col };
    b.n_rows = s->rows - b.row < s->chunk_rows ? s->rows - b.row : s->chunk_rows;
    b.n_cols = s->cols - b.col < s->chunk_cols ? s->cols - b.col : s->chunk_cols;
    return b;
}

/* Called for the first slab of a chunk: chooses its memory on the device. If that is a slot, the
 * copies wait for the kernel that used the slot last. */
static ts_gpu_error begin_chunk(struct walk *w, struct ts_gpu_member *me, int kept, uint64_t bytes)
{
    struct ts_gpu *g = w->job->g;
    w->since_ns = ts_clock_ns();
    w->bytes = bytes;
    w->slot = NULL;
    if (kept)
        return cudaSuccess;
    w->slot = &me->slot[me->next_slot];
    me->next_slot = (me->next_slot + 1) % g->n_slots;
    return cudaStreamWaitEvent(me->copy, w->slot->used, 0);
}

/* Called after the last slab of a chunk: enqueues the computation on it. */
static ts_gpu_error end_chunk(struct walk *w, struct ts_gpu_member *me,
                              const struct ts_gpu_cells_block *block)
{
    ts_gpu_error e = cudaEventRecord(me->ready, me->copy);
    TRY(e, cudaStreamWaitEvent(me->dense, me->ready, 0));
    ts_gpu_log_pieces(&me->log, w->since_ns, w->bytes);
    TRY(e, compute(w->job, me, block, "cells"));
    if (w->slot != NULL)
        TRY(e, cudaEventRecord(w->slot->used, me->dense));
    return e;
}

static struct ts_gpu_member *owner_of(struct ts_gpu *g, uint64_t row)
{
    uint32_t i = 0;
    while (row >= g->cells->member[i].end)
        i++;
    return &g->member[i];
}

static int take_slab(struct walk *w, const struct ts_slab_view *v, struct ts_err *err)
{
    struct ts_gpu *g = w->job->g;
    const struct ts_cells_shape *s = &g->cells->shape;
    struct ts_gpu_member *me = owner_of(g, v->part.row);
    const struct ts_gpu_cells_member *m = &g->cells->member[me->number];
    const int kept = v->part.row < m->kept_end;
    struct ts_gpu_cells_block block = chunk_of(s, &v->part);
    const uint64_t in_chunk = (v->part.row - block.row) * s->cols * s->cell_bytes;
    char *base;
    ts_gpu_error e = cudaSetDevice(me->device);
    int rc;
    /* the slab is on the device already, but the feed still lends it in this pass */
    if (kept && m->here) {
        w->ring.next = (w->ring.next + 1) % TS_GPU_CELLS_HOLD;
        return 0;
    }
    if (e == cudaSuccess && v->part.row == block.row)
        e = begin_chunk(w, me, kept, block.n_rows * block.n_cols * s->cell_bytes);
    if (e != cudaSuccess)
        return fail(err, e);
    base = kept ? m->kept + ((block.row - m->row) * s->cols + block.col) * s->cell_bytes
                : w->slot->addr;
    rc = send(w, me, v, base + in_chunk, err);
    if (rc < 0 || v->part.row + v->part.rows < block.row + block.n_rows)
        return rc;
    block.cell = base;
    block.pitch = s->chunk_cols < s->cols && !kept ? block.n_cols : s->cols;
    rc = wait_for_marks(g, me, err);
    if (rc < 0)
        return rc;
    e = end_chunk(w, me, &block);
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* Takes all slabs that the feed lends: enqueues their copies, and the computation on complete
 * chunks. */
static int take_slabs(struct walk *w, struct ts_err *err)
{
    struct ts_gpu_cells_job *j = w->job;
    int rc;
    ts_slabs_rewind(w->slabs);
    for (;;) {
        struct ts_slab_view v;
        const uint64_t start = ts_clock_ns();
        uint64_t waited;
        rc = settle(w, w->ring.next, err);
        if (rc == 0)
            rc = ts_slabs_next(w->slabs, &v, err);
        if (rc <= 0)
            return rc;
        waited = ts_clock_ns() - start;
        rc = take_slab(w, &v, err);
        if (rc < 0)
            return rc;
        j->pass[owner_of(j->g, v.part.row)->number]->wait_ns += waited;
    }
}

static int all_kept(const struct ts_gpu *g)
{
    for (uint32_t i = 0; i < g->n_members; i++)
        if (!g->cells->member[i].here || g->cells->member[i].kept_end < g->cells->member[i].end)
            return 0;
    return 1;
}

/* Allocates page-locked buffers for slabs that need conversion, at the first call. */
static int open_stage(struct ts_gpu_cells *c, struct ts_err *err)
{
    const struct ts_dense *d = c->shape.dense;
    const uint64_t bytes = ts_dense_most_bytes(d) / d->cell_bytes * c->shape.cell_bytes;
    ts_gpu_error e = cudaSuccess;
    for (int i = 0; i < TS_GPU_CELLS_HOLD && !ts_gpu_cells_direct(d) && e == cudaSuccess; i++)
        if (c->stage[i] == NULL)
            e = cudaHostAlloc(&c->stage[i], bytes, cudaHostAllocPortable);
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "page-locked memory for slabs");
}

static int stream(struct ts_gpu_cells_job *j, struct ts_err *err)
{
    struct ts_gpu *g = j->g;
    struct walk w = { .job = j, .slabs = ts_feed_slabs(j->feed) };
    int rc = open_stage(g->cells, err);
    if (rc == 0)
        rc = take_slabs(&w, err);
    /* slabs are given back to the feed only after their copies have ended */
    for (uint32_t i = 0; i < TS_GPU_CELLS_HOLD; i++) {
        const uint32_t at = (w.ring.next + i) % TS_GPU_CELLS_HOLD;
        const int back = settle(&w, at, rc == 0 ? err : NULL);
        rc = rc == 0 ? back : rc;
    }
    for (uint32_t i = 0; i < g->n_members && rc < 0; i++)
        if (cudaSetDevice(g->member[i].device) == cudaSuccess)
            (void)cudaStreamSynchronize(g->member[i].copy);
    ts_slabs_rewind(w.slabs); /* frees all slots of the feed, for its reading thread */
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < g->n_members && rc == 0; i++) {
        ts_gpu_error e = cudaSetDevice(g->member[i].device);
        if (j->pass[i]->bytes > 0)
            TRY(e, ts_gpu_log_copied(&g->member[i].log, g->member[i].copy));
        rc = e == cudaSuccess ? 0 : fail(err, e);
        g->cells->member[i].here = 1;
    }
    ts_slabs_leave(w.slabs, 1);
    return rc;
}

int ts_gpu_cells_walk(struct ts_gpu_cells_job *j, struct ts_err *err)
{
    struct ts_gpu *g = j->g;
    int rc = 0;
    for (uint32_t i = 0; i < g->n_members && rc == 0; i++) {
        const struct ts_gpu_cells_member *m = &g->cells->member[i];
        ts_gpu_error e = cudaSuccess;
        if (m->here && m->kept_end > (j->rest ? m->y_end : m->row))
            e = compute_kept(j, &g->member[i]);
        rc = e == cudaSuccess ? 0 : fail(err, e);
    }
    if (rc == 0 && !all_kept(g))
        rc = stream(j, err);
    if (cudaSetDevice(g->member[0].device) != cudaSuccess && rc == 0)
        rc = fail(err, cudaErrorInvalidDevice);
    return rc;
}
