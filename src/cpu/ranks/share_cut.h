/* SPDX-License-Identifier: BSD-3-Clause */
/* share_cut.h - where the partitions of a mode are cut among processes, and which rows are cut
 * there.
 *
 * Ranges of partitions are of equal predicted cost, of nonzeros and rows (stream/balance.h). A row
 * that partitions of several processes have parts of is folded by the last of them.
 *
 *   owner    the caller owns all arrays
 *   units    partitions are counted over the mode; a cut is the first partition of a range
 *   threads  pure functions
 *   errors   none
 */
#ifndef TS_CPU_SHARE_CUT_H
#define TS_CPU_SHARE_CUT_H

#include "cpu/sparse/kernel.h"

/* cut[0] .. cut[n]: rank r computes partitions cut[r] .. cut[r + 1] - 1. */
void ts_share_cut(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n, uint64_t *cut);

/* The row, with a fraction, at which a partition may be expected to begin: shards alone are looked
 * at. */
double ts_share_row_at(const struct ts_mode *mode, uint64_t partition);

/* Partitions of one rank of them; and the memory of the shards that it reads, of one mode or (-1)
 * of all. */
void ts_share_range_of(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                       uint32_t rank, uint64_t *begin, uint64_t *end);
uint64_t ts_share_shard_bytes(const struct ts_tensor *t, int only_mode, uint32_t n, uint32_t rank);

/* The shards that have partitions of it: first .. end - 1. */
void ts_share_shards_of(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                        uint32_t rank, uint64_t *first, uint64_t *end);

/* A row that partitions of several ranks have parts of. */
struct ts_share_row {
    uint32_t row;
    /* the rank with its first part among its rows; the same as `to` where that is a head, too */
    uint32_t from;
    uint32_t to; /* the rank that folds it: the last one that has a part */
    /* last: the heads of these partitions are added, that of the last one included */
    uint64_t first, last;
};

/* The rows that are cut, at most n - 1, in order; returns their number. edge: of all
 * n_partitions. */
uint32_t ts_share_cut_rows(const struct ts_kernel_edge *edge, uint64_t n_partitions,
                           const uint64_t *cut, uint32_t n, struct ts_share_row *ret);

/* Parts begin .. end - 1 that rank r folds, as in ts_share_ends; none where begin is not below
 * end. */
void ts_share_fold_ends(const struct ts_share_row *row, uint32_t n_rows, const uint64_t *cut,
                        uint32_t r, uint64_t *begin, uint64_t *end);

/* The cuts at the nearest ends of shards. */
void ts_share_round(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                    uint64_t *cut);

/* Partitions begin .. end - 1 whose heads rank r folds; none where begin is not below end. */
void ts_share_fold(const struct ts_share_row *row, uint32_t n_rows, const uint64_t *cut, uint32_t r,
                   uint64_t *begin, uint64_t *end);

/* The part that a row begins with. */
static inline uint64_t ts_share_first_end(const struct ts_share_row *row)
{
    return row->from == row->to ? 2 * row->first : 2 * row->first - 1;
}

/* Whether a shard of partitions first .. behind - 1 has some of begin .. end - 1. */
static inline int ts_share_is_of(uint64_t begin, uint64_t end, uint64_t first, uint64_t behind)
{
    return begin < end && first < end && begin < behind;
}

#endif
