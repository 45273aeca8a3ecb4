/* SPDX-License-Identifier: BSD-3-Clause */
/* mttkrp_kernel.h - the MTTKRP of packed shards on a GPU, and the arguments of its launch.
 *
 * The kernel reads shards as they are on disk (format/layout.h). A thread block takes a share of a
 * shard: a partition (an equal part of a shard's nonzeros) or, if the mode has few partitions, a
 * part of one. A row whose nonzeros are all in one share is stored to `out`. The sums of the first
 * and the last row of every share go to `edge`. edge_kernel.h adds them in file order: inside a
 * shard once the shard is done, between shards once all are done. So the sum of a row does not
 * depend on the order in which shards arrive.
 *
 * A launch may compute several models with rows of equal length, so that each block is decoded
 * once. Each model has the same bits as in a launch of its own.
 *
 *   owner    the caller owns all memory; pointers in the structs are device pointers
 *   units    rows and columns of matrices whose rows are `ld` elements apart, ld a multiple of 16
 *            bytes; edge rows are `ld` elements too
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_MTTKRP_KERNEL_H
#define TS_GPU_MTTKRP_KERNEL_H

#include <stdint.h>

#include "format/layout.h"
#include "gpu/team/gpu_types.h"
#include "stream/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A shard in device memory, followed by TS_SHARD_SLACK readable bytes. */
struct ts_gpu_shard {
    const uint32_t *raw;
    /* number of shares (thread blocks' nonzeros) of the mode before this shard */
    uint64_t first_share;
    uint32_t n_blocks, nnz, row_first;
    uint32_t first_cta; /* number of shares (thread blocks) of the launch before this shard */
    uint32_t number;    /* number of this shard in its mode */
};

#define TS_MTTKRP_MODELS 8u /* the most models of a launch */

/* The fields of struct ts_gpu_mttkrp for another model of the launch. */
struct ts_gpu_beside {
    const void *factor[TS_MAX_ORDER - 1];
    void *out, *edge;
};

struct ts_gpu_mttkrp {
    struct ts_gpu_shard one;         /* the shard of the launch, when n_many is 0 */
    const struct ts_gpu_shard *many; /* otherwise the n_many shards, ascending in first_cta */
    uint32_t n_many;
    uint32_t n_shares;     /* number of shares (thread blocks) of all shards of the launch */
    uint32_t share_blocks; /* packed blocks of nonzeros in a share (ts_mttkrp_share_blocks) */
    uint32_t n_levels;     /* number of levels below the row: order - 1 */
    uint32_t value_kind;   /* how values are stored: enum ts_value_kind */
    uint32_t n_codes;      /* number of codes that a nonzero has, as ts_header_codes returns it */
    /* 1: the second code is the weight of a cell, which kernels of observed cells use */
    uint32_t weights;
    double value_base;
    const double *dict;                   /* the dictionary of values, for TS_VALUE_DICT */
    const void *factor[TS_MAX_ORDER - 1]; /* factors of the other modes, by level: 1, 2, ... */
    void *out;                            /* n_rows x ld: the product */
    /* partial sums of the first and the last row of each share: (2 x shares of the mode) x ld */
    void *edge;
    /* the numbers of the rows whose partial sums `edge` has: 2 x shares of the mode */
    uint32_t *edge_row;
    uint32_t ld;
    uint32_t out_float; /* for wide launches: `out` has elements of float, not double */
    uint32_t n_beside;  /* number of models in `beside`, less than ts_mttkrp_models */
    /* the other models, in host memory, which is read during the call */
    const struct ts_gpu_beside *beside;
};

/* Returns the number of packed blocks of a share (one thread block's nonzeros), for a mode of
 * n_partitions: that of a partition, halved until there are enough shares for the multiprocessors
 * of a large GPU, or each warp has one block. It depends on the tensor alone: sums follow the
 * shares, and so have the same bits on every GPU. */
/* the number of shares (thread blocks) that keeps a large GPU busy; an H200 works on 660 at the
 * same time */
#define TS_MTTKRP_BUSY         512u
#define TS_MTTKRP_LEAST_BLOCKS 4u

static inline uint32_t ts_mttkrp_share_blocks(uint64_t n_partitions)
{
    uint32_t blocks = TS_PARTITION_BLOCKS;
    while (blocks > TS_MTTKRP_LEAST_BLOCKS &&
           n_partitions * (TS_PARTITION_BLOCKS / blocks) < TS_MTTKRP_BUSY)
        blocks /= 2;
    return blocks;
}

static inline uint32_t ts_mttkrp_shares(uint32_t n_blocks, uint32_t share_blocks)
{
    return (n_blocks + share_blocks - 1) / share_blocks;
}

/* out(i, r) = sum over the nonzeros of row i of the shards: value * prod_l factor[l](i_l, r). */
ts_gpu_error ts_mttkrp_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              ts_gpu_stream stream);

/* Returns the most models of a launch: one if rows are so long that decoding takes the smaller part
 * of the time. */
uint32_t ts_mttkrp_models(enum ts_precision precision, uint32_t ld);

/* Launches the MTTKRP of one model, like ts_mttkrp_launch, with factors in float32. Products, sums
 * and edges (partial sums) are float64. */
ts_gpu_error ts_mttkrp_launch_wide(const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);

/* Returns the lowest compute capability with compiled code, times 100, such as 800. Newer devices
 * can use PTX code at least. */
int ts_mttkrp_least_arch(void);

#ifdef __cplusplus
}
#endif

#endif
