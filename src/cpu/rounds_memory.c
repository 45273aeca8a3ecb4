/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of rounds of rows: one piece, and places in it. */
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"
#include "cpu/rounds_state.h"

#define HELD_BYTES (UINT64_C(512) << 10) /* of p, of a row that takes several rounds */
#define FLAT_ROOM  (TS_PARTITION_NNZ + TS_KERNEL_AHEAD)
#define ROWS_BYTES 16384u /* of sums of rows that are computed together */
#define MOST_ROWS  64u    /* and how many these are at most */

static uint64_t most_shards(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        most = t->mode[m].disk.n_shards > most ? t->mode[m].disk.n_shards : most;
    return most;
}

static uint64_t most_rows(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        most = t->mode[m].disk.n_rows > most ? t->mode[m].disk.n_rows : most;
    return most;
}

static uint64_t most_partitions(const struct ts_tensor *t, int of_a_shard)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        uint64_t sum = 0;
        for (uint64_t s = 0; s < t->mode[m].disk.n_shards; s++) {
            const uint64_t n = ts_shard_partitions(&t->mode[m].shard[s]);
            sum = of_a_shard ? n : sum + n;
            most = sum > most ? sum : most;
        }
    }
    return most;
}

static void *place(char **at, uint64_t bytes)
{
    void *ret = *at;
    *at += (bytes + 63) / 64 * 64;
    return ret;
}

static uint32_t held(uint32_t stride, enum ts_precision precision)
{
    const uint64_t n = HELD_BYTES / (stride * ts_rounds_item_bytes(precision));
    return n > TS_ROUNDS_CHUNK ? (uint32_t)n : TS_ROUNDS_CHUNK;
}

uint64_t ts_rounds_together(uint32_t stride)
{
    const uint32_t n = ROWS_BYTES / (stride * (uint32_t)sizeof(double));
    return n > MOST_ROWS ? MOST_ROWS : n < 1 ? 1 : n;
}

/* Places of everything behind `at`; returns where they end. */
static char *lay_out(struct ts_rounds *r, char *at)
{
    const struct ts_tensor *t = r->tensor;
    const uint64_t row = r->stride * sizeof(double);
    const uint64_t groups = (most_rows(t) + TS_ROUNDS_GROUP - 1) / TS_ROUNDS_GROUP;
    struct ts_rounds_worker *worker = place(&at, r->threads * sizeof *worker);
    r->worker = worker;
    r->ends = place(&at, most_partitions(t, 1) * sizeof *r->ends);
    r->part = place(&at, most_partitions(t, 1) * 2 * row);
    r->span = place(&at, most_shards(t) * 2 * row);
    r->judged = place(&at, most_partitions(t, 0) * TS_ROUNDS_JUDGED * sizeof(double));
    r->column = place(&at, groups * r->rank * sizeof(double));
    return at;
}

static char *lay_out_worker(const struct ts_rounds *r, struct ts_rounds_worker *w, char *at)
{
    w->scratch = place(&at, sizeof *w->scratch);
    w->scratch->most = held(r->stride, r->precision);
    w->scratch->product =
        place(&at, (uint64_t)w->scratch->most * r->stride * ts_rounds_item_bytes(r->precision));
    w->block = place(&at, sizeof *w->block);
    w->phi = place(&at, ts_rounds_together(r->stride) * r->stride * sizeof(double));
    w->own = place(&at, ts_rounds_together(r->stride) * r->stride * sizeof(double));
    w->flat.start = place(&at, (FLAT_ROOM + 1) * sizeof(uint32_t));
    w->flat.value = place(&at, FLAT_ROOM * sizeof(double));
    for (uint32_t l = 1; l < r->tensor->order; l++)
        w->flat.idx[l] = place(&at, FLAT_ROOM * sizeof(uint32_t));
    w->fibre = place(&at, FLAT_ROOM * sizeof(uint32_t));
    w->held = place(&at, FLAT_ROOM);
    w->hash = place(&at, FLAT_ROOM * sizeof(uint64_t));
    return at;
}

static uint64_t worker_bytes(const struct ts_tensor *t, uint32_t stride,
                             enum ts_precision precision)
{
    return sizeof(struct ts_rounds_scratch) + sizeof(struct ts_unpacked) +
           held(stride, precision) * (uint64_t)stride * ts_rounds_item_bytes(precision) +
           2 * ts_rounds_together(stride) * stride * sizeof(double) +
           (FLAT_ROOM + 1) * sizeof(uint32_t) + FLAT_ROOM * sizeof(double) +
           t->order * UINT64_C(1) * FLAT_ROOM * sizeof(uint32_t) +
           FLAT_ROOM * (1 + sizeof(uint64_t)) + 64 * (11 + UINT64_C(1) * t->order);
}

static struct ts_rounds shape_of(const struct ts_tensor *t, uint32_t rank,
                                 enum ts_precision precision, uint32_t threads)
{
    return (struct ts_rounds){ .tensor = t,
                               .rank = rank,
                               .stride = ts_fmat_stride(rank, precision),
                               .threads = threads,
                               .precision = precision };
}

static uint64_t memory_bytes(const struct ts_rounds *r)
{
    struct ts_rounds shape = shape_of(r->tensor, r->rank, r->precision, r->threads);
    char none[1];
    return (uint64_t)((uintptr_t)lay_out(&shape, none) - (uintptr_t)none) +
           r->threads * worker_bytes(r->tensor, r->stride, r->precision);
}

uint64_t ts_rounds_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                         uint32_t threads)
{
    const struct ts_rounds r = shape_of(t, rank, precision, threads);
    return sizeof r + ts_bigmem_cost(memory_bytes(&r));
}

int ts_rounds_new(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                  enum ts_isa isa, uint32_t threads, struct ts_plain *plain, struct ts_rounds **ret,
                  struct ts_err *err)
{
    struct ts_rounds *r = malloc(sizeof *r);
    char *at;
    int rc;
    if (r == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    *r = shape_of(t, rank, precision, threads);
    r->ops = ts_rounds_get(isa, precision, r->stride);
    r->plain = plain;
    r->unpack = ts_kernel_unpack(isa);
    ts_kernel_values(t, TS_FLOAT64, &r->unpack_conf);
    r->memory_bytes = memory_bytes(r);
    rc = ts_bigmem_new(r->memory_bytes, "rounds of rows", &r->memory, err);
    if (rc < 0) {
        free(r);
        return rc;
    }
    memset(r->memory, 0, r->memory_bytes);
    at = lay_out(r, r->memory);
    for (uint32_t i = 0; i < threads; i++)
        at = lay_out_worker(r, &r->worker[i], at);
    *ret = r;
    return 0;
}

void ts_rounds_free(struct ts_rounds *r)
{
    if (r == NULL)
        return;
    ts_bigmem_free(r->memory, r->memory_bytes);
    free(r);
}
