/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds up the host memory of a run, and computes how much of the budget remains for the feed. */
#include "engine/engine_memory.h"

#include <stdio.h>
#include <unistd.h>

#include "base/machine/bigmem.h"
#include "base/machine/machine.h"
#include "base/num.h"
#include "stream/comm.h"
#include "base/setting.h"
#include "cpd/solver/accelerate.h"
#include "cpd/solver/best.h"
#include "cpd/solver/solver.h"
#include "cpd/methods/method.h"
#include "cpu/ranks/share.h"
#include "format/arrays/dense.h"

/* Memory outside of budget and factors that is not counted. It is enough for the partial rows and
 * Gram matrices of all but the largest tensors and ranks, so that shards get the whole of a small
 * budget. Together with the program itself it is less than the promised 24 MiB. */
#define BESIDES_BYTES (UINT64_C(16) << 20)

static uint64_t shard_bytes(const struct ts_backend_conf *bc)
{
    const int many = ts_comm_many(bc->comm);
    const struct ts_dense *dense = bc->tensor->dense;
    if (dense != NULL)
        return dense->array.memory != NULL ? 0 : dense->cells * dense->cell_bytes;
    return ts_share_shard_bytes(bc->tensor, bc->only_mode, many ? bc->comm->n : 1,
                                many ? bc->comm->rank : 0);
}

/* Checks a budget from the user. The machine must have so much memory, and the part that the run
 * will use must be free. A backend with memory of its own may hold all shards there. */
static int check_budget(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                        const struct ts_engine_memory *m, struct ts_err *err)
{
    const uint64_t shards = !ts_backend_can(backend, TS_CAN_OWN_MEMORY) ? shard_bytes(bc) : 0;
    const uint64_t wanted = shards + m->beside_bytes;
    const uint64_t taken = m->factor_bytes - m->beside_bytes + m->other_bytes +
                           (wanted < m->host_bytes ? wanted : m->host_bytes);
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
    const uint64_t left = m->free_bytes - (m->factor_bytes - m->beside_bytes);
    const uint64_t reserve = m->free_bytes / 8 + 4 * BESIDES_BYTES;
    return left > 2 * reserve ? left - reserve : left / 2;
}

/* Returns the memory that remains if all shards stay in memory, at most what the backend can use.
 * The budget may be larger than the free memory, as long as shards do not fill it. */
static uint64_t spare(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                      const struct ts_engine_memory *m)
{
    const uint64_t shards = ts_bigmem_cost(shard_bytes(bc));
    const uint64_t taken = m->factor_bytes + m->other_bytes + m->copy_bytes + shards;
    const uint64_t wish = backend->wish(bc);
    const uint64_t left = m->feed_bytes > shards ? m->feed_bytes - shards : 0;
    const uint64_t most = m->free_bytes > taken ? (m->free_bytes - taken) / 8 * 7 : 0;
    const uint64_t there = left < most ? left : most;
    /* for a dense tensor this memory saves whole passes, so it is taken before that of slabs; for
     * shards it only saves decoding */
    if (bc->tensor->dense != NULL)
        return wish <= m->feed_bytes / 2 && wish < m->free_bytes / 2 ? wish : 0;
    return there < wish ? there : wish;
}

static uint32_t n_models(const struct ts_backend_conf *bc)
{
    return bc->n_models > 0 ? bc->n_models : 1;
}

static uint32_t rank_of(const struct ts_backend_conf *bc, uint32_t k)
{
    return bc->n_models > 0 ? bc->ranks[k] : bc->rank;
}

/* Returns the bytes of the factors of one model of this rank, as if it were computed alone. */
static uint64_t alone_bytes(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                            const struct ts_engine_memory_conf *conf, uint32_t rank)
{
    struct ts_backend_conf one = *bc;
    uint64_t factor_bytes, other_bytes;
    one.n_models = 0;
    one.rank = rank;
    backend->need(&one, &factor_bytes, &other_bytes);
    factor_bytes += ts_best_bytes(bc->tensor, rank, bc->precision, conf->spec) +
                    ts_method_bytes_of(bc->tensor, rank, bc->precision, conf->spec).kept;
    return conf->accelerate
               ? factor_bytes + ts_accelerate_bytes(bc->tensor, rank, bc->precision, conf->spec)
               : factor_bytes;
}

