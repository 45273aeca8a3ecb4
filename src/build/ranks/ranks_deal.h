/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks_deal.h - records on their way to the rank whose range they are in.
 *
 *   ranks_deal.c    what is dealt, and what a rank does with what came
 *   ranks_splits.c  where ranges begin: where records that are sorted lie, or by samples
 *   ranks_round.c   a round, in which each rank deals a piece: through shared memory, by messages
 *
 *   owner    ts_build_ranks_sort
 *   units    records, words of 8 bytes
 *   threads  the building thread, and its team
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_RANKS_DEAL_H
#define TS_BUILD_RANKS_DEAL_H

#include <string.h>

#include "build/ranks/build_ranks.h"
#include "build/sort/extsort.h"
#include "build/ranks/ranges.h"

/* Records that this rank takes from another rank of its machine: where they lie, and how many
 * records they come after. */
struct ts_dealing_take {
    const uint64_t *from;
    uint64_t before, n;
};

struct ts_dealing {
    struct ts_build *b;
    const struct ts_build_ranks_sort *s;
    struct ts_comm *c;
    uint32_t spool;              /* number of the spool that is read */
    uint64_t at;                 /* the next record to be read */
    uint64_t piece;              /* the most records that a rank deals at a time */
    uint64_t *in, *moved, *send; /* `piece` records each, in the two layouts */
    void *shared;    /* for the ranks of this machine: two arrays like `send` for each; or NULL */
    uint64_t round;  /* number of rounds so far */
    uint32_t *to;    /* rank that each record of `moved` goes to */
    uint64_t *split; /* n - 1 records at which ranges begin */
    struct ts_ranges ranges;
    /* count_first: n x (n + 1): the numbers of records that each rank sends to each rank in this
     * round, and whether it has failed. */
    uint64_t *count, *count_first;
    uint64_t *place;              /* threads x n */
    struct ts_dealing_take *take; /* n */
    uint64_t *send_first, *got_first;
    struct ts_extsort *runs;
    uint64_t filled, done, total; /* records of this rank: in the area; given to `consume`; all */

    /* for whole partitions */
    uint64_t *head, n_head, head_len; /* this rank's first records, which go to a lower rank */
    int replaces;                     /* 1: on all ranks, the sorted records replace the spool */
};

static inline uint64_t ts_deal_own(const struct ts_build_ranks_sort *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_from; i++)
        n += s->from[i].n;
    return n;
}

/* The records that have arrived and are not sorted yet. */
static inline struct ts_extsort_area ts_deal_area(const struct ts_dealing *d)
{
    const struct ts_build *b = d->b;
    const struct ts_build_spool_sort *s = &d->s->sort;
    return (struct ts_extsort_area){
        s->to, s->direct_bits, { b->area[0], b->area[1] }, b->area_words, d->filled
    };
}

/* Whether converting keeps the order of the fields, and so that of the records. */
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

/* ---- ranks_splits.c */
/* Finds where the range of each rank begins. *taken: records are sorted over all ranks already, and
 * stay where they are. */
int ts_deal_splits(struct ts_dealing *d, int *taken, struct ts_err *err);

/* ---- ranks_round.c */
/* Ranks of a machine put records where the others of it get them from; no message has to carry
 * them. Two pieces of each, as one is still read while the next is put there. The memory stays for
 * later sorts, if it is large enough for them, which all ranks find alike. */
int ts_deal_share(struct ts_dealing *d, struct ts_err *err);
/* Makes one round: every rank deals a piece, unless one has failed. rc: the result of the round
 * before. *more: some rank had records. Other ranks may begin the next round while this one still
 * reads their records, but not the round after that. */
int ts_deal_round(struct ts_dealing *d, int rc, int *more, struct ts_err *err);

#endif
