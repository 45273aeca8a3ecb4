/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors at the nonzeros of packed shards: the terms of the MTTKRP times the row of the mode itself give the model's value. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/errors_kernel.h"

#include <cuda_runtime.h>

#include "gpu/held_cells.cuh"
#include "gpu/mttkrp_stages.cuh"
#include "gpu/own_row.cuh"
#include "gpu/wide_rows.cuh"

/* Thread blocks of a multiprocessor: 128 registers a thread. */
enum { ERRORS_CTAS = 4 };

/* What a lane sums of cells. */
struct cell_sums {
    double n, x, squares, inner, left;

    /* A cell counts `weight` times; where that is 1, to the same bits as without. */
    __device__ inline void add(bool counts, double weight, double value, double model)
    {
        const double off = value - model;
        n += counts ? weight : 0;
        x += counts ? weight * value : 0;
        squares += counts ? weight * value * value : 0;
        inner += counts ? weight * value * model : 0;
        left += counts ? weight * off * off : 0;
    }
    __device__ inline void add_lanes()
    {
        n = group_sum<32>(n);
        x = group_sum<32>(x);
        squares = group_sum<32>(squares);
        inner = group_sum<32>(inner);
        left = group_sum<32>(left);
    }
    __device__ inline void add(const cell_sums &more)
    {
        n += more.n;
        x += more.x;
        squares += more.squares;
        inner += more.inner;
        left += more.left;
    }
};

static __device__ inline double weight_at(no_weights, uint32_t)
{
    return 1;
}
static __device__ inline double weight_at(weights_to w, uint32_t place)
{
    return (double)w.at[place];
}

/* Those from a place on. */
static __device__ inline no_weights weights_from(no_weights, uint32_t)
{
    return {};
}
static __device__ inline weights_to weights_from(weights_to w, uint32_t place)
{
    return { w.at + place };
}

/* Of a warp: cells that are not held out, and those that are. */
struct warp_sums {
    cell_sums kept, held;
};

/* Judges 8 nonzeros: lane `member` of the group has those of its number. Bit k of kept, held: where nonzero k counts. */
template <class T, int LPR, int NL, int U, bool FLAGS, class WEIGHTS>
static __device__ inline void
judge_nonzeros(const ts_gpu_mttkrp &p, const lane_columns<T, T, LPR, NL> &columns, uint32_t member,
               const uint32_t *index, const T *val, WEIGHTS weights, uint32_t f, uint32_t kept,
               uint32_t held, double mean, own_row<T> &own, warp_sums &sum)
{
#pragma unroll
    for (int h = 0; h < 8; h += U) {
        piece<T> term[U];
        alignas(16) T value[U];
        T m[U];
        products<T, T, LPR, NL, U, false>(p, columns.level, columns.factor, columns.byte,
                                          columns.row_bytes, index + h, val + h, term);
        load_shared<U>(val + h, value);
        models<T, LPR, U, FLAGS, true>(term, f >> h, own, m);
#pragma unroll
        for (int from = 0; from < U; from += LPR) {
            double x = 0, at = 0;
            uint32_t which = 31;
#pragma unroll
            for (int u = from; u < U && u < from + LPR; u++) {
                x = (int)member == u - from ? (double)value[u] : x;
                at = (int)member == u - from ? (double)m[u] : at;
                which = (int)member == u - from ? h + u : which;
            }
            const double weight = weight_at(weights, which & 7);
            sum.kept.add(kept >> which & 1, weight, x, at + mean);
            sum.held.add(held >> which & 1, weight, x, at + mean);
        }
    }
}

/* The nonzeros of a block that the group has. `row`: before the first one that begins in it. */
template <class T, int LPR, int NL, int U, class WEIGHTS>
static __device__ inline void
judge_block(const ts_gpu_mttkrp &p, const ts_gpu_errors &e, const lane_place<LPR> &at,
            const warp_memory<T, LPR, NL> &mem, WEIGHTS weights,
            const lane_columns<T, T, LPR, NL> &columns, const unsigned char *kept,
            const unsigned char *held, uint32_t row, warp_sums &sum)
{
    own_row<T> own((const char *)e.own + columns.byte, columns.active, row, columns.row_bytes);
    const uint32_t group_at = at.group * (spread<LPR>::group + 4);
    const uint32_t *group_index = mem.index + group_at;
    const T *group_val = mem.val + group_at;
#pragma unroll 1
    for (uint32_t c = 0; c < LPR; c++) {
        const uint32_t byte = at.group * LPR + c;
        const WEIGHTS here = weights_from(weights, group_at + 8 * c);
        const uint32_t f = ((const unsigned char *)mem.flag_word)[byte];
        if (__any_sync(ALL_LANES, f != 0))
            judge_nonzeros<T, LPR, NL, U, true>(p, columns, at.member, group_index + 8 * c,
                                                group_val + 8 * c, here, f, kept[byte], held[byte],
                                                e.mean, own, sum);
        else
            judge_nonzeros<T, LPR, NL, U, false>(p, columns, at.member, group_index + 8 * c,
                                                 group_val + 8 * c, here, f, kept[byte], held[byte],
                                                 e.mean, own, sum);
    }
}

