/* SPDX-License-Identifier: BSD-3-Clause */
/* build_comm.h - what ranks of a build (build_ranks.h) tell each other: whether all is well, and
 * few numbers.
 *
 * A rank that fails goes to the end of its build, where it agrees for the last time; the others
 * learn of it in their next agreement. So each step that needs all ranks begins with one, and after
 * one that failed there are no more.
 *
 *   owner    the comm and all buffers are the caller's
 *   threads  one
 *   errors   0 or a negative ts_code, after an agreement the same on all ranks
 */
#ifndef TS_BUILD_BUILD_COMM_H
#define TS_BUILD_BUILD_COMM_H

#include "stream/comm.h"

struct ts_build_comm {
    struct ts_comm *comm; /* NULL: one process */
    struct ts_err over;   /* what they agreed to end with; code 0: they have not */
    uint64_t exchange_ns; /* in which this one told others something, or waited for them */
};

/* whether there are others; NULL: there are not */
int ts_build_comm_many(const struct ts_build_comm *b);

/* What a step ended with, the same on all ranks; rc where there are no others. */
int ts_build_comm_agree(struct ts_build_comm *b, int rc, struct ts_err *err);

enum ts_build_comm_join { TS_JOIN_SUM, TS_JOIN_MAX, TS_JOIN_MIN };

/* Agrees, and replaces v[i] by the sum, the most or the least of all ranks' v[i]. */
int ts_build_comm_join(struct ts_build_comm *b, int rc, enum ts_build_comm_join kind, uint64_t *v,
                       uint32_t n, struct ts_err *err);

/* Agrees, and gives all ranks what rank 0 has. */
int ts_build_comm_tell(struct ts_build_comm *b, int rc, void *bytes, uint64_t n,
                       struct ts_err *err);

/* Agrees; each rank of many gives n numbers. *all, to be freed, has those of all, rank after
 * rank. */
int ts_build_comm_numbers(struct ts_build_comm *b, int rc, const uint64_t *v, uint32_t n,
                          uint64_t **all, struct ts_err *err);

/* For the comm's gather and deal: n + 1 numbers, `bytes` for rank `owner` alone, or for each where
 * it is n. To be freed. */
uint64_t *ts_build_comm_places(const struct ts_comm *c, uint32_t owner, uint64_t bytes);

/* The comm's calls, with the time they take. */
int ts_build_comm_gather(struct ts_build_comm *b, void *buffer, const uint64_t *first,
                         struct ts_err *err);
int ts_build_comm_deal(struct ts_build_comm *b, const void *send, const uint64_t *send_first,
                       void *got, const uint64_t *got_first, struct ts_err *err);

int ts_build_comm_no_memory(struct ts_err *err); /* writes the sentence */

#endif
