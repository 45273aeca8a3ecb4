/* SPDX-License-Identifier: BSD-3-Clause */
/* Fetches the shards of a pass that the feed lends: copies each to a slot (a buffer on the device),
 * or to memory of its own if it stays on the device, and launches its kernels after the copy. */
#include <cuda_runtime.h>

#include "base/clock.h"
#include "base/trace.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_pass.h"
#include "gpu/team/gpu_team.h"

/* Shards that the feed has lent, and whose copies to the device may still run. */
struct walk {
    struct ts_gpu_pass *pass;
    struct ts_shard_view lent[TS_GPU_LENT];
    /* lent[first] is the oldest; n_leased: how many of them are in slots of the feed */
    uint32_t first, n, n_leased;
};

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "MTTKRP");
}

/* Waits for the copy of the oldest lent shard and gives that shard back to the feed. */
static int return_oldest(struct walk *w, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    const int rc = ts_gpu_team_wait(p->g, p->me, p->me->copied[w->first], err);
    /* a member (GPU) failed, but the memory must not be given back while a copy reads it */
    if (rc < 0)
        (void)cudaStreamSynchronize(p->me->copy);
    w->n_leased -= w->lent[w->first].lease != NULL;
    ts_feed_done(p->ask->feed, &w->lent[w->first]);
    w->first = (w->first + 1) % TS_GPU_LENT;
    w->n--;
    return rc;
}

/* Gives lent shards back to the feed, so that the next one can be asked for. The feed has one slot
 * more than there are members (GPUs), so a member that asks may hold only one slot
 * (stream/feed/feed.h). */
static int return_some(struct walk *w, struct ts_err *err)
{
    int rc = 0;
    while (rc == 0 && (w->n == TS_GPU_LENT || w->n_leased > 1))
        rc = return_oldest(w, err);
    return rc;
}

static int wait_for_marks(struct ts_gpu_pass *p, struct ts_err *err)
{
    uint32_t n = 0;
    int rc = 0;
    while (rc == 0 && !ts_gpu_log_room(&p->me->log)) {
        ts_gpu_team_pause(&n);
        rc = ts_gpu_team_failed(p->g, err);
    }
    return rc;
}

/* Notes on the board, which all members (GPUs) read, that this member computes the shard. Subtracts
 * the shard from those left in its chunk (part of a member's range). */
static void claim(struct ts_gpu_pass *p, uint64_t shard)
{
    struct ts_gpu_board *b = &p->g->board;
    const struct ts_gpu_mode *m = p->mode;
    uint32_t owner = 0, c = 0;
    while (shard >= m->first[owner + 1])
        owner++;
    while (shard >= ts_gpu_chunk(p->g, m, owner, c + 1))
        c++;
    b->taken[shard] = (unsigned char)p->me->number;
    if (owner != p->me->number)
        atomic_store(&b->any_stolen, 1);
    /* after `taken` was set, so that a member (GPU) that reads 0 in `left` also sees `taken` */
    atomic_fetch_sub(&b->left[owner][c], 1);
}

/* Makes the copy into a slot wait for the kernel that read the slot last. Usually that kernel has
 * ended long ago. Then the stream does not wait, and copies follow each other without a pause. */
static ts_gpu_error wait_for_slot(struct ts_gpu_member *me, const struct ts_gpu_slot *slot,
                                  int *waits)
{
    ts_gpu_error e = cudaSuccess;
    *waits = slot != NULL && ts_gpu_ended(slot->used, &e) == 0;
    return *waits ? cudaStreamWaitEvent(me->copy, slot->used, 0) : e;
}

/* Enqueues the copy of a lent shard, and sets *there to the event that is recorded after the
 * copy. */
static ts_gpu_error copy_shard(struct walk *w, const struct ts_shard_view *view, void *to,
                               const struct ts_gpu_slot *slot, ts_gpu_event *there)
{
    struct ts_gpu_pass *p = w->pass;
    struct ts_gpu_member *me = p->me;
    const size_t bytes = (size_t)view->entry->raw_bytes + TS_SHARD_SLACK;
    const uint32_t last = (w->first + w->n) % TS_GPU_LENT;
    int waits;
    ts_gpu_error e = wait_for_slot(me, slot, &waits);
    TRY(e, ts_gpu_log_copy(&me->log, me->copy, waits, view->shard, bytes));
    TRY(e, cudaMemcpyAsync(to, view->raw, bytes, cudaMemcpyHostToDevice, me->copy));
    TRY(e, cudaEventRecord(me->copied[last], me->copy));
    if (e != cudaSuccess) {
        (void)cudaStreamSynchronize(me->copy);
        ts_feed_done(p->ask->feed, view);
        return e;
    }
    p->bytes += bytes;
    w->lent[last] = *view;
    w->n_leased += view->lease != NULL;
    w->n++;
    *there = me->copied[last];
    return cudaSuccess;
}

