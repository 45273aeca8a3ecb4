/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds up what a run needs of host memory, and what is left for the feed. */
#include "engine/engine_memory.h"

#include <stdio.h>
#include <unistd.h>

#include "base/bigmem.h"
#include "base/machine.h"
#include "base/num.h"
#include "stream/comm.h"
#include "base/setting.h"
#include "cpd/als.h"
#include "cpd/smooth.h"
#include "stream/residency.h"

/* Memory of a run beside budget and factors that is not counted: it is enough for the partial rows
 * and Gram matrices of all but the largest tensors and ranks, so that a small budget is a budget
 * for shards. With the program itself it is less than the 24 MiB that are promised. */
#define BESIDES_BYTES (UINT64_C(16) << 20)

static uint64_t shard_bytes(const struct ts_backend_conf *bc)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < bc->tensor->order; m++)
        for (uint64_t i = 0; i < bc->tensor->mode[m].disk.n_shards; i++)
            if (bc->only_mode < 0 || (uint32_t)bc->only_mode == m)
                sum += ts_residency_bytes(&bc->tensor->mode[m].shard[i]);
    return ts_comm_many(bc->comm) ? sum / bc->comm->n : sum;
}

/* A budget that was given must be there: what the shards take of it, and where they may lie in
 * GPUs all that the machine has. */
static int check_budget(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                        const struct ts_engine_memory *m, struct ts_err *err)
{
    const uint64_t shards = backend->memory == NULL ? shard_bytes(bc) : 0;
    const uint64_t taken =
        m->factor_bytes + m->other_bytes + (shards < m->host_bytes ? shards : m->host_bytes);
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], c[TS_NUM_CHARS];
    if (m->host_bytes > m->total_bytes)
        return ts_fail(err, TS_ELIMIT,
                       TS_SET_HOST_MEMORY ": %s is more than there is: %s, of which %s are free",
                       ts_num_bytes(a, m->host_bytes), ts_num_bytes(b, m->total_bytes),
                       ts_num_bytes(c, m->free_bytes));
    if (taken > m->free_bytes)
        return ts_fail(
            err, TS_ELIMIT,
            TS_SET_HOST_MEMORY ": with %s for shards the run takes %s, factor matrices included, "
                               "and %s are free; give less",
            ts_num_bytes(a, m->host_bytes), ts_num_bytes(b, taken), ts_num_bytes(c, m->free_bytes));
    return 0;
}

static uint64_t default_budget(const struct ts_engine_memory *m)
{
    const uint64_t left = m->free_bytes - m->factor_bytes;
    const uint64_t reserve = m->free_bytes / 8 + 4 * BESIDES_BYTES;
    return left > 2 * reserve ? left - reserve : left / 2;
}

/* What is left where all shards stay in memory, as much of it as the backend has a use for. A
 * budget may be more than is free, as long as shards do not fill it. */
static uint64_t spare(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                      const struct ts_engine_memory *m)
{
    const uint64_t shards = ts_bigmem_cost(shard_bytes(bc));
    const uint64_t taken = m->factor_bytes + m->other_bytes + m->copy_bytes + shards;
    const uint64_t wish = backend->wish == NULL ? 0 : backend->wish(bc);
    const uint64_t left = m->feed_bytes > shards ? m->feed_bytes - shards : 0;
    const uint64_t most = m->free_bytes > taken ? (m->free_bytes - taken) / 8 * 7 : 0;
    const uint64_t there = left < most ? left : most;
    return there < wish ? there : wish;
}

int ts_engine_memory_plan(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                          uint64_t host_bytes, uint64_t own_bytes, uint64_t before_bytes, int copy,
                          const struct ts_constraint *constraint, struct ts_engine_memory *ret,
                          struct ts_err *err)
{
    const char *path = bc->tensor->path;
    struct ts_engine_memory m = { .host_bytes = host_bytes };
    struct ts_machine machine;
    uint64_t out_of_budget;
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    int rc;
    ts_machine_get(&machine);
    m.total_bytes = machine.total_bytes;
    m.free_bytes = machine.free_bytes;
    backend->need(bc, &m.factor_bytes, &m.other_bytes);
    if (backend->memory == NULL && ts_backend_keeps_rest(bc))
        m.rest_bytes =
            bc->tensor->mode[bc->tensor->order - 1].disk.n_rows * bc->rank * sizeof(float);
    m.factor_bytes += own_bytes + before_bytes;
    m.other_bytes +=
        ts_als_bytes(bc->tensor, bc->rank) + ts_smooth_bytes(bc->tensor, bc->rank, constraint);
    if (m.factor_bytes + m.other_bytes > m.free_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: factor matrices of rank %u take %s of memory, and %s are free", path,
                       bc->rank, ts_num_bytes(a, m.factor_bytes + m.other_bytes),
                       ts_num_bytes(b, m.free_bytes));
    if (host_bytes == 0)
        m.host_bytes = default_budget(&m);
    out_of_budget = m.other_bytes > BESIDES_BYTES ? m.other_bytes - BESIDES_BYTES : 0;
    if (out_of_budget >= m.host_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: a budget of %s is too small: sums besides shards take %s at rank "
                       "%u; give more, or a lower " TS_SET_RANK,
                       path, ts_num_bytes(a, m.host_bytes), ts_num_bytes(b, out_of_budget),
                       bc->rank);
    rc = host_bytes == 0 ? 0 : check_budget(backend, bc, &m, err);
    if (rc < 0)
        return rc;
    m.feed_bytes = m.host_bytes - out_of_budget;
    if (copy)
        m.copy_bytes =
            ts_checkpoint_bytes(bc->tensor, bc->rank, bc->precision, constraint) + before_bytes;
    if (m.copy_bytes > m.host_bytes / 8 || m.copy_bytes > m.feed_bytes / 2)
        m.copy_bytes = 0;
    m.feed_bytes -= m.copy_bytes;
    m.spare_bytes = spare(backend, bc, &m);
    m.feed_bytes -= m.spare_bytes;
    *ret = m;
    return 0;
}

uint64_t ts_engine_memory_resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (f == NULL)
        return 0;
    if (fscanf(f, "%*u %lu", &pages) != 1)
        pages = 0;
    fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
