/* SPDX-License-Identifier: BSD-3-Clause */
/* Balancing: moves the boundaries between the members' ranges, and with them the shards that
 * members keep. */
#include <string.h>

#include "gpu/gpu_fail.h"
#include "gpu/gpu_state.h"
#include "stream/balance.h"

/* Copies a kept shard to a free place of another member. The copy goes on the receiver's `send`
 * stream, since its `copy` stream may be busy with shards of the next mode. The old place stays
 * taken until the copies have ended. */
static cudaError_t move_shard(struct ts_gpu *g, uint32_t mode, uint64_t shard, uint32_t from,
                              uint32_t to)
{
    struct ts_gpu_mode *m = &g->mode[mode];
    struct ts_gpu_member *a = &g->member[from], *b = &g->member[to];
    const size_t bytes = (size_t)m->shard[shard].raw_bytes + TS_SHARD_SLACK;
    const char *old = a->kept + m->place[shard];
    cudaError_t e = cudaSetDevice(b->device);
    m->place[shard] = b->free_place[--b->n_free];
    TRY(e,
        cudaMemcpyPeerAsync(b->kept + m->place[shard], b->device, old, a->device, bytes, b->send));
    return e;
}

struct move {
    struct ts_gpu *g;
    uint32_t mode;
    uint64_t freed[TS_MAX_DEVICES]; /* places to give back, listed from free_place's end */
    cudaError_t e;
};

/* Gives one shard to the next member or the one before. 0: the receiver has no place for it. */
static int give(struct move *v, uint64_t shard, uint32_t from, uint32_t to)
{
    struct ts_gpu *g = v->g;
    struct ts_gpu_mode *m = &g->mode[v->mode];
    struct ts_gpu_member *a = &g->member[from];
    if (!m->keep[shard])
        return 1;
    if (!m->present[shard] || g->member[to].n_free == 0 || v->e != cudaSuccess)
        return 0;
    a->free_place[g->n_places - ++v->freed[from]] = m->place[shard];
    v->e = move_shard(g, v->mode, shard, from, to);
    return v->e == cudaSuccess;
}

/* Moves boundary i, between members i - 1 and i, towards `want` as far as there are free places. It
 * never passes a neighbouring boundary: shards move between neighbours only. */
static void move_boundary(struct move *v, uint32_t i, uint64_t want, uint64_t least, uint64_t most)
{
    uint64_t *at = &v->g->mode[v->mode].first[i];
    want = want < least ? least : want > most ? most : want;
    while (*at < want && give(v, *at, i, i - 1))
        ++*at;
    while (*at > want && give(v, *at - 1, i - 1, i))
        --*at;
}

static cudaError_t finish(struct move *v)
{
    struct ts_gpu *g = v->g;
    cudaError_t e = v->e;
    for (uint32_t i = 0; i < g->n_members; i++) {
        struct ts_gpu_member *me = &g->member[i];
        TRY(e, cudaSetDevice(me->device));
        TRY(e, cudaStreamSynchronize(me->send));
        for (; v->freed[i] > 0; v->freed[i]--)
            me->free_place[me->n_free++] = me->free_place[g->n_places - v->freed[i]];
    }
    return e;
}

int ts_gpu_keep_balance(struct ts_gpu *g, uint32_t mode, const uint64_t *busy_ns,
                        struct ts_feed *feed, double *share, struct ts_err *err)
{
    struct ts_gpu_mode *m = &g->mode[mode];
    struct move v = { .g = g, .mode = mode };
    uint64_t want[TS_MAX_DEVICES + 1], before[TS_MAX_DEVICES + 1];
    cudaError_t e;
    memcpy(want, m->first, sizeof want);
    memcpy(before, m->first, sizeof before);
    if (ts_balance_move(m->shard, m->n_shards, g->n_members, busy_ns, want)) {
        for (uint32_t i = 1; i < g->n_members; i++) /* moves only shards that i - 1 and i had before
                                                     * this call */
            move_boundary(&v, i, want[i],
                          m->first[i - 1] > before[i - 1] ? m->first[i - 1] : before[i - 1],
                          before[i + 1]);
        e = finish(&v);
        if (e != cudaSuccess)
            return ts_gpu_fail(err, e, "moving shards between GPUs");
        if (memcmp(before, m->first, sizeof before) != 0) {
            m->version++;
            ts_feed_deal(feed, mode, m->first);
        }
    }
    ts_balance_shares(m->shard, m->n_shards, g->n_members, m->first, share);
    return 0;
}
