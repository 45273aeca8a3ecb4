/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients and sums of a loss over packed shards: as the MTTKRP, with the row of the mode itself beside, which gives the model's
 * value. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/loss_kernel.h"

#include <cuda_runtime.h>

#include "gpu/held_cells.cuh"
#include "gpu/mttkrp_stages.cuh"
#include "gpu/own_row.cuh"
#include "gpu/wide_rows.cuh"

/* Thread blocks of a multiprocessor: 128 registers a thread. */
enum { LOSS_CTAS = 4 };

/* What a lane sums of cells. */
struct loss_sums {
    double n, loss, reference, x;

    __device__ inline void add(bool counts, double of_cell, double least, double value)
    {
        n += counts ? 1 : 0;
        loss += counts ? of_cell : 0;
        reference += counts ? least : 0;
        x += counts ? value : 0;
    }
    __device__ inline void add_lanes()
    {
        n = group_sum<32>(n);
        loss = group_sum<32>(loss);
        reference = group_sum<32>(reference);
        x = group_sum<32>(x);
    }
    __device__ inline void add(const loss_sums &more)
    {
        n += more.n;
        loss += more.loss;
        reference += more.reference;
        x += more.x;
    }
};

/* Of a warp: cells that are not held out, and those that are. */
struct warp_losses {
    loss_sums kept, held;
};

/* Adds up m[k] of 8 nonzeros over the lanes of a group, as group_sum does: the lane gets the sums of nonzeros first .. first + N - 1,
 * in ret. Where a group has more lanes than 8, several get one. */
template <int LPR> struct shares_of_eight {
    static constexpr int N = LPR < 8 ? 8 / LPR : 1, same = LPR > 8 ? LPR / 8 : 1; /* lanes */

    static __device__ inline uint32_t first(uint32_t member)
    {
        return LPR < 8 ? member * N : member / same;
    }
    template <class T>
    static __device__ inline void add(const T (&m)[8], uint32_t member, T (&ret)[N])
    {
        T x[8];
#pragma unroll
        for (int k = 0; k < 8; k++)
            x[k] = m[k];
#pragma unroll
        for (int d = LPR / 2, half = 4; d > 0; d /= 2, half /= 2)
            if (half > 0) {
#pragma unroll
                for (int k = 0; k < half; k++) {
                    const bool upper = (member & d) != 0;
                    const T other = upper ? x[k] : x[half + k];
                    x[k] = (upper ? x[half + k] : x[k]) + __shfl_xor_sync(ALL_LANES, other, d);
                }
            } else {
                x[0] += __shfl_xor_sync(ALL_LANES, x[0], d);
            }
#pragma unroll
        for (int k = 0; k < N; k++)
            ret[k] = x[k];
    }
};

/* Adds the loss at a nonzero of value x to sums. */
static __device__ inline void judge(const ts_gpu_loss &loss, double x, double model, bool counts,
                                    bool is_held, warp_losses &sum)
{
    const double cell = ts_loss_value(loss.kind, x, model, loss.at);
    const double less = loss.zeros ? ts_loss_value(loss.kind, 0, model, loss.at) : 0;
    const double reference = ts_loss_reference(loss.kind, x, loss.at);
    sum.kept.add(counts, cell - less, reference, x);
    sum.held.add(is_held, cell, reference, x);
}

static __device__ inline double slope_of(const ts_gpu_loss &loss, double x, double model)
{
    double s = ts_loss_slope(loss.kind, x, model, loss.at);
    s -= loss.zeros ? ts_loss_slope(loss.kind, 0, model, loss.at) : 0;
    return s;
}

/* Weighs 8 nonzeros and adds them to their rows; with SUM adds to `sum` instead. Each slope, or value, is computed by one lane of the
 * group, or the same by some. Bit k of kept, held: where nonzero k counts. */
