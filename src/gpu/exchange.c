/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses between NCCL and copies, and holds what both ways share: peer access, events, the
 * abort. */
#include "config.h"

#include "gpu/exchange.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/stop.h"
#include "gpu/exchange_impl.h"
#include "gpu/gpu_fail.h"

#define AWAKE_NS 300000

static int check_cuda(struct ts_err *err, cudaError_t e, const char *what)
{
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, what);
}

void ts_exchange_pause(uint64_t since_ns)
{
    const struct timespec nap = { 0, 10000 };
    if (ts_clock_ns() - since_ns < AWAKE_NS)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

int ts_exchange_fail_aborted(struct ts_err *err)
{
    return ts_fail(err, TS_ECUDA,
                   "the exchange between GPUs was given up, because the work of one failed");
}

/* ---- making one ---- */

static int is_named_twice(const int *device, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (device[i] == device[j])
                return 1;
    return 0;
}

/* Lets each pair of GPUs copy directly, for the exchange and for the caller. A pair that cannot
 * goes on through host memory: slower, not wrong. Returns whether all pairs can. */
static int enable_peers(const int *device, uint32_t n, const volatile sig_atomic_t *stop)
{
    int all = 1;
    for (uint32_t i = 0; i < n && !ts_stop_asked(stop); i++) {
        if (cudaSetDevice(device[i]) != cudaSuccess) {
            all = 0;
            break;
        }
        for (uint32_t j = 0; j < n; j++) {
            int can = 0;
            if (device[i] == device[j])
                continue;
            if (cudaDeviceCanAccessPeer(&can, device[i], device[j]) == cudaSuccess && can)
                (void)cudaDeviceEnablePeerAccess(device[j], 0); /* or it is enabled already */
            all &= can;
        }
    }
    (void)cudaGetLastError();
    return all;
}

static int make_events(struct ts_exchange *x, struct ts_err *err)
{
    cudaError_t e = cudaSuccess;
    for (uint32_t i = 0; i < x->n && e == cudaSuccess; i++) {
        e = cudaSetDevice(x->device[i]);
        TRY(e, cudaEventCreateWithFlags(&x->done[i], cudaEventDisableTiming));
    }
    return check_cuda(err, e, "preparing the exchange between GPUs");
}

static int open_way(struct ts_exchange *x, const struct ts_exchange_way *ops, struct ts_err *err)
{
    const int rc = ops->open == NULL ? 0 : ops->open(x, err);
    if (rc == 0)
        x->ops = ops;
    else if (ops->close != NULL)
        ops->close(x);
    return rc;
}

/* Sets the way that was asked for. AUTO takes what the machine has. direct: all devices reach each
 * other's memory. */
static int choose_way(struct ts_exchange *x, enum ts_exchange_kind kind, int direct,
                      struct ts_err *err)
{
    const int twice = is_named_twice(x->device, x->n);
    if (kind == TS_EXCHANGE_NCCL && twice)
        return ts_fail(err, TS_EARG, "NCCL cannot exchange with a GPU that is named twice");
#ifdef HAVE_NCCL
    if (kind == TS_EXCHANGE_NCCL)
        return open_way(x, &ts_exchange_nccl, err);
    if (kind == TS_EXCHANGE_AUTO && !twice && !direct) {
        struct ts_err why;
        if (open_way(x, &ts_exchange_nccl, &why) == 0)
            return 0;
        if (ts_stop_asked(x->stop))
            return ts_stop_check(x->stop, err);
        snprintf(x->note, sizeof x->note, "%.*s", (int)sizeof x->note - 1, why.text);
        (void)cudaGetLastError(); /* clears the error: the next launch would return it */
    }
#else
    (void)direct;
    if (kind == TS_EXCHANGE_NCCL)
        return ts_fail(err, TS_ELIMIT,
                       "this program was built without NCCL (--with-nccl of configure)");
#endif
    return open_way(x, &ts_exchange_copy, err);
}

int ts_exchange_new(const int *device, uint32_t n, enum ts_exchange_kind kind,
                    const volatile sig_atomic_t *stop, struct ts_exchange **ret, struct ts_err *err)
{
    struct ts_exchange *x = calloc(1, sizeof *x);
    int current = 0, rc;
    if (x != NULL) {
        x->n = n;
        x->stop = stop;
        x->device = calloc(n, sizeof *x->device);
        x->done = calloc(n, sizeof(cudaEvent_t));
    }
    if (x == NULL || x->device == NULL || x->done == NULL) {
        ts_exchange_free(x);
        return ts_fail(err, TS_ENOMEM, "out of memory");
    }
    memcpy(x->device, device, n * sizeof *device);
    rc = check_cuda(err, cudaGetDevice(&current), "preparing the exchange between GPUs");
    if (rc == 0) {
        const int direct = enable_peers(x->device, n, stop);
        rc = ts_stop_check(stop, err);
        if (rc == 0)
            rc = make_events(x, err);
        if (rc == 0)
            rc = choose_way(x, kind, direct, err);
        (void)cudaSetDevice(current);
    }
    if (rc < 0) {
        ts_exchange_free(x);
        return rc;
    }
    *ret = x;
    return 0;
}

void ts_exchange_free(struct ts_exchange *x)
{
    if (x == NULL)
        return;
    if (x->ops != NULL && x->ops->close != NULL)
        x->ops->close(x);
    for (uint32_t i = 0; i < x->n && x->done != NULL; i++)
        if (x->done[i] != NULL)
            (void)cudaEventDestroy(x->done[i]);
    free(x->done);
    free(x->device);
    free(x);
}

enum ts_exchange_kind ts_exchange_used(const struct ts_exchange *x)
{
    return x->ops->kind;
}

const char *ts_exchange_note(const struct ts_exchange *x)
{
    return x->note[0] == '\0' ? NULL : x->note;
}

/* ---- using it ---- */

int ts_exchange_gather(struct ts_exchange *x, uint32_t rank, void *const base[],
                       const struct ts_exchange_part part[], cudaStream_t stream,
                       struct ts_err *err)
{
    int rc = 0;
    if (x->aborted)
        return ts_exchange_fail_aborted(err);
    if (x->n > 1)
        rc = x->ops->gather(x, rank, base, part, stream, err);
    if (rc == 0)
        rc = check_cuda(err, cudaEventRecord(x->done[rank], stream), "exchange between GPUs");
    return rc;
}

/* Where gathers push (COPY), this replica is complete once the gathers of all ranks are done;
 * otherwise once its own gather is. A rank that is ahead may have recorded the event of its next
 * gather already. Then the stream waits longer than it must, but never for itself: an event covers
 * only what was enqueued before it. */
int ts_exchange_join(struct ts_exchange *x, uint32_t rank, cudaStream_t stream, struct ts_err *err)
{
    cudaError_t e = cudaSuccess;
    if (x->aborted)
        return ts_exchange_fail_aborted(err);
    for (uint32_t i = 0; i < x->n && e == cudaSuccess; i++)
        if (x->ops->pushes || i == rank)
            e = cudaStreamWaitEvent(stream, x->done[i], 0);
    return check_cuda(err, e, "exchange between GPUs");
}

int ts_exchange_check(struct ts_exchange *x, uint32_t rank, struct ts_err *err)
{
    if (x->aborted)
        return ts_exchange_fail_aborted(err);
    return x->ops->check == NULL ? 0 : x->ops->check(x, rank, err);
}

int ts_exchange_wait(struct ts_exchange *x, uint32_t rank, cudaStream_t stream, struct ts_err *err)
{
    const uint64_t since = ts_clock_ns();
    for (;;) {
        const cudaError_t e = cudaStreamQuery(stream);
        const int rc = ts_exchange_check(x, rank, err);
        if (rc < 0)
            return rc;
        if (e != cudaErrorNotReady)
            return check_cuda(err, e, "exchange between GPUs");
        (void)cudaGetLastError(); /* "not ready" would be returned by the next launch */
        ts_exchange_pause(since);
    }
}

void ts_exchange_abort(struct ts_exchange *x)
{
    x->aborted = 1;
    if (x->ops->abort != NULL)
        x->ops->abort(x);
}
