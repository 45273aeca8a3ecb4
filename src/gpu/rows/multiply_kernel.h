/* SPDX-License-Identifier: BSD-3-Clause */
/* multiply_kernel.h - rows that are multiplied with their weighted product (struct ts_multiply of
 * stream/row_update.h): what is done to the rows before, between and after the rounds.
 *
 * Rows b have the sign of what the last round says: minus where phi was above 1.
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
    void *b;         /* the rows under way */
    const void *phi; /* their products */
    uint64_t n_rows;
    uint32_t rank, ld;
    const uint32_t *shard_row; /* first and last row of each shard of the mode */
    uint64_t n_shards;
    double *kkt; /* becomes the largest violation, where it is less; it is not negative */
};

/* b := a diag(weight), with `grow` more where an entry has the mark; kkt := 0. */
ts_gpu_error ts_multiply_begin(const struct ts_gpu_rows *r, const double *weight, double grow,
                               ts_gpu_stream stream);

/* b := b .* phi for the rows that lie in one of the launch's shards alone. judge: kkt is wanted;
 * last: signs are. */
ts_gpu_error ts_multiply_shards(const struct ts_gpu_rows *r, const struct ts_gpu_mttkrp *shards,
                                int judge, int last, ts_gpu_stream stream);

/* Makes one round for rows that lie in several shards of the mode. signs and kkt must be set. */
ts_gpu_error ts_multiply_spans(const struct ts_gpu_rows *r, ts_gpu_stream stream);

/* column (ld) := sums of |b|; then a := b, columns divided by their sums, with marks. scratch:
 * TS_MULTIPLY_PARTS x ld elements. */
#define TS_MULTIPLY_PARTS 64u
ts_gpu_error ts_multiply_end(const struct ts_gpu_rows *r, double *scratch, double *column,
                             ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
