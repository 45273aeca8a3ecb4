/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange_ring.h - the plan of an all-gather of unequal parts around a ring of ranks.
 *
 * Rank r sends only to rank r + 1: first its own spans, then those of r - 1, r - 2, ... r + 2 in
 * the order in which it receives them. So the link r -> r + 1 carries all spans except those of r +
 * 1, as one sequence of bytes. In each round it carries at most `quantum` bytes, of those that had
 * arrived at r before the round. With equally many bytes in all ranks' spans this is the classic
 * ring, which sends one rank's spans per round. When one rank has nearly all the data, its spans
 * travel in pieces: the next ranks send the first pieces on while they receive the next ones.
 *
 * Every rank goes through the same rounds of the same plan, so both ends of a link agree on the
 * bytes of each round.
 *
 *   owner    the caller owns parts and spans, which must stay valid; the plan uses only the memory
 *            that is passed to ts_exchange_ring_start
 *   units    bytes
 *   threads  one thread for each plan
 *   errors   none
 */
#ifndef TS_GPU_EXCHANGE_RING_H
#define TS_GPU_EXCHANGE_RING_H

#include "gpu/exchange/exchange.h"

/* The position of a link in its sequence of bytes. */
struct ts_exchange_cursor {
    uint32_t from;   /* the rank that sends on the link */
    uint32_t behind; /* the spans of rank from - behind are sent next */
    uint32_t span;   /* the next span to be sent */
    uint64_t done;   /* bytes of this span that are sent */
    uint64_t left;   /* bytes of this round not sent yet */
};

struct ts_exchange_ring {
    const struct ts_exchange_part *part;
    uint32_t n, rank;
    uint64_t quantum;
    /* sent, before: bytes that each link had sent after, and before, this round */
    uint64_t *part_bytes, *sent, *before;
    /* positions of the links rank -> rank + 1 and rank - 1 -> rank */
    struct ts_exchange_cursor out, in;
};

/* Starts the plan of one rank. scratch: 3 n elements, used until the plan ends. */
void ts_exchange_ring_start(struct ts_exchange_ring *r, const struct ts_exchange_part *part,
                            uint32_t n, uint32_t rank, uint64_t *scratch);

/* Advances to the next round. Returns 0 if all ranks have all spans. In a round a rank may have
 * nothing to send, or nothing to receive. */
int ts_exchange_ring_round(struct ts_exchange_ring *r);

/* Sets *ret to the next piece of this round on a link (&r->out or &r->in). Returns 0 if none is
 * left. */
int ts_exchange_ring_next(const struct ts_exchange_ring *r, struct ts_exchange_cursor *link,
                          struct ts_exchange_span *ret);

#endif
