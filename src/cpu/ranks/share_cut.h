/* SPDX-License-Identifier: BSD-3-Clause */
/* share_cut.h - divides the partitions of a mode among processes, and finds the rows that are cut.
 *
 * Ranges of partitions have equal predicted cost, computed from nonzeros and rows
 * (stream/balance.h). A row is cut if partitions of several processes have parts of it. The last of
 * these processes adds the parts up (folds the row).
 *
 *   owner    the caller owns all arrays
 *   units    partitions are counted over the mode; a cut is the first partition of a range
 *   threads  pure functions
 *   errors   none
 */
#ifndef TS_CPU_SHARE_CUT_H
#define TS_CPU_SHARE_CUT_H

#include "cpu/sparse/kernel.h"

/* Computes cut[0] .. cut[n]: rank r gets partitions cut[r] .. cut[r + 1] - 1. */
void ts_share_cut(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n, uint64_t *cut);

/* Returns the row number, with a fraction, at which a partition is expected to begin. It is
 * estimated from the shards alone. */
double ts_share_row_at(const struct ts_mode *mode, uint64_t partition);

/* ts_share_range_of sets begin and end: one rank has the partitions begin .. end - 1.
 * ts_share_shard_bytes returns the memory of the shards that it reads, for one mode, or for all
 * modes (-1). */
void ts_share_range_of(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                       uint32_t rank, uint64_t *begin, uint64_t *end);
uint64_t ts_share_shard_bytes(const struct ts_tensor *t, int only_mode, uint32_t n, uint32_t rank);

/* Sets first and end: shards first .. end - 1 contain partitions of the rank's range. */
void ts_share_shards_of(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                        uint32_t rank, uint64_t *first, uint64_t *end);

/* A row that has nonzeros in partitions of several ranks. Each of these partitions has a partial
 * sum of the row (a part). */
struct ts_share_row {
    uint32_t row;
    /* The rank whose partition has the first part as its last row. Equal to `to` if the first part
     * is a head (the sum of the first row of its partition). */
    uint32_t from;
    uint32_t to; /* the rank that folds (adds up) the row, the last one with a part of it */
    /* The other parts are the heads of partitions first .. last, that is the sums of their first
     * rows. */
    uint64_t first, last;
};

/* Finds the rows that are cut, at most n - 1, in ascending order. Returns their number. edge: first
 * and last rows of all n_partitions. */
uint32_t ts_share_cut_rows(const struct ts_kernel_edge *edge, uint64_t n_partitions,
                           const uint64_t *cut, uint32_t n, struct ts_share_row *ret);

/* Rank r adds up (folds) parts begin .. end - 1. Part i belongs to partition i / 2, and to its last
 * row if i is odd. There are none if begin >= end. */
void ts_share_fold_ends(const struct ts_share_row *row, uint32_t n_rows, const uint64_t *cut,
                        uint32_t r, uint64_t *begin, uint64_t *end);

/* Moves the cuts (boundaries between ranges of ranks) to the nearest ends of shards. */
void ts_share_round(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                    uint64_t *cut);

/* Rank r adds the heads (sums of first rows) of partitions begin .. end - 1 to their rows. There
 * are none if begin >= end. */
void ts_share_fold(const struct ts_share_row *row, uint32_t n_rows, const uint64_t *cut, uint32_t r,
                   uint64_t *begin, uint64_t *end);

/* Returns the number of the first part of a row. Part i belongs to partition i / 2, and to its last
 * row if i is odd. */
static inline uint64_t ts_share_first_end(const struct ts_share_row *row)
{
    return row->from == row->to ? 2 * row->first : 2 * row->first - 1;
}

/* Whether a shard with partitions first .. behind - 1 has some of the partitions begin .. end -
 * 1. */
static inline int ts_share_is_of(uint64_t begin, uint64_t end, uint64_t first, uint64_t behind)
{
    return begin < end && first < end && begin < behind;
}

#endif
