/* SPDX-License-Identifier: BSD-3-Clause */
/* The obvious MTTKRP: one thread block for each row, nonzeros as plain indices. Tests compare the
 * fast kernel with it. */
#define _Static_assert static_assert /* layout.h is C */
#include "coo_kernel.h"

#include <cuda_runtime.h>

/* out(i, r) = sum over the nonzeros n of row i of  val[n] * prod_l factor[l](idx[l][n], r)
 *
 *   launch  one thread block per row; its threads walk over the columns
 *   out     only the row's thread block writes the row */
static __global__ void coo_mttkrp(const __grid_constant__ ts_gpu_coo p)
{
    const uint32_t row = blockIdx.x;
    for (uint32_t r = threadIdx.x; r < p.rank; r += blockDim.x) {
        double sum = 0;
        for (uint64_t n = p.row_start[row]; n < p.row_start[row + 1]; n++) {
            double term = p.val[n];
            for (uint32_t l = 0; l < p.n_levels; l++)
                term *= p.factor[l][(uint64_t)p.idx[l][n] * p.ld + r];
            sum += term;
        }
        p.out[(uint64_t)row * p.ld + r] = sum;
    }
}

cudaError_t ts_coo_mttkrp(const struct ts_gpu_coo *args, cudaStream_t stream)
{
    coo_mttkrp<<<args->n_rows, 64, 0, stream>>>(*args);
    return cudaGetLastError();
}
