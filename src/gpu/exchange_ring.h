/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange_ring.h - who sends what when, in an all-gather of unequal parts around a ring.
 *
 * Rank r sends to r + 1 alone: first its own spans, then, in the order in which they come, those of
 * r - 1, r - 2, ... r + 2. Over the link r -> r + 1 so travels everything but the spans
 * of r + 1, as one sequence of bytes, in rounds: a round sends what has arrived before it, at most
 * `quantum` bytes. With equal parts that is the classic ring, one part a round. When one rank has
 * nearly all, its part travels in pieces, and the ranks behind it send the first pieces on while
 * the next ones come.
 *
 * Every rank goes through the same rounds of the same plan, so both ends of a link agree.
 *
 *   owner    the caller owns parts and spans, which must stay; the plan holds no memory of its own
 *            but what ts_exchange_ring_start is given
 *   units    bytes
 *   threads  one thread for each plan
 *   errors   none
 */
#ifndef TS_GPU_EXCHANGE_RING_H
#define TS_GPU_EXCHANGE_RING_H

#include "gpu/exchange.h"

/* How far a link has come in its sequence. */
struct ts_exchange_cursor {
    uint32_t from;   /* the rank that sends on the link */
    uint32_t behind; /* spans of rank from - behind are next */
    uint32_t span;   /* that one of them, */
    uint64_t done;   /* but so many bytes of it are sent */
    uint64_t left;   /* bytes of the round that are left */
};

struct ts_exchange_ring {
    const struct ts_exchange_part *part;
    uint32_t n, rank;
    uint64_t quantum;
    uint64_t *part_bytes, *sent, *before; /* of each rank; before: sent when the round began */
    struct ts_exchange_cursor out, in;    /* rank -> rank + 1, rank - 1 -> rank */
};

/* `scratch`: 3 n elements. */
void ts_exchange_ring_start(struct ts_exchange_ring *r, const struct ts_exchange_part *part,
                            uint32_t n, uint32_t rank, uint64_t *scratch);

/* Goes to the next round: 0 when everything has arrived everywhere. A round may have nothing for
 * this rank to send, or to receive. */
int ts_exchange_ring_round(struct ts_exchange_ring *r);

/* The next piece of this round on a link, &r->out or &r->in: 0 when there is none left. */
int ts_exchange_ring_next(const struct ts_exchange_ring *r, struct ts_exchange_cursor *link,
                          struct ts_exchange_span *ret);

#endif
