/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans a ring: computes which bytes each rank sends and receives in each round. exchange_nccl.c
 * sends the data. */
#include "gpu/exchange/exchange_ring.h"

#include <string.h>

/* Smallest number of bytes that a rank sends in a round. A round of fewer bytes takes about as long
 * as an empty one. */
#define LEAST_QUANTUM (UINT64_C(1) << 20)
#define ALIGN         512 /* pieces begin at multiples of this many bytes if spans do */

static uint32_t next_rank(uint32_t rank, uint32_t n)
{
    return rank + 1 == n ? 0 : rank + 1;
}

static uint32_t last_rank(uint32_t rank, uint32_t n)
{
    return rank == 0 ? n - 1 : rank - 1;
}

/* Returns the most bytes that a rank sends in a round. Parts (the spans of one rank) of nearly
 * equal size are sent whole, so that no short round is left at the end. */
static uint64_t choose_quantum(const uint64_t *part_bytes, uint32_t n)
{
    uint64_t most = 0, total = 0, quantum;
    for (uint32_t i = 0; i < n; i++) {
        most = part_bytes[i] > most ? part_bytes[i] : most;
        total += part_bytes[i];
    }
    quantum = total / n + total / n / 4;
    if (quantum < LEAST_QUANTUM)
        quantum = LEAST_QUANTUM;
    if (quantum > most)
        quantum = most;
    return (quantum + ALIGN - 1) / ALIGN * ALIGN;
}

void ts_exchange_ring_start(struct ts_exchange_ring *r, const struct ts_exchange_part *part,
                            uint32_t n, uint32_t rank, uint64_t *scratch)
{
    memset(r, 0, sizeof *r);
    memset(scratch, 0, 3 * (size_t)n * sizeof *scratch);
    r->part = part;
    r->n = n;
    r->rank = rank;
    r->part_bytes = scratch;
    r->sent = scratch + n;
    r->before = scratch + 2 * (size_t)n;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < part[i].n; k++)
            r->part_bytes[i] += part[i].span[k].bytes;
    r->quantum = choose_quantum(r->part_bytes, n);
    r->out.from = rank;
    r->in.from = last_rank(rank, n);
}

int ts_exchange_ring_round(struct ts_exchange_ring *r)
{
    uint64_t total = 0, moved = 0;
    memcpy(r->before, r->sent, r->n * sizeof *r->sent);
    for (uint32_t i = 0; i < r->n; i++)
        total += r->part_bytes[i];
    for (uint32_t i = 0; i < r->n; i++) {
        const uint64_t all = total - r->part_bytes[next_rank(i, r->n)];
        uint64_t here = r->part_bytes[i] + r->before[last_rank(i, r->n)];
        if (here > all)
            here = all; /* the other bytes are the spans of the receiving rank itself */
        if (here > r->before[i] + r->quantum)
            here = r->before[i] + r->quantum;
        r->sent[i] = here;
        moved += here - r->before[i];
    }
    r->out.left = r->sent[r->out.from] - r->before[r->out.from];
    r->in.left = r->sent[r->in.from] - r->before[r->in.from];
    return moved > 0;
}

int ts_exchange_ring_next(const struct ts_exchange_ring *r, struct ts_exchange_cursor *link,
                          struct ts_exchange_span *ret)
{
    while (link->left > 0) {
        const struct ts_exchange_part *p = &r->part[(link->from + r->n - link->behind) % r->n];
        if (link->span == p->n) {
            link->behind++;
            link->span = 0;
        } else if (link->done == p->span[link->span].bytes) {
            link->span++;
            link->done = 0;
        } else {
            const struct ts_exchange_span *s = &p->span[link->span];
            ret->offset = s->offset + link->done;
            ret->bytes = s->bytes - link->done < link->left ? s->bytes - link->done : link->left;
            link->done += ret->bytes;
            link->left -= ret->bytes;
            return 1;
        }
    }
    return 0;
}