/* Where a warp of 4 has its weights, in the memory of the thread block behind what others have there. */
template <int LPR> static __device__ inline void place_weights(no_weights &, char *, uint32_t) {}

template <int LPR>
static __device__ inline void place_weights(weights_to &w, char *memory, uint32_t warp)
{
    w.at = (float *)memory + warp * spread<LPR>::words;
}

/* The sums of a thread block's warps become those of its share; all threads call. */
static __device__ inline void end_sums(const ts_gpu_errors &e, uint64_t share, uint32_t warp,
                                       uint32_t lane, warp_sums &sum, warp_sums *sums)
{
    sum.kept.add_lanes();
    sum.held.add_lanes();
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int k = 1; k < WARPS; k++) {
        sum.kept.add(sums[k].kept);
        sum.held.add(sums[k].held);
    }
    cell_sums *const to = (cell_sums *)(e.sums + TS_ERRORS_SUMS * share);
    to[0] = sum.kept;
    to[1] = sum.held;
}

/* sums(share, :) = sums over the share's nonzeros
 *
 *   launch  grid (shares of the launch), 4 warps a thread block, which have all columns */
template <class T, int LPR, int NL, int U, class WEIGHTS>
__global__ void __launch_bounds__(32 * WARPS, ERRORS_CTAS)
    errors_packed(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_errors e)
{
    extern __shared__ uint4 shared[];
    __shared__ warp_sums sums[WARPS];
    __shared__ unsigned char kept[WARPS][32], held[WARPS][32];
    const lane_place<LPR> at;
    const uint32_t n_levels = NL > 0 ? NL : p.n_levels;
    const warp_memory<T, LPR, NL> mem(shared, n_levels, 1, at);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    const lane_columns<T, T, LPR, NL> columns(p, other_models<false>(), at, 0);
    WEIGHTS weights;
    warp_sums sum = {};
    warp_blocks blocks;
    place_weights<LPR>(weights, (char *)shared + shared_size<T, LPR, NL>::bytes(n_levels, 1),
                       at.warp);
    blocks.first = share * p.share_blocks + at.warp * warp_share;
    blocks.end = min(blocks.first + warp_share, shard.n_blocks);

    warp_rows rows = start_warp(shard, at, mem, 1, blocks);
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const uint32_t n =
            b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
        const decoded d = take_block(p, shard, at, mem, blocks, b, weights);
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
        const uint32_t there = 8 * at.lane >= n ? 0 : below(min(8u, n - 8 * at.lane));
        const uint32_t out = e.hold_out.share > 0
                                 ? there & held_cells<T, LPR, NL>(e.hold_out, e.level, n_levels + 1,
                                                                  mem, at.lane, first_row, d)
                                 : 0;
        kept[at.warp][at.lane] = (unsigned char)(there & ~out);
        held[at.warp][at.lane] = (unsigned char)out;
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        judge_block<T, LPR, NL, U>(p, e, at, mem, weights, columns, kept[at.warp], held[at.warp],
                                   row, sum);
        __syncwarp(); /* kept and held are written again */
    }
    end_sums(e, shard.first_share + share, at.warp, at.lane, sum, sums);
}

