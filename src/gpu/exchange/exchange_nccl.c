/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchange by NCCL: sends and receives around a ring (exchange_ring.h).
 *
 * NCCL is loaded when it is first used. A program linked with NCCL would not start on machines
 * without it, and would load 200 MB even to compute on CPUs. A message reports a library that is
 * missing, too old or broken.
 *
 * The communicators do not block: a call that would take long returns "in progress", and is polled
 * until it has ended or the exchange is aborted. ncclCommAbort frees the communicator, so a lock
 * for each rank prevents an abort while its communicator is in use. The lock is held only while
 * work is enqueued. All connections are made and all kernels loaded at the start, so a rank that
 * enqueues never waits for another rank. */
#include "config.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "gpu/exchange/exchange_way.h"
#include "gpu/exchange/exchange_ring.h"
#include "gpu/team/gpu_fail.h"

/* the oldest version with all fields of ncclConfig_t that are set here */
#define LEAST_VERSION NCCL_VERSION(2, 18, 0)
#define OPEN_SECONDS  60

/* Thread blocks of a gather; each occupies a multiprocessor while the gather runs. They are few,
 * because a kernel that wants all multiprocessors runs at the same time. NCCL_MAX_CTAS overrides
 * this number. */
#define MAX_BLOCKS 8

/* ---- loading the NCCL library ---- */

#define FUNCTIONS(f)                                                                             \
    f(GetVersion) f(GetUniqueId) f(CommInitRankConfig) f(CommDestroy) f(CommAbort)               \
        f(CommGetAsyncError) f(GetErrorString) f(GetLastError) f(GroupStart) f(GroupEnd) f(Send) \
            f(Recv)

