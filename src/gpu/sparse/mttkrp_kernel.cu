/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the MTTKRP of packed shards: a warp decodes a block into shared memory, then groups of
 * lanes gather factor rows and add them up. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/sparse/mttkrp_kernel.h"

#include <cuda_runtime.h>

#include "gpu/sparse/mttkrp_sums.cuh"
#include "gpu/sparse/share_walk.cuh"

/* out(i, r) = sum over the nonzeros of row i of  value * prod_l factor[l](i_l, r)
 *
 *   launch  grid (shares of the launch, ceil(ld / (LPR * 16 bytes))), 4 warps a thread block: each
 *           warp takes a contiguous quarter of the share's blocks
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
 * With several models (MANY), a warp does (3) and (4) for one model after another. They use the
 * same decoded block, but each model has its own first and last rows in shared memory.
 *
 * T is the type of products and sums, S that of the stored factors. With S float and T double,
 * `edge` has sums in double, and so has `out` unless p.out_float. */
template <class T, class S, int LPR, int NL, int U, bool MANY>
__global__ void __launch_bounds__(32 * WARPS, CTAS)
    mttkrp_packed(const __grid_constant__ ts_gpu_mttkrp p,
                  const __grid_constant__ other_models<MANY> others)
{
    extern __shared__ uint4 shared[];
    const uint32_t n_models = MANY ? 1 + p.n_beside : 1;
    share_walk<T, LPR, NL> walk(p, shared, n_models);
    const lane_columns<T, S, LPR, NL> own(p, others, walk.at, 0);
    walk.start(n_models);
    walk.each_block(no_weights(), [&](const walked_block &block) {
        const uint32_t row = walk.place(block);
        if constexpr (MANY) {
            const bool any = walk.rows.any;
#pragma unroll 1
            for (uint32_t k = 0; k < n_models; k++) {
                walk.rows.any = any;
                sum_block<T, S, LPR, NL, U>(p, walk.at, walk.mem.of_model(k),
                                            lane_columns<T, S, LPR, NL>(p, others, walk.at, k), row,
                                            walk.rows);
            }
        } else {
            sum_block<T, S, LPR, NL, U>(p, walk.at, walk.mem, own, row, walk.rows);
        }
    });
    walk.template end_rows<S>();
    if constexpr (MANY) {
        for (uint32_t k = 1; k < n_models; k++)
            store_edges<T, S, LPR>(p, others.at[k - 1].out, others.at[k - 1].edge, walk.shard,
                                   walk.share, walk.mem.of_model(k).all_ends, walk.mem.span);
    }
}

/* ------------------------------------------------------------------ launches of kernels */

template <class T, class S, int LPR, int NL, int U, bool MANY = false>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, cudaStream_t stream)
{
    const uint32_t n_models = MANY ? 1 + args->n_beside : 1;
    other_models<MANY> others = {};
    if constexpr (MANY) {
        for (uint32_t k = 0; k < args->n_beside; k++)
            others.at[k] = args->beside[k];
    }
    return launch_shares(mttkrp_packed<T, S, LPR, NL, U, MANY>, grid_of<T, LPR>(args),
                         shared_size<T, LPR, NL>::bytes(args->n_levels, n_models), args, &others,
                         stream);
}

/* Returns the most models of a launch: so many that their rows in shared memory leave most of the
 * first-level cache free. */
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
    if (args->n_beside > 0)
        return launch_many<T, S, NL, U>(args, stream);
    return launch_pieces<T, 2>(args->ld, [&](auto lanes) {
        return launch<T, S, decltype(lanes)::value, NL, U>(args, stream);
    });
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
    /* the architectures that nvcc compiled for, ascending */
    static const int arch[] = { __CUDA_ARCH_LIST__ };
    return arch[0];
#else
    return 800;
#endif
}
