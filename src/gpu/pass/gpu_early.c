/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefetches shards: while a pass ends, copies the shards that the next pass starts with to free
 * slots (buffers on the device). */
#include <cuda_runtime.h>

#include "base/clock.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_pass.h"

/* Ends prefetching for this pass: logs the prefetched shards that the pass used, and marks all
 * slots as not prefetched. The prefetch copies are done, or nearly: the pass's own copies came
 * after them in the stream. */
static ts_gpu_error forget(struct ts_gpu_pass *p)
{
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = cudaSuccess;
    for (uint32_t i = 0; i < p->g->n_slots && e == cudaSuccess; i++) {
        struct ts_gpu_early *x = &me->slot[i].early;
        if (x->state == TS_EARLY_TAKEN)
            e = ts_gpu_log_early(&me->log, x->began, x->arrived, x->given_ns, x->shard, x->bytes);
        x->state = TS_EARLY_NONE;
    }
    return e;
}

static ts_gpu_error send(struct ts_gpu_member *me, struct ts_gpu_slot *slot,
                         const struct ts_shard_view *view)
{
    struct ts_gpu_early *x = &slot->early;
    ts_gpu_error e;
    x->state = TS_EARLY_HERE;
    x->mode = view->mode;
    x->shard = view->shard;
    x->bytes = (uint64_t)view->entry->raw_bytes + TS_SHARD_SLACK;
    x->given_ns = ts_clock_ns();
    e = cudaStreamWaitEvent(me->copy, slot->used, 0);
    TRY(e, cudaEventRecord(x->began, me->copy));
    TRY(e, cudaMemcpyAsync(slot->addr, view->raw, x->bytes, cudaMemcpyHostToDevice, me->copy));
    return e == cudaSuccess ? cudaEventRecord(x->arrived, me->copy) : e;
}

ts_gpu_error ts_gpu_early_send(struct ts_gpu_pass *p)
{
    struct ts_gpu_member *me = p->me;
    struct ts_shard_view view[TS_GPU_SLOTS];
    const uint32_t n = ts_feed_expect(p->ask->feed, ts_gpu_here(me), view, ts_gpu_early_most(p->g));
    ts_gpu_error e = forget(p);
    for (uint32_t i = 0; i < n && e == cudaSuccess; i++) {
        e = send(me, &me->slot[me->next_slot], &view[i]);
        me->next_slot = (me->next_slot + 1) % p->g->n_slots;
    }
    return e;
}

static int for_pass(const struct ts_gpu_early *x, const struct ts_gpu_pass *p)
{
    return x->state == TS_EARLY_HERE && x->mode == p->ask->mode;
}

int ts_gpu_early_any(const struct ts_gpu_pass *p)
{
    for (uint32_t i = 0; i < p->g->n_slots; i++)
        if (for_pass(&p->me->slot[i].early, p))
            return 1;
    return 0;
}

struct ts_gpu_slot *ts_gpu_early_take(struct ts_gpu_pass *p, uint64_t shard)
{
    struct ts_gpu_member *me = p->me;
    for (uint32_t i = 0; i < p->g->n_slots; i++) {
        struct ts_gpu_early *x = &me->slot[i].early;
        if (!for_pass(x, p) || x->shard != shard)
            continue;
        x->state = TS_EARLY_TAKEN;
        p->bytes += x->bytes;
        p->early_bytes += x->bytes;
        return &me->slot[i];
    }
    return NULL;
}
