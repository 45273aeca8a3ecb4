/* SPDX-License-Identifier: BSD-3-Clause */
/* gram_memory.c - allocates the memory in which rows with their own Gram matrices are summed and
 * solved. */
#include <stdlib.h>

#include "base/machine/bigmem.h"
#include "cpu/rows/gram_state.h"

static uint64_t part_of(uint32_t rank)
{
    return rank * (rank + UINT64_C(1)) / 2 + rank + 1;
}

/* Returns the number of float64 of memory for rows that are solved together. */
static uint64_t systems_size(uint32_t rank)
{
    if (ts_gram_together_of(rank) == 1)
        return 0;
    return ts_rowblock_systems_size(rank) + (rank + UINT64_C(1)) * TS_ROWBLOCK_SYSTEMS;
}

/* Returns the number of float64 that a thread needs: sums, a square matrix, six rows, products of
 * other factors' rows, rows that are solved together, and short rows. It is a multiple of a cache
 * line. */
static uint64_t thread_size(uint32_t rank, enum ts_precision precision)
{
    const uint64_t stride = ts_fmat_stride(rank, precision);
    return ts_gram_together_of(rank) * ts_gram_sum_size(rank, precision) +
           stride * (ts_gram_square_rows(rank) + 6 + (uint64_t)TS_BLOCK_NNZ) + systems_size(rank) +
           ts_short_rows_size(rank);
}

uint64_t ts_gram_rows_bytes(uint64_t partitions, uint32_t rank, enum ts_precision precision,
                            uint32_t threads)
{
    return sizeof(struct ts_gram_rows) + threads * sizeof(struct ts_gram_thread) +
           partitions * (sizeof(struct ts_kernel_edge) + sizeof(double)) +
           ts_bigmem_cost(partitions * 2 * part_of(rank) * sizeof(double)) +
           ts_bigmem_cost(threads * thread_size(rank, precision) * sizeof(double));
}

/* Divides the memory of a thread, which begins at `at`, into its arrays. */
static void divide(struct ts_gram_rows *g, struct ts_gram_thread *t, enum ts_isa isa, double *at)
{
    t->all = g;
    t->sums = at;
    at += ts_gram_together_of(g->rank) * ts_gram_sum_size(g->rank, g->precision);
    t->s = at;
    t->a = t->s + (uint64_t)ts_gram_square_rows(g->rank) * g->stride;
    t->diagonal = t->a + g->stride;
    t->bounded = t->diagonal + g->stride;
    t->product = t->bounded + 4 * (size_t)g->stride;
    at = (double *)t->product + (uint64_t)g->stride * TS_BLOCK_NNZ;
    ts_short_rows_init(&t->shorts, g->rank, g->ops, isa, at);
    at += ts_short_rows_size(g->rank);
    if (ts_gram_together_of(g->rank) > 1) {
        t->systems = (struct ts_rowsystems){ .rank = g->rank, .stride = g->stride, .work = at };
        t->systems.more = at + ts_rowblock_systems_size(g->rank);
        t->systems.a = t->systems.more + TS_ROWBLOCK_SYSTEMS;
    }
    ts_gram_next_sum(t);
}

int ts_gram_rows_new(uint64_t partitions, uint32_t order, uint32_t rank,
                     enum ts_precision precision, enum ts_isa isa, uint32_t threads,
                     struct ts_gram_rows **ret, struct ts_err *err)
{
    struct ts_gram_rows *g = calloc(1, sizeof *g);
    const uint64_t each = thread_size(rank, precision);
    int rc = 0;
    if (g == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for rows' Gram matrices");
    g->precision = precision;
    g->order = order;
    g->rank = rank;
    g->stride = ts_fmat_stride(rank, precision);
    g->ops = ts_gram_get(isa, precision, g->stride);
    g->blocks = ts_rowblock_get(isa);
    g->threads = threads;
    g->part = part_of(rank);
    g->thread = calloc(threads, sizeof *g->thread);
    g->edge = calloc(partitions + 1, sizeof *g->edge);
    g->size = calloc(partitions + 1, sizeof *g->size);
    g->parts_bytes = partitions * 2 * g->part * sizeof(double);
    g->memory_bytes = threads * each * sizeof(double);
    if (g->thread == NULL || g->edge == NULL || g->size == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for rows' Gram matrices");
    if (rc == 0)
        rc =
            ts_bigmem_new(g->parts_bytes, "partial Gram matrices of rows", (void **)&g->parts, err);
    if (rc == 0)
        rc = ts_bigmem_new(g->memory_bytes, "Gram matrices of rows", (void **)&g->memory, err);
    for (uint32_t i = 0; i < threads && rc == 0; i++)
        divide(g, &g->thread[i], isa, g->memory + i * each);
    if (rc == 0)
        *ret = g;
    else
        ts_gram_rows_free(g);
    return rc;
}

void ts_gram_rows_free(struct ts_gram_rows *g)
{
    if (g == NULL)
        return;
    if (g->parts != NULL)
        ts_bigmem_free(g->parts, g->parts_bytes);
    if (g->memory != NULL)
        ts_bigmem_free(g->memory, g->memory_bytes);
    free(g->thread);
    free(g->edge);
    free(g->size);
    free(g);
}
