/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.h - what each GPU has of a buffer that all hold a copy of, brought to all the others.
 *
 * Each of n ranks, one thread and one device each, has a copy (replica) of one buffer, and of its
 * own some spans that are new. A gather brings every rank's spans to every replica, spans of any
 * size and number, none included. Two ways to do it:
 *
 *   NCCL   a ring of sends and receives (exchange_ring.h). Few thread blocks, so that what computes
 *          meanwhile keeps its multiprocessors; across sockets every byte crosses each link once.
 *          Never NVLink multicast.
 *   COPY   each rank copies its spans into the other replicas by the copy engines, through host
 *          memory where a pair of GPUs has no peer access. Takes a device that is named twice.
 *          Fast where GPUs reach each other directly.
 *
 * A gather only enqueues: it is done when its stream has come there, and, for what the others send
 * here, when a stream on which `join` was called has. Before the first rank calls gather, every
 * replica must be ready to be written in all spans but its rank's own: no kernel or copy that reads
 * or writes them may be under way on any device (a barrier of the ranks, after waiting for such
 * work, will do).
 *
 *   owner    the caller owns buffers and streams; they must stay until the gathers on them are done
 *   units    bytes; multiples of 16 are fastest
 *   threads  new, free: one thread, and new before other threads read the environment, which NCCL
 *            takes its settings from. gather, join, check, wait: one thread a rank, all ranks at
 *            once. abort: any thread at any time. The calling thread's current device does not
 *            matter and stays.
 *   errors   0 or a negative ts_code. Whoever fails between two gathers must call abort, or the
 *            others wait for ever; after abort nobody does.
 */
#ifndef TS_GPU_EXCHANGE_H
#define TS_GPU_EXCHANGE_H

#include <cuda_runtime.h>
#include <signal.h>
#include <stdint.h>

#include "base/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ts_exchange_kind {
    TS_EXCHANGE_AUTO, /* COPY where all devices reach each other's memory, or one is named twice; else
                       * NCCL where it is to be had. Over NVLink copies were 2.5 times as fast and
                       * more (docs/notes/performance.md), and they take no multiprocessor. */
    TS_EXCHANGE_NCCL,
    TS_EXCHANGE_COPY,
};

struct ts_exchange;

/* A piece of the buffer. Spans of one gather do not overlap, whoever has them. */
struct ts_exchange_span {
    uint64_t offset, bytes;
};

/* What one rank has. */
struct ts_exchange_part {
    const struct ts_exchange_span *span;
    uint32_t n;
};

/* device[rank]: number of each rank's device. stop: NULL, or looked at while connections are made, a
 * second or more: TS_ESTOP when it is not 0. */
int ts_exchange_new(const int *device, uint32_t n, enum ts_exchange_kind kind,
                    const volatile sig_atomic_t *stop, struct ts_exchange **ret,
                    struct ts_err *err);
void ts_exchange_free(struct ts_exchange *x); /* NULL is fine; no gather may be under way */

enum ts_exchange_kind ts_exchange_used(const struct ts_exchange *x); /* never AUTO */

/* Why AUTO came to be COPY where NCCL was thinkable: a sentence, or NULL. */
const char *ts_exchange_note(const struct ts_exchange *x);

/* Enqueues rank's share of a gather on `stream` of its device. base[i]: the replica on rank i's
 * device; part[i]: what rank i has. Every rank calls it, with the same base and part, in the same
 * order of gathers; part and its spans may go after the call. */
int ts_exchange_gather(struct ts_exchange *x, uint32_t rank, void *const base[],
                       const struct ts_exchange_part part[], cudaStream_t stream,
                       struct ts_err *err);

/* Once all ranks have returned from their gathers (a barrier of the callers): what is enqueued on
 * `stream`, of rank's device, from now on finds all that these gathers bring to rank's replica. */
int ts_exchange_join(struct ts_exchange *x, uint32_t rank, cudaStream_t stream, struct ts_err *err);

/* Whether all is well so far: finds an abort, and what NCCL noticed after a gather had returned. To
 * be called after waiting for a stream by other means: an aborted gather ends, but did not bring
 * all there is. */
int ts_exchange_check(struct ts_exchange *x, uint32_t rank, struct ts_err *err);

/* Waits until everything enqueued on `stream` is done, or check fails. */
int ts_exchange_wait(struct ts_exchange *x, uint32_t rank, cudaStream_t stream, struct ts_err *err);

/* Makes every gather under way end, and every later call fail. Returns when that is so. */
void ts_exchange_abort(struct ts_exchange *x);

#ifdef __cplusplus
}
#endif

#endif