template <class T, int LPR, int NL, int U, bool FLAGS, bool SUM>
static __device__ inline void weigh_nonzeros(const ts_gpu_mttkrp &p, const ts_gpu_loss &loss,
                                             const lane_columns<T, T, LPR, NL> &columns,
                                             uint32_t member, const uint32_t *index, const T *val,
                                             uint32_t f, uint32_t kept, uint32_t held,
                                             own_row<T> &own, run_rows<T> &rows, warp_losses &sum)
{
    typedef shares_of_eight<LPR> shares;
    const uint32_t first = shares::first(member);
    piece<T> term[8];
    T m[8], at[shares::N], slope[shares::N];
#pragma unroll
    for (int h = 0; h < 8; h += U) {
        piece<T> some[U];
        T part[U];
        products<T, T, LPR, NL, U, false>(p, columns.level, columns.factor, columns.byte,
                                          columns.row_bytes, index + h, val + h, some);
#pragma unroll
        for (int u = 0; u < U; u++)
            term[h + u] = some[u];
        parts_of_models<T, U, FLAGS, true>(some, f >> h, own, part);
#pragma unroll
        for (int u = 0; u < U; u++)
            m[h + u] = part[u];
    }
    shares::add(m, member, at);
#pragma unroll
    for (int k = 0; k < shares::N; k++) {
        const double x = (double)val[first + k], here = (double)at[k];
        const bool counts = kept >> (first + k) & 1;
        if constexpr (SUM) {
            const bool is_held = held >> (first + k) & 1;
            if ((counts || is_held) && member % shares::same == 0)
                judge(loss, x, here, counts, is_held, sum);
        } else {
            const double s = slope_of(loss, x, here);
            slope[k] = (T)(counts ? s : 0);
        }
    }
    if constexpr (!SUM)
#pragma unroll
        for (int u = 0; u < 8; u++)
            add_term<T, FLAGS>(
                rows, f >> u & 1,
                __shfl_sync(ALL_LANES, slope[u % shares::N], u / shares::N * shares::same, LPR),
                term[u]);
}

/* The nonzeros of a block that the group has. `row`: before the first one that begins in it. */
template <class T, int LPR, int NL, int U, bool SUM>
static __device__ inline void
weigh_block(const ts_gpu_mttkrp &p, const ts_gpu_loss &loss, const lane_place<LPR> &at,
            const warp_memory<T, LPR, NL> &mem, const lane_columns<T, T, LPR, NL> &columns,
            const unsigned char *kept, const unsigned char *held, uint32_t row, warp_rows &rows,
            warp_losses &sum)
{
    char *const row_before =
        !SUM && columns.active ? columns.out + (uint64_t)row * columns.out_row_bytes : mem.head;
    run_rows<T> run = { {},
                        mem.head,
                        columns.active ? row_before + columns.out_row_bytes : mem.head,
                        columns.active ? columns.out_row_bytes : 0 };
    own_row<T> own((const char *)loss.own + columns.byte, columns.active, row, columns.row_bytes);
    const uint32_t *group_index = mem.index + at.group * (spread<LPR>::group + 4);
    const T *group_val = mem.val + at.group * (spread<LPR>::group + 4);
    bool has = false;
#pragma unroll 1
    for (uint32_t c = 0; c < LPR; c++) {
        const uint32_t byte = at.group * LPR + c;
        const uint32_t f = ((const unsigned char *)mem.flag_word)[byte];
        has |= f != 0;
        if (__any_sync(ALL_LANES, f != 0))
            weigh_nonzeros<T, LPR, NL, U, true, SUM>(p, loss, columns, at.member,
                                                     group_index + 8 * c, group_val + 8 * c, f,
                                                     kept[byte], held[byte], own, run, sum);
        else
            weigh_nonzeros<T, LPR, NL, U, false, SUM>(p, loss, columns, at.member,
                                                      group_index + 8 * c, group_val + 8 * c, f,
                                                      kept[byte], held[byte], own, run, sum);
    }
    if constexpr (!SUM)
        join_groups(p, at, mem, columns, has, row_before, run.sum.v, rows);
}

