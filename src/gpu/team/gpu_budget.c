/* SPDX-License-Identifier: BSD-3-Clause */
/* Divides the memory of each device: measures how much the driver takes, and leaves the rest to
 * shards. */
#include "gpu/team/gpu_budget.h"

#include <cuda_runtime.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/setting.h"
#include "format/arrays/dense.h"
#include "gpu/team/gpu_device.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/team/gpu_memory.h"
#include "gpu/team/gpu_plan.h"

/* Device memory left to other programs when no budget is given. */
#define RESERVE_BYTES (UINT64_C(512) << 20)

/* Part of a budget that is not used: CUDA allocates in pieces of 2 MiB. */
#define ROUNDING_BYTES (UINT64_C(4) << 20)

/* Most bytes of host memory in which the feed reads ahead, in addition to the shards that it
 * keeps. */
#define AHEAD_BYTES (UINT64_C(256) << 20)

/* The largest measured size of the driver's memory that is used, in bytes. If more is measured,
 * another process has started or ended meanwhile. */
#define MOST_DRIVER_BYTES (UINT64_C(4) << 30)

static int check(struct ts_err *err, ts_gpu_error e, const char *what)
{
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, what);
}

static uint64_t assumed(const struct ts_gpu *g)
{
    return TS_GPU_DRIVER_BYTES + (g->n_members > 1 ? TS_GPU_DRIVER_BYTES_NCCL : 0);
}

/* Returns the number of members on a device: more than one in tests, and if there are more
 * processes than GPUs. */
static uint32_t sharers(const struct ts_gpu *g, uint32_t member)
{
    const uint32_t end = g->first_here + g->n_here;
    uint32_t n = 0;
    for (uint32_t i = 0; g->card != NULL && i < g->n_members; i++)
        n += memcmp(g->card[i].uuid, g->card[member].uuid, sizeof g->card[i].uuid) == 0;
    for (uint32_t i = g->first_here; g->card == NULL && i < end; i++)
        n += g->member[i].device == g->member[member].device;
    return n;
}

/* Whether other processes of the team also take memory of the device, so that this process's memory
 * cannot be measured. */
static int is_shared(const struct ts_gpu *g, uint32_t member)
{
    uint32_t n = 0;
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++)
        n += g->member[i].device == g->member[member].device;
    return sharers(g, member) > n;
}

static int too_little(const struct ts_gpu *g, uint64_t budget, uint64_t driver, struct ts_err *err)
{
    const uint64_t factors = ts_gpu_plan_factors(g);
    char of[40];
    if (g->n_models > 1)
        snprintf(of, sizeof of, "%u models", g->n_models);
    else
        snprintf(of, sizeof of, "rank %u", g->model[0].rank);
    return ts_fail(
        err, TS_ELIMIT,
        "%" PRIu64 " MiB of GPU memory cannot work: the factor matrices of %s take %" PRIu64
        " MiB, partial sums %" PRIu64 " MiB, the CUDA driver %" PRIu64 " MiB, and two %s %" PRIu64
        " MiB; a lower " TS_SET_RANK " needs less, " TS_SET_CPU " needs none",
        budget >> 20, of, factors >> 20, (ts_gpu_device_work_bytes(g) - factors) >> 20,
        driver >> 20, g->cells != NULL ? "chunks of cells" : "shards",
        (2 * ts_gpu_plan_largest(g) + (1 << 20) - 1) >> 20);
}

int ts_gpu_budget_check(const struct ts_gpu *g, struct ts_gpu_budget *b, uint32_t i,
                        struct ts_err *err)
{
    const int device = g->member[i].device;
    const uint64_t work = ts_gpu_device_work_bytes(g) + 2 * ts_gpu_plan_largest(g);
    size_t left, total;
    int rc;
    b->measured[i] = !is_shared(g, i) && !g->is_plan /* a plan does not open NCCL */ &&
                     !ts_gpu_memory_has_context(device) &&
                     ts_gpu_memory_used(b->memory, device, &b->before[i]);
    rc = check(err, cudaSetDevice(device), "the GPU cannot be used");
    if (rc == 0)
        rc = check(err, cudaMemGetInfo(&left, &total), "the GPU cannot be used");
    if (rc < 0)
        return rc;
    /* the budget includes the CUDA context, but the free memory reported here does not */
    if (b->asked > left + assumed(g))
        return ts_fail(err, TS_ELIMIT,
                       TS_SET_GPU_MEMORY " asks for %" PRIu64 " MiB, but GPU %d has %" PRIu64
                                         " MiB free of %" PRIu64 "; give less",
                       b->asked >> 20, device, (uint64_t)left >> 20, (uint64_t)total >> 20);
    if (b->asked > 0 && work > b->asked)
        return too_little(g, b->asked, assumed(g), err);
    if (work > left)
        return too_little(g, left, assumed(g), err);
    return 0;
}

