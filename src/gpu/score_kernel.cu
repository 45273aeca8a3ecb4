/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of residuals: groups of lanes compute the model at the nonzeros of a block, as errors_kernel.cu does, and leave it in shared
 * memory; then each lane sums its 8 positions, and a scan over the lanes joins the rows that several have a part in. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/score_kernel.h"

#include <cuda_runtime.h>

#include "gpu/mttkrp_stages.cuh"
#include "gpu/own_row.cuh"
#include "gpu/wide_rows.cuh"

/* Thread blocks of a multiprocessor: 128 registers a thread. */
enum { SCORE_CTAS = 4 };
static_assert(WARPS == TS_SCORE_UNITS, "a warp a unit");

/* ------------------------------------------------------------------ sums */

static __device__ inline void add_cell(ts_score_sums &to, double value, double model, double weight)
{
    const double off = value - model;
    to.n++;
    to.weight += weight;
    to.value += weight * value;
    to.model += weight * model;
    to.squares += weight * off * off;
    to.magnitudes += weight * fabs(off);
}

static __device__ inline void add(ts_score_sums &to, const ts_score_sums &x)
{
    to.n += x.n;
    to.weight += x.weight;
    to.value += x.value;
    to.model += x.model;
    to.squares += x.squares;
    to.magnitudes += x.magnitudes;
}

/* Those of the lane d before. */
static __device__ inline ts_score_sums of_lane_before(const ts_score_sums &x, uint32_t d)
{
    ts_score_sums ret;
    ret.n = __shfl_up_sync(ALL_LANES, x.n, d);
    ret.weight = __shfl_up_sync(ALL_LANES, x.weight, d);
    ret.value = __shfl_up_sync(ALL_LANES, x.value, d);
    ret.model = __shfl_up_sync(ALL_LANES, x.model, d);
    ret.squares = __shfl_up_sync(ALL_LANES, x.squares, d);
    ret.magnitudes = __shfl_up_sync(ALL_LANES, x.magnitudes, d);
    return ret;
}

/* Of a lane, and in the end of a warp. */
static __device__ inline void add_lanes(ts_score_share &s)
{
    s.sums.n = group_sum<32>(s.sums.n);
    s.sums.weight = group_sum<32>(s.sums.weight);
    s.sums.value = group_sum<32>(s.sums.value);
    s.sums.model = group_sum<32>(s.sums.model);
    s.sums.squares = group_sum<32>(s.sums.squares);
    s.sums.magnitudes = group_sum<32>(s.sums.magnitudes);
    s.logs = group_sum<32>(s.logs);
    s.others = group_sum<32>(s.others);
}

/* ------------------------------------------------------------------ a warp's memory */

/* Beside what the stages of the MTTKRP take: the model at each position, and the weights of cells that have them. */
template <class T, int LPR> struct score_memory {
    T *model;
    float *weight; /* NULL: there are none */

    static __host__ __device__ uint32_t bytes(bool weighted)
    {
        return spread<LPR>::words * (uint32_t)(sizeof(T) + (weighted ? sizeof(float) : 0));
    }
    __device__ score_memory(char *shared, uint32_t warp, bool weighted)
    {
        model = (T *)(shared + warp * bytes(weighted));
        weight = weighted ? (float *)(model + spread<LPR>::words) : NULL;
    }
};

/* Weights are decoded where there are any. */
struct weights_if {
    float *at;
};

template <int LPR>
static __device__ inline void decode_weights(const block_map &m, const stream_part *part,
                                             uint32_t stream, uint32_t lane, weights_if to)
{
    if (to.at != NULL)
        decode_weights<LPR>(m, part, stream, lane, weights_to{ to.at });
}

/* ------------------------------------------------------------------ models */

/* The model at 8 nonzeros of a group goes to to[0 .. 7]. */
template <class T, int LPR, int NL, int U, bool FLAGS>
static __device__ inline void
tell_nonzeros(const ts_gpu_mttkrp &p, const lane_columns<T, T, LPR, NL> &columns, uint32_t member,
              const uint32_t *index, uint32_t f, own_row<T> &own, T *to)
{
#pragma unroll
    for (int h = 0; h < 8; h += U) {
        piece<T> term[U];
        T m[U];
        products<T, T, LPR, NL, U, false>(p, columns.level, columns.factor, columns.byte,
                                          columns.row_bytes, index + h, (const T *)NULL, term);
        models<T, LPR, U, FLAGS, true>(term, f >> h, own, m);
        if (member == 0)
#pragma unroll
            for (int u = 0; u < U; u++)
                to[h + u] = m[u];
    }
}