/* Returns how many shards are launched at once: one for one model, and for several models as many
 * as leave half of the slots to copies. */
static uint32_t most_due(const struct ts_gpu_pass *p)
{
    const uint32_t half = p->g->n_slots / 2;
    if (p->n == 1 || half < 2)
        return 1;
    return half < TS_GPU_STREAMS ? half : TS_GPU_STREAMS;
}

/* Records an event for the end of the due shards, whose kernels were launched just now. The last of
 * their streams waits for their other streams. */
static ts_gpu_error end_batch(struct ts_gpu_pass *p)
{
    struct ts_gpu_member *me = p->me;
    const uint32_t last = p->due[p->n_due - 1].stream;
    ts_gpu_error e = cudaSuccess;
    for (uint32_t i = 0; i < p->n_due && e == cudaSuccess; i++) {
        const struct ts_gpu_due *d = &p->due[i];
        const ts_gpu_event ended = d->slot != NULL ? d->slot->used : me->joined[d->stream];
        e = cudaEventRecord(ended, me->compute[d->stream]);
        if (d->stream != last)
            TRY(e, cudaStreamWaitEvent(me->compute[last], ended, 0));
        p->batch_ended = ended;
    }
    return e;
}

/* Enqueues the kernels of all due shards: those whose copies are enqueued, but not their
 * kernels. */
static ts_gpu_error launch_due(struct ts_gpu_pass *p)
{
    struct ts_gpu_member *me = p->me;
    const uint32_t n = p->n_due;
    ts_gpu_error e = cudaSuccess;
    ts_gpu_stream first, last;
    if (n == 0)
        return e;
    first = me->compute[p->due[0].stream];
    last = me->compute[p->due[n - 1].stream];
    for (uint32_t i = 0; i < n && e == cudaSuccess; i++)
        e = ts_gpu_wait_for_scaling(me, me->compute[p->due[i].stream]);
    TRY(e, ts_gpu_log_start(&me->log, TS_GPU_KERNEL, n == 1 ? "shard" : "shards",
                            TS_TRACE_KERNEL + p->due[0].stream, first));
    TRY(e, ts_gpu_launch_due(p));
    TRY(e, end_batch(p));
    TRY(e, ts_gpu_log_stop(&me->log, last, p->due[0].shards.one.number, 0));
    for (uint32_t i = 0; i < n && e == cudaSuccess; i++) {
        p->unjoined |= 1u << p->due[i].stream;
        p->nnz += p->due[i].shards.one.nnz;
        claim(p, p->due[i].shards.one.number);
    }
    p->n_due = 0;
    return e;
}

/* Whether the device still computes on the shards that were launched last. */
static int is_busy(const struct ts_gpu_pass *p, ts_gpu_error *e)
{
    return p->batch_ended != NULL && ts_gpu_ended(p->batch_ended, e) == 0;
}

/* Adds a shard at `addr` to the due ones, whose kernels are not enqueued yet. The shard's kernels
 * run on the next stream after the event `there` (the end of its copy). They are enqueued now or,
 * if the device is busy, together with those of later shards. */
static ts_gpu_error add_due(struct ts_gpu_pass *p, uint64_t shard, const void *addr,
                            ts_gpu_event there, struct ts_gpu_slot *slot)
{
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = cudaStreamWaitEvent(me->compute[me->next_stream], there, 0);
    if (most_due(p) > 1)
        TRY(e, ts_gpu_log_came(&me->log, me->compute[me->next_stream]));
    p->due[p->n_due++] = (struct ts_gpu_due){
        .shards = { .one = ts_gpu_describe(p->mode, shard, addr),
                    .n_shares = ts_gpu_shares(p->mode, shard) },
        .slot = slot,
        .stream = me->next_stream,
    };
    me->next_stream = (me->next_stream + 1) % TS_GPU_STREAMS;
    if (e == cudaSuccess && p->n_due < most_due(p) && is_busy(p, &e))
        return e;
    return e == cudaSuccess ? launch_due(p) : e;
}

/* Called before the host waits for a shard. Enqueues the kernels of the due shards (copied, but not
 * computed yet), unless the device is busy and another shard is ready. */
static int launch_waiting(struct ts_gpu_pass *p, struct ts_err *err)
{
    ts_gpu_error e = cudaSuccess;
    if (p->n_due > 0 &&
        (!is_busy(p, &e) || ts_feed_waits(p->ask->feed, p->ask->mode, ts_gpu_here(p->me))))
        TRY(e, launch_due(p));
    return e == cudaSuccess ? 0 : fail(err, e);
}

