/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchange through host memory: the ranks of a process copy their spans to a common buffer, the
 * first rank exchanges it with other processes through the comm, and all ranks copy the spans that
 * they lack from it.
 *
 * A gather consists of rounds. In each round the buffer holds the next bytes of all parts (one
 * rank's spans each), at most a window of each, in the order of ranks, so that the pieces of a
 * process are adjacent. No rank leaves a round before all ranks have finished with the buffer. */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/exchange/exchange_way.h"
#include "gpu/team/gpu_fail.h"

#define BUFFER_BYTES (UINT64_C(8) << 20)

struct way {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    uint32_t n_waiting; /* ranks of this process that wait at the barrier */
    uint64_t turn;      /* number of times that all ranks have passed the barrier */
    char *buffer;       /* page-locked: room for a window of each of the x->n ranks */
    uint64_t window;    /* the most bytes of one rank's spans in a round */
};

static int check_cuda(struct ts_err *err, ts_gpu_error e)
{
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "exchange through host memory");
}

/* Waits for all ranks of this process. Fails on all of them once the exchange is aborted. */
static int barrier(struct ts_exchange *x, struct ts_err *err)
{
    struct way *w = x->way;
    pthread_mutex_lock(&w->lock);
    if (++w->n_waiting == x->n_here) {
        w->n_waiting = 0;
        w->turn++;
        pthread_cond_broadcast(&w->all_here);
    } else {
        const uint64_t turn = w->turn;
        while (w->turn == turn && !x->aborted)
            pthread_cond_wait(&w->all_here, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return x->aborted ? ts_exchange_fail_aborted(err) : 0;
}

static int host_open(struct ts_exchange *x, struct ts_err *err)
{
    struct way *w = calloc(1, sizeof *w);
    if (w == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->all_here, NULL);
    w->window = BUFFER_BYTES / x->n / 512 * 512;
    x->way = w;
    return check_cuda(err,
                      cudaHostAlloc((void **)&w->buffer, x->n * w->window, cudaHostAllocPortable));
}

static void host_close(struct ts_exchange *x)
{
    struct way *w = x->way;
    if (w == NULL)
        return;
    (void)cudaFreeHost(w->buffer);
    pthread_cond_destroy(&w->all_here);
    pthread_mutex_destroy(&w->lock);
    free(w);
    x->way = NULL;
}

static void host_abort(struct ts_exchange *x)
{
    struct way *w = x->way;
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->all_here);
    pthread_mutex_unlock(&w->lock);
}

static uint64_t part_bytes(const struct ts_exchange_part *part)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < part->n; i++)
        sum += part->span[i].bytes;
    return sum;
}

/* Returns how many bytes of a part (one rank's spans) belong to the round that begins at byte `at`
 * of each part. */
static uint64_t piece_bytes(const struct ts_exchange *x, const struct ts_exchange_part *part,
                            uint64_t at)
{
    const struct way *w = x->way;
    const uint64_t all = part_bytes(part), left = all > at ? all - at : 0;
    return left < w->window ? left : w->window;
}

/* Returns the offset of a rank's piece in the buffer, which follows the pieces of lower ranks. */
static uint64_t piece_place(const struct ts_exchange *x, const struct ts_exchange_part part[],
                            uint32_t rank, uint64_t at)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < rank; i++)
        sum += piece_bytes(x, &part[i], at);
    return sum;
}

/* Copies the piece of a part that begins at byte `first` between the replica at `base` and
 * `window`; `kind` gives the direction. The spans of a part count as one sequence of bytes. */
static ts_gpu_error copy_piece(const struct ts_exchange *x, const struct ts_exchange_part *part,
                               char *base, uint64_t first, char *window, enum cudaMemcpyKind kind,
                               ts_gpu_stream stream)
{
    const uint64_t end = first + piece_bytes(x, part, first);
    ts_gpu_error e = cudaSuccess;
    uint64_t before = 0; /* bytes of the spans before span i */
    for (uint32_t i = 0; i < part->n && e == cudaSuccess; i++) {
        const struct ts_exchange_span *s = &part->span[i];
        const uint64_t from = first > before ? first : before;
        const uint64_t to = end < before + s->bytes ? end : before + s->bytes;
        char *here = base + s->offset + (from - before), *there = window + (from - first);
        if (from < to && kind == cudaMemcpyDeviceToHost)
            e = cudaMemcpyAsync(there, here, to - from, kind, stream);
        else if (from < to)
            e = cudaMemcpyAsync(here, there, to - from, kind, stream);
        before += s->bytes;
    }
    return e;
}

/* Exchanges the pieces of a round between processes. A process that has failed reports its failure
 * here. */
static int share(struct ts_exchange *x, const struct ts_exchange_part part[], uint64_t at,
                 struct ts_err *err)
{
    const struct way *w = x->way;
    int rc;
    if (x->comm == NULL)
        return 0;
    rc = x->comm->ops->agree(x->comm, 0, err);
    if (rc < 0)
        return rc;
    for (uint32_t p = 0; p <= x->comm->n; p++)
        x->byte[p] = piece_place(x, part, x->first_of[p], at);
    return x->comm->ops->gather(x->comm, w->buffer, x->byte, err);
}

static int round_of(struct ts_exchange *x, uint32_t rank, char *base,
                    const struct ts_exchange_part part[], uint64_t at, ts_gpu_stream stream,
                    struct ts_err *err)
{
    const struct way *w = x->way;
    ts_gpu_error e =
        copy_piece(x, &part[rank], base, at, w->buffer + piece_place(x, part, rank, at),
                   cudaMemcpyDeviceToHost, stream);
    int rc = check_cuda(err, e);
    if (rc == 0)
        rc = ts_exchange_wait(x, rank, stream, err);
    if (rc == 0)
        rc = barrier(x, err);
    if (rc == 0 && rank == x->first)
        rc = share(x, part, at, err);
    if (rc == 0)
        rc = barrier(x, err);
    for (uint32_t i = 0; i < x->n && rc == 0; i++) {
        if (i == rank)
            continue;
        e = copy_piece(x, &part[i], base, at, w->buffer + piece_place(x, part, i, at),
                       cudaMemcpyHostToDevice, stream);
        rc = check_cuda(err, e);
    }
    if (rc == 0)
        rc = ts_exchange_wait(x, rank, stream, err);
    return rc == 0 ? barrier(x, err) : rc; /* all ranks have finished reading the buffer */
}

static int host_gather(struct ts_exchange *x, uint32_t rank, void *const base[],
                       const struct ts_exchange_part part[], ts_gpu_stream stream,
                       struct ts_err *err)
{
    const struct way *w = x->way;
    uint64_t most = 0;
    int rc = 0;
    for (uint32_t i = 0; i < x->n; i++)
        most = part_bytes(&part[i]) > most ? part_bytes(&part[i]) : most;
    for (uint64_t at = 0; at < most && rc == 0; at += w->window)
        rc = round_of(x, rank, base[rank], part, at, stream, err);
    return rc;
}

const struct ts_exchange_way ts_exchange_host = {
    .kind = TS_EXCHANGE_HOST,
    .blocks = 1,
    .open = host_open,
    .close = host_close,
    .gather = host_gather,
    .abort = host_abort,
};
