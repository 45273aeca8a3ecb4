/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses NCCL, copies or host memory as the way to exchange data between GPUs, and holds what
 * these ways share: peer access, events, and the abort of an exchange. */
#include "config.h"

#include "gpu/exchange/exchange.h"

#include <cuda_runtime.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/stop.h"
#include "gpu/exchange/exchange_way.h"
#include "gpu/team/gpu_fail.h"

#define AWAKE_NS 300000

const char *ts_exchange_nccl_file;

static int check_cuda(struct ts_err *err, ts_gpu_error e, const char *what)
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

/* ---- opening and closing ---- */

static int is_named_twice(const struct ts_exchange *x)
{
    for (uint32_t i = x->first; i < x->first + x->n_here; i++)
        for (uint32_t j = x->first; j < i; j++)
            if (x->device[i] == x->device[j])
                return 1;
    return 0;
}

/* Lets each pair of GPUs copy directly, for the exchange and for the caller. Copies between a pair
 * that cannot are slower, as they go through host memory. Returns whether all pairs can. */
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
                /* an error means that peer access is enabled already */
                (void)cudaDeviceEnablePeerAccess(device[j], 0);
            all &= can;
        }
    }
    (void)cudaGetLastError();
    return all;
}

static int make_events(struct ts_exchange *x, struct ts_err *err)
{
    ts_gpu_error e = cudaSuccess;
    for (uint32_t i = x->first; i < x->first + x->n_here && e == cudaSuccess; i++) {
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

static void note(struct ts_exchange *x, const char *why)
{
    snprintf(x->note, sizeof x->note, "%.*s", (int)sizeof x->note - 1, why);
}

static int open_nccl(struct ts_exchange *x, struct ts_err *err)
{
#ifdef HAVE_NCCL
    return open_way(x, &ts_exchange_nccl, err);
#else
    (void)x;
    return ts_fail(err, TS_ELIMIT,
                   "this program was built without NCCL (--with-nccl of configure)");
#endif
}

/* For a run of one process: chooses the way to exchange for `kind`. AUTO takes what the machine
 * supports. direct: all devices reach each other's memory. */
static int choose_way(struct ts_exchange *x, enum ts_exchange_kind kind, int direct,
                      struct ts_err *err)
{
    const int twice = is_named_twice(x);
    if (kind == TS_EXCHANGE_HOST)
        return open_way(x, &ts_exchange_host, err);
    if (kind == TS_EXCHANGE_NCCL && twice)
        return ts_fail(err, TS_EARG, "NCCL cannot exchange with a GPU that is named twice");
    if (kind == TS_EXCHANGE_NCCL)
        return open_nccl(x, err);
#ifdef HAVE_NCCL
    if (kind == TS_EXCHANGE_AUTO && !twice && !direct) {
        struct ts_err why;
        if (open_nccl(x, &why) == 0)
            return 0;
        if (ts_stop_asked(x->stop))
            return ts_stop_check(x->stop, err);
        note(x, why.text);
        (void)cudaGetLastError(); /* clears the error: the next launch would return it */
    }
#else
    (void)direct;
#endif
    return open_way(x, &ts_exchange_copy, err);
}

/* The message that each process sends to all others while a way to exchange is chosen. */
struct word {
    int kind; /* the kind of exchange that was asked for */
    int rc;   /* the result of this process's attempt to open that kind */
    char text[256];
};

static struct word word_of(enum ts_exchange_kind kind, int rc, const struct ts_err *err)
{
    struct word w = { .kind = (int)kind, .rc = rc };
    if (rc < 0)
        snprintf(w.text, sizeof w.text, "%.255s", err->text);
    return w;
}

/* Gathers the messages of all processes. On entry, words has that of this process. */
static int share_words(const struct ts_exchange *x, struct word *words, struct ts_err *err)
{
    for (uint32_t p = 0; p <= x->comm->n; p++)
        x->byte[p] = p * sizeof *words;
    return x->comm->ops->gather(x->comm, words, x->byte, err);
}

/* Returns the message of the first process that failed; NULL: none did. */
static const struct word *who_failed(const struct ts_exchange *x, const struct word *words)
{
    for (uint32_t p = 0; p < x->comm->n; p++)
        if (words[p].rc < 0)
            return &words[p];
    return NULL;
}

/* Opens NCCL on all processes, or on none. *why: the error of the first process that failed. */
static int open_nccl_among(struct ts_exchange *x, enum ts_exchange_kind kind, struct word *words,
                           struct ts_err *why, struct ts_err *err)
{
    const struct word *failed;
    int rc;
#ifdef HAVE_NCCL
    rc = ts_exchange_nccl_there(why);
#else
    rc = open_nccl(x, why);
#endif
    words[x->comm->rank] = word_of(kind, rc, why);
    rc = share_words(x, words, err);
    if (rc < 0)
        return rc;
    failed = who_failed(x, words);
    if (failed == NULL) {
        rc = open_nccl(x, why);
        words[x->comm->rank] = word_of(kind, rc, why);
        if (share_words(x, words, err) < 0)
            return err->code;
        failed = who_failed(x, words);
        if (failed != NULL && rc == 0) {
            x->ops->abort(x);
            x->ops->close(x);
            x->ops = NULL;
        }
        (void)cudaGetLastError(); /* clears the error: the next launch would return it */
    }
    return failed == NULL ? 0 : ts_fail(why, failed->rc, "%s", failed->text);
}

/* For several processes: chooses the way to exchange. All decide alike, from the same messages. */
static int choose_among(struct ts_exchange *x, enum ts_exchange_kind kind, int shared,
                        struct word *words, struct ts_err *err)
{
    struct ts_err why = { 0 };
    int rc;
    words[x->comm->rank] = word_of(kind, 0, NULL);
    rc = share_words(x, words, err);
    if (rc < 0)
        return rc;
    for (uint32_t p = 1; p < x->comm->n; p++)
        if (words[p].kind != words[0].kind)
            return ts_fail(err, TS_EARG, "the processes are to exchange rows in different ways");
    if (kind == TS_EXCHANGE_COPY)
        return ts_fail(
            err, TS_EARG,
            "copies from GPU to GPU are of one process: several exchange rows by NCCL, or "
            "through host memory");
    if (kind == TS_EXCHANGE_NCCL && shared)
        return ts_fail(err, TS_EARG,
                       "NCCL cannot exchange between processes that share a GPU: start one process "
                       "for each GPU, or let rows pass through host memory");
    if (kind == TS_EXCHANGE_HOST)
        return open_way(x, &ts_exchange_host, err);
    if (shared) {
        note(x, "processes share a GPU");
        return open_way(x, &ts_exchange_host, err);
    }
    rc = open_nccl_among(x, kind, words, &why, err);
    if (rc == 0)
        return 0;
    if (kind == TS_EXCHANGE_NCCL || rc == TS_ESTOP || why.code == 0) {
        if (why.code != 0)
            *err = why;
        return rc;
    }
    note(x, why.text);
    return open_way(x, &ts_exchange_host, err);
}

static struct ts_exchange *make(const struct ts_exchange_conf *conf, uint32_t n_here)
{
    struct ts_exchange *x = calloc(1, sizeof *x);
    const uint32_t n_processes = conf->comm == NULL ? 1 : conf->comm->n;
    if (x == NULL)
        return NULL;
    x->comm = conf->comm;
    x->stop = conf->stop;
    x->n_here = n_here;
    x->n = conf->comm == NULL ? n_here : conf->first[n_processes];
    x->first = conf->comm == NULL ? 0 : conf->first[conf->comm->rank];
    x->first_of = calloc(n_processes + UINT64_C(1), sizeof *x->first_of);
    x->byte = calloc(n_processes + UINT64_C(1), sizeof *x->byte);
    x->device = calloc(x->n, sizeof *x->device);
    x->done = calloc(x->n, sizeof(ts_gpu_event));
    if (x->first_of == NULL || x->byte == NULL || x->device == NULL || x->done == NULL) {
        ts_exchange_free(x);
        return NULL;
    }
    x->first_of[n_processes] = x->n;
    for (uint32_t p = 0; conf->comm != NULL && p < n_processes; p++)
        x->first_of[p] = conf->first[p];
    for (uint32_t i = 0; i < x->n; i++)
        x->device[i] = ts_exchange_is_here(x, i) ? conf->device[i - x->first] : -1;
    return x;
}

/* Makes the events, and chooses the way to exchange. Changes the current device. */
static int prepare(struct ts_exchange *x, const struct ts_exchange_conf *conf, struct ts_err *err)
{
    const int direct = enable_peers(x->device + x->first, x->n_here, x->stop);
    struct word *words;
    int rc = ts_stop_check(x->stop, err);
    if (rc == 0)
        rc = make_events(x, err);
    if (conf->comm == NULL)
        return rc == 0 ? choose_way(x, conf->kind, direct, err) : rc;
    words = calloc(conf->comm->n, sizeof *words);
    if (rc == 0 && words == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory");
    rc = conf->comm->ops->agree(conf->comm, rc, err);
    if (rc == 0)
        rc = choose_among(x, conf->kind, conf->shared, words, err);
    free(words);
    return rc;
}

static int open_exchange(const struct ts_exchange_conf *conf, uint32_t n_here,
                         struct ts_exchange **ret, struct ts_err *err)
{
    struct ts_exchange *x = make(conf, n_here);
    int current = 0, rc = x != NULL ? 0 : ts_fail(err, TS_ENOMEM, "out of memory");
    if (rc == 0)
        rc = check_cuda(err, cudaGetDevice(&current), "preparing the exchange between GPUs");
    if (rc == 0) {
        rc = prepare(x, conf, err);
        (void)cudaSetDevice(current);
    } else if (conf->comm != NULL) {
        rc = conf->comm->ops->agree(conf->comm, rc, err);
    }
    if (rc < 0) {
        ts_exchange_free(x);
        return rc;
    }
    *ret = x;
    return 0;
}

int ts_exchange_new(const int *device, uint32_t n, enum ts_exchange_kind kind,
                    const volatile sig_atomic_t *stop, struct ts_exchange **ret, struct ts_err *err)
{
    const struct ts_exchange_conf conf = { .device = device, .kind = kind, .stop = stop };
    return open_exchange(&conf, n, ret, err);
}

int ts_exchange_new_among(const struct ts_exchange_conf *conf, struct ts_exchange **ret,
                          struct ts_err *err)
{
    const struct ts_comm *c = conf->comm;
    return open_exchange(conf, conf->first[c->rank + 1] - conf->first[c->rank], ret, err);
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
    free(x->first_of);
    free(x->byte);
    free(x);
}

enum ts_exchange_kind ts_exchange_used(const struct ts_exchange *x)
{
    return x->ops->kind;
}

int ts_exchange_blocks(const struct ts_exchange *x)
{
    return x->ops->blocks && x->n > 1;
}

const char *ts_exchange_note(const struct ts_exchange *x)
{
    return x->note[0] == '\0' ? NULL : x->note;
}

/* ---- gathers by any way ---- */

int ts_exchange_gather(struct ts_exchange *x, uint32_t rank, void *const base[],
                       const struct ts_exchange_part part[], ts_gpu_stream stream,
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

/* Makes the stream wait until the rank's replica is complete. If each rank writes to all replicas
 * (COPY), it is complete once the gathers of all ranks are done, otherwise once the rank's own
 * gather is. A rank that is ahead may have recorded the event of its next gather already. Then the
 * stream waits longer than necessary, but never for itself, since an event covers only work that
 * was enqueued before it. */
int ts_exchange_join(struct ts_exchange *x, uint32_t rank, ts_gpu_stream stream, struct ts_err *err)
{
    ts_gpu_error e = cudaSuccess;
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

int ts_exchange_suspects(const struct ts_exchange *x)
{
    return x->suspect;
}

int ts_exchange_wait(struct ts_exchange *x, uint32_t rank, ts_gpu_stream stream, struct ts_err *err)
{
    const uint64_t since = ts_clock_ns();
    for (;;) {
        const ts_gpu_error e = cudaStreamQuery(stream);
        const int rc = ts_exchange_check(x, rank, err);
        if (rc < 0)
            return rc;
        if (e != cudaErrorNotReady)
            return check_cuda(err, e, "exchange between GPUs");
        (void)cudaGetLastError(); /* clears "not ready", which the next launch would return */
        ts_exchange_pause(since);
    }
}

void ts_exchange_abort(struct ts_exchange *x)
{
    x->aborted = 1;
    if (x->ops != NULL && x->ops->abort != NULL)
        x->ops->abort(x);
}
