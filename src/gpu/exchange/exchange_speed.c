/* SPDX-License-Identifier: BSD-3-Clause */
/* Times gathers of an exchange, and compares the data that arrives with a pattern, for `tstream
 * bench exchange`. */
#include "gpu/exchange/exchange_speed.h"

#include <cuda_runtime.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "gpu/team/gpu_fail.h"

/* number of timed samples whose median is taken, after one that is dropped */
#define SAMPLES      9
#define SAMPLE_NS    4000000 /* short gathers are repeated for about this long */
#define MOST_GATHERS 64
/* period of the pattern; not a power of two, so that misplaced data differ */
#define PERIOD 16777213u
#define ALIGN  512

struct rank {
    struct ts_exchange_speed *s;
    uint32_t number;
    pthread_t thread;
    char *replica;
    ts_gpu_stream stream;
    unsigned char *chunk; /* host copy of up to PERIOD bytes of the replica */
    int rc;
    struct ts_err err;
};

struct ts_exchange_speed {
    struct ts_exchange *exchange;
    uint32_t n;
    int *device;
    unsigned char *pattern; /* byte o of the full buffer is pattern[o % PERIOD], never 0 */
    struct rank *rank;
    void **base;
    struct ts_exchange_part *part;
    struct ts_exchange_span *span;

    /* the members below are for the current call of ts_exchange_speed_run */
    uint64_t bytes, start_ns, ns[SAMPLES + 1];
    uint32_t gathers;     /* number of gathers that a sample times together */
    pthread_mutex_t gate; /* held by the caller until `go` is set */
    int go;               /* 1: all threads have started; 0: a thread could not be started */
    pthread_barrier_t barrier;
    atomic_int failed; /* 0, or 1 + the rank that failed first */
};

static int check(struct ts_err *err, ts_gpu_error e, const char *what)
{
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, what);
}

/* ---- the thread of one rank; all ranks run in step ---- */

/* Records a failure (rc < 0) of a rank and aborts the exchange, which ends the waits of the other
 * ranks. The rank then passes the barriers without working. */
static void note(struct rank *r, int rc)
{
    int none = 0;
    if (rc >= 0)
        return;
    r->rc = rc;
    if (atomic_compare_exchange_strong(&r->s->failed, &none, 1 + (int)r->number))
        ts_exchange_abort(r->s->exchange);
}

/* Returns the bytes from `at` to `end` that lie in the same period of the pattern as `at`. */
static uint64_t chunk_bytes(uint64_t at, uint64_t end)
{
    const uint64_t most = PERIOD - at % PERIOD;
    return end - at < most ? end - at : most;
}

static int fill(struct rank *r)
{
    const struct ts_exchange_span *own = &r->s->span[r->number];
    const uint64_t end = own->offset + own->bytes;
    ts_gpu_error e = cudaMemsetAsync(r->replica, 0, r->s->bytes, r->stream);
    for (uint64_t at = own->offset, n; at < end && e == cudaSuccess; at += n) {
        n = chunk_bytes(at, end);
        e = cudaMemcpyAsync(r->replica + at, r->s->pattern + at % PERIOD, n, cudaMemcpyHostToDevice,
                            r->stream);
    }
    TRY(e, cudaStreamSynchronize(r->stream));
    return check(&r->err, e, "filling GPU memory");
}

static int compare(struct rank *r)
{
    struct ts_exchange_speed *s = r->s;
    for (uint64_t at = 0, n; at < s->bytes; at += n) {
        const unsigned char *want = s->pattern + at % PERIOD;
        uint64_t same = 0;
        ts_gpu_error e;
        n = chunk_bytes(at, s->bytes);
        e = cudaMemcpyAsync(r->chunk, r->replica + at, n, cudaMemcpyDeviceToHost, r->stream);
        TRY(e, cudaStreamSynchronize(r->stream));
        if (e != cudaSuccess)
            return check(&r->err, e, "reading GPU memory");
        if (memcmp(r->chunk, want, n) == 0)
            continue;
        while (r->chunk[same] == want[same])
            same++;
        return ts_fail(&r->err, TS_ECUDA,
                       "the exchange is wrong: byte %" PRIu64 " of GPU %d's replica of %" PRIu64
                       " is %u, expected %u; check the GPUs and their links (nvidia-smi, dmesg)",
                       at + same, s->device[r->number], s->bytes, r->chunk[same], want[same]);
    }
    return 0;
}

