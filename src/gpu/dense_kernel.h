/* dense_kernel.h - the dense work of a sweep on a GPU: row solves, Gram matrices, scaling.
 *
 * A factor matrix lies row-major in float32 or float64 with rows `ld` elements apart, ld a multiple
 * of 4, columns from `rank` on zero. Sums over rows are float64 and taken in an order that depends
 * on the number of rows and ld alone.
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

/* Elements of float64 that the sums need as scratch. */
uint64_t ts_dense_scratch(uint32_t ld);

/* a := a * w, in place, w being ld x ld of the precision; *inner := sum of (a before) .* (a after). */
int ts_dense_solve(enum ts_precision precision, void *a, uint64_t n_rows, uint32_t ld,
                   const void *w, double *scratch, double *inner, void *stream);

/* gram (ld x ld float64) := a' a */
int ts_dense_gram(enum ts_precision precision, const void *a, uint64_t n_rows, uint32_t ld,
                  double *scratch, double *gram, void *stream);

/* a(:, r) *= s[r], s being ld values of the precision */
int ts_dense_scale(enum ts_precision precision, void *a, uint64_t n_rows, uint32_t ld,
                   const void *s, void *stream);

/* Between n x rank float64 and n rows of a. */
int ts_dense_put(enum ts_precision precision, void *a, uint64_t n, uint32_t ld, uint32_t rank,
                 const double *rows, void *stream);
int ts_dense_get(enum ts_precision precision, const void *a, uint64_t n, uint32_t ld,
                 uint32_t rank, double *rows, void *stream);

#ifdef __cplusplus
}
#endif

#endif
