/* SPDX-License-Identifier: BSD-3-Clause */
/* build_ranks.h - divides a build between several ranks (stream/comm.h). Each rank parses a part of
 * the text, merges and numbers the nonzeros of a range of cells, and packs a range of each mode
 * copy. Each record is sent to the rank whose range it is in: through shared memory on one machine,
 * by messages between machines. Samples of the records decide where ranges begin. Records that are
 * already sorted over all ranks are not sent. The files of the tensor do not depend on the number
 * of ranks.
 *
 * A rank that fails goes on to the agreement at the end of its build. The other ranks learn of the
 * failure in their next agreement, or when they check whether to stop. So each step that needs all
 * ranks begins with an agreement.
 *
 *   owner    the build
 *   units    records, words of 8 bytes
 *   threads  the building thread
 *   errors   0 or a negative ts_code; after an agreement the same on all ranks
 */
#ifndef TS_BUILD_BUILD_RANKS_H
#define TS_BUILD_BUILD_RANKS_H

#include "build/build_steps.h"

/* Whether this rank writes the files other than shards and rows. */
int ts_build_ranks_writes(const struct ts_build *b);

/* Whether this rank writes the file of rows of a mode. The modes are divided between the ranks,
 * because each file is flushed to the disk, which takes time. */
int ts_build_ranks_writes_rows(const struct ts_build *b, uint32_t mode);

/* Agrees on rc. If no rank has failed, sends the size and hash of each file of rows from the rank
 * that has written it to all ranks. */
int ts_build_ranks_rows(struct ts_build *b, int rc, struct ts_err *err);

/* Stores the collected records of this rank in a list (spool.h), in the order in which they were
 * collected. With last_time 1, the area that holds them may become memory of the list, and b gets
 * free memory of the same size as its new area. Afterwards b->collect must not be used. */
int ts_build_ranks_keep(struct ts_build *b, int last_time, struct ts_err *err);

void ts_build_ranks_drop(struct ts_build *b);    /* frees what ts_build_ranks_keep has stored */
void ts_build_ranks_unshare(struct ts_build *b); /* frees the memory that ranks share for sorts */

/* After reading: adds up the counts of all ranks, and finds the largest indices of all ranks. Sets
 * the layout of records so that these indices fit. */
int ts_build_ranks_read(struct ts_build *b, int rc, struct ts_err *err);

/* After each rank has merged the cells of its range: combines the counts, used slices, values and
 * tree nodes of all ranks. */
int ts_build_ranks_count(struct ts_build *b, int rc, struct ts_err *err);

struct ts_build_ranks_sort {
    /* sort.direct_bits: number of first bits of a record that decide which rank gets it */
    struct ts_build_spool_sort sort;
    const struct ts_spool *from;
    uint32_t n_from;
    /* 1: each rank gets whole partitions (TS_PARTITION_NNZ records), except for the last partition
     * of all */
    int whole;
};

/* Sorts the records of all ranks. Each rank passes the records of its range to `consume`,
 * sorted. */
int ts_build_ranks_sort(struct ts_build *b, int rc, const struct ts_build_ranks_sort *s,
                        struct ts_err *err);

#endif
