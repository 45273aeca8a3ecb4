/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_kernel.h - the dense work of a sweep on a GPU: row solves, Gram matrices, scaling.
 *
 * A factor matrix lies row-major in float32 or float64 with rows `ld` elements apart, ld a multiple
 * of 4, columns from `rank` on zero; it begins at a multiple of 16 bytes. Sums are float64 and taken
 * in an order that depends on the number of rows and ld alone, so that devices which each do a part
 * of the work arrive at the bits that one of them would.
 *
 *   owner    the caller owns all memory; pointers are device pointers
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   0 or a cudaError_t
 */
#ifndef TS_GPU_DENSE_KERNEL_H
#define TS_GPU_DENSE_KERNEL_H

#include <stdint.h>

#include "stream/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements of float64 that a Gram matrix needs as scratch, for any number of rows. */
uint64_t ts_dense_scratch(uint32_t ld);

/* Each of n rows := row * w, in place, w being ld x ld: rows 0 .. n - 1 of a or, when
 * `list` is not NULL, the n different rows that it names. row_inner[row] := sum of (row before) .*
 * (row after), unless row_inner is NULL. A row's bits do not depend on what else is in the call. */
int ts_dense_solve_rows(enum ts_precision precision, void *a, const uint32_t *list, uint64_t n,
                        uint32_t ld, const double *w, double *row_inner, void *stream);

/* The same with rows before that are those of m, in float64. */
int ts_dense_solve_products(const double *m, float *a, const uint32_t *list, uint64_t n,
                            uint32_t ld, const double *w, double *row_inner, void *stream);

/* *sum := the sum of x[0 .. n - 1]. The scratch is of TS_DENSE_SUM_SCRATCH elements, and not that of
 * a Gram matrix in the making. */
#define TS_DENSE_SUM_SCRATCH 528
int ts_dense_sum(const double *x, uint64_t n, double *scratch, double *sum, void *stream);

/* gram (ld x ld float64) := a' a in parts. Part p of the ts_dense_gram_parts is the product of the rows
 * that are its own, in the ts_dense_part_elements from p times as many on of `scratch`;
 * ts_dense_gram_part computes n_parts of them, ts_dense_gram_finish adds them all up. */
uint32_t ts_dense_gram_parts(uint32_t ld, uint64_t n_rows);
uint64_t ts_dense_part_elements(uint32_t ld);
int ts_dense_gram_part(enum ts_precision precision, const void *a, uint64_t n_rows, uint32_t ld,
                       uint32_t first_part, uint32_t n_parts, double *scratch, void *stream);
int ts_dense_gram_finish(uint64_t n_rows, uint32_t ld, double *scratch, double *gram, void *stream);

/* gram := a' a, all parts at once */
int ts_dense_gram(enum ts_precision precision, const void *a, uint64_t n_rows, uint32_t ld,
                  double *scratch, double *gram, void *stream);

/* a(:, r) *= s[r], s being ld values */
int ts_dense_scale(enum ts_precision precision, void *a, uint64_t n_rows, uint32_t ld,
                   const double *s, void *stream);

/* Between n x rank float64 and n rows of a. */
int ts_dense_put(enum ts_precision precision, void *a, uint64_t n, uint32_t ld, uint32_t rank,
                 const double *rows, void *stream);
int ts_dense_get(enum ts_precision precision, const void *a, uint64_t n, uint32_t ld, uint32_t rank,
                 double *rows, void *stream);

/* to := from, page-locked memory of the host, by a kernel; bytes and both addresses are multiples of
 * 16. */
int ts_dense_fetch(void *to, const void *from, uint64_t bytes, void *stream);

#ifdef __cplusplus
}
#endif

#endif
