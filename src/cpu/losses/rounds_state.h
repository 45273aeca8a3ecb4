/* SPDX-License-Identifier: BSD-3-Clause */
/* rounds_state.h - what the files of rounds of rows share.
 *
 *   rounds.c         a team of threads takes one shard after another
 *   rounds_memory.c  what it works in
 *   rounds_rows.c    one thread's partition of a shard
 *   rounds_matrix.c  the factor before and after its rounds
 *
 *   owner    rounds_memory.c makes and frees it
 *   units    rows; a row has `stride` elements
 *   threads  a worker is its thread's; rows of `apart` are written by one at a time
 */
#ifndef TS_CPU_ROUNDS_STATE_H
#define TS_CPU_ROUNDS_STATE_H

#include "cpu/losses/rounds.h"

#define TS_ROUNDS_GROUP 4096u /* rows whose columns are summed together */

/* The rows of a partition that may go on in its neighbours. */
struct ts_rounds_ends {
    uint32_t n, first, last;  /* nonzeros; rows */
    uint32_t n_first, n_last; /* nonzeros of those rows; n_last 0: they are one */
    int cut[2];               /* it takes more rounds */
};

#define TS_ROUNDS_JUDGED 6u /* sums of a partition */

/* Memory of one thread, and places in it. */
struct ts_rounds_worker {
    struct ts_flat flat;
    struct ts_rounds_scratch *scratch;
    struct ts_unpacked *block;
    double *phi;
    void *own;
    uint32_t *fibre; /* of a flat; and: */
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
    struct ts_plain *plain; /* or NULL */
    void *memory;           /* of all that follows */
    uint64_t memory_bytes;
    struct ts_rounds_worker *worker;
    struct ts_rounds_ends *ends; /* partitions of a shard */
    double *part;                /* 2 x stride of each of them: of its first row, of its last */
    double *span;                /* 2 x stride of each shard: of rows that go on in another */
    double *judged;              /* TS_ROUNDS_JUDGED of each partition of a mode */
    double *column;              /* rank of each group of rows */
};

struct ts_rounds_run {
    struct ts_rounds *r;
    struct ts_share *share; /* or NULL */
    uint32_t mode;
    struct ts_feed *feed;
    const struct ts_multiply *multiply; /* of a gradient zeros */
    struct ts_rounds_job job;
    struct ts_fmat *apart;
    const struct ts_fmat *own;        /* rows that models are of: `apart`, or the factor */
    const struct ts_descent *descend; /* of a gradient; NULL: rows are multiplied */
    const struct ts_hold_out *hold_out;
    uint32_t n_rounds;
    int rounds; /* this pass has them */
    int judge;  /* it judges rows */
    int cut;    /* some row of the shard takes more rounds */
    int keep;   /* plain blocks are made */
    struct ts_plain_conf plain_conf;
    const struct ts_shard_view *view; /* the shard that is visited */
    double kkt;
    uint64_t wait_ns, exchange_ns;
    struct ts_err *err;
};

static inline void ts_rounds_add_row(const struct ts_rounds *r, const double *part, double *sum)
{
    for (uint32_t c = 0; c < r->rank; c++)
        sum[c] += part[c];
}

/* ---- rounds_memory.c */
/* Rows whose sums are computed together. */
uint64_t ts_rounds_together(uint32_t stride);

/* ---- rounds_rows.c */
/* The sum of a row is there: it is what the row is multiplied with, or its gradient. Returns the
 * violation. */
double ts_rounds_take_sum(const struct ts_rounds_run *u, const double *sum, int last, uint32_t row);
double *ts_rounds_part(const struct ts_rounds *r, uint32_t k, int last);
/* The first round of partition k, and the others of its rows inside. */
void ts_rounds_first(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t k);
/* One more round of its first and last row. */
void ts_rounds_next(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t k);
void ts_rounds_judge(const struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t k);

/* ---- rounds_matrix.c */
/* apart := A diag(weight), with what makes zeros grow. */
void ts_rounds_begin_rows(const struct ts_rounds *r, const struct ts_fmat *f,
                          const struct ts_multiply *multiply, struct ts_fmat *apart);
void ts_rounds_sum_columns(const struct ts_rounds *r, const struct ts_fmat *apart, double *ret);
/* A := B, columns divided by their sums. */
void ts_rounds_end_rows(const struct ts_rounds *r, const struct ts_fmat *apart,
                        const double *column, struct ts_fmat *f);

#endif
