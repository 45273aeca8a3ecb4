/* SPDX-License-Identifier: BSD-3-Clause */
/* gram_state.h - structs for rows with their own Gram matrices, which these files share.
 *
 *   gram_rows.c    sums and solves rows
 *   gram_memory.c  allocates the memory
 *
 *   owner    gram_memory.c makes and frees it
 *   units    float64
 *   threads  each thread has a struct ts_gram_thread
 */
#ifndef TS_CPU_GRAM_STATE_H
#define TS_CPU_GRAM_STATE_H

#include "cpu/rows/gram_rows.h"
#include "cpu/rows/rowblock.h"
#include "cpu/rows/short_rows.h"

#define TS_GRAM_TOGETHER_RANK 64u

/* The memory of a thread. */
struct ts_gram_thread {
    struct ts_gram_rows *all;
    struct ts_gram sum; /* Gram matrix and right side of the current row */
    double count;       /* number of nonzeros of the current row, or the sum of their weights */
    void *product;
    /* for the row being solved: its Gram matrix S, the solution, the diagonal of S */
    double *s, *a, *diagonal;
    double *bounded;     /* memory for ts_bounded_row_find */
    uint64_t at;         /* the current partition */
    uint32_t first, row; /* the first row of the partition, and the current row */
    int begun;
    double size;      /* penalty of the rows that this thread has solved in partition `size_at` */
    uint64_t size_at; /* the partition of `size` */

    /* Number of rows that wait to be solved together. Their sums are stored one after another, and
     * `sum` follows them. */
    uint32_t waiting;
    struct ts_gram_waiting {
        uint32_t row;
        uint64_t at;
        double count;
    } wait[TS_ROWBLOCK_SYSTEMS];
    double *sums;    /* sums of the first waiting row */
    /* size of the diagonal blocks of S that are in rotated order (struct ts_gram_ops); 0: none */
    uint32_t turned;
    struct ts_rowsystems systems;
    uint64_t hash[TS_BLOCK_NNZ];
    uint16_t kept[TS_BLOCK_NNZ]; /* positions of a block that are not held out */
    struct ts_short_rows shorts;
};

struct ts_gram_rows {
    const struct ts_gram_ops *ops;
    const struct ts_rowblock_ops *blocks;
    uint32_t together; /* number of rows that are solved together; 1: each row alone */
    enum ts_precision precision;
    uint32_t order, rank, stride, threads;
    /* number of float64 for a part, the sums of a row in a partition: the packed Gram matrix S, the
     * right side m, and the count */
    uint64_t part;
    struct ts_gram_thread *thread;
    double *parts; /* for each partition: the parts (partial sums) of its first and last row */
    uint64_t parts_bytes;
    struct ts_kernel_edge *edge; /* for each partition: its first and last row */
    /* for each partition: penalty of the rows between its first and last; at the end, of all rows
     * that end in it */
    double *size;
    double *memory; /* memory of all threads */
    uint64_t memory_bytes;

    const struct ts_row_update *update;
    const uint8_t *level;
    int weights; /* 1: nonzeros have weights */
    struct ts_fmat *out;
};

/* Returns the number of rows of a Gram matrix in memory: rank, padded to whole tiles and blocks. */
static inline uint32_t ts_gram_square_rows(uint32_t rank)
{
    return (rank + TS_GRAM_TURNED - 1) / TS_GRAM_TURNED * TS_GRAM_TURNED;
}

/* Returns the most rows that are solved together. Up to rank TS_GRAM_TOGETHER_RANK, their Gram
 * matrices fit the second-level cache. */
static inline uint32_t ts_gram_together_of(uint32_t rank)
{
    return rank <= TS_GRAM_TOGETHER_RANK ? TS_ROWBLOCK_SYSTEMS : 1;
}

/* Returns the number of float64 for the sums of a row: its Gram matrix S and right side m. */
static inline uint64_t ts_gram_sum_size(uint32_t rank, enum ts_precision precision)
{
    return ts_fmat_stride(rank, precision) * (ts_gram_square_rows(rank) + UINT64_C(1));
}

/* Sets `sum` to the memory for the sums of the next row. */
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
