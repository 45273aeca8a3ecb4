/* SPDX-License-Identifier: BSD-3-Clause */
/* Weighted products of packed shards: as the MTTKRP, with the row of the mode itself beside. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/weigh_kernel.h"

#include <cuda_runtime.h>

#include "gpu/held_cells.cuh"
#include "gpu/mttkrp_stages.cuh"
#include "gpu/own_row.cuh"
#include "gpu/wide_rows.cuh"
#include "stream/loss_functions.h"

/* Thread blocks of a multiprocessor: 128 registers a thread. */
enum { WEIGH_CTAS = 4 };

/* What a lane sums of the loss. */
struct judgement {
    double loss, inner, held_n, held_loss, held_model, held_squares;

    template <bool HELD> __device__ inline void add(bool held, double x, double model)
    {
        const double at = x * log(fmax(model, TS_LOSS_LEAST));
        loss += HELD && held ? 0 : at;
        inner += HELD && held ? 0 : x * model;
        if constexpr (HELD) {
            held_n += held ? 1 : 0;
            held_loss += held ? at : 0;
            held_model += held ? model : 0;
            held_squares += held ? x * x : 0;
        }
    }
    template <bool HELD> __device__ inline void add_lanes()
    {
        loss = group_sum<32>(loss);
        inner = group_sum<32>(inner);
        if constexpr (HELD) {
            held_n = group_sum<32>(held_n);
            held_loss = group_sum<32>(held_loss);
            held_model = group_sum<32>(held_model);
            held_squares = group_sum<32>(held_squares);
        }
    }
    template <bool HELD> __device__ inline void add(const judgement &more)
    {
        loss += more.loss;
        inner += more.inner;
        if constexpr (HELD) {
            held_n += more.held_n;
            held_loss += more.held_loss;
            held_model += more.held_model;
            held_squares += more.held_squares;
        }
    }
};
static_assert(sizeof(judgement) == TS_WEIGH_SUMS * sizeof(double), "as they are stored");

/* Weighs 8 nonzeros and adds them to their rows, or, with JUDGE, to `sum`: lane `member` of the
 * group then has those of its number. Bit k of held: nonzero k is held out, for JUDGE. */
template <class T, int LPR, int NL, int U, bool FLAGS, bool JUDGE, bool HELD>
static __device__ inline void
weigh_nonzeros(const ts_gpu_mttkrp &p, const lane_columns<T, T, LPR, NL> &columns, uint32_t member,
               const uint32_t *index, const T *val, uint32_t f, uint32_t held, own_row<T> &own,
               run_rows<T> &rows, judgement &sum)
{
    const T least = (T)TS_LOSS_LEAST;
#pragma unroll
    for (int h = 0; h < 8; h += U) {
        piece<T> term[U];
        alignas(16) T value[U];
        T m[U];
        products<T, T, LPR, NL, U, false>(p, columns.level, columns.factor, columns.byte,
                                          columns.row_bytes, index + h, val + h, term);
        load_shared<U>(val + h, value);
        models<T, LPR, U, FLAGS, false>(term, f >> h, own, m);
        if constexpr (JUDGE) {
#pragma unroll
            for (int from = 0; from < U; from += LPR) {
                double x = 0, at = 1;
                uint32_t which = 31;
#pragma unroll
                for (int u = from; u < U && u < from + LPR; u++) {
                    x = (int)member == u - from ? (double)value[u] : x;
                    at = (int)member == u - from ? (double)m[u] : at;
                    which = (int)member == u - from ? h + u : which;
                }
                sum.template add<HELD>(held >> which & 1, x, at);
            }
        } else {
#pragma unroll
            for (int u = 0; u < U; u++) {
                const T g = value[u] / (m[u] > least ? m[u] : least);
                add_term<T, FLAGS>(rows, f >> (h + u) & 1, g, term[u]);
            }
        }
    }
}

/* The nonzeros of a block that the group has. `row`: before the first one that begins in it. */
template <class T, int LPR, int NL, int U, bool JUDGE, bool HELD>
static __device__ inline void
weigh_block(const ts_gpu_mttkrp &p, const ts_gpu_weigh &w, const lane_place<LPR> &at,
            const warp_memory<T, LPR, NL> &mem, const lane_columns<T, T, LPR, NL> &columns,
            const unsigned char *held, uint32_t row, warp_rows &rows, judgement &sum)
{
    char *const row_before =
        columns.active ? columns.out + (uint64_t)row * columns.out_row_bytes : mem.head;
    run_rows<T> run = { {},
                        mem.head,
                        columns.active ? row_before + columns.out_row_bytes : mem.head,
                        columns.active ? columns.out_row_bytes : 0 };
    own_row<T> own((const char *)w.own + columns.byte, columns.active, row, columns.row_bytes);
    const uint32_t *group_index = mem.index + at.group * (spread<LPR>::group + 4);
    const T *group_val = mem.val + at.group * (spread<LPR>::group + 4);
    bool has = false;
#pragma unroll 1
    for (uint32_t c = 0; c < LPR; c++) {
        const uint32_t byte = at.group * LPR + c;
        const uint32_t f = ((const unsigned char *)mem.flag_word)[byte];
        const uint32_t out = JUDGE && HELD ? held[byte] : 0;
        has |= f != 0;
        if (__any_sync(ALL_LANES, f != 0))
            weigh_nonzeros<T, LPR, NL, U, true, JUDGE, HELD>(p, columns, at.member,
                                                             group_index + 8 * c, group_val + 8 * c,
                                                             f, out, own, run, sum);
        else
            weigh_nonzeros<T, LPR, NL, U, false, JUDGE, HELD>(
                p, columns, at.member, group_index + 8 * c, group_val + 8 * c, f, out, own, run,
                sum);
    }
    if constexpr (!JUDGE)
        join_groups(p, at, mem, columns, has, row_before, run.sum.v, rows);
}

