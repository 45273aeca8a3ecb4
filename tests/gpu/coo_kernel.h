/* SPDX-License-Identifier: BSD-3-Clause */
/* coo_kernel.h - the obvious MTTKRP on a GPU, from plain indices: what the fast kernel is tested
 * against.
 *
 *   owner    the caller owns all memory; pointers are device pointers
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a cudaError_t
 */
#ifndef TS_TESTS_COO_KERNEL_H
#define TS_TESTS_COO_KERNEL_H

#include <cuda_runtime.h>
#include <stdint.h>

#include "format/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Nonzeros sorted by row. Columns of `idx` and `val` have nnz entries. */
struct ts_gpu_coo {
    uint32_t n_rows, n_levels, rank, ld;
    const uint64_t *row_start;             /* n_rows + 1 */
    const uint32_t *idx[TS_MAX_ORDER - 1]; /* indices of the other modes */
    const double *val;
    const double *factor[TS_MAX_ORDER - 1]; /* row-major, `ld` apart */
    double *out;                            /* n_rows x ld, its first `rank` columns are written */
};

/* out(i, r) = sum over the nonzeros n of row i of val[n] * prod_l factor[l](idx[l][n], r) */
cudaError_t ts_coo_mttkrp(const struct ts_gpu_coo *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
