/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes a member's device (a GPU of the team): its memory, streams and events, and the
 * constant tables that are sent to it once. */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_device.h"
#include "gpu/team/gpu_fail.h"

static int check(struct ts_err *err, ts_gpu_error e, const char *what)
{
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, what);
}

/* Sends the tables of every mode, which never change, to the device: first and last rows of shards,
 * the rows at boundaries of shards, and the dictionary of values. */
static ts_gpu_error send_constants(const struct ts_gpu *g, struct ts_gpu_member *me)
{
    const struct ts_tensor *t = g->tensor;
    ts_gpu_error e = cudaSuccess;
    for (uint32_t m = 0; m < t->order && e == cudaSuccess; m++) {
        const struct ts_gpu_mode *mode = &g->mode[m];
        uint32_t *row = malloc((2 * mode->n_shards + 1) * sizeof *row);
        if (row == NULL)
            return cudaErrorMemoryAllocation;
        for (uint64_t i = 0; i < mode->n_shards; i++) {
            row[2 * i] = mode->shard[i].row_first;
            row[2 * i + 1] = mode->shard[i].row_last;
        }
        e = cudaMemcpy(me->shard_row[m], row, 8 * mode->n_shards, cudaMemcpyHostToDevice);
        TRY(e, cudaMemcpy(me->boundary[m], mode->boundary, 4 * mode->n_boundary,
                          cudaMemcpyHostToDevice));
        free(row);
    }
    if (t->header.n_dict > 0)
        TRY(e, cudaMemcpy(me->dict, t->dict, 8 * (size_t)t->header.n_dict, cudaMemcpyHostToDevice));
    return e;
}

/* Makes the streams of a member. Work that other members wait for has priority over work that fills
 * the GPU. When a thread block ends, a block of the waiting kernel with the highest priority takes
 * its place. So during a kernel over thousands of kept partitions, rows of a finished chunk are
 * solved and sent, and streamed shards are computed on, which frees their slots. */
static ts_gpu_error make_streams(struct ts_gpu_member *me)
{
    int least, greatest, middle;
    ts_gpu_error e = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    middle = least > greatest ? least - 1 : least;
    TRY(e, cudaStreamCreateWithPriority(&me->copy, cudaStreamNonBlocking, greatest));
    TRY(e, cudaStreamCreateWithPriority(&me->dense, cudaStreamNonBlocking, greatest));
    TRY(e, cudaStreamCreateWithPriority(&me->send, cudaStreamNonBlocking, greatest));
    for (int i = 0; i < TS_GPU_STREAMS && e == cudaSuccess; i++)
        e = cudaStreamCreateWithPriority(&me->compute[i], cudaStreamNonBlocking, middle);
    for (int i = 0; i < TS_GPU_KEPT_STREAMS && e == cudaSuccess; i++)
        e = cudaStreamCreateWithPriority(&me->keeping[i], cudaStreamNonBlocking, least);
    return e;
}

static ts_gpu_error make_event(ts_gpu_event *ret, ts_gpu_error so_far)
{
    return so_far != cudaSuccess ? so_far : cudaEventCreateWithFlags(ret, cudaEventDisableTiming);
}

static ts_gpu_error make_events(struct ts_gpu_member *me)
{
    ts_gpu_error e = cudaSuccess;
    for (int i = 0; i < TS_GPU_STREAMS + TS_GPU_KEPT_STREAMS; i++)
        e = make_event(&me->joined[i], e);
    for (int i = 0; i < TS_GPU_CHUNKS; i++)
        e = make_event(&me->solved[i], e);
    for (int i = 0; i < TS_GPU_SLOTS; i++) {
        struct ts_gpu_early *early = &me->slot[i].early;
        e = make_event(&me->slot[i].used, e);
        TRY(e, cudaEventCreate(&early->began));
        TRY(e, cudaEventCreate(&early->arrived));
    }
    for (int i = 0; i < TS_GPU_LENT; i++)
        e = make_event(&me->copied[i], e);
    e = make_event(&me->ready, e);
    e = make_event(&me->received, e);
    e = make_event(&me->over, e);
    e = make_event(&me->scaled, e);
    return e == cudaSuccess ? ts_gpu_log_open(&me->log) : e;
}

