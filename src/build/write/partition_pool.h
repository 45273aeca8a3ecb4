/* SPDX-License-Identifier: BSD-3-Clause */
/* partition_pool.h - allocates memory for packed partitions, and reuses it for later partitions.
 *
 * One thread packs a partition of some hundred kilobytes and another thread frees it, up to tens of
 * thousands of times per second. malloc would keep freed memory for each thread, so that the peak
 * would grow with the length of a build. A pool never holds more memory than was in use at one
 * time.
 *
 *   owner    the pool owns free partitions; the caller of get owns a partition until put
 *   units    32-bit words, bytes
 *   threads  any
 *   errors   NULL when out of memory
 */
#ifndef TS_BUILD_PARTITION_POOL_H
#define TS_BUILD_PARTITION_POOL_H

#include <stdint.h>

#include "format/layout.h"

/* A packed partition, in one block of memory. */
struct ts_packed_partition {
    struct ts_packed_partition *next;
    /* number of words allocated, of which n_words are used; 0: the memory belongs to no pool */
    uint32_t room;
    uint32_t n_blocks, n_words, nnz;
    uint32_t block_at[TS_PARTITION_BLOCKS]; /* word in `word` at which each block begins */
    uint32_t block_row[TS_PARTITION_BLOCKS];
    uint32_t row_first, row_last;
    /* number of nonzeros of the first, the last and the largest row in this partition */
    uint32_t first_row_nnz, last_row_nnz, largest_row_nnz;
    double sum_of_squares;
    uint32_t word[]; /* n_words packed words */
};

struct ts_partition_pool;

struct ts_partition_pool *ts_partition_pool_new(void);
/* pool may be NULL; no partition may be in use */
void ts_partition_pool_free(struct ts_partition_pool *pool);

/* Returns a partition with space for n_words words, or NULL. Its contents, except `room`, are
 * undefined. */
struct ts_packed_partition *ts_partition_pool_get(struct ts_partition_pool *pool, uint32_t n_words);
/* Puts a partition back into the pool, or frees it if `pool` is NULL. Does nothing if p->room is 0,
 * because its memory then belongs to no pool. */
void ts_partition_pool_put(struct ts_partition_pool *pool, struct ts_packed_partition *p);

/* frees the memory of the partitions that are not in use */
void ts_partition_pool_trim(struct ts_partition_pool *pool);

/* returns the bytes of the partitions in use */
uint64_t ts_partition_pool_used(const struct ts_partition_pool *pool);

#endif