static struct {
    pthread_once_t once;
    int code; /* 0 once the library is loaded, or the failure of loading it */
    char why[400];
#define MEMBER(name) __typeof__(&nccl##name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} nccl = { .once = PTHREAD_ONCE_INIT };

static int load_functions(void *library)
{
#define LOAD(name)                                       \
    *(void **)&nccl.name = dlsym(library, "nccl" #name); \
    if (nccl.name == NULL)                               \
        return -1;
    FUNCTIONS(LOAD)
#undef LOAD
    return 0;
}

static void load(void)
{
    const char *multicast = getenv("NCCL_NVLS_ENABLE");
    void *library;
    int version = 0;
    nccl.code = TS_ELIMIT;
    /* NVLink multicast sets up state in the switch. A program that dies leaves that state
     * behind. Sends and receives do not use it. NCCL has no other way to turn it off, and setenv
     * is not for a library: other threads may be reading the environment. */
    if (multicast == NULL || strcmp(multicast, "0") != 0) {
        snprintf(nccl.why, sizeof nccl.why,
                 "NCCL is not used: NCCL_NVLS_ENABLE=0 is not in the environment, and NVLink "
                 "multicast must be off");
        return;
    }
    library =
        ts_exchange_nccl_file == NULL ? NULL : dlopen(ts_exchange_nccl_file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
#ifdef NCCL_LIBRARY
    if (library == NULL)
        library = dlopen(NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
#endif
    if (library == NULL)
        snprintf(nccl.why, sizeof nccl.why,
                 "NCCL cannot be loaded: %s; install libnccl2, or name its folder in "
                 "LD_LIBRARY_PATH",
                 dlerror());
    else if (load_functions(library) < 0 || nccl.GetVersion(&version) != ncclSuccess)
        snprintf(nccl.why, sizeof nccl.why,
                 "the NCCL of this machine lacks a function; update it, or name the folder of "
                 "another one in LD_LIBRARY_PATH");
    else if (version < LEAST_VERSION)
        snprintf(nccl.why, sizeof nccl.why,
                 "the NCCL of this machine, %d.%d, is older than 2.18; update it, or name the "
                 "folder of a newer one in LD_LIBRARY_PATH",
                 version / 10000, version / 100 % 100);
    else
        nccl.code = 0;
}

int ts_exchange_nccl_there(struct ts_err *err)
{
    pthread_once(&nccl.once, load);
    return nccl.code < 0 ? ts_fail(err, nccl.code, "%s", nccl.why) : 0;
}

static int fail(struct ts_err *err, ncclComm_t comm, ncclResult_t r, const char *what)
{
    const char *last = nccl.GetLastError(comm);
    const int known = last != NULL && last[0] != '\0';
    ts_fail(err, TS_ECUDA, "%s: NCCL: %s%s%s", what, nccl.GetErrorString(r), known ? ": " : "",
            known ? last : "");
    if (err != NULL)
        err->sys = (int)r;
    return TS_ECUDA;
}

/* ---- NCCL communicators of the ranks ---- */

struct way {
    pthread_mutex_t aborting, *lock; /* lock[rank] is held while comm[rank] is used */
    ncclComm_t *comm;                /* communicator of each rank; NULL once aborted */
    uint32_t n_locks;
};

static ncclResult_t state_of(ncclComm_t comm)
{
    ncclResult_t r = ncclSuccess;
    return nccl.CommGetAsyncError(comm, &r) == ncclSuccess ? r : ncclInternalError;
}

/* Whether another process has given up. Only the first rank of this process checks, because it
 * alone uses the comm. */
static int others_left(struct ts_exchange *x, uint32_t rank)
{
    return x->comm != NULL && rank == x->first && x->comm->ops->poll(x->comm);
}

/* Waits for an operation of NCCL and returns its result, or ncclInProgress if the exchange is
 * aborted or another process has given up. */
static ncclResult_t settle(struct ts_exchange *x, uint32_t rank, ncclComm_t comm, ncclResult_t r)
{
    const uint64_t since = ts_clock_ns();
    while (r == ncclInProgress && !x->aborted) {
        r = state_of(comm);
        if (r != ncclInProgress)
            break;
        if (others_left(x, rank))
            x->aborted = x->suspect = 1;
        ts_exchange_pause(since);
    }
    return r;
}

/* Waits until no rank has an operation in progress. If one rank fails, the others may stay in
 * progress. */
static int settle_all(struct ts_exchange *x, uint64_t until, const char *what, struct ts_err *err)
{
    const struct way *w = x->way;
    const uint64_t since = ts_clock_ns();
    for (;;) {
        const int rc = ts_stop_check(x->stop, err);
        uint32_t busy = 0;
        if (rc < 0)
            return rc;
        for (uint32_t i = x->first; i < x->first + x->n_here; i++) {
            const ncclResult_t r = state_of(w->comm[i]);
            if (r != ncclSuccess && r != ncclInProgress)
                return fail(err, w->comm[i], r, what);
            busy += r == ncclInProgress;
        }
        if (busy == 0)
            return 0;
        if (ts_clock_ns() > until)
            return ts_fail(err, TS_ECUDA,
                           "%s: NCCL is not ready after %d seconds; NCCL_DEBUG=INFO shows what it "
                           "waits for",
                           what, OPEN_SECONDS);
        ts_exchange_pause(since);
    }
}

static const char connecting[] = "connecting the GPUs";

/* Shares the id of the communicator: the first process makes it and sends it to the others. */
static int share_id(struct ts_exchange *x, ncclUniqueId *ret, struct ts_err *err)
{
    struct {
        ncclUniqueId id;
        int r;
    } word = { .r = ncclSuccess };
    int rc = 0;
    if (x->comm == NULL || x->comm->rank == 0)
        word.r = (int)nccl.GetUniqueId(&word.id);
    if (x->comm != NULL) {
        x->byte[0] = 0;
        for (uint32_t p = 1; p <= x->comm->n; p++)
            x->byte[p] = sizeof word;
        rc = x->comm->ops->gather(x->comm, &word, x->byte, err);
    }
    if (rc == 0 && word.r != (int)ncclSuccess)
        rc = fail(err, NULL, (ncclResult_t)word.r, connecting);
    *ret = word.id;
    return rc;
}

static int init_ranks(struct ts_exchange *x, ncclUniqueId id, uint64_t until, struct ts_err *err)
{
    static const char *const what = connecting;
    struct way *w = x->way;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t r = ncclSuccess, end;
    config.blocking = 0;
    config.minCTAs = 1;
    config.maxCTAs = MAX_BLOCKS;
    config.cgaClusterSize = 1; /* a larger cluster waits until that many blocks fit at once */
    nccl.GroupStart();
    for (uint32_t i = x->first;
         i < x->first + x->n_here && (r == ncclSuccess || r == ncclInProgress); i++) {
        const ts_gpu_error e = cudaSetDevice(x->device[i]);
        if (e != cudaSuccess) {
            nccl.GroupEnd();
            return ts_gpu_fail(err, e, what);
        }
        r = nccl.CommInitRankConfig(&w->comm[i], (int)x->n, id, (int)i, &config);
    }
    end = nccl.GroupEnd();
    r = r == ncclSuccess || r == ncclInProgress ? end : r;
    if (r != ncclSuccess && r != ncclInProgress)
        return fail(err, NULL, r, what);
    return settle_all(x, until, what, err);
}

/* Sends sixteen bytes from each rank to the next, so that NCCL and CUDA do their first-time work
 * now. */
static int first_round(struct ts_exchange *x, ts_gpu_stream *stream, char **buffer, uint64_t until,
                       struct ts_err *err)
{
    static const char what[] = "the first exchange between GPUs";
    struct way *w = x->way;
    ncclResult_t r = ncclSuccess, end;
    ts_gpu_error e = cudaSuccess;
    int rc;
    for (uint32_t i = x->first; i < x->first + x->n_here && e == cudaSuccess; i++) {
        e = cudaSetDevice(x->device[i]);
        TRY(e, cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
        TRY(e, cudaMalloc((void **)&buffer[i], 32));
    }
    if (e != cudaSuccess)
        return ts_gpu_fail(err, e, what);
    nccl.GroupStart();
    for (uint32_t i = x->first; i < x->first + x->n_here && r == ncclSuccess; i++) {
        r = nccl.Send(buffer[i], 16, ncclUint8, (int)((i + 1) % x->n), w->comm[i], stream[i]);
        if (r == ncclSuccess || r == ncclInProgress)
            r = nccl.Recv(buffer[i] + 16, 16, ncclUint8, (int)((i + x->n - 1) % x->n), w->comm[i],
                          stream[i]);
        r = r == ncclInProgress ? ncclSuccess : r;
    }
    end = nccl.GroupEnd();
    r = r == ncclSuccess ? end : r;
    if (r != ncclSuccess && r != ncclInProgress)
        return fail(err, NULL, r, what);
    rc = settle_all(x, until, what, err);
    for (uint32_t i = x->first; i < x->first + x->n_here && rc == 0; i++) {
        const uint64_t since = ts_clock_ns();
        while ((e = cudaStreamQuery(stream[i])) == cudaErrorNotReady && ts_clock_ns() < until)
            ts_exchange_pause(since);
        (void)cudaGetLastError();
        if (e == cudaErrorNotReady)
            rc =
                ts_fail(err, TS_ECUDA, "%s: nothing arrives within %d seconds", what, OPEN_SECONDS);
        else if (e != cudaSuccess)
            rc = ts_gpu_fail(err, e, what);
    }
    return rc;
}

static void nccl_abort(struct ts_exchange *x)
{
    struct way *w = x->way;
    pthread_mutex_lock(&w->aborting);
    /* The first n - 1 calls of CommAbort end the work of their ranks; the last call frees all. */
    for (uint32_t i = 0; i < x->n; i++) {
        pthread_mutex_lock(&w->lock[i]);
        if (w->comm[i] != NULL)
            (void)nccl.CommAbort(w->comm[i]);
        w->comm[i] = NULL;
        pthread_mutex_unlock(&w->lock[i]);
    }
    pthread_mutex_unlock(&w->aborting);
}

static void nccl_close(struct ts_exchange *x)
{
    struct way *w = x->way;
    if (w == NULL)
        return;
    /* CommDestroy waits for all ranks of a machine, but one process may close alone */
    for (uint32_t i = 0; i < x->n && w->comm != NULL; i++)
        if (w->comm[i] != NULL)
            (void)(x->comm != NULL ? nccl.CommAbort : nccl.CommDestroy)(w->comm[i]);
    for (uint32_t i = 0; i < w->n_locks; i++)
        pthread_mutex_destroy(&w->lock[i]);
    pthread_mutex_destroy(&w->aborting);
    free(w->lock);
    free(w->comm);
    free(w);
    x->way = NULL;
}

static int make_locks(struct ts_exchange *x, struct ts_err *err)
{
    struct way *w = calloc(1, sizeof *w);
    x->way = w;
    if (w != NULL) {
        pthread_mutex_init(&w->aborting, NULL);
        w->lock = calloc(x->n, sizeof *w->lock);
        w->comm = calloc(x->n, sizeof(ncclComm_t));
    }
    if (w == NULL || w->lock == NULL || w->comm == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    for (; w->n_locks < x->n; w->n_locks++)
        pthread_mutex_init(&w->lock[w->n_locks], NULL);
    return 0;
}

static int nccl_open(struct ts_exchange *x, struct ts_err *err)
{
    const uint64_t until = ts_clock_ns() + OPEN_SECONDS * UINT64_C(1000000000);
    ts_gpu_stream *stream = calloc(x->n, sizeof(ts_gpu_stream));
    char **buffer = calloc(x->n, sizeof *buffer);
    ncclUniqueId id;
    int rc;
    rc = ts_exchange_nccl_there(err);
    if (rc == 0)
        rc = share_id(x, &id, err);
    if (rc == 0 && (stream == NULL || buffer == NULL))
        rc = ts_fail(err, TS_ENOMEM, "out of memory");
    if (rc == 0)
        rc = make_locks(x, err);
    if (rc == 0) {
        rc = init_ranks(x, id, until, err);
        if (rc == 0)
            rc = first_round(x, stream, buffer, until, err);
        if (rc < 0) /* not CommDestroy: it waits for work that may never end */
            nccl_abort(x);
    }
    for (uint32_t i = 0; i < x->n && stream != NULL && buffer != NULL; i++) {
        cudaFree(buffer[i]);
        if (stream[i] != NULL)
            cudaStreamDestroy(stream[i]);
    }
    free(stream);
    free(buffer);
    return rc;
}

/* ---- gathers around the ring ---- */

/* Reports an error of NCCL that came after the ranks were connected. With several processes,
 * another one may be the cause. */
static int fail_later(struct ts_exchange *x, ncclComm_t comm, ncclResult_t r, struct ts_err *err)
{
    x->suspect = x->comm != NULL;
    return fail(err, comm, r, "exchange between GPUs");
}

/* Makes one round: sends pieces to the next rank and receives from the rank before, as one NCCL
 * group (one kernel). */
static ncclResult_t exchange_round(struct ts_exchange *x, ncclComm_t comm,
                                   struct ts_exchange_ring *r, char *base, ts_gpu_stream stream)
{
    const int to = (int)((r->rank + 1) % r->n), from = (int)((r->rank + r->n - 1) % r->n);
    struct ts_exchange_span s;
    ncclResult_t rc = nccl.GroupStart(), end;
    if (rc != ncclSuccess)
        return rc;
    while ((rc == ncclSuccess || rc == ncclInProgress) && ts_exchange_ring_next(r, &r->out, &s))
        rc = nccl.Send(base + s.offset, s.bytes, ncclUint8, to, comm, stream);
    while ((rc == ncclSuccess || rc == ncclInProgress) && ts_exchange_ring_next(r, &r->in, &s))
        rc = nccl.Recv(base + s.offset, s.bytes, ncclUint8, from, comm, stream);
    end = nccl.GroupEnd();
    if (rc == ncclSuccess || rc == ncclInProgress)
        rc = settle(x, r->rank, comm, end);
    return rc;
}

static int nccl_gather(struct ts_exchange *x, uint32_t rank, void *const base[],
                       const struct ts_exchange_part part[], ts_gpu_stream stream,
                       struct ts_err *err)
{
    struct way *w = x->way;
    struct ts_exchange_ring ring;
    uint64_t *scratch = malloc(3 * (size_t)x->n * sizeof *scratch);
    ncclResult_t r = ncclSuccess;
    int rc = 0;
    if (scratch == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    ts_exchange_ring_start(&ring, part, x->n, rank, scratch);
    pthread_mutex_lock(&w->lock[rank]);
    while (r == ncclSuccess && w->comm[rank] != NULL && ts_exchange_ring_round(&ring))
        if (ring.out.left > 0 || ring.in.left > 0)
            r = exchange_round(x, w->comm[rank], &ring, base[rank], stream);
    if (x->aborted || w->comm[rank] == NULL)
        rc = ts_exchange_fail_aborted(err);
    else if (r != ncclSuccess)
        rc = fail_later(x, w->comm[rank], r, err);
    pthread_mutex_unlock(&w->lock[rank]);
    free(scratch);
    return rc;
}

static int nccl_check(struct ts_exchange *x, uint32_t rank, struct ts_err *err)
{
    struct way *w = x->way;
    ncclResult_t r = ncclSuccess;
    int rc = 0;
    pthread_mutex_lock(&w->lock[rank]);
    if (w->comm[rank] == NULL)
        rc = ts_exchange_fail_aborted(err);
    else
        r = state_of(w->comm[rank]);
    if (rc == 0 && r != ncclSuccess && r != ncclInProgress)
        rc = fail_later(x, w->comm[rank], r, err);
    pthread_mutex_unlock(&w->lock[rank]);
    return rc;
}

const struct ts_exchange_way ts_exchange_nccl = {
    .kind = TS_EXCHANGE_NCCL,
    .open = nccl_open,
    .close = nccl_close,
    .gather = nccl_gather,
    .check = nccl_check,
    .abort = nccl_abort,
};
