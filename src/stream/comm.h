/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - ranks: processes that compute one decomposition together, each of them a part of every
 * product, or build one tensor.
 *
 * All collectives of a run pass through here; src/mpi fills the table with MPI. Every rank holds
 * all factors and runs the same method, which so takes the same decisions everywhere; what is
 * divided is the work of a backend. Calls are collective: all ranks make the same calls in the same
 * order, with the same arguments, buffers apart.
 *
 *   owner    the caller owns the comm and all buffers
 *   units    bytes, unless it says otherwise; positions in a buffer are the same on all ranks
 *   threads  one thread of a rank at a time; collectives always the same; unshare is no collective
 *   errors   0 or a negative ts_code; after one that is not agree's answer the comm is of no use.
 *            After its answer TS_ESTOP bytes still travel, where all ranks go on to make the same
 *            calls
 *   bits     nothing is added up here: what sums there are, the caller adds in an order of its own
 */
#ifndef TS_STREAM_COMM_H
#define TS_STREAM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_comm;

/* Bytes begin .. end - 1 of a buffer, from one rank to the same place on another one. */
struct ts_comm_move {
    uint32_t from, to;
    uint64_t begin, end;
};

struct ts_comm_ops {
    /* rc is what the caller's own work ended with, and err its sentence. All get the same answer:
     * the largest where none has failed, 0 as a rule, else the code and the sentence of the lowest
     * rank that failed, with its name before it; TS_ESTOP only where that is all there was. From
     * then on that is the answer at once. */
    int (*agree)(struct ts_comm *c, int rc, struct ts_err *err);

    /* Bytes first[r] .. first[r + 1] - 1 of rank r's buffer go to all others; first has n + 1
     * numbers. */
    int (*gather)(struct ts_comm *c, void *buffer, const uint64_t *first, struct ts_err *err);

    /* All of these at once; no two end in the same bytes. */
    int (*move)(struct ts_comm *c, void *buffer, const struct ts_comm_move *move, uint32_t n,
                struct ts_err *err);

    /* Bytes send_first[r] .. send_first[r + 1] - 1 of `send` go to rank r, and those of rank r lie
     * at got_first[r] .. got_first[r + 1] - 1 of `got`; both have n + 1 numbers, and what one rank
     * sends is what the other one expects. */
    int (*deal)(struct ts_comm *c, const void *send, const uint64_t *send_first, void *got,
                const uint64_t *got_first, struct ts_err *err);

    /* Not collective: not 0 where some rank has failed or wants to stop, so that going on is of no
     * use; whoever learns it calls agree next. Cheap enough for every partition. */
    int (*poll)(struct ts_comm *c);

    /* `bytes` of zeros that all ranks of a machine see and write, each machine its own, on huge
     * pages where there are some; *ret == NULL, on all ranks, where one of them cannot have it.
     * What one rank has written others see after the next agree. NULL: there is no such memory. */
    int (*share)(struct ts_comm *c, uint64_t bytes, void **ret, struct ts_err *err);
    void (*unshare)(struct ts_comm *c, void *memory, uint64_t bytes);
};

struct ts_comm {
    /* NULL: there are no others, and what each would take is planned */
    const struct ts_comm_ops *ops;
    uint32_t rank, n;
    /* beside: of the ranks of this machine, of which there are `beside`: its number, from 0 */
    uint32_t place, beside;
    /* of each rank, numbered from 0 in the order of ranks; NULL: not known */
    const uint32_t *machine;
};

/* Whether a run has more than one rank. NULL: it has not. */
static inline int ts_comm_many(const struct ts_comm *c)
{
    return c != NULL && c->n > 1;
}

#endif
