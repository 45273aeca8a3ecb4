/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.h - brings the new parts of a replicated buffer from each GPU to all others.
 *
 * Each of n ranks has one thread, one device and a replica of one buffer, with new data in some
 * spans. A gather copies every rank's spans to every replica. A rank may have any number of spans,
 * of any sizes. Ranks may be threads of several processes, which share only a struct ts_comm. The
 * ranks of a process have consecutive numbers. There are three ways to do it:
 *
 *   NCCL   a ring of sends and receives (exchange_ring.h). It takes few thread blocks, so kernels
 *          that compute meanwhile keep their multiprocessors; across sockets every byte crosses
 *          each link once. NVLink multicast is never used.
 *   COPY   each rank copies its spans into the other replicas with the copy engines, through host
 *          memory if a pair of GPUs has no peer access. One device may be named twice. It is fast
 *          if GPUs reach each other directly. All ranks must be in one process.
 *   HOST   spans pass through host memory, and between processes through the comm. A gather blocks
 *          the host until it is done, so it does not overlap with kernels. It works wherever
 *          processes reach each other, also if several ranks share a GPU.
 *
 * A gather only enqueues its work. This rank's sends are complete when `stream` has done this work.
 * Data from other ranks is complete only for work that is enqueued after ts_exchange_join. Before
 * the first rank calls gather, all spans of other ranks must be free to be written in every
 * replica: no kernel or copy on any device may still read or write them. Waiting for such work,
 * then a barrier of the ranks, is enough. With several processes this is required only among the
 * ranks of each process, because a process never writes into a replica of another one.
 *
 *   owner    the caller owns buffers and streams, which must stay valid until the gathers on them
 *            are done
 *   units    bytes; multiples of 16 are fastest
 *   threads  new, free: one thread; with several processes all of them call new. gather, join,
 *            check, wait: one thread per rank, all ranks at once. abort: any thread at any time.
 *            The calling thread's current device may be any and is not changed.
 *   errors   0 or a negative ts_code. A rank that fails between two gathers must call abort,
 *            otherwise the others wait for ever.
 */
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
    /* COPY if all devices reach each other's memory or a device is named twice, otherwise NCCL if
     * it is installed. Over NVLink, copies were at least 2.5 times as fast (bench/notebook, several
     * GPUs), and they occupy no multiprocessor. */
    TS_EXCHANGE_AUTO,
    TS_EXCHANGE_NCCL,
    TS_EXCHANGE_COPY,
    /* AUTO takes HOST for several processes if one has no NCCL, or if two ranks share a GPU */
    TS_EXCHANGE_HOST,
};

struct ts_exchange;

/* A range of bytes of the replicated buffer. The spans of all ranks in one gather do not
 * overlap. */
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

/* The arguments of ts_exchange_new_among, for an exchange among ranks of several processes. All of
 * them must call it, so none may have failed before, and all get the same result. */
struct ts_exchange_conf {
    const int *device; /* devices of the ranks of this process */
    enum ts_exchange_kind kind;
    const volatile sig_atomic_t *stop;
    /* The comm of the processes. It must stay valid until ts_exchange_free, and is used by the
     * first rank of this process. */
    struct ts_comm *comm;
    /* comm->n + 1 numbers: process p has the ranks first[p] .. first[p + 1] - 1 */
    const uint32_t *first;
    int shared; /* 1: two ranks share a GPU */
};
int ts_exchange_new_among(const struct ts_exchange_conf *conf, struct ts_exchange **ret,
                          struct ts_err *err);

void ts_exchange_free(struct ts_exchange *x); /* x may be NULL; no gather may be running */

/* Returns the way that the exchange uses, never AUTO. */
enum ts_exchange_kind ts_exchange_used(const struct ts_exchange *x);

/* Returns a message that says why AUTO took COPY or HOST instead of NCCL, or NULL. */
const char *ts_exchange_note(const struct ts_exchange *x);

/* Whether a gather blocks until all ranks have called it and it is done. */
int ts_exchange_blocks(const struct ts_exchange *x);

/* Enqueues the rank's own work for a gather on `stream` of its device. base[i]: the replica on rank
 * i's device, NULL if that rank is in another process; part[i]: the spans of rank i. Every rank
 * calls it with the same base and part, and all ranks call their gathers in the same order. part
 * and its spans may be freed after the call. */
int ts_exchange_gather(struct ts_exchange *x, uint32_t rank, void *const base[],
                       const struct ts_exchange_part part[], ts_gpu_stream stream,
                       struct ts_err *err);

/* To be called once all ranks have returned from their gathers (after a barrier of the callers).
 * Work that is enqueued on `stream`, of the rank's device, after this call sees all data of these
 * gathers in the rank's replica. */
int ts_exchange_join(struct ts_exchange *x, uint32_t rank, ts_gpu_stream stream,
                     struct ts_err *err);

/* Returns an error if the exchange was aborted, or if NCCL noticed a failure after a gather had
 * returned. To be called after waiting for a stream by other means: an aborted gather ends too, but
 * its data is incomplete. */
int ts_exchange_check(struct ts_exchange *x, uint32_t rank, struct ts_err *err);

/* Whether a failure was noticed that another process may have caused. If a process ends, NCCL only
 * notices that it no longer answers. */
int ts_exchange_suspects(const struct ts_exchange *x);

/* Waits until everything enqueued on `stream` is done, or ts_exchange_check fails. */
int ts_exchange_wait(struct ts_exchange *x, uint32_t rank, ts_gpu_stream stream,
                     struct ts_err *err);

/* Ends all running gathers, then returns. All later calls fail. */
void ts_exchange_abort(struct ts_exchange *x);

#ifdef __cplusplus
}
#endif

#endif