/* Adds up the memory of a run, except for its shards. */
static void add_up(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                   const struct ts_engine_memory_conf *conf, struct ts_engine_memory *m)
{
    const uint64_t last_rows = bc->tensor->mode[bc->tensor->order - 1].disk.n_rows;
    uint64_t largest = 0;
    backend->need(bc, &m->factor_bytes, &m->other_bytes);
    m->factor_bytes += conf->own_bytes;
    for (uint32_t k = 0; k < n_models(bc); k++) {
        const uint32_t rank = rank_of(bc, k);
        const uint64_t alone = alone_bytes(backend, bc, conf, rank);
        const struct ts_method_bytes method =
            ts_method_bytes_of(bc->tensor, rank, bc->precision, conf->spec);
        if (!ts_backend_can(backend, TS_CAN_OWN_MEMORY) && ts_backend_keeps_rest(bc) &&
            ts_rest_fits(bc->tensor, rank))
            m->rest_bytes += last_rows * rank * sizeof(float);
        m->factor_bytes += method.kept + ts_best_bytes(bc->tensor, rank, bc->precision, conf->spec);
        if (conf->accelerate)
            m->factor_bytes += ts_accelerate_bytes(bc->tensor, rank, bc->precision, conf->spec);
        m->method_bytes += ts_solver_bytes(bc->tensor, rank) + method.work;
        if (!ts_backend_can(backend, TS_CAN_OWN_MEMORY))
            m->method_bytes += method.sums;
        largest = alone > largest ? alone : largest;
    }
    m->other_bytes += m->method_bytes;
    m->beside_bytes = n_models(bc) > 1 ? m->factor_bytes - conf->own_bytes - largest : 0;
}

static uint64_t copy_bytes(const struct ts_backend_conf *bc,
                           const struct ts_engine_memory_conf *conf)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; conf->copy && k < n_models(bc); k++) {
        const uint32_t rank = rank_of(bc, k);
        const struct ts_method_bytes method =
            ts_method_bytes_of(bc->tensor, rank, bc->precision, conf->spec);
        sum += ts_checkpoint_bytes(bc->tensor, rank, bc->precision, conf->spec, method.kept);
        if (conf->accelerate)
            sum += ts_accelerate_bytes(bc->tensor, rank, bc->precision, conf->spec);
    }
    return sum;
}

int ts_engine_memory_plan(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                          const struct ts_engine_memory_conf *conf, struct ts_engine_memory *ret,
                          struct ts_err *err)
{
    const char *path = bc->tensor->path;
    struct ts_engine_memory m = { .host_bytes = conf->host_bytes };
    struct ts_machine machine;
    uint64_t out_of_budget;
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    int rc;
    ts_machine_get(&machine);
    m.total_bytes = machine.total_bytes;
    m.free_bytes = machine.free_bytes;
    add_up(backend, bc, conf, &m);
    if (m.factor_bytes + m.other_bytes > m.free_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: factor matrices of rank %u take %s of memory, and %s are free", path,
                       bc->rank, ts_num_bytes(a, m.factor_bytes + m.other_bytes),
                       ts_num_bytes(b, m.free_bytes));
    if (conf->host_bytes == 0)
        m.host_bytes = default_budget(&m);
    out_of_budget = m.other_bytes > BESIDES_BYTES ? m.other_bytes - BESIDES_BYTES : 0;
    if (out_of_budget >= m.host_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: a budget of %s is too small: sums besides shards take %s at rank "
                       "%u; give more, or a lower " TS_SET_RANK,
                       path, ts_num_bytes(a, m.host_bytes), ts_num_bytes(b, out_of_budget),
                       bc->rank);
    out_of_budget += m.beside_bytes;
    if (m.beside_bytes > 0 && out_of_budget > m.host_bytes / 2)
        return ts_fail(err, TS_ELIMIT, "%s: %u models side by side take %s of a budget of %s", path,
                       bc->n_models, ts_num_bytes(a, out_of_budget), ts_num_bytes(b, m.host_bytes));
    rc = conf->host_bytes == 0 ? 0 : check_budget(backend, bc, &m, err);
    if (rc < 0)
        return rc;
    m.feed_bytes = m.host_bytes - out_of_budget;
    m.copy_bytes = copy_bytes(bc, conf);
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
