/* SPDX-License-Identifier: BSD-3-Clause */
/* partition_deal.h - makes the shards of one file from partitions that several ranks have packed.
 *
 * Where a shard ends depends on the sizes of all partitions before it. So each rank keeps its
 * packed partitions, in spare memory and then in a temporary file, until all ranks have exchanged
 * the sizes. Then each rank writes the shards that begin with one of its partitions. If its last
 * shard also has partitions of higher ranks, these ranks send them.
 *
 *   owner    the caller
 *   units    as in mode_writer.h
 *   threads  room: any thread, also during add; add: one thread at a time; other functions: one
 *            thread. A thread of the deal may write
 *   errors   0 or a negative ts_code; ranks agree on them in begin and end (build_comm.h)
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
    /* spare memory for packed partitions; read when the first one is packed; NULL: none */
    const struct ts_spare *spare;
    uint64_t shard_bytes;
    /* how this rank writes its shards; writer.path is the file that all ranks write */
    struct ts_shard_writer_plan writer;
};

int ts_partition_deal_new(const struct ts_partition_deal_plan *plan, struct ts_partition_deal **ret,
                          struct ts_err *err);
void ts_partition_deal_free(struct ts_partition_deal *d); /* d may be NULL */

/* Returns spare memory for a packed partition of n_words words, or NULL if too little is left. Its
 * member `room` is 0, so no pool frees it. The partition must be given to ts_partition_deal_add. */
struct ts_packed_partition *ts_partition_deal_room(struct ts_partition_deal *d, uint32_t n_words);

/* Adds the next partition of this rank. A partition in spare memory is not copied. */
int ts_partition_deal_add(struct ts_partition_deal *d, struct ts_packed_partition *p,
                          struct ts_err *err);

/* Exchanges the sizes of partitions, and writes the shards of this rank, in a thread if spare
 * memory stays available. rc: the result of packing. Sets *ret, except for the members about
 * shards. */
int ts_partition_deal_begin(struct ts_partition_deal *d, int rc, struct ts_mode_written *ret,
                            struct ts_err *err);

/* waits until the shards of this rank are written */
void ts_partition_deal_wait(struct ts_partition_deal *d);

/* To be called after begin. rc: the result of this rank's work since then. Sets the members of *ret
 * about the shards of all ranks. */
int ts_partition_deal_end(struct ts_partition_deal *d, int rc, struct ts_mode_written *ret,
                          struct ts_err *err);

#endif