/* Allocates page-locked memory, and assigns a part of it to each model. */
static ts_gpu_error lock_memory(const struct ts_gpu *g, struct ts_gpu_member *me)
{
    const int own = g->apart_rows > 0;
    uint64_t bytes = 0;
    ts_gpu_error e;
    char *at;
    for (uint32_t k = 0; k < g->n_models; k++)
        bytes += ts_gpu_locked_bytes(g->model[k].ld, own);
    e = cudaHostAlloc(&me->locked, bytes, cudaHostAllocDefault);
    if (e != cudaSuccess)
        return e;
    memset(me->locked, 0, bytes);
    at = me->locked;
    for (uint32_t k = 0; k < g->n_models; k++) {
        const uint32_t ld = g->model[k].ld;
        me->replica[k].host = at;
        me->replica[k].host_scale = (double *)(at + ts_gpu_host_bytes(ld, own));
        at += ts_gpu_locked_bytes(ld, own);
    }
    return e;
}

int ts_gpu_device_open(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err)
{
    const uint64_t bytes = ts_gpu_device_work_bytes(g);
    int cache = 0;
    ts_gpu_error e = cudaSetDevice(me->device);
    me->replica = calloc(g->n_models, sizeof *me->replica);
    me->product = calloc(g->n_models, sizeof *me->product);
    if (me->replica == NULL || me->product == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u models", g->n_models);
    TRY(e, cudaMalloc((void **)&me->memory, bytes));
    if (e != cudaSuccess)
        return check(err, e, "memory for the factor matrices");
    (void)ts_gpu_layout(g, me, me->memory);
    e = cudaMemset(me->memory, 0, bytes);
    TRY(e, cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, me->device));
    me->cache_bytes = cache > 0 ? (uint64_t)cache : 0;
    TRY(e, lock_memory(g, me));
    TRY(e, send_constants(g, me));
    TRY(e, cudaDeviceSynchronize()); /* the streams made below do not wait for the default stream */
    TRY(e, make_streams(me));
    TRY(e, make_events(me));
    return check(err, e, "setting the GPU up");
}

int ts_gpu_device_store(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err)
{
    ts_gpu_error e = cudaSetDevice(me->device);
    if (g->store_bytes > 0)
        TRY(e, cudaMalloc((void **)&me->store, g->store_bytes));
    if (e != cudaSuccess)
        return check(err, e, "memory for shards");
    for (uint32_t i = 0; i < g->n_slots; i++)
        me->slot[i].addr = me->store + i * g->slot_bytes;
    me->kept = me->store + g->n_slots * g->slot_bytes;
    if (g->cells != NULL)
        ts_gpu_cells_store(g, me);
    return 0;
}

static void close_events(struct ts_gpu_member *me)
{
    ts_gpu_event *const each[] = { &me->ready, &me->received, &me->over, &me->scaled };
    for (int i = 0; i < 4; i++)
        if (*each[i] != NULL)
            cudaEventDestroy(*each[i]);
    for (int i = 0; i < TS_GPU_STREAMS + TS_GPU_KEPT_STREAMS; i++)
        if (me->joined[i] != NULL)
            cudaEventDestroy(me->joined[i]);
    for (int i = 0; i < TS_GPU_CHUNKS; i++)
        if (me->solved[i] != NULL)
            cudaEventDestroy(me->solved[i]);
    for (int i = 0; i < TS_GPU_SLOTS; i++) {
        const struct ts_gpu_slot *slot = &me->slot[i];
        const ts_gpu_event of[] = { slot->used, slot->early.began, slot->early.arrived };
        for (int k = 0; k < 3; k++)
            if (of[k] != NULL)
                cudaEventDestroy(of[k]);
    }
    for (int i = 0; i < TS_GPU_LENT; i++)
        if (me->copied[i] != NULL)
            cudaEventDestroy(me->copied[i]);
    ts_gpu_log_close(&me->log);
}

void ts_gpu_device_close(struct ts_gpu_member *me)
{
    ts_gpu_stream *const each[] = { &me->copy, &me->dense, &me->send };
    const int there = me->memory != NULL && cudaSetDevice(me->device) == cudaSuccess;
    for (uint32_t k = 0; there && k < me->gpu->n_models; k++)
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            ts_gpu_graph_free(&me->replica[k].rest[m]);
    free(me->free_place);
    free(me->replica);
    free(me->product);
    if (!there)
        return;
    for (int i = 0; i < 3; i++)
        if (*each[i] != NULL)
            cudaStreamDestroy(*each[i]);
    for (int i = 0; i < TS_GPU_STREAMS; i++)
        if (me->compute[i] != NULL)
            cudaStreamDestroy(me->compute[i]);
    for (int i = 0; i < TS_GPU_KEPT_STREAMS; i++)
        if (me->keeping[i] != NULL)
            cudaStreamDestroy(me->keeping[i]);
    close_events(me);
    cudaFreeHost(me->locked);
    cudaFree(me->store);
    cudaFree(me->memory);
}
