/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a member's pass over a mode. The order of work on one device, with streams in brackets; ->
 * is the order within a stream, => a wait for an event:
 *
 *   [copy]     slot's last kernel (unless it has ended) => copy a shard -> the next one ... -> the
 *              next mode's first
 *   [compute]  its copy => product -> edges inside the shard          (round robin over streams)
 *   [keeping]  product of the kept shards of a chunk -> the next but one chunk
 *   [dense]    matrices of updates -> keeping => edges inside a chunk's shards -> compute => solve
 *              its rows -> ...
 *   [send]     solve of chunk k => gather k -> gather k + 1 ... -> gather of shards' edges and of
 *              rows in shards taken from other members
 *   [dense]    send, and other members' gathers => edges between shards -> their rows -> a part of
 *              the Gram matrix
 *   [send]     the part of the Gram matrix => gather of parts
 *   [dense]    send => Gram matrix -> host
 *
 * Edges are partial sums of rows, and a chunk is a part of the member's range of shards.
 *
 * The host waits for the device at the end, after everything is enqueued. So every stream except
 * [copy] is idle when a pass begins, and no earlier work reads memory that the pass writes. With
 * one member, [dense] may still scale the columns of a factor; [compute] and [keeping] wait for
 * that. During the pass the host waits for shards, for copies out of memory that the feed lends,
 * and for the threads of other members.
 *
 * A single member sends nothing: it has one chunk, and all its rows are solved at the end. If all
 * its shards stay on the device, the work of [dense] after the product is one graph.
 *
 * If the update reads the old rows, [dense] updates no row before [send] has brought the products
 * of all rows. So a run that is stopped meanwhile still has the old rows, and units of rows are
 * independent of shards. */

#include "gpu/pass/gpu_pass.h"

#include <cuda_runtime.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/team/gpu_plan.h"
#include "gpu/team/gpu_team.h"

/* Fewest bytes of rows in a chunk (part of a member's range of shards), whose rows are gathered
 * together. A smaller gather would mostly consist of its startup time. */
#define CHUNK_BYTES (UINT64_C(4) << 20)

static void fill_products(struct ts_gpu_pass *p)
{
    p->alone = p->g->n_members == 1 && p->mode->n_shards == 1;
    p->n = p->ask->n;
    p->product = p->me->product;
    for (uint32_t k = 0; k < p->n; k++)
        ts_gpu_product_fill(p, &p->ask->of[k], &p->product[k]);
}

static int run_pass(struct ts_gpu_pass *p, struct ts_err *err)
{
    const ts_gpu_error e = ts_gpu_log_begin(&p->me->log, p->me->dense);
    const int rc = e == cudaSuccess ? ts_gpu_fetch_all(p, err) : ts_gpu_fail(err, e, "MTTKRP");
    return rc == 0 ? ts_gpu_rows_finish(p, err) : rc;
}

struct job {
    const struct ts_gpu_request *ask;
    struct ts_gpu_pass pass[TS_MAX_TEAM]; /* passes of the members (GPUs) of this process */
};

static int pass_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    struct job *j = arg;
    struct ts_gpu_pass *p = &j->pass[me->number];
    return g->cells == NULL ? run_pass(p, err) : ts_gpu_cells_run(p, j->pass, err);
}

/* Returns the number of chunks into which a member's range of shards is divided. Each chunk has at
 * least CHUNK_BYTES of rows, and at least one shard. */
static uint32_t count_chunks(const struct ts_gpu *g, const struct ts_gpu_mode *m,
                             const struct ts_gpu_request *ask)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < ask->n; k++)
        n += m->n_rows * ts_gpu_row_bytes(ask->of[k].be) / g->n_members / CHUNK_BYTES;
    if (g->n_members == 1 || n == 0 || ts_exchange_blocks(g->exchange))
        return 1;
    if (n > m->n_shards / g->n_members)
        n = m->n_shards / g->n_members > 0 ? m->n_shards / g->n_members : 1;
    return n < TS_GPU_CHUNKS ? (uint32_t)n : TS_GPU_CHUNKS;
}

/* For several processes: notes that members (GPUs) of other processes compute all shards of their
 * own ranges. */
static void note_owners(struct ts_gpu *g, const struct ts_gpu_mode *m)
{
    for (uint32_t i = 0; i < g->n_members; i++)
        memset(g->board.taken + m->first[i], (int)i, m->first[i + 1] - m->first[i]);
}

static void begin(struct ts_gpu *g, struct job *j)
{
    const struct ts_gpu_request *ask = j->ask;
    struct ts_gpu_board *b = &g->board;
    struct ts_gpu_mode *m = &g->mode[ask->mode];
    memcpy(m->passed, m->first, sizeof m->passed);
    b->n_chunks = count_chunks(g, m, ask);
    atomic_store(&b->any_stolen, 0);
    atomic_store(&b->ready, TS_GPU_NOT_READY);
    for (uint32_t i = 0; i < g->n_members; i++) {
        atomic_store(&b->n_published[i], 0);
        b->n_span[i] = 0;
        for (uint32_t c = 0; c < b->n_chunks; c++)
            atomic_store(&b->left[i][c], ts_gpu_chunk(g, m, i, c + 1) - ts_gpu_chunk(g, m, i, c));
    }
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++) {
        struct ts_gpu_pass *p = &j->pass[i];
        *p = (struct ts_gpu_pass){ .g = g, .me = &g->member[i], .ask = ask, .mode = m };
        fill_products(p);
    }
    if (g->comm == NULL)
        return;
    note_owners(g, m);
    ts_gpu_rows_expect(&j->pass[g->first_here]);
}

/* After a pass all kept shards are on the devices. Notes this for the shards of all members,
 * including those of other processes. */
static void note_kept(struct ts_gpu *g, uint32_t mode)
{
    struct ts_gpu_mode *m = &g->mode[mode];
    if (g->comm != NULL)
        memcpy(m->present, m->keep, m->n_shards);
}

int ts_gpu_pass_run(struct ts_gpu *g, const struct ts_gpu_request *ask,
                    struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct job job = { .ask = ask };
    uint64_t n_filled = 0, busy_ns[TS_MAX_TEAM];
    double share[TS_MAX_TEAM];
    int rc;
    begin(g, &job);
    ts_gpu_cells_begin(g, ask);
    if (!ts_gpu_only_sums(ask))
        ts_gpu_cells_changed(g, ask->mode);
    rc = ts_gpu_team_run(g, pass_job, &job, ask->feed, err);
    rc = ts_gpu_ranks_end(g, rc, err);
    if (rc < 0)
        return rc;
    *times = (struct ts_backend_times){
        .total_ns = ts_clock_ns() - start,
        .n_devices = g->n_here,
    };
    ts_gpu_times_collect(g, job.pass, start, times, busy_ns);
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++) {
        n_filled += job.pass[i].n_filled;
        if (g->done != NULL && job.pass[i].kept_nnz > 0)
            g->done(g->done_ctx, job.pass[i].kept_nnz);
    }
    if (n_filled > 0)
        g->mode[ask->mode].version++;
    if (g->n_members == 1 || g->cells != NULL)
        return 0;
    note_kept(g, ask->mode);
    rc = ts_gpu_ranks_times(g, times, busy_ns, err);
    if (rc < 0)
        return rc;
    rc = ts_gpu_keep_balance(g, ask->mode, busy_ns, ask->feed, share, err);
    for (uint32_t i = 0; i < g->n_members; i++)
        times->device[i].share = share[i];
    return rc;
}
