/* SPDX-License-Identifier: BSD-3-Clause */
/* multiply_kernel.h - rows that are multiplied with their weighted products phi (struct ts_multiply
 * of stream/row_update.h): the work on rows before, between and after the rounds, each of which
 * multiplies them once.
 *
 * After the last round, an entry of the rows b is negative if its phi was above 1.
 *
 *   owner    the caller owns all memory; pointers are device pointers
 *   units    rows are ld elements apart, columns from the rank on zero
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_MULTIPLY_KERNEL_H
#define TS_GPU_MULTIPLY_KERNEL_H

#include "gpu/team/gpu_types.h"
#include "gpu/sparse/mttkrp_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ts_gpu_rows {
    enum ts_precision precision;
    void *a;         /* n_rows x ld: the factor */
    void *b;         /* n_rows x ld: the rows while they are multiplied in rounds */
    const void *phi; /* n_rows x ld: the weighted products of b */
    uint64_t n_rows;
    uint32_t rank, ld;
    const uint32_t *shard_row; /* first and last row of each shard of the mode */
    uint64_t n_shards;
    double *kkt; /* largest violation |min(b, 1 - phi)| so far */
};

/* b := a diag(weight), after adding `grow` to marked entries of a: those near 0 whose phi was above
 * 1 in the last round. kkt := 0. */
ts_gpu_error ts_multiply_begin(const struct ts_gpu_rows *r, const double *weight, double grow,
                               ts_gpu_stream stream);

/* b := b .* phi for the rows of the launch's shards that no other shard shares. If judge is 1,
 * updates kkt. If last is 1, entries of b whose phi is above 1 become negative. */
ts_gpu_error ts_multiply_shards(const struct ts_gpu_rows *r, const struct ts_gpu_mttkrp *shards,
                                int judge, int last, ts_gpu_stream stream);

/* Multiplies once the rows that several shards share, in their only round. Updates kkt, and makes
 * entries negative whose phi is above 1. */
ts_gpu_error ts_multiply_spans(const struct ts_gpu_rows *r, ts_gpu_stream stream);

/* column (ld elements) := the sums of the columns of |b|. Then a := |b| with columns divided by
 * their sums; entries near 0 whose b is negative are marked. scratch: TS_MULTIPLY_PARTS x ld
 * elements. */
#define TS_MULTIPLY_PARTS 64u
ts_gpu_error ts_multiply_end(const struct ts_gpu_rows *r, double *scratch, double *column,
                             ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