static int gather(struct rank *r, uint32_t times)
{
    struct ts_exchange_speed *s = r->s;
    int rc = 0;
    for (uint32_t i = 0; i < times && rc == 0; i++)
        rc = ts_exchange_gather(s->exchange, r->number, s->base, s->part, r->stream, &r->err);
    return rc;
}

static int wait_stream(struct rank *r)
{
    return ts_exchange_wait(r->s->exchange, r->number, r->stream, &r->err);
}

/* Makes one gather into cleared replicas, and compares the data there with the pattern. */
static void try_once(struct rank *r)
{
    struct ts_exchange_speed *s = r->s;
    note(r, fill(r));
    pthread_barrier_wait(&s->barrier); /* every replica may be written */
    if (!s->failed)
        note(r, gather(r, 1));
    pthread_barrier_wait(&s->barrier); /* all ranks have called gather */
    if (!s->failed)
        note(r, ts_exchange_join(s->exchange, r->number, r->stream, &r->err));
    if (!s->failed)
        note(r, wait_stream(r));
    if (!s->failed)
        note(r, compare(r));
    pthread_barrier_wait(&s->barrier);
}

/* Makes `times` gathers between two barriers. Rank 0 measures the time. */
static void sample(struct rank *r, uint32_t times, uint64_t *ns)
{
    struct ts_exchange_speed *s = r->s;
    pthread_barrier_wait(&s->barrier);
    if (r->number == 0)
        s->start_ns = ts_clock_ns();
    if (!s->failed)
        note(r, gather(r, times));
    if (!s->failed)
        note(r, wait_stream(r));
    pthread_barrier_wait(&s->barrier);
    if (r->number == 0)
        *ns = (ts_clock_ns() - s->start_ns) / times;
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct ts_exchange_speed *s = r->s;
    int go;
    pthread_mutex_lock(&s->gate);
    go = s->go;
    pthread_mutex_unlock(&s->gate);
    if (!go)
        return NULL;
    note(r, check(&r->err, cudaSetDevice(s->device[r->number]), "the GPU cannot be used"));
    try_once(r);
    sample(r, 1, &s->ns[0]);
    if (r->number == 0) {
        const uint64_t n = SAMPLE_NS / (s->ns[0] + 1);
        s->gathers = n < 1 ? 1 : n > MOST_GATHERS ? MOST_GATHERS : (uint32_t)n;
    }
    pthread_barrier_wait(&s->barrier);
    for (uint32_t i = 0; i <= SAMPLES; i++)
        sample(r, s->gathers, &s->ns[i]);
    return NULL;
}

/* ---- one measurement ---- */

