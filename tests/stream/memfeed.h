/* SPDX-License-Identifier: BSD-3-Clause */
/* memfeed.h - a tensor packed in memory and a feed that lends its shards in a shuffled order, for
 * tests of what computes: it takes the place of stream/feed/feed.c at link time. */
#ifndef TS_TESTS_MEMFEED_H
#define TS_TESTS_MEMFEED_H

#include "stream/backend.h"
#include "stream/feed/feed.h"
#include "tests/support/support.h"

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

/* factor[m] := dim[m] x rank entries, each what `entry` makes of a random number in (0, 1), rounded
 * as a backend of that precision does. entry NULL: the number. */
void memfeed_factors_new(const struct test_coo *x, uint32_t rank, enum ts_precision precision,
                         double (*entry)(double u), double **factor);
void memfeed_factors_free(const struct test_coo *x, double **factor);

/* A backend for the feed's tensor, which holds the factors. spare: quarters of what it wishes
 * for. */
void *memfeed_backend_new(const struct ts_backend *backend, struct ts_backend_conf *conf,
                          const struct ts_feed *f, uint32_t spare, double **factor);

#endif
