/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.h - brings the new parts of a replicated buffer from each GPU to all others.
 *
 * Each of n ranks has one thread, one device and a replica of one buffer. Each has new data in
 * some spans of its replica. A gather brings every rank's spans to every replica; there may be
 * any number of spans of any size, also none. Ranks may be threads of several processes, which
 * share no more than a struct ts_comm then; the ranks of a process have numbers in a row. There
 * are three ways to do it:
 *
 *   NCCL   a ring of sends and receives (exchange_ring.h). It takes few thread blocks, so
 *          kernels that compute meanwhile keep their multiprocessors; across sockets every byte
 *          crosses each link once. NVLink multicast is never used.
 *   COPY   each rank copies its spans into the other replicas with the copy engines, through
 *          host memory where a pair of GPUs has no peer access. It allows one device to be named
 *          twice, and is fast where GPUs reach each other directly. All ranks are of one
 *          process.
 *   HOST   spans pass through host memory, and between processes as the comm brings them. A
 *          gather waits on the host until it is done: nothing is hidden, but it works wherever
 *          processes reach each other, and allows GPUs that several share.
 *
 * A gather only enqueues. This rank's sends are complete when `stream` reaches that point. Data
 * from other ranks is complete only for work that is enqueued after ts_exchange_join. Before the
 * first rank calls gather, all spans of other ranks must be free to be written in every replica:
 * no kernel or copy on any device may still read or write them. Waiting for such work, then a
 * barrier of the ranks, is enough. Between processes, of which none writes into a replica of
 * another, that is so for the ranks of each by itself.
 *
 *   owner    the caller owns buffers and streams; they must stay until the gathers on them are
 *            done
 *   units    bytes; multiples of 16 are fastest
 *   threads  new, free: one thread; with several processes all of them call new. gather, join,
 *            check, wait: one thread per rank, all ranks at once. abort: any thread at any time.
 *            The calling thread's current device may be any and is not changed.
 *   errors   0 or a negative ts_code. A rank that fails between two gathers must call abort, or
 *            the others wait for ever.
 * */
#ifndef TS_GPU_EXCHANGE_H
#define TS_GPU_EXCHANGE_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/team/gpu_types.h"
#include "stream/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ts_exchange_kind {
    /* COPY where all devices reach each other's memory, or one is named twice; else NCCL where it
     * is installed. Over NVLink copies were 2.5 times as fast and more (bench/notebook, several
     * GPUs), and they take no multiprocessor. */
    TS_EXCHANGE_AUTO,
    TS_EXCHANGE_NCCL,
    TS_EXCHANGE_COPY,
    /* AUTO takes it between processes where one has no NCCL, or two share a GPU */
    TS_EXCHANGE_HOST,
};

struct ts_exchange;

/* A piece of the buffer. The spans of one gather do not overlap, also not those of different
 * ranks. */
struct ts_exchange_span {
    uint64_t offset, bytes;
};

/* The spans of one rank. */
struct ts_exchange_part {
    const struct ts_exchange_span *span;
    uint32_t n;
};

/* device[rank]: the number of each rank's device. stop: NULL, or a flag that is read while
 * connections are made, which takes a second or more; TS_ESTOP when it is not 0. */
int ts_exchange_new(const int *device, uint32_t n, enum ts_exchange_kind kind,
                    const volatile sig_atomic_t *stop, struct ts_exchange **ret,
                    struct ts_err *err);

/* An exchange among ranks of several processes. All of them must call this without a failure, and
 * all get the same result. */
struct ts_exchange_conf {
    const int *device; /* devices of the ranks of this process */
    enum ts_exchange_kind kind;
    const volatile sig_atomic_t *stop;
    /* The comm of the processes; lent until free, and used by the first rank of this process. */
    struct ts_comm *comm;
    /* comm->n + 1 numbers: process p has the ranks first[p] .. first[p + 1] - 1 */
    const uint32_t *first;
    int shared; /* two ranks have one GPU */
};
int ts_exchange_new_among(const struct ts_exchange_conf *conf, struct ts_exchange **ret,
                          struct ts_err *err);

void ts_exchange_free(struct ts_exchange *x); /* NULL is fine; no gather may be running */

enum ts_exchange_kind ts_exchange_used(const struct ts_exchange *x); /* never AUTO */

/* Why AUTO took COPY, or HOST, although NCCL could have been used: a sentence, or NULL. */
const char *ts_exchange_note(const struct ts_exchange *x);

/* Whether a gather waits until it is done, for all ranks to call it. */
int ts_exchange_blocks(const struct ts_exchange *x);

/* Enqueues the rank's share of a gather on `stream` of its device. base[i]: the replica on rank
 * i's device, NULL where that is of another process; part[i]: the spans of rank i. Every rank
 * calls it with the same base and part, and all ranks call their gathers in the same order. part
 * and its spans may be freed after the call. */
int ts_exchange_gather(struct ts_exchange *x, uint32_t rank, void *const base[],
                       const struct ts_exchange_part part[], ts_gpu_stream stream,
                       struct ts_err *err);

/* To be called once all ranks have returned from their gathers (after a barrier of the callers).
 * Work that is then enqueued on `stream`, of the rank's device, finds all that these gathers bring
 * to the rank's replica. */
int ts_exchange_join(struct ts_exchange *x, uint32_t rank, ts_gpu_stream stream,
                     struct ts_err *err);

/* Finds an abort, and failures that NCCL noticed after a gather had returned. To be called after
 * waiting for a stream by other means: an aborted gather ends too, but its data is incomplete. */
int ts_exchange_check(struct ts_exchange *x, uint32_t rank, struct ts_err *err);

/* Whether a failure was noticed that another process may be the cause of: one that ends is
 * noticed by its silence. */
int ts_exchange_suspects(const struct ts_exchange *x);

/* Waits until everything enqueued on `stream` is done, or ts_exchange_check fails. */
int ts_exchange_wait(struct ts_exchange *x, uint32_t rank, ts_gpu_stream stream,
                     struct ts_err *err);

/* Ends every running gather and makes every later call fail. Returns once that is done. */
void ts_exchange_abort(struct ts_exchange *x);

#ifdef __cplusplus
}
#endif

#endif
