/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - ranks: processes that together compute one decomposition, or build one tensor. Each rank
 * computes a part of every product.
 *
 * All collectives of a run pass through this table; src/mpi fills it with MPI. Every rank holds all
 * factors and runs the same method, which takes the same decisions everywhere. Only the work of
 * backends is divided among ranks. Calls are collective: all ranks make the same calls in the same
 * order, with the same arguments except for buffers.
 *
 *   owner    the caller owns the comm and all buffers
 *   units    bytes, unless a comment says otherwise; positions in a buffer are the same on all
 *            ranks
 *   threads  one thread of a rank at a time; the same thread for all collectives; unshare is not
 *            collective
 *   errors   0 or a negative ts_code. After an error the comm is of no use, unless the error was
 *            returned by agree. After agree has returned TS_ESTOP, gather, move and deal still
 *            work, if all ranks continue with the same calls
 *   bits     the comm sums nothing: callers add what they receive in an order of their own
 */
#ifndef TS_STREAM_COMM_H
#define TS_STREAM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_comm;

/* Bytes begin .. end - 1 of the buffer of rank `from`, to be copied to the same place of the buffer
 * of rank `to`. */
struct ts_comm_move {
    uint32_t from, to;
    uint64_t begin, end;
};

struct ts_comm_ops {
    /* Makes all ranks agree on one return code. rc: the result of the caller's own work; err: its
     * message. If no rank has failed, all return the largest rc, usually 0. Otherwise all return
     * the code and message of the lowest rank that failed, with the rank's name before the message.
     * They get TS_ESTOP only if all failures are TS_ESTOP. After a failure, later calls return the
     * same answer at once. */
    int (*agree)(struct ts_comm *c, int rc, struct ts_err *err);

    /* Sends bytes first[r] .. first[r + 1] - 1 of each rank r's buffer to all other ranks; first
     * has n + 1 numbers. */
    int (*gather)(struct ts_comm *c, void *buffer, const uint64_t *first, struct ts_err *err);

    /* Makes the n copies in `move` at once. Their destinations must not overlap. */
    int (*move)(struct ts_comm *c, void *buffer, const struct ts_comm_move *move, uint32_t n,
                struct ts_err *err);

    /* Sends bytes send_first[r] .. send_first[r + 1] - 1 of `send` to rank r, and receives those of
     * rank r at got_first[r] .. got_first[r + 1] - 1 of `got`. Both arrays have n + 1 numbers. The
     * number of bytes sent must be the number that the other rank expects. */
    int (*deal)(struct ts_comm *c, const void *send, const uint64_t *send_first, void *got,
                const uint64_t *got_first, struct ts_err *err);

    /* Not collective. Returns not 0 if some rank has failed or wants to stop, so that further work
     * is useless. The caller must then call agree next. It is cheap enough to be called for every
     * partition. */
    int (*poll)(struct ts_comm *c);

    /* Allocates `bytes` bytes of zeros on each machine, which all ranks of the machine read and
     * write. They are on huge pages if the kernel has some. *ret is NULL on all ranks if one of
     * them cannot get the memory. Other ranks see what a rank has written after the next agree.
     * NULL: such memory is not supported. */
    int (*share)(struct ts_comm *c, uint64_t bytes, void **ret, struct ts_err *err);
    void (*unshare)(struct ts_comm *c, void *memory, uint64_t bytes);
};

struct ts_comm {
    /* the functions above; NULL: no ranks run, and the struct only serves to plan the memory of a
     * rank */
    const struct ts_comm_ops *ops;
    uint32_t rank, n;
    /* place: number of this rank among the ranks of its machine, from 0; beside: number of these
     * ranks */
    uint32_t place, beside;
    /* machine of each rank, numbered from 0 in the order of ranks; NULL: not known */
    const uint32_t *machine;
};

/* Whether a run has more than one rank. c NULL: no. */
static inline int ts_comm_many(const struct ts_comm *c)
{
    return c != NULL && c->n > 1;
}

#endif
