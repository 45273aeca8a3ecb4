/* SPDX-License-Identifier: BSD-3-Clause */
/* build_ranks.h - divides a build between several ranks (stream/comm.h). Every rank parses a part
 * of the text, merges and numbers the nonzeros of a range of cells, and packs a range of each
 * mode's copy. Records are sent, a piece at a time, to the rank whose range they are in: through
 * shared memory on one machine, by messages between machines. Ranges are chosen by samples of the
 * records. Records that are already sorted over all ranks stay where they are. The bytes that are
 * written do not depend on the number of ranks.
 *
 * A rank that fails goes to the end of its build. The others learn of the failure in the next
 * agreement, or when they check whether to stop. So each step that needs all ranks begins with an
 * agreement.
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

/* Whether this rank writes the rows of a mode. Ranks take turns, because each file is flushed to
 * the disk. */
int ts_build_ranks_writes_rows(const struct ts_build *b, uint32_t mode);

/* Agrees, and tells all ranks the size and hash of each file of rows, which one rank has
 * written. */
int ts_build_ranks_rows(struct ts_build *b, int rc, struct ts_err *err);

/* Stores the collected records of this rank in a spool, in the order in which they came. With
 * last_time, their array may become the spool's memory, in exchange for a free room of the same
 * size. The array must not be used afterwards. */
int ts_build_ranks_keep(struct ts_build *b, int last_time, struct ts_err *err);

void ts_build_ranks_drop(struct ts_build *b);    /* frees the spools of ts_build_ranks_keep */
void ts_build_ranks_unshare(struct ts_build *b); /* frees the memory that ranks share for sorts */

/* After reading: adds up the counts of all ranks, and sets the largest indices and the layout of
 * records for them. */
int ts_build_ranks_read(struct ts_build *b, int rc, struct ts_err *err);

/* After each rank has merged its own cells: combines the counts, used slices and values of all
 * ranks. */
int ts_build_ranks_count(struct ts_build *b, int rc, struct ts_err *err);

struct ts_build_ranks_sort {
    /* its direct_bits are the bits of a record that decide its range */
    struct ts_build_spool_sort sort;
    const struct ts_spool *from;
    uint32_t n_from;
    /* 1: each rank gets whole partitions (TS_PARTITION_NNZ records), except the last rank with
     * records */
    int whole;
};

/* Sorts the records of all ranks: each rank passes the records in its range to `consume`,
 * sorted. */
int ts_build_ranks_sort(struct ts_build *b, int rc, const struct ts_build_ranks_sort *s,
                        struct ts_err *err);

#endif
