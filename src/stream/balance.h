/* SPDX-License-Identifier: BSD-3-Clause */
/* balance.h - divides the shards of a mode among devices.
 *
 * Devices take contiguous ranges: range g is shards first[g] .. first[g + 1] - 1. At first all
 * ranges have equal predicted cost. The cost of a shard is its nonzeros and, for each row that ends
 * in it, the write and the solve of that row. Later the boundaries follow measurements. The density
 * of a range is the time in which its device was busy, divided by the predicted cost. It is the
 * same for all shards of the range. The new boundaries divide the sum of density times cost evenly.
 * One such step is enough if some shards cost more than predicted. If a device itself is slower
 * than the others, one step moves too few shards, and a second or third step moves more.
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

#define TS_BALANCE_MOST 64u /* the most ranges of a mode */

/* Returns the predicted cost of a shard, in nonzeros. */
double ts_balance_cost(const struct ts_disk_shard *s);

void ts_balance_even(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                     uint64_t *first);

/* Moves the boundaries of the ranges after a pass in which the device of range g was busy for
 * busy_ns[g]. Returns 1, or 0 if the boundaries stay, as they do when the slowest device is at most
 * 1 % over the mean. Of a larger difference only the part beyond 1 % counts, so that noise does not
 * move shards back and forth. */
int ts_balance_move(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                    const uint64_t *busy_ns, uint64_t *first);

/* Sets share[g] to the part, from 0 to 1, of the predicted cost of the mode that is in range g. */
void ts_balance_shares(const struct ts_disk_shard *shard, uint64_t n_shards, uint32_t n,
                       const uint64_t *first, double *share);

#endif
