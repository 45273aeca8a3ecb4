/* SPDX-License-Identifier: BSD-3-Clause */
/* run_pool.h - memory of packed partitions, which is reused for later ones.
 *
 * One thread packs a partition and another frees it, up to tens of thousands a second, each some
 * hundred kilobytes. malloc would keep a part of the freed memory for each thread, and the peak
 * would grow with the length of a build. A pool never holds more than was in use at one time.
 *
 *   owner    the pool owns free runs; the caller of get owns a run until put
 *   units    32-bit words, bytes
 *   threads  any
 *   errors   NULL without memory
 */
#ifndef TS_BUILD_RUN_POOL_H
#define TS_BUILD_RUN_POOL_H

#include <stdint.h>

#include "format/layout.h"

/* A packed partition, in one piece of memory. */
struct ts_packed_run {
    struct ts_packed_run *next;
    uint32_t room; /* words, of which n_words are used */
    uint32_t n_blocks, n_words, nnz;
    uint32_t block_at[TS_PARTITION_BLOCKS]; /* words from its start */
    uint32_t block_row[TS_PARTITION_BLOCKS];
    uint32_t row_first, row_last;
    uint32_t first_run, last_run, longest_run; /* nonzeros of the first, last, fullest row in it */
    double sum_of_squares;
    uint32_t word[]; /* n_words */
};

struct ts_run_pool;

struct ts_run_pool *ts_run_pool_new(void);
void ts_run_pool_free(struct ts_run_pool *pool); /* every run must be back; NULL is fine */

/* A run with room for n_words; its contents, except `room`, are undefined. */
struct ts_packed_run *ts_run_pool_get(struct ts_run_pool *pool, uint32_t n_words);
void ts_run_pool_put(struct ts_run_pool *pool, struct ts_packed_run *run); /* NULL pool: free */

uint64_t ts_run_pool_used(const struct ts_run_pool *pool); /* bytes of the runs in use */

#endif
