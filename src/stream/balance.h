/* SPDX-License-Identifier: BSD-3-Clause */
/* balance.h - which shards of a mode go to which device.
 *
 * Devices take contiguous ranges: range g is shards first[g] .. first[g + 1] - 1. They start even by
 * predicted cost, a shard's being its nonzeros and, for each row it ends, the write and the solve of
 * that row. From then on the boundaries follow what was measured: each range gets the density of
 * time that it had (busy time over predicted cost, the same for all of its shards), and boundaries go
 * where they cut the sum of these densities evenly. That holds for shards that are dearer than
 * predicted; for a device that is slower than the others it moves too little at a time, and a
 * second or third measurement completes it.
 *
 *   owner    the caller owns all arrays; `first` has n + 1 entries, 0 <= ... <= n_shards
 *   units    nanoseconds of any one clock; shares are 0 to 1
 *   threads  pure functions
 *   errors   none; there may be more ranges than shards, some are empty then
 */
#ifndef TS_STREAM_BALANCE_H
#define TS_STREAM_BALANCE_H

#include <stdint.h>

#include "format/layout.h"

#define TS_BALANCE_MOST 16u /* ranges */

void ts_balance_even(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                     uint64_t *first);

/* Moves the boundaries after a pass in which range g kept its device busy for busy_ns[g]: 1, or 0 when
 * they stay. They stay when the slowest is at most 1 % over the mean, and a difference counts only by
 * what it has beyond that, so that noise does not send shards back and forth. */
int ts_balance_move(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                    const uint64_t *busy_ns, uint64_t *first);

/* What part of the predicted cost each range has. */
void ts_balance_shares(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                       const uint64_t *first, double *share);

#endif
