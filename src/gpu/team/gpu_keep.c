/* SPDX-License-Identifier: BSD-3-Clause */
/* Balances the work of members (GPUs of the team): moves the boundaries between their ranges of
 * shards, and with them the kept shards (those that stay on a device). */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/team/gpu_fail.h"
#include "gpu/team/gpu_plan.h"
#include "gpu/team/gpu_team.h"
#include "stream/balance.h"

/* Most bytes of kept shards that are sent between processes at once, unless a single shard is
 * larger. */
#define STAGE_BYTES (UINT64_C(8) << 20)

/* A kept shard that moves to another member (GPU), and its old and new place (memory for one
 * shard). */
struct gift {
    uint64_t shard, from_place, to_place;
    uint32_t from, to; /* numbers of the members (GPUs) that give and get it */
};

struct move {
    struct ts_gpu *g;
    uint32_t mode;
    /* for each member (GPU): number of places for kept shards that are to be freed, which are
     * listed at the end of its free_place */
    uint64_t freed[TS_MAX_TEAM];
    ts_gpu_error e;
    struct gift *gift;
    uint64_t n_gifts, room;
    int no_room; /* 1: no memory for the list of gifts */
};

static uint32_t process_of(const struct ts_gpu *g, uint32_t member)
{
    uint32_t p = 0;
    while (g->comm != NULL && member >= g->first_of[p + 1])
        p++;
    return p;
}

static uint64_t bytes_of(const struct move *v, uint64_t shard)
{
    return (uint64_t)v->g->mode[v->mode].shard[shard].raw_bytes + TS_SHARD_SLACK;
}

/* Copies a kept shard to a free place (memory for one shard) of another member (GPU) of this
 * process. It uses the receiver's `send` stream, since the `copy` stream may be busy with shards of
 * the next mode. The old place stays occupied until the copies have ended. */
static void move_shard(struct move *v, const struct gift *x)
{
    struct ts_gpu *g = v->g;
    const struct ts_gpu_member *a = &g->member[x->from], *b = &g->member[x->to];
    TRY(v->e, cudaSetDevice(b->device));
    TRY(v->e, cudaMemcpyPeerAsync(b->kept + x->to_place, b->device, a->kept + x->from_place,
                                  a->device, bytes_of(v, x->shard), b->send));
}

/* Adds a shard to the list of those that are sent to another process later. */
static void note_gift(struct move *v, const struct gift *x)
{
    if (v->n_gifts == v->room) {
        const uint64_t room = 2 * v->room + 64;
        struct gift *more = realloc(v->gift, room * sizeof *more);
        if (more == NULL) {
            v->no_room = 1;
            return;
        }
        v->gift = more;
        v->room = room;
    }
    v->gift[v->n_gifts++] = *x;
}

/* Moves one shard to a neighbouring member. Returns 0 if that is not possible: the receiver has no
 * free memory for it, or it is in another process and would have to read the shard. All processes
 * decide alike, whatever happens to their devices. */
static int give(struct move *v, uint64_t shard, uint32_t from, uint32_t to)
{
    struct ts_gpu *g = v->g;
    struct ts_gpu_mode *m = &g->mode[v->mode];
    struct ts_gpu_member *a = &g->member[from], *b = &g->member[to];
    const int apart = process_of(g, from) != process_of(g, to);
    struct gift x = { .shard = shard, .from = from, .to = to };
    if (!m->keep[shard])
        return !apart;
    if (!m->present[shard] || b->n_free == 0 || (g->comm == NULL && v->e != cudaSuccess))
        return 0;
    x.from_place = m->place[shard];
    x.to_place = b->free_place[--b->n_free];
    a->free_place[g->n_places - ++v->freed[from]] = x.from_place;
    m->place[shard] = x.to_place;
    if (apart)
        note_gift(v, &x);
    else if (ts_gpu_is_here(g, from))
        move_shard(v, &x);
    return g->comm != NULL || v->e == cudaSuccess;
}

/* Moves boundary i, between members i - 1 and i, towards `want` as far as there is free memory for
 * the shards that move. It never passes a neighbouring boundary: shards move between neighbours
 * only. */
static void move_boundary(struct move *v, uint32_t i, uint64_t want, uint64_t least, uint64_t most)
{
    uint64_t *at = &v->g->mode[v->mode].first[i];
    want = want < least ? least : want > most ? most : want;
    while (*at < want && give(v, *at, i, i - 1))
        ++*at;
    while (*at > want && give(v, *at - 1, i - 1, i))
        --*at;
}

/* ---- kept shards sent between processes */

/* Returns how many gifts (kept shards that move between processes), from the k-th on, are sent at
 * once. *bytes: their total size. */
static uint64_t count_gifts(const struct move *v, uint64_t k, uint64_t *bytes)
{
    uint64_t n = 0;
    for (*bytes = 0; k + n < v->n_gifts; n++) {
        const uint64_t one = bytes_of(v, v->gift[k + n].shard);
        if (n > 0 && *bytes + one > STAGE_BYTES)
            break;
        *bytes += one;
    }
    return n;
}

/* Copies gifts of members (GPUs) of this process into the buffer or, if `out` is 1, from the buffer
 * to receivers in this process. */
