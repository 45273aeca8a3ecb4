/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients and sums of a loss over packed shards: as the MTTKRP, with the row of the mode itself beside, which gives the model's
 * value. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/loss_kernel.h"

#include <cuda_runtime.h>

#include "gpu/held_cells.cuh"
#include "gpu/mttkrp_stages.cuh"
#include "gpu/own_row.cuh"

/* Thread blocks of a multiprocessor: 128 registers a thread. */
enum { LOSS_CTAS = 4 };

/* What a lane sums of cells. */
struct loss_sums {
    double n, loss, zero, x;

    __device__ inline void add(bool counts, double of_cell, double of_zero, double value)
    {
        n += counts ? 1 : 0;
        loss += counts ? of_cell : 0;
        zero += counts ? of_zero : 0;
        x += counts ? value : 0;
    }
    __device__ inline void add_lanes()
    {
        n = group_sum<32>(n);
        loss = group_sum<32>(loss);
        zero = group_sum<32>(zero);
        x = group_sum<32>(x);
    }
    __device__ inline void add(const loss_sums &more)
    {
        n += more.n;
        loss += more.loss;
        zero += more.zero;
        x += more.x;
    }
};

/* Of a warp: cells that are not held out, and those that are. */
struct warp_losses {
    loss_sums kept, held;
};

/* Of lane `member` of a group: nonzero `from + member` of the U that the group has, whose values and models all its lanes have. The
 * lanes behind the last of them have one of value 0 and model 0. */
template <class T, int U>
static __device__ inline void pick(const T (&value)[U], const T (&m)[U], int from, uint32_t member,
                                   double &x, double &at, uint32_t &which)
{
    x = at = 0;
    which = 31;
#pragma unroll
    for (int u = from; u < U; u++) {
        x = (int)member == u - from ? (double)value[u] : x;
        at = (int)member == u - from ? (double)m[u] : at;
        which = (int)member == u - from ? u : which;
    }
}

/* Weighs 8 nonzeros and adds them to their rows; with SUM adds to `sum` instead. Each slope, or value, is computed by one lane of the
 * group. Bit k of kept, held: where nonzero k counts. */
template <class T, int LPR, int NL, int U, bool FLAGS, bool SUM>
static __device__ inline void weigh_nonzeros(const ts_gpu_mttkrp &p, const ts_gpu_loss &loss,
                                             const lane_columns<T, T, LPR, NL> &columns,
                                             uint32_t member, const uint32_t *index, const T *val,
                                             uint32_t f, uint32_t kept, uint32_t held,
                                             own_row<T> &own, run_rows<T> &rows, warp_losses &sum)
{
#pragma unroll
    for (int h = 0; h < 8; h += U) {
        piece<T> term[U];
        alignas(16) T value[U];
        T m[U], g[U];
        products<T, T, LPR, NL, U, false>(p, columns.level, columns.factor, columns.byte,
                                          columns.row_bytes, index + h, val + h, term);
        load_shared<U>(val + h, value);
        models<T, LPR, U, FLAGS, true>(term, f >> h, own, m);
#pragma unroll
        for (int from = 0; from < U; from += LPR) {
            double x, at;
            uint32_t which;
            pick<T, U>(value, m, from, member, x, at, which);
            if constexpr (SUM) {
                const bool counts = which < U && (kept >> (h + which) & 1) != 0;
                const bool is_held = which < U && (held >> (h + which) & 1) != 0;
                if (counts || is_held) {
                    const double cell = ts_loss_value(loss.kind, x, at, loss.at);
                    const double less = loss.zeros ? ts_loss_value(loss.kind, 0, at, loss.at) : 0;
                    const double zero =
                        loss.kind == TS_GCP_HUBER ? ts_loss_value(loss.kind, x, 0, loss.at) : 0;
                    sum.kept.add(counts, cell - less, zero, x);
                    sum.held.add(is_held, cell, zero, x);
                }
            } else {
                const bool counts = which < U && (kept >> (h + which) & 1) != 0;
                double slope = ts_loss_slope(loss.kind, x, at, loss.at);
                slope -= loss.zeros ? ts_loss_slope(loss.kind, 0, at, loss.at) : 0;
                slope = counts ? slope : 0;
#pragma unroll
                for (int u = from; u < U && u < from + LPR; u++)
                    g[u] = __shfl_sync(ALL_LANES, (T)slope, u - from, LPR);
            }
        }
        if constexpr (!SUM)
#pragma unroll
            for (int u = 0; u < U; u++)
                add_term<T, FLAGS>(rows, f >> (h + u) & 1, g[u], term[u]);
    }
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
    own_row<T> own((const char *)loss.own + columns.byte, columns.active, row, loss.n_rows,
                   columns.row_bytes);
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
        const uint32_t there = 8 * at.lane >= n ? 0 : below(min(8u, n - 8 * at.lane));
        const uint32_t out =
            loss.hold_out.share > 0
                ? there & held_cells<T, LPR, NL>(loss.hold_out, loss.level, n_levels + 1, mem,
                                                 at.lane, first_row, d)
                : 0;
        kept[at.warp][at.lane] = (unsigned char)(there & ~out);
        held[at.warp][at.lane] = (unsigned char)out;
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        weigh_block<T, LPR, NL, U, SUM>(p, loss, at, mem, columns, kept[at.warp], held[at.warp],
                                        row, rows, sum);
        __syncwarp(); /* kept and held are written again */
    }
    if constexpr (SUM) {
        sum.kept.add_lanes();
        sum.held.add_lanes();
        if (at.lane == 0)
            sums[at.warp] = sum;
        __syncthreads();
        if (threadIdx.x != 0)
            return;
        for (int k = 1; k < WARPS; k++) {
            sum.kept.add(sums[k].kept);
            sum.held.add(sums[k].held);
        }
        loss_sums *const to = (loss_sums *)(loss.sums + TS_LOSS_SUMS * (shard.first_share + share));
        to[0] = sum.kept;
        to[1] = sum.held;
    } else {
        if (at.lane == 0) {
            mem.span[at.warp].state = blocks.first >= blocks.end ? 0 : rows.any ? 2 : 1;
            mem.span[at.warp].row_last = rows.last_row;
        }
        __syncthreads();
        store_edges<T, T, LPR>(p, p.out, p.edge, shard, share, mem.all_ends, mem.span);
    }
}

/* ------------------------------------------------------------------ launches */

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
    return cudaErrorInvalidValue;
}

template <class T, int NL, int U>
static cudaError_t launch_levels(const struct ts_gpu_mttkrp *args, const struct ts_gpu_loss *loss,
                                 cudaStream_t s)
{
    return loss->sums != NULL ? launch_rank<T, NL, U, true>(args, loss, s)
                              : launch_rank<T, NL, U, false>(args, loss, s);
}

uint32_t ts_loss_most(enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? 32 * piece<float>::N : 32 * piece<double>::N;
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
