/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the MTTKRP in which held-out nonzeros count as zeros: like mttkrp_packed
 * (mttkrp_kernel.cu), after setting their values to 0 in shared memory. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/sparse/held_kernel.h"

#include <cuda_runtime.h>

#include "gpu/sparse/held_cells.cuh"
#include "gpu/sparse/mttkrp_sums.cuh"
#include "gpu/sparse/share_walk.cuh"

/* Thread blocks on a multiprocessor, with 128 registers a thread. */
enum { HELD_CTAS = 4 };

/* Computes the MTTKRP like mttkrp_packed (mttkrp_kernel.cu), with thread blocks of the same number
 * and size, and with held-out nonzeros as zeros. */
template <class T, class S, int LPR, int NL, int U>
__global__ void __launch_bounds__(32 * WARPS, HELD_CTAS)
    held_packed(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_held held)
{
    extern __shared__ uint4 shared[];
    share_walk<T, LPR, NL> walk(p, shared, 1);
    const lane_columns<T, S, LPR, NL> columns(p, other_models<false>(), walk.at, 0);
    walk.start(1);
    walk.each_block(no_weights(), [&](const walked_block &block) {
        clear_held(held.hold_out, held.level, walk.n_levels + 1, walk.mem, walk.at.lane,
                   block.first_row, block.d);
        const uint32_t row = walk.place(block);
        sum_block<T, S, LPR, NL, U>(p, walk.at, walk.mem, columns, row, walk.rows);
    });
    walk.template end_rows<S>();
}

/* ------------------------------------------------------------------ launches of kernels */

template <class T, class S, int NL, int U>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_held *held,
                               cudaStream_t stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    return launch_pieces<T, 2>(args->ld, [&](auto lanes) {
        constexpr int LPR = decltype(lanes)::value;
        return launch_shares(held_packed<T, S, LPR, NL, U>, grid_of<T, LPR>(args),
                             shared_size<T, LPR, NL>::bytes(args->n_levels, 1), args, held, stream);
    });
}

ts_gpu_error ts_held_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                            const struct ts_gpu_held *held, ts_gpu_stream stream)
{
    if (precision == TS_FLOAT64)
        return launch_rank<double, double, 0, 4>(args, held, stream);
    return args->n_levels == 2   ? launch_rank<float, float, 2, 4>(args, held, stream)
           : args->n_levels == 3 ? launch_rank<float, float, 3, 2>(args, held, stream)
                                 : launch_rank<float, float, 0, 4>(args, held, stream);
}

ts_gpu_error ts_held_launch_wide(const struct ts_gpu_mttkrp *args, const struct ts_gpu_held *held,
                                 ts_gpu_stream stream)
{
    return launch_rank<double, float, 0, 4>(args, held, stream);
}
