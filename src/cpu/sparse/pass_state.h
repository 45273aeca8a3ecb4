/* SPDX-License-Identifier: BSD-3-Clause */
/* pass_state.h - struct ts_pass, for the files that implement passes.
 *
 *   pass.c           creates and frees struct ts_pass, and makes passes of any kind
 *   pass_products.c  MTTKRPs
 *   pass_cells.c     values of models at the nonzeros
 *   pass_rows.c      rows that are solved for in the pass
 *
 *   owner    pass.c makes and frees it
 *   threads  one thread makes a visit, with scratch of its own
 */
#ifndef TS_CPU_PASS_STATE_H
#define TS_CPU_PASS_STATE_H

#include "cpu/sparse/pass.h"
#include "cpu/pass_loop.h"

struct ts_pass {
    const struct ts_tensor *tensor;
    ts_kernel_fn *kernel[2]; /* indexed by the enum ts_precision of products and sums */
    enum ts_precision precision;
    enum ts_isa isa;
    uint32_t rank, stride, threads;
    uint64_t max_partitions;
    /* the sum of the first row of each partition of a mode; wide kernels store the row's remainder
     * after it */
    void *heads;
    uint64_t heads_bytes;
    /* first and last row of each partition; max_partitions elements */
    struct ts_kernel_edge *edge;
    struct ts_kernel_scratch *scratch; /* one for each thread */
    uint64_t scratch_bytes;
    ts_unpack_fn *unpack;
    struct ts_hold_out hold_out; /* nonzeros that count as zeros in products */
    struct ts_plain *plain;      /* blocks that are kept decoded; or NULL */
    int plain_is_lent;
    /* the solver for rows with their own Gram matrices, made when first needed; or NULL */
    struct ts_gram_rows *gram;
    /* for passes that evaluate models: memory of each thread for the row numbers of a block; or
     * NULL */
    uint32_t *rows;
    /* threads + 1: each thread works on one loan, and one is being divided into partitions */
    struct ts_loan *loan;
    struct ts_share *share; /* how several ranks divide the work; NULL: this process alone */
    struct ts_needs *needs; /* records which rows the nonzeros of this rank need; or NULL */
};

struct ts_pass_run;

/* Computes a partition in a pass. */
typedef int ts_pass_visit(const struct ts_pass_run *r, const struct ts_kernel_input *in,
                          uint64_t partition, struct ts_kernel_scratch *scratch,
                          struct ts_err *err);

/* A pass that is being made. */
struct ts_pass_run {
    struct ts_pass *pass;
    ts_pass_visit *visit;
    void *models; /* data of the visit function */
    uint32_t n;   /* number of models */
    int keep;     /* 1: decoded blocks are kept */
    int walks;    /* 1: the rows that ranks need are recorded */
    uint64_t begin_ns;
    struct ts_pass_loop loop;
};

/* Visits the partitions of this rank. start: a function that each thread calls before its first
 * partition, with the run as ctx; or NULL. Returns 0 or the first failure. */
int ts_pass_over(struct ts_pass_run *r, struct ts_pass *p, uint32_t mode, struct ts_feed *feed,
                 int (*start)(void *run, struct ts_err *err), struct ts_err *err);

/* Sets *times to the times of a pass, after all ranks have finished it. */
void ts_pass_end(const struct ts_pass_run *r, uint64_t exchange_ns, struct ts_backend_times *times);

/* Sets up a kernel job that reads `factor` of all modes. out: matrix of the rows that are
 * computed. */
void ts_pass_job(const struct ts_pass *p, uint32_t mode, enum ts_precision summed,
                 const struct ts_fmat *factor, const struct ts_fmat *out,
                 struct ts_kernel_job *job);

#endif
