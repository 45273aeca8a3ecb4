/* SPDX-License-Identifier: BSD-3-Clause */
/* partition_deal.h - partitions that several ranks have packed become the shards of one file.
 *
 * Where a shard ends depends on the sizes of all partitions before it. So each rank keeps what it
 * has packed, in spare memory and, what is more, in a temporary file, until all sizes are known and
 * all ranks have told each other; then each writes the shards that begin in its range. Of the last
 * of them it may lack partitions, which the ranks behind it send.
 *
 *   owner    the caller
 *   units    as in mode_writer.h
 *   threads  room: any, also beside add; add: one at a time; the rest: one; a thread of its own
 *            writes
 *   errors   0 or a negative ts_code; begin and end agree on them (build_comm.h)
 */
#ifndef TS_BUILD_PARTITION_DEAL_H
#define TS_BUILD_PARTITION_DEAL_H

#include "build/ranks/build_comm.h"
#include "build/write/mode_writer.h"
#include "build/write/shard_writer.h"

struct ts_partition_deal;

struct ts_partition_deal_plan {
    struct ts_build_comm *ranks;
    const char *tmp; /* directory of the temporary file */
    /* spare memory, which is looked for with the first partition; NULL: there is none */
    const struct ts_spare *spare;
    uint64_t shard_bytes;
    struct ts_shard_writer_plan writer; /* its path is the path of the shared file */
};

int ts_partition_deal_new(const struct ts_partition_deal_plan *plan, struct ts_partition_deal **ret,
                          struct ts_err *err);
void ts_partition_deal_free(struct ts_partition_deal *d); /* d may be NULL */

/* Returns spare memory for a partition, which ts_partition_deal_add takes back. `room` is 0 there.
 * NULL: no spare memory is left. */
struct ts_packed_partition *ts_partition_deal_room(struct ts_partition_deal *d, uint32_t n_words);

/* Adds this rank's next partition: without a copy if it lies in spare memory. */
int ts_partition_deal_add(struct ts_partition_deal *d, struct ts_packed_partition *p,
                          struct ts_err *err);

/* rc: the result of packing. Sets *ret for all ranks, without shards. Writes the shards of this
 * rank, in the background if spare memory stays available. */
int ts_partition_deal_begin(struct ts_partition_deal *d, int rc, struct ts_mode_written *ret,
                            struct ts_err *err);

/* waits until the shards of this rank are written */
void ts_partition_deal_wait(struct ts_partition_deal *d);

/* To be called after begin, with the result rc of the work in between. Sets the shards of all
 * ranks. */
int ts_partition_deal_end(struct ts_partition_deal *d, int rc, struct ts_mode_written *ret,
                          struct ts_err *err);

#endif
