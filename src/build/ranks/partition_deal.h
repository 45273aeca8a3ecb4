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
    const char *tmp;              /* directory of the temporary file */
    const struct ts_spare *spare; /* looked at with the first partition; NULL: there is none */
    uint64_t shard_bytes;
    struct ts_shard_writer_plan writer; /* its path is that of the file */
};

int ts_partition_deal_new(const struct ts_partition_deal_plan *plan, struct ts_partition_deal **ret,
                          struct ts_err *err);
void ts_partition_deal_free(struct ts_partition_deal *d); /* NULL is fine */

/* Spare memory for a partition, which it is given back with by add; room is 0. NULL: no more is
 * spare. */
struct ts_packed_partition *ts_partition_deal_room(struct ts_partition_deal *d, uint32_t n_words);

/* Takes this rank's next partition: as it is, in spare memory, or a copy of another. */
int ts_partition_deal_add(struct ts_partition_deal *d, struct ts_packed_partition *p,
                          struct ts_err *err);

/* rc: what packing ended with. Tells *ret of all ranks, but for the shards, and writes those of
 * this rank: where the spare memory stays, while the caller goes on. */
int ts_partition_deal_begin(struct ts_partition_deal *d, int rc, struct ts_mode_written *ret,
                            struct ts_err *err);

void ts_partition_deal_wait(struct ts_partition_deal *d); /* until they are written */

/* After begin, whatever came to pass meanwhile, which is rc: the shards of all ranks. */
int ts_partition_deal_end(struct ts_partition_deal *d, int rc, struct ts_mode_written *ret,
                          struct ts_err *err);

#endif