/* The same of rows of more columns than a warp holds: each lane judges its 8 positions. */
template <class T, class WEIGHTS>
__global__ void __launch_bounds__(32 * WARPS, ERRORS_CTAS)
    errors_wide(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_errors e)
{
    extern __shared__ uint4 shared[];
    __shared__ warp_sums sums[WARPS];
    const lane_place<32> at;
    const warp_memory<T, 32, 0> mem(shared, p.n_levels, 1, at);
    char *const models = (char *)shared + shared_size<T, 32, 0>::bytes(p.n_levels, 1);
    const block_models<T> model(models, at.warp);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    WEIGHTS weights;
    warp_sums sum = {};
    warp_blocks blocks;
    place_weights<32>(weights, models + WARPS * block_models<T>::bytes(), at.warp);
    blocks.first = share * p.share_blocks + at.warp * warp_share;
    blocks.end = min(blocks.first + warp_share, shard.n_blocks);

    warp_rows rows = start_warp(shard, at, mem, 1, blocks);
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const uint32_t n =
            b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
        const decoded d = take_block(p, shard, at, mem, blocks, b, weights);
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
        const uint32_t held = e.hold_out.share > 0
                                  ? held_cells<T, 32, 0>(e.hold_out, e.level, p.n_levels + 1, mem,
                                                         at.lane, first_row, d)
                                  : 0;
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        tell_models<T, true>(p, e.own, at, mem, row, model.at);
#pragma unroll 1
        for (uint32_t k = 0; k < 8 && 8 * at.lane + k < n; k++) {
            const uint32_t place = spread<32>::at(8 * at.lane + k);
            const double x = (double)mem.val[place], m = (double)model.at[place] + e.mean;
            const double weight = weight_at(weights, place);
            sum.kept.add((held >> k & 1) == 0, weight, x, m);
            sum.held.add((held >> k & 1) != 0, weight, x, m);
        }
        __syncwarp(); /* values and models are written again */
    }
    end_sums(e, shard.first_share + share, at.warp, at.lane, sum, sums);
}

/* ------------------------------------------------------------------ launches */

template <class T, class WEIGHTS>
static cudaError_t launch_wide(const struct ts_gpu_mttkrp *args, const struct ts_gpu_errors *what,
                               cudaStream_t stream)
{
    const uint32_t bytes =
        shared_size<T, 32, 0>::bytes(args->n_levels, 1) + WARPS * block_models<T>::bytes() +
        (args->weights ? WARPS * spread<32>::words * (uint32_t)sizeof(float) : 0);
    const cudaError_t rc = allow_shared(errors_wide<T, WEIGHTS>, bytes);
    if (rc == cudaSuccess)
        errors_wide<T, WEIGHTS><<<args->n_shares, 32 * WARPS, bytes, stream>>>(*args, *what);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

template <class T, int LPR, int NL, int U, class WEIGHTS>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_errors *what,
                          cudaStream_t stream)
{
    const uint32_t bytes =
        shared_size<T, LPR, NL>::bytes(args->n_levels, 1) +
        (args->weights ? WARPS * spread<LPR>::words * (uint32_t)sizeof(float) : 0);
    auto kernel = errors_packed<T, LPR, NL, U, WEIGHTS>;
    if (bytes > 46 * 1024) { /* what is not dynamic counts, too */
        const cudaError_t rc =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (rc != cudaSuccess)
            return rc;
    }
    kernel<<<args->n_shares, 32 * WARPS, bytes, stream>>>(*args, *what);
    return cudaGetLastError();
}

template <class T, int NL, int U, class WEIGHTS>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_errors *what,
                               cudaStream_t s)
{
    const uint32_t pieces = args->ld / piece<T>::N;
    if (pieces <= 2)
        return launch<T, 2, NL, U, WEIGHTS>(args, what, s);
    if (pieces <= 4)
        return launch<T, 4, NL, U, WEIGHTS>(args, what, s);
    if (pieces <= 8)
        return launch<T, 8, NL, U, WEIGHTS>(args, what, s);
    if (pieces <= 16)
        return launch<T, 16, NL, U, WEIGHTS>(args, what, s);
    if (pieces <= 32)
        return launch<T, 32, NL, U, WEIGHTS>(args, what, s);
    return launch_wide<T, WEIGHTS>(args, what, s);
}

cudaError_t ts_errors_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                             const struct ts_gpu_errors *what, cudaStream_t stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (args->weights) /* less code, in the same order of additions */
        return precision == TS_FLOAT64 ? launch_rank<double, 0, 4, weights_to>(args, what, stream)
               : args->n_levels == 3   ? launch_rank<float, 0, 2, weights_to>(args, what, stream)
                                       : launch_rank<float, 0, 4, weights_to>(args, what, stream);
    if (precision == TS_FLOAT64)
        return launch_rank<double, 0, 4, no_weights>(args, what, stream);
    return args->n_levels == 2   ? launch_rank<float, 2, 4, no_weights>(args, what, stream)
           : args->n_levels == 3 ? launch_rank<float, 3, 2, no_weights>(args, what, stream)
                                 : launch_rank<float, 0, 4, no_weights>(args, what, stream);
}
