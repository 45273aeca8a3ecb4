/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_kernel.h - row work on a GPU: row solves, Gram matrices, scaling.
 *
 * A factor matrix is row-major, in float32 or float64. Rows are `ld` elements apart; ld is a
 * multiple of 4, and columns from `rank` on are zero. The matrix begins at a multiple of 16 bytes.
 * Sums are float64. Their order depends only on the number of rows and on ld, so several devices
 * that share the work get the same bits as one device.
 *
 *   owner    the caller owns all memory; pointers are device pointers
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_DENSE_KERNEL_H
#define TS_GPU_DENSE_KERNEL_H

#include <stdint.h>

#include "gpu/team/gpu_types.h"
#include "stream/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the scratch memory of a Gram matrix, in elements of float64, for any number of rows. */
uint64_t ts_dense_scratch(uint32_t ld);

/* Returns the largest ld, up to 2048, for which 8 rows fit in the shared memory of a thread block.
 * Solves fail for longer rows. */
uint32_t ts_dense_most(int device);

/* Multiplies n rows of the factor a by w (ld x ld, the matrix of an update), in place: rows 0 .. n
 * - 1 or, if `list` is not NULL, the n different rows in it. If row_inner is not NULL,
 * row_inner[row] := dot product of the old and the new row. The bits of a row do not depend on the
 * other rows of the call. */
ts_gpu_error ts_dense_solve_rows(enum ts_precision precision, void *a, const uint32_t *list,
                                 uint64_t n, uint32_t ld, const double *w, double *row_inner,
                                 ts_gpu_stream stream);

/* Multiplies rows by w, like ts_dense_solve_rows, but reads the old rows from m, in float64. */
ts_gpu_error ts_dense_solve_products(const double *m, float *a, const uint32_t *list, uint64_t n,
                                     uint32_t ld, const double *w, double *row_inner,
                                     ts_gpu_stream stream);

/* *sum := the sum of x[0 .. n - 1]. `scratch` has TS_DENSE_SUM_SCRATCH elements. It must not be the
 * scratch of a Gram matrix that is being computed. */
#define TS_DENSE_SUM_SCRATCH 528
ts_gpu_error ts_dense_sum(const double *x, uint64_t n, double *scratch, double *sum,
                          ts_gpu_stream stream);

/* gram (ld x ld float64) := a' a of the factor a, computed in ts_dense_gram_parts parts. Each part
 * is the sum over the rows that belong to it, and takes ts_dense_part_elements elements of
 * `scratch`, part after part. ts_dense_gram_part computes n_parts of them; ts_dense_gram_finish
 * adds all parts. */
uint32_t ts_dense_gram_parts(uint32_t ld, uint64_t n_rows);
uint64_t ts_dense_part_elements(uint32_t ld);
ts_gpu_error ts_dense_gram_part(enum ts_precision precision, const void *a, uint64_t n_rows,
                                uint32_t ld, uint32_t first_part, uint32_t n_parts, double *scratch,
                                ts_gpu_stream stream);
ts_gpu_error ts_dense_gram_finish(uint64_t n_rows, uint32_t ld, double *scratch, double *gram,
                                  ts_gpu_stream stream);

/* gram := a' a, with all its parts (sums over some of the rows) in one call */
ts_gpu_error ts_dense_gram(enum ts_precision precision, const void *a, uint64_t n_rows, uint32_t ld,
                           double *scratch, double *gram, ts_gpu_stream stream);

/* a(:, r) *= s[r]. s has ld values. */
ts_gpu_error ts_dense_scale(enum ts_precision precision, void *a, uint64_t n_rows, uint32_t ld,
                            const double *s, ts_gpu_stream stream);

/* Scales the columns of a, like ts_dense_scale, for rows of up to TS_DENSE_BY_VALUE columns, with s
 * (rank values) in host memory, which is read during the call. */
#define TS_DENSE_BY_VALUE 64
ts_gpu_error ts_dense_scale_by(enum ts_precision precision, void *a, uint64_t n_rows, uint32_t ld,
                               const double *s, uint32_t rank, ts_gpu_stream stream);

/* Copies n x rank values of float64 to rows of a (put), or from them (get). */
ts_gpu_error ts_dense_put(enum ts_precision precision, void *a, uint64_t n, uint32_t ld,
                          uint32_t rank, const double *rows, ts_gpu_stream stream);
ts_gpu_error ts_dense_get(enum ts_precision precision, const void *a, uint64_t n, uint32_t ld,
                          uint32_t rank, double *rows, ts_gpu_stream stream);

/* Copies between page-locked host memory and the device by a kernel. A cudaMemcpyAsync would wait
 * for copies of shards, and would begin later. bytes and both addresses are multiples of 16. */
ts_gpu_error ts_dense_copy(void *to, const void *from, uint64_t bytes, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