static ts_gpu_error copy_gifts(const struct move *v, uint64_t k, uint64_t n, char *buffer, int out)
{
    struct ts_gpu *g = v->g;
    ts_gpu_error e = cudaSuccess;
    for (uint64_t i = k; i < k + n && e == cudaSuccess; i++) {
        const struct gift *x = &v->gift[i];
        struct ts_gpu_member *me = &g->member[out ? x->to : x->from];
        const uint64_t bytes = bytes_of(v, x->shard);
        if (ts_gpu_is_here(g, me->number)) {
            e = cudaSetDevice(me->device);
            if (out)
                TRY(e, cudaMemcpyAsync(me->kept + x->to_place, buffer, bytes,
                                       cudaMemcpyHostToDevice, me->send));
            else
                TRY(e, cudaMemcpyAsync(buffer, me->kept + x->from_place, bytes,
                                       cudaMemcpyDeviceToHost, me->send));
            TRY(e, cudaStreamSynchronize(me->send));
        }
        buffer += bytes;
    }
    return e;
}

static int send_gifts(const struct move *v, uint64_t k, uint64_t n, char *buffer,
                      struct ts_comm_move *move, struct ts_err *err)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct gift *x = &v->gift[k + i];
        const uint64_t end = at + bytes_of(v, x->shard);
        move[i] =
            (struct ts_comm_move){ process_of(v->g, x->from), process_of(v->g, x->to), at, end };
        at = end;
    }
    return v->g->comm->ops->move(v->g->comm, buffer, move, (uint32_t)n, err);
}

/* Sends all gifts (kept shards that move between processes). All processes call it. */
static int hand_over(struct move *v, struct ts_err *err)
{
    struct ts_gpu *g = v->g;
    const uint64_t largest = ts_gpu_plan_largest(g);
    char *buffer = malloc(largest > STAGE_BYTES ? largest : STAGE_BYTES);
    struct ts_comm_move *move = malloc((v->n_gifts + 1) * sizeof *move);
    uint64_t n, bytes;
    int rc = v->no_room || buffer == NULL || move == NULL
                 ? ts_fail(err, TS_ENOMEM, "out of memory for shards that move")
                 : 0;
    for (uint64_t k = 0; rc == 0 && k < v->n_gifts; k += n) {
        n = count_gifts(v, k, &bytes);
        TRY(v->e, copy_gifts(v, k, n, buffer, 0));
        rc = v->e == cudaSuccess ? 0 : ts_gpu_fail(err, v->e, "moving shards between GPUs");
        rc = ts_gpu_ranks_end(g, rc, err);
        if (rc == 0)
            rc = send_gifts(v, k, n, buffer, move, err);
        if (rc == 0)
            TRY(v->e, copy_gifts(v, k, n, buffer, 1));
    }
    free(buffer);
    free(move);
    return rc;
}

static ts_gpu_error finish(struct move *v)
{
    struct ts_gpu *g = v->g;
    ts_gpu_error e = v->e;
    for (uint32_t i = 0; i < g->n_members; i++) {
        struct ts_gpu_member *me = &g->member[i];
        if (ts_gpu_is_here(g, i)) {
            TRY(e, cudaSetDevice(me->device));
            TRY(e, cudaStreamSynchronize(me->send));
        }
        for (; v->freed[i] > 0; v->freed[i]--)
            me->free_place[me->n_free++] = me->free_place[g->n_places - v->freed[i]];
    }
    return e;
}

/* ---- balancing ranges of members */

const uint64_t *ts_gpu_keep_ranges(struct ts_gpu *g, uint32_t mode)
{
    struct ts_gpu_mode *m = &g->mode[mode];
    for (uint32_t i = 0; i <= g->n_here; i++)
        m->deal_first[i] = i == 0 ? 0 : i == g->n_here ? m->n_shards : m->first[g->first_here + i];
    return m->deal_first;
}

/* Moves all boundaries between the members' ranges of shards towards `want`. */
static int move_all(struct move *v, const uint64_t *want, struct ts_err *err)
{
    struct ts_gpu *g = v->g;
    struct ts_gpu_mode *m = &g->mode[v->mode];
    uint64_t before[TS_MAX_TEAM + 1];
    ts_gpu_error e;
    int rc = 0;
    memcpy(before, m->first, sizeof before);
    /* moves only shards that members i - 1 and i had before this call of move_all */
    for (uint32_t i = 1; i < g->n_members; i++)
        move_boundary(v, i, want[i],
                      m->first[i - 1] > before[i - 1] ? m->first[i - 1] : before[i - 1],
                      before[i + 1]);
    if (v->n_gifts > 0 || v->no_room)
        rc = hand_over(v, err);
    e = finish(v);
    if (rc == 0 && e != cudaSuccess)
        rc = ts_gpu_fail(err, e, "moving shards between GPUs");
    return rc;
}

int ts_gpu_keep_balance(struct ts_gpu *g, uint32_t mode, const uint64_t *busy_ns,
                        struct ts_feed *feed, double *share, struct ts_err *err)
{
    struct ts_gpu_mode *m = &g->mode[mode];
    struct move v = { .g = g, .mode = mode };
    uint64_t want[TS_MAX_TEAM + 1];
    int rc = 0;
    memcpy(want, m->first, sizeof want);
    if (ts_balance_move(m->shard, m->n_shards, g->n_members, busy_ns, want)) {
        rc = move_all(&v, want, err);
        free(v.gift);
        rc = ts_gpu_ranks_end(g, rc, err);
    }
    if (rc == 0 && memcmp(m->passed, m->first, sizeof m->passed) != 0) {
        m->version++;
        ts_feed_deal(feed, mode, ts_gpu_keep_ranges(g, mode));
    }
    ts_balance_shares(m->shard, m->n_shards, g->n_members, m->first, share);
    return rc;
}
