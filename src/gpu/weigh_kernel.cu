/* SPDX-License-Identifier: BSD-3-Clause */
/* Weighted products of packed shards: as the MTTKRP, with the row of the mode itself beside. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/weigh_kernel.h"

#include <cuda_runtime.h>

#include "gpu/mttkrp_stages.cuh"
#include "gpu/own_row.cuh"
#include "stream/loss_functions.h"

/* Thread blocks of a multiprocessor: 128 registers a thread. */
enum { WEIGH_CTAS = 4 };

/* What a lane sums of the loss. */
struct judgement {
    double loss, inner;
};

/* Weighs 8 nonzeros and adds them to their rows, or, with JUDGE, to `sum`: lane `member` of the
 * group then has those of its number. */
template <class T, int LPR, int NL, int U, bool FLAGS, bool JUDGE>
static __device__ inline void
weigh_nonzeros(const ts_gpu_mttkrp &p, const lane_columns<T, T, LPR, NL> &columns, uint32_t member,
               const uint32_t *index, const T *val, uint32_t f, own_row<T> &own, run_rows<T> &rows,
               judgement &sum)
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
#pragma unroll
                for (int u = from; u < U && u < from + LPR; u++) {
                    x = (int)member == u - from ? (double)value[u] : x;
                    at = (int)member == u - from ? (double)m[u] : at;
                }
                sum.loss += x * log(fmax(at, TS_LOSS_LEAST));
                sum.inner += x * at;
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
template <class T, int LPR, int NL, int U, bool JUDGE>
static __device__ inline void
weigh_block(const ts_gpu_mttkrp &p, const ts_gpu_weigh &w, const lane_place<LPR> &at,
            const warp_memory<T, LPR, NL> &mem, const lane_columns<T, T, LPR, NL> &columns,
            uint32_t row, warp_rows &rows, judgement &sum)
{
    char *const row_before =
        columns.active ? columns.out + (uint64_t)row * columns.out_row_bytes : mem.head;
    run_rows<T> run = { {},
                        mem.head,
                        columns.active ? row_before + columns.out_row_bytes : mem.head,
                        columns.active ? columns.out_row_bytes : 0 };
    own_row<T> own((const char *)w.own + columns.byte, columns.active, row, w.n_rows,
                   columns.row_bytes);
    const uint32_t *group_index = mem.index + at.group * (spread<LPR>::group + 4);
    const T *group_val = mem.val + at.group * (spread<LPR>::group + 4);
    bool has = false;
#pragma unroll 1
    for (uint32_t c = 0; c < LPR; c++) {
        const uint32_t f = ((const unsigned char *)mem.flag_word)[at.group * LPR + c];
        has |= f != 0;
        if (__any_sync(ALL_LANES, f != 0))
            weigh_nonzeros<T, LPR, NL, U, true, JUDGE>(p, columns, at.member, group_index + 8 * c,
                                                       group_val + 8 * c, f, own, run, sum);
        else
            weigh_nonzeros<T, LPR, NL, U, false, JUDGE>(p, columns, at.member, group_index + 8 * c,
                                                        group_val + 8 * c, f, own, run, sum);
    }
    if constexpr (!JUDGE)
        join_groups(p, at, mem, columns, has, row_before, run.sum.v, rows);
}

/* out(i, r) = sum over the nonzeros of row i of  x / max(m, least) * prod_l factor[l](i_l, r), as
 * mttkrp_packed makes it; or, with JUDGE, the sums of a share.
 *
 *   launch  grid (shares of the launch), 4 warps a thread block, which have all columns */
template <class T, int LPR, int NL, int U, bool JUDGE>
__global__ void __launch_bounds__(32 * WARPS, WEIGH_CTAS)
    weigh_packed(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_weigh w)
{
    extern __shared__ uint4 shared[];
    __shared__ judgement warp_sums[WARPS];
    const lane_place<LPR> at;
    const warp_memory<T, LPR, NL> mem(shared, NL > 0 ? NL : p.n_levels, 1, at);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    const lane_columns<T, T, LPR, NL> columns(p, other_models<false>(), at, 0);
    judgement sum = { 0, 0 };
    warp_blocks blocks;
    blocks.first = share * p.share_blocks + at.warp * warp_share;
    blocks.end = min(blocks.first + warp_share, shard.n_blocks);

    warp_rows rows = start_warp(shard, at, mem, 1, blocks);
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const decoded d = take_block(p, shard, at, mem, blocks, b);
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        weigh_block<T, LPR, NL, U, JUDGE>(p, w, at, mem, columns, row, rows, sum);
    }
    if constexpr (JUDGE) {
        sum.loss = group_sum<32>(sum.loss);
        sum.inner = group_sum<32>(sum.inner);
        if (at.lane == 0)
            warp_sums[at.warp] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            double *const to = w.judged + 2 * (shard.first_share + share);
            sum = warp_sums[0];
            for (int k = 1; k < WARPS; k++) {
                sum.loss += warp_sums[k].loss;
                sum.inner += warp_sums[k].inner;
            }
            to[0] = sum.loss;
            to[1] = sum.inner;
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

template <class T, int LPR, int NL, int U, bool JUDGE>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_weigh *w,
                          cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LPR, NL>::bytes(args->n_levels, 1);
    auto kernel = weigh_packed<T, LPR, NL, U, JUDGE>;
    if (bytes > 48 * 1024 - sizeof(judgement) * WARPS) {
        const cudaError_t rc =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (rc != cudaSuccess)
            return rc;
    }
    kernel<<<args->n_shares, 32 * WARPS, bytes, stream>>>(*args, *w);
    return cudaGetLastError();
}

template <class T, int NL, int U, bool JUDGE>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_weigh *w,
                               cudaStream_t s)
{
    const uint32_t pieces = args->ld / piece<T>::N;
    if (pieces <= 2)
        return launch<T, 2, NL, U, JUDGE>(args, w, s);
    if (pieces <= 4)
        return launch<T, 4, NL, U, JUDGE>(args, w, s);
    if (pieces <= 8)
        return launch<T, 8, NL, U, JUDGE>(args, w, s);
    if (pieces <= 16)
        return launch<T, 16, NL, U, JUDGE>(args, w, s);
    if (pieces <= 32)
        return launch<T, 32, NL, U, JUDGE>(args, w, s);
    return cudaErrorInvalidValue;
}

template <class T, int NL, int U>
static cudaError_t launch_levels(const struct ts_gpu_mttkrp *args, const struct ts_gpu_weigh *w,
                                 cudaStream_t s)
{
    return w->judged != NULL ? launch_rank<T, NL, U, true>(args, w, s)
                             : launch_rank<T, NL, U, false>(args, w, s);
}

uint32_t ts_weigh_most(enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? 32 * piece<float>::N : 32 * piece<double>::N;
}

cudaError_t ts_weigh_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                            const struct ts_gpu_weigh *weigh, cudaStream_t stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (precision == TS_FLOAT64)
        return launch_levels<double, 0, 4>(args, weigh, stream);
    return args->n_levels == 2   ? launch_levels<float, 2, 4>(args, weigh, stream)
           : args->n_levels == 3 ? launch_levels<float, 3, 2>(args, weigh, stream)
                                 : launch_levels<float, 0, 4>(args, weigh, stream);
}