/* Of the lane's 8 positions of block b: bit k, the nonzero at position k is held out. */
template <class T, int LPR, int NL>
static __device__ inline uint32_t held_of_lane(const ts_gpu_mttkrp &p, const ts_gpu_weigh &w,
                                               const ts_gpu_shard &shard, const lane_place<LPR> &at,
                                               const warp_memory<T, LPR, NL> &mem, uint32_t b,
                                               uint32_t first_row, const decoded &d)
{
    const uint32_t n =
        b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
    const uint32_t there = 8 * at.lane >= n ? 0 : below(min(8u, n - 8 * at.lane));
    return there & held_cells<T, LPR, NL>(w.hold_out, w.level, (NL > 0 ? NL : p.n_levels) + 1, mem,
                                          at.lane, first_row, d);
}

/* out(i, r) = sum over the nonzeros of row i of  x / max(m, least) * prod_l factor[l](i_l, r), as
 * mttkrp_packed makes it; or, with JUDGE, the sums of a share. With HELD nonzeros
 * that are held out count as zeros, and are judged apart.
 *
 *   launch  grid (shares of the launch), 4 warps a thread block, which have all columns */
template <class T, int LPR, int NL, int U, bool JUDGE, bool HELD>
__global__ void __launch_bounds__(32 * WARPS, WEIGH_CTAS)
    weigh_packed(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_weigh w)
{
    extern __shared__ uint4 shared[];
    __shared__ judgement warp_sums[JUDGE ? WARPS : 1];
    __shared__ unsigned char held[JUDGE && HELD ? WARPS : 1][32];
    const lane_place<LPR> at;
    const uint32_t n_levels = NL > 0 ? NL : p.n_levels;
    const warp_memory<T, LPR, NL> mem(shared, n_levels, 1, at);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    const lane_columns<T, T, LPR, NL> columns(p, other_models<false>(), at, 0);
    judgement sum = {};
    warp_blocks blocks;
    blocks.first = share * p.share_blocks + at.warp * warp_share;
    blocks.end = min(blocks.first + warp_share, shard.n_blocks);

    warp_rows rows = start_warp(shard, at, mem, 1, blocks);
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const decoded d = take_block(p, shard, at, mem, blocks, b);
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
        if constexpr (JUDGE && HELD)
            held[at.warp][at.lane] =
                (unsigned char)held_of_lane(p, w, shard, at, mem, b, first_row, d);
        else if constexpr (HELD)
            clear_held(w.hold_out, w.level, n_levels + 1, mem, at.lane, first_row, d);
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        weigh_block<T, LPR, NL, U, JUDGE, HELD>(p, w, at, mem, columns,
                                                held[JUDGE && HELD ? at.warp : 0], row, rows, sum);
        if constexpr (JUDGE && HELD)
            __syncwarp(); /* held is written again */
    }
    if constexpr (JUDGE) {
        sum.template add_lanes<HELD>();
        if (at.lane == 0)
            warp_sums[at.warp] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            sum = warp_sums[0];
            for (int k = 1; k < WARPS; k++)
                sum.template add<HELD>(warp_sums[k]);
            *(judgement *)(w.judged + TS_WEIGH_SUMS * (shard.first_share + share)) = sum;
        }
    } else {
        if (at.lane == 0) {
            mem.span[at.warp].state = blocks.first >= blocks.end ? 0 : rows.any ? 2 : 1;
            mem.span[at.warp].row_last = rows.last_row;
        }
        __syncthreads();
        store_edges<T, T, LPR>(p, p.out, p.edge, shard, share, mem.all_ends, mem.span);
    }
}

/* The same of rows of more columns than a warp holds, held out or not.
 *
 *   launch  grid (shares of the launch, summers_of, or 1 with JUDGE), 4 warps a thread block */
