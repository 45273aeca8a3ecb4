/* SPDX-License-Identifier: BSD-3-Clause */
/* residency.h - divides a budget of memory between shards that stay and slots (buffers of one
 * shard) for the others.
 *
 * A sweep scans all shards cyclically, the worst case of every cache that evicts. So the set of
 * shards that stay is chosen once: the same share of every mode, spread evenly over the mode. Then
 * there is always a resident shard to compute on when the disk falls behind.
 *
 * The place of a shard in memory holds its bytes, then TS_SHARD_SLACK bytes that decoding may read.
 * A shard compressed by LZ4 is read to the end of its place and decompressed towards the front (LZ4
 * allows this with a margin), so no second buffer is needed.
 *
 *   owner    the caller owns the plan
 *   units    bytes; places are multiples of TS_PAGE
 *   threads  pure functions
 *   errors   TS_ENOMEM, and TS_ELIMIT if the budget is too small for the slots
 */
#ifndef TS_STREAM_RESIDENCY_H
#define TS_STREAM_RESIDENCY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/tensor.h"

#define TS_NOT_RESIDENT UINT64_MAX

struct ts_residency {
    /* byte offset of each shard in the memory of shards that stay, or TS_NOT_RESIDENT */
    uint64_t *place[TS_MAX_ORDER];
    uint64_t *first_partition[TS_MAX_ORDER]; /* number of partitions before each shard of a mode */
    uint64_t resident_bytes;
    size_t slot_bytes;
    uint32_t n_slots; /* 0 when every shard stays */
    /* where pieces of resident memory end, ascending (ts_residency_cut); or NULL */
    uint64_t *cut;
    uint32_t n_cuts;
};

/* only_mode: the only mode whose shards are lent, or -1. keep[m] has an enum ts_deal
 * (stream/feed/feed.h) for each shard: shards that a device keeps pass through a slot once and do
 * not stay. Each of n_consumers may hold a slot while it asks for another, so there is at least one
 * slot more than consumers. most_slots: a limit on the number of slots, but there are never fewer
 * than n_consumers + 1; 0: no limit. */
int ts_residency_plan(const struct ts_tensor *t, int only_mode,
                      const unsigned char *const keep[TS_MAX_ORDER], uint32_t n_consumers,
                      uint32_t most_slots, uint64_t host_bytes, struct ts_residency *ret,
                      struct ts_err *err);
void ts_residency_free(struct ts_residency *r);

/* Divides resident memory into pieces of whole shards, of at most `most` bytes, or of one larger
 * shard. */
int ts_residency_cut(const struct ts_tensor *t, uint64_t most, struct ts_residency *r,
                     struct ts_err *err);

uint64_t ts_residency_bytes(const struct ts_disk_shard *s); /* bytes that a shard takes in memory */
/* Returns the offset in a shard's memory to which its stored bytes are read. It is 0 unless the
 * shard is compressed, and then is decompressed towards the front. */
uint64_t ts_residency_read_at(const struct ts_disk_shard *s);
/* bytes of a shard on disk, in whole pages */
uint64_t ts_residency_stored(const struct ts_disk_shard *s);

#endif
