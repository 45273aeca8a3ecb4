/* SPDX-License-Identifier: BSD-3-Clause */
/* rounds_state.h - the structs that the files for multiplicative updates and gradients share.
 *
 *   rounds.c         a team of threads takes one shard after another
 *   rounds_memory.c  allocates the memory
 *   rounds_rows.c    the work of one thread on a partition
 *   rounds_matrix.c  prepares a factor for its rounds, and stores it afterwards
 *
 *   owner    rounds_memory.c makes and frees it
 *   units    rows; a row has `stride` elements
 *   threads  a worker belongs to its thread; one thread at a time writes a row of `apart`
 */
#ifndef TS_CPU_ROUNDS_STATE_H
#define TS_CPU_ROUNDS_STATE_H

#include "cpu/losses/rounds.h"

#define TS_ROUNDS_GROUP 4096u /* rows whose columns are summed together */

/* The first and last row of a partition, which may continue in its neighbours. */
struct ts_rounds_ends {
    /* n: nonzeros of the partition; first, last: its first and last row */
    uint32_t n, first, last;
    /* numbers of nonzeros in the first and in the last row; n_last is 0 if both are one row */
    uint32_t n_first, n_last;
    /* whether the first and the last row continue in another partition, and so get more rounds */
    int cut[2];
};

#define TS_ROUNDS_JUDGED 6u /* number of sums by which losses over a partition are evaluated */

/* The memory of one thread. */
struct ts_rounds_worker {
    struct ts_flat flat;
    struct ts_rounds_scratch *scratch;
    struct ts_unpacked *block;
    double *phi;
    void *own;
    uint32_t *fibre; /* fibre of each nonzero in `flat` */
    uint8_t *held;
    uint64_t *hash;
    double kkt;
};

struct ts_rounds {
    const struct ts_tensor *tensor;
    uint32_t rank, stride, threads;
    enum ts_precision precision;
    const struct ts_rounds_ops *ops;
    ts_unpack_fn *unpack;
    struct ts_unpack_conf unpack_conf;
    struct ts_plain *plain; /* the store of decoded blocks; or NULL */
    void *memory;           /* the block of all arrays below */
    uint64_t memory_bytes;
    struct ts_rounds_worker *worker;
    struct ts_rounds_ends *ends; /* first and last row of each partition of a shard */
    /* 2 x stride for each partition of a shard: sums of its first and its last row */
    double *part;
    /* 2 x stride for each shard: sums of its first and last row, if they continue in another
     * shard */
    double *span;
    double *judged; /* TS_ROUNDS_JUDGED sums of losses for each partition of a mode */
    double *column; /* `rank` column sums for each group of rows */
};

struct ts_rounds_run {
    struct ts_rounds *r;
    struct ts_share *share; /* how ranks divide the work; NULL: there is one rank */
    uint32_t mode;
    struct ts_feed *feed;
    /* the update to be made; all zero if a gradient is computed */
    const struct ts_multiply *multiply;
    struct ts_rounds_job job;
    struct ts_fmat *apart;
    const struct ts_fmat *own; /* rows that models are computed with: `apart`, or the factor */
    /* the step whose gradient is computed; NULL: rows are multiplied */
    const struct ts_descent *descend;
    const struct ts_hold_out *hold_out;
    uint32_t n_rounds;
    int rounds; /* 1: the current pass updates rows */
    int judge;  /* 1: the current pass computes losses */
    int cut;    /* 1: a row in several partitions of this shard gets more rounds */
    int keep;   /* 1: decoded blocks are kept for later passes */
    struct ts_plain_conf plain_conf;
    const struct ts_shard_view *view; /* the shard that is being visited */
    double kkt;
    uint64_t wait_ns, exchange_ns;
    struct ts_err *err;
};

static inline void ts_rounds_add_row(const struct ts_rounds *r, const double *part, double *sum)
{
    for (uint32_t c = 0; c < r->rank; c++)
        sum[c] += part[c];
}

/* ---- defined in rounds_memory.c */
/* Returns the number of rows whose sums are computed together. */
uint64_t ts_rounds_together(uint32_t stride);

/* ---- defined in rounds_rows.c */
/* Multiplies the row b by its weighted sum phi, or stores the sum as its gradient. Returns the
 * largest |min(b, 1 - phi)| before the update. */
double ts_rounds_take_sum(const struct ts_rounds_run *u, const double *sum, int last, uint32_t row);
double *ts_rounds_part(const struct ts_rounds *r, uint32_t k, int last);
/* Makes the first round of all rows in partition k, and the other rounds of rows inside of it. */
void ts_rounds_first(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t k);
/* Makes one more round of the first and last row of partition k: sums their parts. */
void ts_rounds_next(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t k);
void ts_rounds_judge(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t k);

/* ---- defined in rounds_matrix.c */
/* Sets apart to the factor times diag(weight), with `grow` added to the factor's marked entries. */
void ts_rounds_begin_rows(const struct ts_rounds *r, const struct ts_fmat *f,
                          const struct ts_multiply *multiply, struct ts_fmat *apart);
void ts_rounds_sum_columns(const struct ts_rounds *r, const struct ts_fmat *apart, double *ret);
/* Sets the factor to the rows in `apart`, with columns divided by their sums. */
void ts_rounds_end_rows(const struct ts_rounds *r, const struct ts_fmat *apart,
                        const double *column, struct ts_fmat *f);

#endif