static struct ts_gpu_slot *next_slot(struct ts_gpu_pass *p)
{
    struct ts_gpu_slot *slot = &p->me->slot[p->me->next_slot];
    p->me->next_slot = (p->me->next_slot + 1) % p->g->n_slots;
    /* a prefetched shard that no pass has used is dropped */
    if (slot->early.state == TS_EARLY_HERE)
        slot->early.state = TS_EARLY_NONE;
    return slot;
}

/* Enqueues the copy of a lent shard and the kernels that compute on it. */
static int take_shard(struct walk *w, const struct ts_shard_view *view, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    struct ts_gpu_mode *m = &p->g->mode[p->ask->mode];
    const int keep = m->keep[view->shard];
    struct ts_gpu_slot *slot = keep ? NULL : next_slot(p);
    char *to = keep ? p->me->kept + m->place[view->shard] : slot->addr;
    ts_gpu_event there;
    ts_gpu_error e = copy_shard(w, view, to, slot, &there);
    TRY(e, add_due(p, view->shard, to, there, slot));
    if (e != cudaSuccess)
        return fail(err, e);
    if (keep) {
        m->present[view->shard] = 1;
        p->n_filled++;
    }
    return 0;
}

/* Asks the feed for the member's next shard: 1, 0 at the end of the pass, or a failure. */
static int next_shard(struct walk *w, struct ts_shard_view *view, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    const uint64_t start = ts_clock_ns();
    const int rc = ts_feed_next(p->ask->feed, p->ask->mode, ts_gpu_here(p->me), view, err);
    p->wait_ns += ts_clock_ns() - start;
    return rc;
}

/* Takes the prefetched shards. They are computed before the kept ones, because their slots are
 * needed. Before that, copies to the other slots are enqueued, so that the link has work. */
static int take_early(struct walk *w, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    const uint32_t n_free = p->g->n_slots - ts_gpu_early_most(p->g);
    const uint32_t most = n_free < TS_GPU_LENT ? n_free : TS_GPU_LENT;
    struct ts_gpu_slot *here[TS_GPU_SLOTS];
    struct ts_shard_view view;
    uint32_t n = 0, n_copied = 0;
    ts_gpu_error e = cudaSuccess;
    int rc = 0;
    if (!ts_gpu_early_any(p))
        return 0;
    while (rc == 0 && n_copied < most) {
        rc = return_some(w, err);
        if (rc == 0)
            rc = next_shard(w, &view, err);
        if (rc <= 0)
            break;
        here[n] = ts_gpu_early_take(p, view.shard);
        if (here[n] != NULL) {
            n++;
            rc = 0;
            ts_feed_done(p->ask->feed, &view);
        } else {
            n_copied++;
            rc = take_shard(w, &view, err);
        }
    }
    for (uint32_t i = 0; i < n && rc >= 0 && e == cudaSuccess; i++)
        e = add_due(p, here[i]->early.shard, here[i]->addr, here[i]->early.arrived, here[i]);
    if (rc >= 0)
        TRY(e, launch_due(p));
    return rc < 0 ? rc : e == cudaSuccess ? 0 : fail(err, e);
}

/* Called when the last copy of the pass is enqueued: starts prefetching for the next mode. */
static int finish_copies(struct ts_gpu_pass *p, struct ts_err *err)
{
    ts_gpu_error e = launch_due(p);
    TRY(e, ts_gpu_log_copied(&p->me->log, p->me->copy));
    TRY(e, ts_gpu_early_send(p));
    return e == cudaSuccess ? 0 : fail(err, e);
}

static int take_all(struct walk *w, struct ts_err *err)
{
    struct ts_gpu_pass *p = w->pass;
    for (;;) {
        struct ts_shard_view view;
        int rc = return_some(w, err);
        if (rc == 0)
            rc = wait_for_marks(p, err);
        if (rc == 0)
            rc = launch_waiting(p, err);
        if (rc == 0) /* the shard may have been the last one of a chunk */
            rc = ts_gpu_rows_advance(p, err);
        if (rc < 0)
            return rc;
        rc = next_shard(w, &view, err);
        if (rc == 0)
            return finish_copies(p, err);
        if (rc > 0)
            rc = take_shard(w, &view, err);
        if (rc < 0)
            return rc;
    }
}

int ts_gpu_fetch_all(struct ts_gpu_pass *p, struct ts_err *err)
{
    struct walk w = { .pass = p };
    int rc = take_early(&w, err);
    if (rc == 0)
        rc = ts_gpu_kept_take(p, err);
    if (rc == 0)
        rc = take_all(&w, err);
    while (w.n > 0) {
        const int back = return_oldest(&w, rc == 0 ? err : NULL);
        rc = rc == 0 ? back : rc;
    }
    return rc;
}
