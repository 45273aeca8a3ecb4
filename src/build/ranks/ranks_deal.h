/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks_deal.h - sends each record to the rank whose range it is in.
 *
 *   ranks_deal.c    prepares the rounds, and sorts and passes on the received records
 *   ranks_splits.c  finds where ranges begin: from records that are already sorted, or by samples
 *   ranks_round.c   runs a round, in which each rank sends a piece, through shared memory or by
 *                   messages
 *
 *   owner    ts_build_ranks_sort
 *   units    records, words of 8 bytes
 *   threads  the building thread, which starts parallel loops
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_RANKS_DEAL_H
#define TS_BUILD_RANKS_DEAL_H

#include <string.h>

#include "build/ranks/build_ranks.h"
#include "build/sort/extsort.h"
#include "build/ranks/ranges.h"

/* Records that this rank copies from the shared memory of another rank on its machine. from: their
 * address; before: the number of records that are copied before them; n: their number. */
struct ts_dealing_take {
    const uint64_t *from;
    uint64_t before, n;
};

/* The state of a sort over all ranks. n: number of ranks. */
struct ts_dealing {
    struct ts_build *b;
    const struct ts_build_ranks_sort *s;
    struct ts_comm *c;
    uint32_t spool; /* number in s->from of the list of records that is being read */
    uint64_t at;    /* number of the next record to be read from this list */
    uint64_t piece; /* most records that a rank sends in a round */
    /* arrays of `piece` records: as read, converted, and grouped by the rank they go to */
    uint64_t *in, *moved, *send;
    /* memory that the ranks of this machine share, with two arrays like `send` for each rank; or
     * NULL */
    void *shared;
    uint64_t round;  /* number of rounds so far */
    uint32_t *to;    /* for each record of `moved`, the rank that it goes to */
    uint64_t *split; /* the records with which ranges 1 to n - 1 begin */
    struct ts_ranges ranges;
    /* count: n x (n + 1), row-major. Row r has the number of records that rank r sends to each rank
     * in this round, and then 1 if rank r has failed. count_first: offsets of the rows, for
     * gather. */
    uint64_t *count, *count_first;
    /* threads x n: for each thread and rank, the index in `send` of the thread's next record for
     * that rank */
    uint64_t *place;
    struct ts_dealing_take *take; /* n entries: what this rank copies from shared memory */
    uint64_t *send_first, *got_first;
    struct ts_extsort *runs;
    /* numbers of records of this rank: received but not sorted yet, passed to `consume`, and
     * received in total */
    uint64_t filled, done, total;

    /* members for sorts into whole partitions (s->whole) */
    /* the first records of this rank, which go to a lower rank: the records, their number, and how
     * many are in `head` so far */
    uint64_t *head, n_head, head_len;
    /* 1: the sorted records replace those of b->spool, on all ranks */
    int replaces;
};

static inline uint64_t ts_deal_own(const struct ts_build_ranks_sort *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_from; i++)
        n += s->from[i].n;
    return n;
}

/* Returns the area with the records that were received and are not sorted yet. */
static inline struct ts_extsort_area ts_deal_area(const struct ts_dealing *d)
{
    const struct ts_build *b = d->b;
    const struct ts_build_spool_sort *s = &d->s->sort;
    return (struct ts_extsort_area){
        s->to, s->direct_bits, { b->area[0], b->area[1] }, b->area_words, d->filled
    };
}

/* Whether converting keeps the order of the fields, and so the order of the records. */
static inline int ts_deal_keeps_order(const struct ts_build_ranks_sort *s)
{
    for (uint32_t f = 0; f < s->sort.to->n_fields; f++)
        if (s->sort.source[f] != f)
            return 0;
    return 1;
}

/* Whether the two layouts are equal, so that converting is a copy. */
static inline int ts_deal_is_same(const struct ts_build_ranks_sort *s,
                                  const struct ts_record_layout *from)
{
    return ts_deal_keeps_order(s) && memcmp(from, s->sort.to, sizeof *from) == 0;
}

/* ranks_splits.c */
/* Finds where the range of each rank begins. Sets *taken to 1 if the records are already sorted
 * over all ranks, so that none has to be sent. */
int ts_deal_splits(struct ts_dealing *d, int *taken, struct ts_err *err);

/* ranks_round.c */
/* Allocates the memory that the ranks of a machine share, so that they need no messages to each
 * other. Each rank has two arrays there, because other ranks still read one while it fills the
 * other. The memory stays allocated for later sorts. A sort that needs more replaces it, on all
 * ranks. */
int ts_deal_share(struct ts_dealing *d, struct ts_err *err);
/* Makes one round, in which each rank sends up to d->piece records, unless a rank has failed. rc:
 * the result of the previous round. *more: whether any rank had records. Other ranks may begin the
 * next round while this rank still reads their records, but not the round after it. */
int ts_deal_round(struct ts_dealing *d, int rc, int *more, struct ts_err *err);

#endif
