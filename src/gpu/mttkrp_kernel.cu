/* SPDX-License-Identifier: BSD-3-Clause */
/* The MTTKRP of packed shards: a warp decodes a block into shared memory, then groups of lanes
 * gather factor rows and add them up. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/mttkrp_kernel.h"

#include <cuda_runtime.h>

#include "gpu/mttkrp_sums.cuh"

/* out(i, r) = sum over the nonzeros of row i of  value * prod_l factor[l](i_l, r)
 *
 *   launch  grid (shares of the launch, ceil(ld / (LPR * 16 bytes))), 4 warps a thread block: a
 *           warp takes a quarter of the share's blocks, one after another
 *   out     only rows that begin and end inside the share are stored: no other thread block has a
 *           nonzero of such a row, and one group of lanes stores it
 *   edge    (2 x shares of the mode copy, ld) sums of the share's first and last row
 *
 * For each block a warp (1) decodes the block staged in shared memory, 8 positions per lane, (2)
 * starts the copy of the next block into the same buffer, (3) gathers factor rows, (4) adds the
 * partial sums of rows that groups share, in the order of the nonzeros. Groups of LPR lanes walk
 * over 8 LPR nonzeros each. A lane holds 16 bytes of the row, so that neighbouring lanes read a row
 * in one request. A block too large for the buffer is read from device memory.
 *
 * Of several models (MANY) a warp does (3) and (4) for one after the other. They read the same
 * shared memory, and have each their own first and last row there.
 *
 * T is the type of products and sums, S that of the stored factors. With S float and T double,
 * `edge` has sums in double, and so has `out` unless p.out_float. */
template <class T, class S, int LPR, int NL, int U, bool MANY>
__global__ void __launch_bounds__(32 * WARPS, CTAS)
    mttkrp_packed(const __grid_constant__ ts_gpu_mttkrp p,
                  const __grid_constant__ other_models<MANY> others)
{
    extern __shared__ uint4 shared[];
    const lane_place<LPR> at;
    const uint32_t n_models = MANY ? 1 + p.n_beside : 1;
    const warp_memory<T, LPR, NL> mem(shared, NL > 0 ? NL : p.n_levels, n_models, at);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    warp_blocks blocks;
    blocks.first = share * p.share_blocks + at.warp * warp_share;
    blocks.end = min(blocks.first + warp_share, shard.n_blocks);

    const lane_columns<T, S, LPR, NL> own(p, others, at, 0);
    warp_rows rows = start_warp(shard, at, mem, n_models, blocks);
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const decoded d = take_block(p, shard, at, mem, blocks, b);
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        if constexpr (MANY) {
            const bool any = rows.any;
#pragma unroll 1
            for (uint32_t k = 0; k < n_models; k++) {
                rows.any = any;
                sum_block<T, S, LPR, NL, U>(p, at, mem.of_model(k),
                                            lane_columns<T, S, LPR, NL>(p, others, at, k), row,
                                            rows);
            }
        } else {
            sum_block<T, S, LPR, NL, U>(p, at, mem, own, row, rows);
        }
    }

    if (at.lane == 0) {
        mem.span[at.warp].state = blocks.first >= blocks.end ? 0 : rows.any ? 2 : 1;
        mem.span[at.warp].row_last = rows.last_row;
    }
    __syncthreads();
    store_edges<T, S, LPR>(p, p.out, p.edge, shard, share, mem.all_ends, mem.span);
    if constexpr (MANY) {
        for (uint32_t k = 1; k < n_models; k++)
            store_edges<T, S, LPR>(p, others.at[k - 1].out, others.at[k - 1].edge, shard, share,
                                   mem.of_model(k).all_ends, mem.span);
    }
}

/* ------------------------------------------------------------------ launching */

template <class T, class S, int LPR, int NL, int U, bool MANY = false>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, cudaStream_t stream)
{
    const uint32_t bytes =
        shared_size<T, LPR, NL>::bytes(args->n_levels, MANY ? 1 + args->n_beside : 1);
    const uint32_t columns = LPR * piece<T>::N;
    auto kernel = mttkrp_packed<T, S, LPR, NL, U, MANY>;
    const dim3 grid(args->n_shares, (args->ld + columns - 1) / columns);
    if (bytes > 48 * 1024) {
        const cudaError_t rc =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (rc != cudaSuccess)
            return rc;
    }
    other_models<MANY> others = {};
    if constexpr (MANY) {
        for (uint32_t k = 0; k < args->n_beside; k++)
            others.at[k] = args->beside[k];
    }
    kernel<<<grid, 32 * WARPS, bytes, stream>>>(*args, others);
    return cudaGetLastError();
}

/* So many models that the shared memory of their rows leaves most of the first-level cache. */
uint32_t ts_mttkrp_models(enum ts_precision precision, uint32_t ld)
{
    if (precision != TS_FLOAT32 || ld > 32)
        return 1;
    return ld > 16 ? TS_MTTKRP_MODELS / 2 : TS_MTTKRP_MODELS;
}

template <class T, class S, int NL, int U>
static cudaError_t launch_many(const struct ts_gpu_mttkrp *args, cudaStream_t stream)
{
    if constexpr (sizeof(T) == sizeof(float)) {
        if (args->n_beside < ts_mttkrp_models(TS_FLOAT32, args->ld))
            return args->ld <= 8    ? launch<T, S, 2, NL, U, true>(args, stream)
                   : args->ld <= 16 ? launch<T, S, 4, NL, U, true>(args, stream)
                                    : launch<T, S, 8, NL, U, true>(args, stream);
    }
    return cudaErrorInvalidValue;
}

template <class T, class S, int NL, int U>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, cudaStream_t stream)
{
    const uint32_t pieces = args->ld / piece<T>::N;
    if (args->n_beside > 0)
        return launch_many<T, S, NL, U>(args, stream);
    if (pieces <= 2)
        return launch<T, S, 2, NL, U>(args, stream);
    if (pieces <= 4)
        return launch<T, S, 4, NL, U>(args, stream);
    if (pieces <= 8)
        return launch<T, S, 8, NL, U>(args, stream);
    if (pieces <= 16)
        return launch<T, S, 16, NL, U>(args, stream);
    return launch<T, S, 32, NL, U>(args, stream);
}

ts_gpu_error ts_mttkrp_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    if (args->n_shares == 0)
        return cudaSuccess;
    if (precision == TS_FLOAT64)
        return args->n_levels == 2 ? launch_rank<double, double, 2, 4>(args, s)
                                   : launch_rank<double, double, 0, 4>(args, s);
    switch (args->n_levels) {
    case 2:
        return launch_rank<float, float, 2, 4>(args, s);
    case 3:
        return launch_rank<float, float, 3, 2>(args, s);
    case 4:
        return launch_rank<float, float, 4, 2>(args, s);
    default:
        return launch_rank<float, float, 0, 4>(args, s);
    }
}

ts_gpu_error ts_mttkrp_launch_wide(const struct ts_gpu_mttkrp *args, ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    if (args->n_shares == 0)
        return cudaSuccess;
    return args->n_levels == 2 ? launch_rank<double, float, 2, 4>(args, s)
                               : launch_rank<double, float, 0, 4>(args, s);
}

int ts_mttkrp_least_arch(void)
{
#ifdef __CUDA_ARCH_LIST__
    static const int arch[] = { __CUDA_ARCH_LIST__ }; /* what nvcc compiled for, ascending */
    return arch[0];
#else
    return 800;
#endif
}
