/* SPDX-License-Identifier: BSD-3-Clause */
/* memfeed.h - a tensor packed in memory and a feed that lends its shards in a shuffled order, for
 * tests of what computes: it takes the place of stream/feed.c at link time. */
#ifndef TS_TESTS_MEMFEED_H
#define TS_TESTS_MEMFEED_H

#include "stream/feed.h"
#include "tests/support.h"

struct ts_feed {
    struct ts_tensor tensor;
    void **raw[TS_MAX_ORDER];
    uint64_t *first_partition[TS_MAX_ORDER];
    uint64_t *turn[TS_MAX_ORDER]; /* the order of delivery */
    uint64_t given, given_back;
};

/* Packs x with level orders mode, mode + 1, ..., in shards of
 * shard_partitions partitions, its values by `kind`, DICT by a dictionary of those that occur (at
 * most 4096). Shards come in file order when seed is 0. The last of `x`'s sort orders stays. */
struct ts_feed *memfeed_new(struct test_coo *x, uint32_t kind, uint32_t shard_partitions,
                            uint64_t seed);
void memfeed_free(struct ts_feed *f);

#endif