/* The models of a block. `row`: before the first one that begins in the group. */
template <class T, int LPR, int NL, int U>
static __device__ inline void
tell_block(const ts_gpu_mttkrp &p, const ts_gpu_scores &s, const lane_place<LPR> &at,
           const warp_memory<T, LPR, NL> &mem, const lane_columns<T, T, LPR, NL> &columns,
           uint32_t row, T *model)
{
    own_row<T> own((const char *)s.own + columns.byte, columns.active, row, columns.row_bytes);
    const uint32_t first = at.group * (spread<LPR>::group + 4);
#pragma unroll 1
    for (uint32_t c = 0; c < LPR; c++) {
        const uint32_t f = ((const unsigned char *)mem.flag_word)[at.group * LPR + c];
        const uint32_t place = first + 8 * c;
        if (__any_sync(ALL_LANES, f != 0))
            tell_nonzeros<T, LPR, NL, U, true>(p, columns, at.member, mem.index + place, f, own,
                                               model + place);
        else
            tell_nonzeros<T, LPR, NL, U, false>(p, columns, at.member, mem.index + place, f, own,
                                                model + place);
    }
}

/* ------------------------------------------------------------------ a block's sums */

/* The lane's nonzeros 8 lane .. of a block that has n. */
template <class T, int LPR, class F>
static __device__ inline void each_cell(const T *value, const score_memory<T, LPR> &own, uint32_t n,
                                        uint32_t lane, const F &f)
{
    const uint32_t first = spread<LPR>::at(8 * lane);
#pragma unroll 1
    for (uint32_t k = 0; k < 8 && 8 * lane + k < n; k++)
        f(k, (double)value[first + k], (double)own.model[first + k],
          own.weight == NULL ? 1.0 : (double)own.weight[first + k]);
}

/* Where a unit is: the row under way and what it has of it, in the last lane; whether it is the unit's first. */
struct unit_slices {
    ts_score_sums open;
    uint32_t row;
    bool any; /* a row has ended in this unit */
};

/* Adds the block to its slices. row: before the first one that begins among the lane's nonzeros; flags: where they begin. */
template <class T, int LPR>
static __device__ inline void add_slices(const ts_gpu_scores &s, ts_score_sums *part,
                                         const T *value, const score_memory<T, LPR> &own,
                                         uint32_t n, uint32_t row, uint32_t flags, uint32_t lane,
                                         unit_slices &unit)
{
    const uint32_t first_row = row;
    ts_score_sums head = {}, sum = {};
    bool has = false;
    each_cell<T, LPR>(value, own, n, lane, [&](uint32_t k, double x, double m, double w) {
        if (flags >> k & 1) {
            if (has)
                s.slice[row] = sum;
            else
                head = sum;
            has = true;
            row++;
            sum = {};
        }
        add_cell(sum, x, m, w);
    });
    __syncwarp();
    /* What the block before ended in comes first. */
    ts_score_sums before;
    before.n = __shfl_sync(ALL_LANES, unit.open.n, 31);
    before.weight = __shfl_sync(ALL_LANES, unit.open.weight, 31);
    before.value = __shfl_sync(ALL_LANES, unit.open.value, 31);
    before.model = __shfl_sync(ALL_LANES, unit.open.model, 31);
    before.squares = __shfl_sync(ALL_LANES, unit.open.squares, 31);
    before.magnitudes = __shfl_sync(ALL_LANES, unit.open.magnitudes, 31);
    if (lane == 0) {
        if (has)
            add(head, before);
        else
            add(sum, before);
    }
    /* An inclusive scan, which restarts at lanes where a row begins. */
    const uint32_t heads = __ballot_sync(ALL_LANES, has);
    const uint32_t up_to = heads & (ALL_LANES >> (31 - lane));
    const uint32_t distance = up_to == 0 ? lane : lane - (31 - __clz(up_to));
#pragma unroll 1
    for (uint32_t d = 1; d < 32; d <<= 1) {
        const ts_score_sums x = of_lane_before(sum, d);
        if (distance >= d)
            add(sum, x);
    }
    const ts_score_sums x = of_lane_before(sum, 1);
    if (has) {
        if (lane > 0)
            add(head, x);
        if (!unit.any && (heads & below(lane)) == 0)
            part[0] = head;
        else
            s.slice[first_row] = head;
    }
    unit.any |= heads != 0;
    unit.open = sum;
}

/* ------------------------------------------------------------------ a share */

/* share(k) = sums over its nonzeros; and of rows, where slice is not NULL.
 *
 *   launch  grid (shares of the launch), 4 warps a thread block, which have all columns; WIDE: in pieces */
