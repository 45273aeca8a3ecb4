/* SPDX-License-Identifier: BSD-3-Clause */
/* gram_state.h - what the files of rows with Gram matrices of their own share.
 *
 *   gram_rows.c    sums and solves rows
 *   gram_memory.c  the memory of that
 *
 *   owner    gram_memory.c makes and frees it
 *   units    float64
 *   threads  a thread's part is its own
 */
#ifndef TS_CPU_GRAM_STATE_H
#define TS_CPU_GRAM_STATE_H

#include "cpu/rows/gram_rows.h"
#include "cpu/rows/rowblock.h"
#include "cpu/rows/short_rows.h"

#define TS_GRAM_TOGETHER_RANK 64u

/* What a thread works with. */
struct ts_gram_thread {
    struct ts_gram_rows *all;
    struct ts_gram sum; /* of the current row */
    double count;       /* nonzeros in it, or the sum of their weights */
    void *product;
    double *s, *a, *diagonal; /* of the row that is solved */
    double *bounded;          /* memory of find_bounded */
    uint64_t at;              /* the partition, */
    uint32_t first, row;      /* its first row, and the current one */
    int begun;
    double size;      /* of the rows that it has solved, */
    uint64_t size_at; /* for this partition */

    /* Rows that wait to be solved together, whose sums lie one behind the other: sum is that of the
     * next. */
    uint32_t waiting;
    struct ts_gram_waiting {
        uint32_t row;
        uint64_t at;
        double count;
    } wait[TS_ROWBLOCK_SYSTEMS];
    double *sums;    /* of the first of them */
    uint32_t turned; /* how they lie: see struct ts_gram_ops */
    struct ts_rowsystems systems;
    uint64_t hash[TS_BLOCK_NNZ];
    uint16_t kept[TS_BLOCK_NNZ]; /* positions that are not held out */
    struct ts_short_rows shorts;
};

struct ts_gram_rows {
    const struct ts_gram_ops *ops;
    const struct ts_rowblock_ops *blocks;
    uint32_t together; /* rows that are solved at once; 1: each on its own */
    enum ts_precision precision;
    uint32_t order, rank, stride, threads;
    uint64_t part; /* float64 of what a partition keeps of a row: S packed, m, the count */
    struct ts_gram_thread *thread;
    double *parts; /* of each partition those of its first and its last row */
    uint64_t parts_bytes;
    struct ts_kernel_edge *edge; /* of each partition its first and last row, */
    double *size;                /* and of the rows between; then of all that end in it */
    double *memory;              /* of all threads */
    uint64_t memory_bytes;

    const struct ts_row_update *update;
    const uint8_t *level;
    int weights; /* of nonzeros */
    struct ts_fmat *out;
};

/* Rows of a square: whole tiles and blocks. */
static inline uint32_t ts_gram_square_rows(uint32_t rank)
{
    return (rank + TS_GRAM_TURNED - 1) / TS_GRAM_TURNED * TS_GRAM_TURNED;
}

/* Most rows that are solved together. Up to TS_GRAM_TOGETHER_RANK their triangles fit a
 * second-level cache. */
static inline uint32_t ts_gram_together_of(uint32_t rank)
{
    return rank <= TS_GRAM_TOGETHER_RANK ? TS_ROWBLOCK_SYSTEMS : 1;
}

/* float64 of what is summed of a row: S and m. */
static inline uint64_t ts_gram_sum_size(uint32_t rank, enum ts_precision precision)
{
    return ts_fmat_stride(rank, precision) * (ts_gram_square_rows(rank) + UINT64_C(1));
}

/* What the row to come is summed in. */
static inline void ts_gram_next_sum(struct ts_gram_thread *t)
{
    const struct ts_gram_rows *g = t->all;
    double *at = t->sums + t->waiting * ts_gram_sum_size(g->rank, g->precision);
    t->sum = (struct ts_gram){ .rank = g->rank,
                               .stride = g->stride,
                               .s = at,
                               .m = at + (uint64_t)ts_gram_square_rows(g->rank) * g->stride };
}

#endif