/* Of the lane's 8 positions of a block that has n: those that are there; returns which of them are held out. */
template <class T, int LPR, int NL>
static __device__ inline uint32_t
held_of_lane(const ts_gpu_mttkrp &p, const ts_gpu_loss &loss, const lane_place<LPR> &at,
             const warp_memory<T, LPR, NL> &mem, uint32_t n, uint32_t first_row, const decoded &d,
             uint32_t &there)
{
    there = 8 * at.lane >= n ? 0 : below(min(8u, n - 8 * at.lane));
    return loss.hold_out.share > 0 ? there & held_cells<T, LPR, NL>(loss.hold_out, loss.level,
                                                                    (NL > 0 ? NL : p.n_levels) + 1,
                                                                    mem, at.lane, first_row, d)
                                   : 0;
}

/* The sums of a thread block's warps become those of its share; all threads call. */
static __device__ inline void end_sums(const ts_gpu_loss &loss, uint64_t share, uint32_t warp,
                                       uint32_t lane, warp_losses &sum, warp_losses *sums)
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
    loss_sums *const to = (loss_sums *)(loss.sums + TS_LOSS_SUMS * share);
    to[0] = sum.kept;
    to[1] = sum.held;
}

/* What ts_loss_launch says, of a share; partial rows as mttkrp_packed leaves them.
 *
 *   launch  grid (shares of the launch), 4 warps a thread block, which have all columns */
template <class T, int LPR, int NL, int U, bool SUM>
__global__ void __launch_bounds__(32 * WARPS, LOSS_CTAS)
    loss_packed(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_loss loss)
{
    extern __shared__ uint4 shared[];
    __shared__ warp_losses sums[SUM ? WARPS : 1];
    __shared__ unsigned char kept[WARPS][32], held[WARPS][32];
    const lane_place<LPR> at;
    const uint32_t n_levels = NL > 0 ? NL : p.n_levels;
    const warp_memory<T, LPR, NL> mem(shared, n_levels, 1, at);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    const lane_columns<T, T, LPR, NL> columns(p, other_models<false>(), at, 0);
    warp_losses sum = {};
    warp_blocks blocks;
    blocks.first = share * p.share_blocks + at.warp * warp_share;
    blocks.end = min(blocks.first + warp_share, shard.n_blocks);

    warp_rows rows = start_warp(shard, at, mem, 1, blocks);
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const uint32_t n =
            b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
        const decoded d = take_block(p, shard, at, mem, blocks, b);
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
        uint32_t there;
        const uint32_t out = held_of_lane(p, loss, at, mem, n, first_row, d, there);
        kept[at.warp][at.lane] = (unsigned char)(there & ~out);
        held[at.warp][at.lane] = (unsigned char)out;
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        weigh_block<T, LPR, NL, U, SUM>(p, loss, at, mem, columns, kept[at.warp], held[at.warp],
                                        row, rows, sum);
        __syncwarp(); /* kept and held are written again */
    }
    if constexpr (SUM) {
        end_sums(loss, shard.first_share + share, at.warp, at.lane, sum, sums);
    } else {
        if (at.lane == 0) {
            mem.span[at.warp].state = blocks.first >= blocks.end ? 0 : rows.any ? 2 : 1;
            mem.span[at.warp].row_last = rows.last_row;
        }
        __syncthreads();
        store_edges<T, T, LPR>(p, p.out, p.edge, shard, share, mem.all_ends, mem.span);
    }
}

/* The same of rows of more columns than a warp holds.
 *
 *   launch  grid (shares of the launch, summers_of, or 1 with SUM), 4 warps a thread block */