/* Returns the bytes of the page tables by which a device accesses host memory: 8 bytes for each 4
 * KiB that the feed page-locks. The feed does so after the measurement, for at most all shards and
 * the memory for reading ahead. */
static uint64_t table_bytes(const struct ts_gpu *g, uint64_t host_bytes)
{
    uint64_t most = AHEAD_BYTES;
    if (g->cells != NULL)
        most += g->tensor->dense->cells * g->tensor->dense->cell_bytes;
    for (uint32_t m = 0; m < g->tensor->order; m++)
        for (uint64_t i = 0; ts_gpu_served(g, m) && i < g->mode[m].n_shards; i++)
            most += ts_gpu_place(&g->mode[m].shard[i]) + 4096;
    return (host_bytes < most ? host_bytes : most) / 4096 * 8;
}

void ts_gpu_budget_open(const struct ts_gpu *g, const struct ts_backend_conf *conf,
                        struct ts_gpu_budget *ret)
{
    *ret = (struct ts_gpu_budget){
        .memory = ts_gpu_memory_open(),
        .asked = conf->device_bytes,
        .tables = table_bytes(g, conf->host_bytes),
    };
}

void ts_gpu_budget_close(struct ts_gpu_budget *b)
{
    ts_gpu_memory_close(b->memory);
}

void ts_gpu_budget_measure(struct ts_gpu *g, struct ts_gpu_budget *b, uint32_t i)
{
    const int device = g->member[i].device;
    const uint64_t n = sharers(g, i), work = n * ts_gpu_device_work_bytes(g);
    uint64_t now;
    b->driver[i] = assumed(g);
    if (b->measured[i] && ts_gpu_memory_used(b->memory, device, &now) &&
        now > b->before[i] + work && now - b->before[i] - work < MOST_DRIVER_BYTES)
        b->driver[i] = (now - b->before[i] - work) / n;
    b->driver[i] += b->tables;
    g->driver_bytes[i] = b->driver[i] + ROUNDING_BYTES;
}

uint64_t ts_gpu_budget_guess(const struct ts_gpu *g, const struct ts_backend_conf *conf)
{
    const uint64_t driver = assumed(g) + ROUNDING_BYTES;
    struct ts_gpu_memory *memory = ts_gpu_memory_open();
    uint64_t ret = UINT64_MAX;
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++) {
        const int device = g->member[i].device;
        uint64_t left = conf->device_bytes;
        if (left == 0 && ts_gpu_memory_free(memory, device, &left))
            left = (left > RESERVE_BYTES ? left - RESERVE_BYTES : 0) / sharers(g, i);
        else if (left == 0)
            continue;
        left = left > driver ? left - driver : 0;
        ret = left < ret ? left : ret;
    }
    ts_gpu_memory_close(memory);
    return ret;
}

int ts_gpu_budget_left(const struct ts_gpu *g, const struct ts_gpu_budget *b, uint64_t *ret,
                       struct ts_err *err)
{
    const uint64_t work = ts_gpu_device_work_bytes(g);
    *ret = UINT64_MAX;
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++) {
        const uint64_t taken = work + b->driver[i] + ROUNDING_BYTES;
        uint64_t left;
        size_t free_bytes, total;
        int rc = check(err, cudaSetDevice(g->member[i].device), "the GPU cannot be used");
        if (rc == 0)
            rc = check(err, cudaMemGetInfo(&free_bytes, &total), "the GPU cannot be used");
        if (rc < 0)
            return rc;
        free_bytes -= free_bytes > b->tables ? b->tables : free_bytes;
        left = free_bytes > 2 * RESERVE_BYTES ? free_bytes - RESERVE_BYTES : free_bytes / 2;
        left /= sharers(g, i);
        if (b->asked > 0)
            left = b->asked > taken ? b->asked - taken : 0;
        if (left < 2 * ts_gpu_plan_largest(g))
            return too_little(g, b->asked > 0 ? b->asked : left + taken,
                              b->driver[i] + ROUNDING_BYTES, err);
        *ret = left < *ret ? left : *ret;
    }
    return 0;
}
