/* SPDX-License-Identifier: BSD-3-Clause */
/* build_comm.h - lets the ranks of a build (build_ranks.h) agree on failures, and exchange a few
 * numbers.
 *
 * A rank that fails goes on to the agreement at the end of its build. The other ranks learn of the
 * failure in their next agreement. So each step that needs all ranks begins with an agreement.
 * After an agreement on a failure, ranks exchange nothing more.
 *
 *   owner    the comm and all buffers are the caller's
 *   threads  one
 *   errors   0 or a negative ts_code, the same on all ranks after an agreement
 */
#ifndef TS_BUILD_BUILD_COMM_H
#define TS_BUILD_BUILD_COMM_H

#include "stream/comm.h"

struct ts_build_comm {
    struct ts_comm *comm; /* the communicator; NULL: one process */
    struct ts_err over;   /* the failure that all ranks agreed on; code 0: no failure */
    /* time in which this rank exchanged data with other ranks or waited for them */
    uint64_t exchange_ns;
};

/* Whether several ranks build the tensor. b may be NULL: one process. */
int ts_build_comm_many(const struct ts_build_comm *b);

/* Gives all ranks the same result of a step: rc, or the failure of a rank. With one process,
 * returns rc. */
int ts_build_comm_agree(struct ts_build_comm *b, int rc, struct ts_err *err);

enum ts_build_comm_join { TS_JOIN_SUM, TS_JOIN_MAX, TS_JOIN_MIN };

/* Agrees on rc. If no rank has failed, replaces v[i] by the sum, the largest or the smallest of
 * v[i] over all ranks. */
int ts_build_comm_join(struct ts_build_comm *b, int rc, enum ts_build_comm_join kind, uint64_t *v,
                       uint32_t n, struct ts_err *err);

/* Agrees on rc. If no rank has failed, copies n bytes of rank 0 to all ranks. */
int ts_build_comm_tell(struct ts_build_comm *b, int rc, void *bytes, uint64_t n,
                       struct ts_err *err);

/* Agrees on rc. If no rank has failed, gathers n numbers of each rank. *all has the numbers of all
 * ranks, rank after rank; the caller frees it. */
int ts_build_comm_numbers(struct ts_build_comm *b, int rc, const uint64_t *v, uint32_t n,
                          uint64_t **all, struct ts_err *err);

/* Returns the n + 1 offsets that gather and deal of struct ts_comm need for its n ranks. Rank
 * `owner` has `bytes` bytes and the others have none. If owner is n, each rank has `bytes` bytes.
 * The caller frees the array; NULL: out of memory. */
uint64_t *ts_build_comm_places(const struct ts_comm *c, uint32_t owner, uint64_t bytes);

/* These two call gather and deal of struct ts_comm, and add the time of that to exchange_ns. */
int ts_build_comm_gather(struct ts_build_comm *b, void *buffer, const uint64_t *first,
                         struct ts_err *err);
int ts_build_comm_deal(struct ts_build_comm *b, const void *send, const uint64_t *send_first,
                       void *got, const uint64_t *got_first, struct ts_err *err);

int ts_build_comm_no_memory(struct ts_err *err); /* writes the message of TS_ENOMEM */

#endif
