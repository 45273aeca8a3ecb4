/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange_parts.h - what ranks have of a buffer, drawn by chance: for the tests of the exchange.
 *
 *   owner    parts_free frees what parts_random made
 *   units    bytes
 */
#ifndef TS_TESTS_EXCHANGE_PARTS_H
#define TS_TESTS_EXCHANGE_PARTS_H

#include "gpu/exchange/exchange.h"

#define PARTS_MAX_RANKS 8

struct parts {
    uint32_t n;
    uint64_t bytes; /* of the buffer */
    struct ts_exchange_part part[PARTS_MAX_RANKS];
    struct ts_exchange_span *span;
    unsigned char *full; /* the buffer as every rank must have it in the end */
};

/* Up to n_spans spans of 0 to most bytes (multiples of `unit`) for each rank whose bit is set in
 * `ranks`; the spans of the ranks lie between each other, with gaps. Bytes of spans are not 0,
 * others are. */
struct parts parts_random(uint64_t seed, uint32_t n, uint32_t ranks, uint32_t n_spans,
                          uint64_t most, uint64_t unit);
void parts_free(struct parts *p);

/* The buffer as rank `rank` has it before: its own spans as in p->full, all other bytes 0. */
void parts_own(const struct parts *p, uint32_t rank, unsigned char *buffer);

#endif