template <class T, int LPR, int NL, int U, bool WIDE>
__global__ void __launch_bounds__(32 * WARPS, SCORE_CTAS)
    score_packed(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_scores s)
{
    extern __shared__ uint4 shared[];
    __shared__ ts_score_share sums[WARPS];
    const lane_place<LPR> at;
    const uint32_t n_levels = NL > 0 ? NL : p.n_levels, lane = at.lane;
    const warp_memory<T, LPR, NL> mem(shared, n_levels, 1, at);
    const score_memory<T, LPR> own((char *)shared + shared_size<T, LPR, NL>::bytes(n_levels, 1),
                                   at.warp, p.weights);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, warp_share = p.share_blocks / WARPS;
    const uint64_t unit_number = (shard.first_share + share) * WARPS + at.warp;
    const lane_columns<T, T, LPR, NL> columns(p, other_models<false>(), at, 0);
    ts_score_share sum = {};
    unit_slices unit = {};
    warp_blocks blocks;
    blocks.first = share * p.share_blocks + at.warp * warp_share;
    blocks.end = min(blocks.first + warp_share, shard.n_blocks);

    warp_rows rows = start_warp(shard, at, mem, 1, blocks);
    const uint32_t unit_row = rows.last_row;
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const uint32_t n =
            b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
        const decoded d = take_block(p, shard, at, mem, blocks, b, weights_if{ own.weight });
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
        const uint32_t new_row = lane == 0 && first_row != rows.last_row;
        const uint32_t row = place_rows(at, mem, first_row, d, rows);
        if constexpr (WIDE)
            tell_models<T, true>(p, s.own, at, mem, row, own.model);
        else
            tell_block<T, LPR, NL, U>(p, s, at, mem, columns, row, own.model);
        __syncwarp();
        each_cell<T, LPR>(mem.val, own, n, lane, [&](uint32_t, double x, double m, double w) {
            add_cell(sum.sums, x, m, w);
            if (s.logs) {
                const bool counts = x >= 0 && x == floor(x) && (m > 0 || (x == 0 && m == 0));
                sum.others += !counts;
                sum.logs += counts && x > 0 ? x * log(m) : 0;
            }
        });
        if (s.slice != NULL)
            add_slices<T, LPR>(s, s.part + 2 * unit_number, mem.val, own, n,
                               first_row + d.rows_before - new_row, d.row_flags | new_row, lane,
                               unit);
        __syncwarp(); /* values and models are written again */
    }
    if (s.slice != NULL && lane == 31) {
        const bool there = blocks.first < blocks.end;
        p.edge_row[2 * unit_number] = there ? unit_row : UINT32_MAX;
        p.edge_row[2 * unit_number + 1] = there && unit.any ? rows.last_row : UINT32_MAX;
        s.part[2 * unit_number + (unit.any ? 1 : 0)] = unit.open;
    }
    add_lanes(sum);
    if (lane == 0)
        sums[at.warp] = sum;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int k = 1; k < WARPS; k++) {
        add(sum.sums, sums[k].sums);
        sum.logs += sums[k].logs;
        sum.others += sums[k].others;
    }
    s.share[shard.first_share + share] = sum;
}

/* ------------------------------------------------------------------ launches */

template <class T, int LPR, int NL, int U, bool WIDE = false>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_scores *what,
                          cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LPR, NL>::bytes(args->n_levels, 1) +
                           WARPS * score_memory<T, LPR>::bytes(args->weights);
    auto kernel = score_packed<T, LPR, NL, U, WIDE>;
    if (bytes > 46 * 1024) { /* what is not dynamic counts, too */
        const cudaError_t rc =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (rc != cudaSuccess)
            return rc;
    }
    kernel<<<args->n_shares, 32 * WARPS, bytes, stream>>>(*args, *what);
    return cudaGetLastError();
}

template <class T, int NL, int U>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_scores *what,
                               cudaStream_t s)
{
    const uint32_t pieces = args->ld / piece<T>::N;
    if (pieces <= 4)
        return launch<T, 4, NL, U>(args, what, s);
    if (pieces <= 8)
        return launch<T, 8, NL, U>(args, what, s);
    if (pieces <= 16)
        return launch<T, 16, NL, U>(args, what, s);
    if (pieces <= 32)
        return launch<T, 32, NL, U>(args, what, s);
    return launch<T, 32, 0, 4, true>(args, what, s);
}

cudaError_t ts_scores_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                             const struct ts_gpu_scores *what, cudaStream_t stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (precision == TS_FLOAT64)
        return launch_rank<double, 0, 4>(args, what, stream);
    return args->n_levels == 2 ? launch_rank<float, 2, 4>(args, what, stream)
                               : launch_rank<float, 0, 4>(args, what, stream);
}