template <class T, bool JUDGE>
__global__ void __launch_bounds__(32 * WARPS, WEIGH_CTAS)
    weigh_wide(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_weigh w)
{
    extern __shared__ uint4 shared[];
    __shared__ judgement warp_sums[JUDGE ? WARPS : 1];
    const lane_place<32> at;
    const warp_memory<T, 32, 0> mem(shared, p.n_levels, PIECES, at);
    const block_models<T> model((char *)shared + shared_size<T, 32, 0>::bytes(p.n_levels, PIECES),
                                at.warp);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    const summed_pieces pieces = pieces_of_block<T>(p.ld);
    const T least = (T)TS_LOSS_LEAST;
    judgement sum = {};
    warp_blocks blocks;
    blocks.first = share * p.share_blocks + at.warp * warp_share;
    blocks.end = min(blocks.first + warp_share, shard.n_blocks);

    warp_rows rows = start_warp(shard, at, mem, pieces.n, blocks);
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const uint32_t n =
            b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
        const decoded d = take_block(p, shard, at, mem, blocks, b);
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
        const uint32_t held =
            w.hold_out.share > 0 ? held_of_lane(p, w, shard, at, mem, b, first_row, d) : 0;
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        tell_models<T, false>(p, w.own, at, mem, row, model.at);
#pragma unroll 1
        for (uint32_t k = 0; k < 8 && 8 * at.lane + k < n; k++) {
            const uint32_t place = spread<32>::at(8 * at.lane + k);
            const T x = mem.val[place], m = model.at[place];
            if constexpr (JUDGE)
                sum.template add<true>(held >> k & 1, (double)x, (double)m);
            else
                mem.val[place] = held >> k & 1 ? (T)0 : x / (m > least ? m : least);
        }
        __syncwarp();
        if constexpr (!JUDGE)
            sum_pieces(p, at, mem, pieces, row, rows);
    }
    if constexpr (JUDGE) {
        sum.template add_lanes<true>();
        if (at.lane == 0)
            warp_sums[at.warp] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            sum = warp_sums[0];
            for (int k = 1; k < WARPS; k++)
                sum.template add<true>(warp_sums[k]);
            *(judgement *)(w.judged + TS_WEIGH_SUMS * (shard.first_share + share)) = sum;
        }
    } else {
        end_pieces(p, shard, share, at, mem, pieces, blocks, rows);
    }
}

/* ------------------------------------------------------------------ launches */

template <class T, bool JUDGE>
static cudaError_t launch_wide(const struct ts_gpu_mttkrp *args, const struct ts_gpu_weigh *w,
                               cudaStream_t stream)
{
    const uint32_t bytes =
        shared_size<T, 32, 0>::bytes(args->n_levels, PIECES) + WARPS * block_models<T>::bytes();
    const dim3 grid(args->n_shares, JUDGE ? 1 : summers_of<T>(args->ld));
    const cudaError_t rc = allow_shared(weigh_wide<T, JUDGE>, bytes);
    if (rc == cudaSuccess)
        weigh_wide<T, JUDGE><<<grid, 32 * WARPS, bytes, stream>>>(*args, *w);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

template <class T, int LPR, int NL, int U, bool JUDGE, bool HELD>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_weigh *w,
                          cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LPR, NL>::bytes(args->n_levels, 1);
    auto kernel = weigh_packed<T, LPR, NL, U, JUDGE, HELD>;
    if (bytes > 48 * 1024 - (sizeof(judgement) + 32) * WARPS) {
        const cudaError_t rc =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (rc != cudaSuccess)
            return rc;
    }
    kernel<<<args->n_shares, 32 * WARPS, bytes, stream>>>(*args, *w);
    return cudaGetLastError();
}

template <class T, int NL, int U, bool JUDGE, bool HELD>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_weigh *w,
                               cudaStream_t s)
{
    const uint32_t pieces = args->ld / piece<T>::N;
    if (pieces <= 2)
        return launch<T, 2, NL, U, JUDGE, HELD>(args, w, s);
    if (pieces <= 4)
        return launch<T, 4, NL, U, JUDGE, HELD>(args, w, s);
    if (pieces <= 8)
        return launch<T, 8, NL, U, JUDGE, HELD>(args, w, s);
    if (pieces <= 16)
        return launch<T, 16, NL, U, JUDGE, HELD>(args, w, s);
    if (pieces <= 32)
        return launch<T, 32, NL, U, JUDGE, HELD>(args, w, s);
    return launch_wide<T, JUDGE>(args, w, s);
}

template <class T, int NL, int U, bool HELD>
static cudaError_t launch_levels(const struct ts_gpu_mttkrp *args, const struct ts_gpu_weigh *w,
                                 cudaStream_t s)
{
    return w->judged != NULL ? launch_rank<T, NL, U, true, HELD>(args, w, s)
                             : launch_rank<T, NL, U, false, HELD>(args, w, s);
}

cudaError_t ts_weigh_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                            const struct ts_gpu_weigh *weigh, cudaStream_t stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (weigh->hold_out.share > 0)
        return precision == TS_FLOAT64 ? launch_levels<double, 0, 4, true>(args, weigh, stream)
               : args->n_levels == 2   ? launch_levels<float, 2, 4, true>(args, weigh, stream)
                                       : launch_levels<float, 0, 4, true>(args, weigh, stream);
    if (precision == TS_FLOAT64)
        return launch_levels<double, 0, 4, false>(args, weigh, stream);
    return args->n_levels == 2   ? launch_levels<float, 2, 4, false>(args, weigh, stream)
           : args->n_levels == 3 ? launch_levels<float, 3, 2, false>(args, weigh, stream)
                                 : launch_levels<float, 0, 4, false>(args, weigh, stream);
}
