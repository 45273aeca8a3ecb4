/* SPDX-License-Identifier: BSD-3-Clause */
/* build_ranks.h - one build by several ranks (stream/comm.h): every rank parses a part of the text,
 * merges and numbers the nonzeros of a range of cells, and packs a range of each mode's copy.
 * Records travel to the rank whose range they are in, a piece at a time: through memory that ranks
 * of a machine share, to other machines by messages. Ranges are chosen by samples; records that are
 * sorted over all ranks stay where they are. The bytes that are written do not depend on it.
 *
 * A rank that fails goes to the end of its build; the others learn of it in the next agreement, or
 * when they look whether to stop. So each step that needs all ranks begins with one.
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

/* Agrees, and gives the files of rows that each rank has written to all ranks. */
int ts_build_ranks_rows(struct ts_build *b, int rc, struct ts_err *err);

/* Keeps the collected records in a spool, in the order in which they came. The last time they may
 * stay where they are, in exchange for a free room. The array of collected records is of no use
 * afterwards. */
int ts_build_ranks_keep(struct ts_build *b, int last_time, struct ts_err *err);

void ts_build_ranks_drop(struct ts_build *b);    /* drops these spools */
void ts_build_ranks_unshare(struct ts_build *b); /* frees the memory that ranks share for sorts */

/* After reading: sets counts and largest indices of all ranks, and a layout for them. */
int ts_build_ranks_read(struct ts_build *b, int rc, struct ts_err *err);

/* After each rank has merged its own cells: sets counts, used slices and values of all ranks. */
int ts_build_ranks_count(struct ts_build *b, int rc, struct ts_err *err);

struct ts_build_ranks_sort {
    struct ts_build_spool_sort sort; /* its direct_bits divide records into ranges */
    const struct ts_spool *from;
    uint32_t n_from;
    int whole; /* 1: ranks get whole partitions, except for the last rank with records */
};

/* Gives this rank's range of all ranks' records to `consume`, sorted. */
int ts_build_ranks_sort(struct ts_build *b, int rc, const struct ts_build_ranks_sort *s,
                        struct ts_err *err);

#endif
