/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocates the memory of multiplicative updates: one block, divided into arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "cpu/extent.h"
#include "cpu/losses/rounds_state.h"

/* bytes of the products p of other factors' rows (rounds.h) that are kept, for a row that gets
 * several rounds */
#define HELD_BYTES (UINT64_C(512) << 10)
#define FLAT_ROOM  (TS_PARTITION_NNZ + TS_KERNEL_AHEAD)
#define ROWS_BYTES 16384u /* bytes of the sums of rows that are computed together */
#define MOST_ROWS  64u    /* the most rows that are computed together */

static uint64_t most_shards(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        most = t->mode[m].disk.n_shards > most ? t->mode[m].disk.n_shards : most;
    return most;
}

static uint64_t most_of_a_shard(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        for (uint64_t s = 0; s < t->mode[m].disk.n_shards; s++)
            most = ts_shard_partitions(&t->mode[m].shard[s]) > most
                       ? ts_shard_partitions(&t->mode[m].shard[s])
                       : most;
    return most;
}

static uint32_t held(uint32_t stride, enum ts_precision precision)
{
    const uint64_t n = HELD_BYTES / (stride * ts_precision_bytes(precision));
    return n > TS_ROUNDS_CHUNK ? (uint32_t)n : TS_ROUNDS_CHUNK;
}

uint64_t ts_rounds_together(uint32_t stride)
{
    const uint32_t n = ROWS_BYTES / (stride * (uint32_t)sizeof(double));
    return n > MOST_ROWS ? MOST_ROWS : n < 1 ? 1 : n;
}

/* Places the arrays of all threads and of each thread in the memory at `base`, or only counts their
 * bytes if that is NULL. Returns the bytes. */
static uint64_t lay_out(struct ts_rounds *r, char *base)
{
    const struct ts_tensor *t = r->tensor;
    const uint64_t row = r->stride * sizeof(double);
    const uint64_t groups = (ts_most_rows(t, TS_ALL_MODES) + TS_ROUNDS_GROUP - 1) / TS_ROUNDS_GROUP;
    uint64_t at = 0;
    r->worker = ts_place(base, &at, r->threads * sizeof *r->worker);
    r->ends = ts_place(base, &at, most_of_a_shard(t) * sizeof *r->ends);
    r->part = ts_place(base, &at, most_of_a_shard(t) * 2 * row);
    r->span = ts_place(base, &at, most_shards(t) * 2 * row);
    r->judged = ts_place(base, &at, ts_most_partitions(t) * TS_ROUNDS_JUDGED * sizeof(double));
    r->column = ts_place(base, &at, groups * r->rank * sizeof(double));
    return at;
}

/* Divides the memory of one thread, which begins at `base`, into its arrays. Returns the bytes. */
static uint64_t lay_out_worker(const struct ts_rounds *r, struct ts_rounds_worker *w, char *base)
{
    const uint64_t rows = ts_rounds_together(r->stride) * r->stride * sizeof(double);
    const uint32_t most = held(r->stride, r->precision);
    void *product;
    uint64_t at = 0;
    w->scratch = ts_place(base, &at, sizeof *w->scratch);
    product = ts_place(base, &at, (uint64_t)most * r->stride * ts_precision_bytes(r->precision));
    if (base != NULL) {
        w->scratch->most = most;
        w->scratch->product = product;
    }
    w->block = ts_place(base, &at, sizeof *w->block);
    w->phi = ts_place(base, &at, rows);
    w->own = ts_place(base, &at, rows);
    w->flat.start = ts_place(base, &at, (FLAT_ROOM + 1) * sizeof(uint32_t));
    w->flat.value = ts_place(base, &at, FLAT_ROOM * sizeof(double));
    for (uint32_t l = 1; l < r->tensor->order; l++)
        w->flat.idx[l] = ts_place(base, &at, FLAT_ROOM * sizeof(uint32_t));
    w->fibre = ts_place(base, &at, FLAT_ROOM * sizeof(uint32_t));
    w->held = ts_place(base, &at, FLAT_ROOM);
    w->hash = ts_place(base, &at, FLAT_ROOM * sizeof(uint64_t));
    return at;
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
    struct ts_rounds_worker worker;
    return lay_out(&shape, NULL) + r->threads * lay_out_worker(r, &worker, NULL);
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
    at = (char *)r->memory + lay_out(r, r->memory);
    for (uint32_t i = 0; i < threads; i++)
        at += lay_out_worker(r, &r->worker[i], at);
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