template <class T, bool SUM>
__global__ void __launch_bounds__(32 * WARPS, LOSS_CTAS)
    loss_wide(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_loss loss)
{
    extern __shared__ uint4 shared[];
    __shared__ warp_losses sums[SUM ? WARPS : 1];
    const lane_place<32> at;
    const warp_memory<T, 32, 0> mem(shared, p.n_levels, PIECES, at);
    const block_models<T> model((char *)shared + shared_size<T, 32, 0>::bytes(p.n_levels, PIECES),
                                at.warp);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    const summed_pieces pieces = pieces_of_block<T>(p.ld);
    warp_losses sum = {};
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
        uint32_t there;
        const uint32_t held = held_of_lane(p, loss, at, mem, n, first_row, d, there);
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        tell_models<T, true>(p, loss.own, at, mem, row, model.at);
#pragma unroll 1
        for (uint32_t k = 0; k < 8 && (there >> k & 1) != 0; k++) {
            const uint32_t place = spread<32>::at(8 * at.lane + k);
            const double x = (double)mem.val[place], m = (double)model.at[place];
            const bool is_held = held >> k & 1;
            if constexpr (SUM)
                judge(loss, x, m, !is_held, is_held, sum);
            else
                mem.val[place] = (T)(is_held ? 0 : slope_of(loss, x, m));
        }
        __syncwarp();
        if constexpr (!SUM)
            sum_pieces(p, at, mem, pieces, row, rows);
    }
    if constexpr (SUM)
        end_sums(loss, shard.first_share + share, at.warp, at.lane, sum, sums);
    else
        end_pieces(p, shard, share, at, mem, pieces, blocks, rows);
}

/* ------------------------------------------------------------------ launches */

template <class T, bool SUM>
static cudaError_t launch_wide(const struct ts_gpu_mttkrp *args, const struct ts_gpu_loss *loss,
                               cudaStream_t stream)
{
    const uint32_t bytes =
        shared_size<T, 32, 0>::bytes(args->n_levels, PIECES) + WARPS * block_models<T>::bytes();
    const dim3 grid(args->n_shares, SUM ? 1 : summers_of<T>(args->ld));
    const cudaError_t rc = allow_shared(loss_wide<T, SUM>, bytes);
    if (rc == cudaSuccess)
        loss_wide<T, SUM><<<grid, 32 * WARPS, bytes, stream>>>(*args, *loss);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

template <class T, int LPR, int NL, int U, bool SUM>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_loss *loss,
                          cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LPR, NL>::bytes(args->n_levels, 1);
    auto kernel = loss_packed<T, LPR, NL, U, SUM>;
    if (bytes > 46 * 1024) { /* what is not dynamic counts, too */
        const cudaError_t rc =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (rc != cudaSuccess)
            return rc;
    }
    kernel<<<args->n_shares, 32 * WARPS, bytes, stream>>>(*args, *loss);
    return cudaGetLastError();
}

template <class T, int NL, int U, bool SUM>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_loss *loss,
                               cudaStream_t s)
{
    const uint32_t pieces = args->ld / piece<T>::N;
    if (pieces <= 2)
        return launch<T, 2, NL, U, SUM>(args, loss, s);
    if (pieces <= 4)
        return launch<T, 4, NL, U, SUM>(args, loss, s);
    if (pieces <= 8)
        return launch<T, 8, NL, U, SUM>(args, loss, s);
    if (pieces <= 16)
        return launch<T, 16, NL, U, SUM>(args, loss, s);
    if (pieces <= 32)
        return launch<T, 32, NL, U, SUM>(args, loss, s);
    return launch_wide<T, SUM>(args, loss, s);
}

template <class T, int NL, int U>
static cudaError_t launch_levels(const struct ts_gpu_mttkrp *args, const struct ts_gpu_loss *loss,
                                 cudaStream_t s)
{
    return loss->sums != NULL ? launch_rank<T, NL, U, true>(args, loss, s)
                              : launch_rank<T, NL, U, false>(args, loss, s);
}

cudaError_t ts_loss_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                           const struct ts_gpu_loss *loss, cudaStream_t stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (precision == TS_FLOAT64)
        return launch_levels<double, 0, 4>(args, loss, stream);
    return args->n_levels == 2   ? launch_levels<float, 2, 4>(args, loss, stream)
           : args->n_levels == 3 ? launch_levels<float, 3, 2>(args, loss, stream)
                                 : launch_levels<float, 0, 4>(args, loss, stream);
}