static void share(struct ts_exchange_speed *s, uint64_t bytes, int unequal)
{
    const uint64_t shares = unequal ? (uint64_t)s->n * (s->n + 1) / 2 : s->n;
    uint64_t before = 0, start = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t end;
        before += unequal ? i + 1 : 1;
        end = i + 1 == s->n ? bytes : bytes / shares * before / ALIGN * ALIGN;
        s->span[i].offset = start;
        s->span[i].bytes = end - start;
        s->part[i].span = &s->span[i];
        s->part[i].n = 1;
        start = end;
    }
    s->bytes = bytes;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int ts_exchange_speed_run(struct ts_exchange_speed *s, uint64_t bytes, int unequal, uint64_t *ns,
                          struct ts_err *err)
{
    uint32_t n = 0;
    share(s, bytes, unequal);
    pthread_barrier_init(&s->barrier, NULL, s->n);
    pthread_mutex_lock(&s->gate);
    while (n < s->n && pthread_create(&s->rank[n].thread, NULL, run_rank, &s->rank[n]) == 0)
        n++;
    s->go = n == s->n;
    pthread_mutex_unlock(&s->gate);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(s->rank[i].thread, NULL);
    pthread_barrier_destroy(&s->barrier);
    if (!s->go)
        return ts_fail(err, TS_ENOMEM, "no more threads can be started");
    if (s->failed) {
        const struct rank *r = &s->rank[s->failed - 1];
        if (err != NULL)
            *err = r->err;
        return r->rc;
    }
    qsort(s->ns + 1, SAMPLES, sizeof *s->ns, by_value);
    *ns = s->ns[1 + SAMPLES / 2];
    return 0;
}

/* ---- making and freeing the object ---- */

static int make_ranks(struct ts_exchange_speed *s, uint64_t most_bytes, struct ts_err *err)
{
    ts_gpu_error e = cudaSuccess;
    for (uint32_t i = 0; i < s->n && e == cudaSuccess; i++) {
        struct rank *r = &s->rank[i];
        r->s = s;
        r->number = i;
        r->chunk = malloc(PERIOD);
        if (r->chunk == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory");
        e = cudaSetDevice(s->device[i]);
        TRY(e, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
        TRY(e, cudaMalloc((void **)&r->replica, most_bytes));
        s->base[i] = r->replica;
    }
    return check(err, e, "memory for the exchange on the GPU");
}

const struct ts_exchange *ts_exchange_speed_of(const struct ts_exchange_speed *s)
{
    return s->exchange;
}

void ts_exchange_speed_free(struct ts_exchange_speed *s)
{
    if (s == NULL)
        return;
    ts_exchange_free(s->exchange);
    pthread_mutex_destroy(&s->gate);
    for (uint32_t i = 0; i < s->n && s->rank != NULL; i++) {
        struct rank *r = &s->rank[i];
        free(r->chunk);
        cudaFree(r->replica);
        if (r->stream != NULL)
            cudaStreamDestroy(r->stream);
    }
    free(s->rank);
    free(s->base);
    free(s->part);
    free(s->span);
    free(s->pattern);
    free(s->device);
    free(s);
}

int ts_exchange_speed_new(const int *device, uint32_t n, enum ts_exchange_kind kind,
                          uint64_t most_bytes, const volatile sig_atomic_t *stop,
                          struct ts_exchange_speed **ret, struct ts_err *err)
{
    struct ts_exchange_speed *s = calloc(1, sizeof *s);
    int rc = TS_ENOMEM;
    if (s != NULL) {
        s->n = n;
        pthread_mutex_init(&s->gate, NULL);
        s->device = calloc(n, sizeof *s->device);
        s->rank = calloc(n, sizeof *s->rank);
        s->base = calloc(n, sizeof *s->base);
        s->part = calloc(n, sizeof *s->part);
        s->span = calloc(n, sizeof *s->span);
        s->pattern = malloc(PERIOD);
    }
    if (s == NULL || s->device == NULL || s->rank == NULL || s->base == NULL || s->part == NULL ||
        s->span == NULL || s->pattern == NULL) {
        ts_fail(err, TS_ENOMEM, "out of memory");
        goto fail;
    }
    memcpy(s->device, device, n * sizeof *device);
    for (uint32_t i = 0; i < PERIOD; i++)
        s->pattern[i] = (unsigned char)(ts_mix(i) % 255 + 1);
    rc = make_ranks(s, most_bytes, err);
    if (rc == 0)
        rc = ts_exchange_new(device, n, kind, stop, &s->exchange, err);
    if (rc < 0)
        goto fail;
    *ret = s;
    return 0;
fail:
    ts_exchange_speed_free(s);
    return rc;
}
