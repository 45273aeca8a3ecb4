/* SPDX-License-Identifier: BSD-3-Clause */
/* partition_pool.h - memory of packed partitions, which is reused for later ones.
 *
 * One thread packs a partition and another frees it, up to tens of thousands a second, each some
 * hundred kilobytes. malloc would keep a part of the freed memory for each thread, and the peak
 * would grow with the length of a build. A pool never holds more than was in use at one time.
 *
 *   owner    the pool owns free partitions; the caller of get owns one until put
 *   units    32-bit words, bytes
 *   threads  any
 *   errors   NULL without memory
 */
#ifndef TS_BUILD_PARTITION_POOL_H
#define TS_BUILD_PARTITION_POOL_H

#include <stdint.h>

#include "format/layout.h"

/* A packed partition, in one piece of memory. */
struct ts_packed_partition {
    struct ts_packed_partition *next;
    uint32_t room; /* words, of which n_words are used; 0: in memory that is no pool's */
    uint32_t n_blocks, n_words, nnz;
    uint32_t block_at[TS_PARTITION_BLOCKS]; /* words from its start */
    uint32_t block_row[TS_PARTITION_BLOCKS];
    uint32_t row_first, row_last;
    uint32_t first_row_nnz, last_row_nnz, largest_row_nnz; /* of the rows in it */
    double sum_of_squares;
    uint32_t word[]; /* n_words */
};

struct ts_partition_pool;

struct ts_partition_pool *ts_partition_pool_new(void);
void ts_partition_pool_free(struct ts_partition_pool *pool); /* all must be back; NULL is fine */

/* A partition with room for n_words; its contents, except `room`, are undefined. */
struct ts_packed_partition *ts_partition_pool_get(struct ts_partition_pool *pool, uint32_t n_words);
void ts_partition_pool_put(struct ts_partition_pool *pool,
                           struct ts_packed_partition *p); /* NULL pool: free; room 0: nothing */

void ts_partition_pool_trim(struct ts_partition_pool *pool); /* frees those that are not in use */

uint64_t ts_partition_pool_used(const struct ts_partition_pool *pool); /* bytes of those in use */

#endif
