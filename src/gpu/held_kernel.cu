/* SPDX-License-Identifier: BSD-3-Clause */
/* The MTTKRP in which nonzeros that are held out count as zeros: as mttkrp_packed, but their values become 0 in shared memory. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/held_kernel.h"

#include <cuda_runtime.h>

#include "gpu/held_cells.cuh"
#include "gpu/mttkrp_sums.cuh"

/* Thread blocks of a multiprocessor: 128 registers a thread. */
enum { HELD_CTAS = 4 };

/* What mttkrp_packed computes, with its launch, of the nonzeros that are not held out. */
template <class T, class S, int LPR, int NL, int U>
__global__ void __launch_bounds__(32 * WARPS, HELD_CTAS)
    held_packed(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_held held)
{
    extern __shared__ uint4 shared[];
    const lane_place<LPR> at;
    const uint32_t n_levels = NL > 0 ? NL : p.n_levels;
    const warp_memory<T, LPR, NL> mem(shared, n_levels, 1, at);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    const lane_columns<T, S, LPR, NL> columns(p, other_models<false>(), at, 0);
    warp_blocks blocks;
    blocks.first = share * p.share_blocks + at.warp * warp_share;
    blocks.end = min(blocks.first + warp_share, shard.n_blocks);

    warp_rows rows = start_warp(shard, at, mem, 1, blocks);
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const decoded d = take_block(p, shard, at, mem, blocks, b);
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
        clear_held(held.hold_out, held.level, n_levels + 1, mem, at.lane, first_row, d);
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        sum_block<T, S, LPR, NL, U>(p, at, mem, columns, row, rows);
    }

    if (at.lane == 0) {
        mem.span[at.warp].state = blocks.first >= blocks.end ? 0 : rows.any ? 2 : 1;
        mem.span[at.warp].row_last = rows.last_row;
    }
    __syncthreads();
    store_edges<T, S, LPR>(p, p.out, p.edge, shard, share, mem.all_ends, mem.span);
}

/* ------------------------------------------------------------------ launching */

template <class T, class S, int LPR, int NL, int U>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_held *held,
                          cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LPR, NL>::bytes(args->n_levels, 1);
    const uint32_t columns = LPR * piece<T>::N;
    auto kernel = held_packed<T, S, LPR, NL, U>;
    const dim3 grid(args->n_shares, (args->ld + columns - 1) / columns);
    if (bytes > 48 * 1024) {
        const cudaError_t rc =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (rc != cudaSuccess)
            return rc;
    }
    kernel<<<grid, 32 * WARPS, bytes, stream>>>(*args, *held);
    return cudaGetLastError();
}

template <class T, class S, int NL, int U>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_held *held,
                               cudaStream_t s)
{
    const uint32_t pieces = args->ld / piece<T>::N;
    if (args->n_shares == 0)
        return cudaSuccess;
    if (pieces <= 2)
        return launch<T, S, 2, NL, U>(args, held, s);
    if (pieces <= 4)
        return launch<T, S, 4, NL, U>(args, held, s);
    if (pieces <= 8)
        return launch<T, S, 8, NL, U>(args, held, s);
    if (pieces <= 16)
        return launch<T, S, 16, NL, U>(args, held, s);
    return launch<T, S, 32, NL, U>(args, held, s);
}

cudaError_t ts_held_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                           const struct ts_gpu_held *held, cudaStream_t stream)
{
    if (precision == TS_FLOAT64)
        return launch_rank<double, double, 0, 4>(args, held, stream);
    return args->n_levels == 2   ? launch_rank<float, float, 2, 4>(args, held, stream)
           : args->n_levels == 3 ? launch_rank<float, float, 3, 2>(args, held, stream)
                                 : launch_rank<float, float, 0, 4>(args, held, stream);
}

cudaError_t ts_held_launch_wide(const struct ts_gpu_mttkrp *args, const struct ts_gpu_held *held,
                                cudaStream_t stream)
{
    return launch_rank<double, float, 0, 4>(args, held, stream);
}
