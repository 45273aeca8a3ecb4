/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums the residuals of a model. Groups of lanes compute the model's values at the nonzeros of a
 * block, like errors_kernel.cu, and store them in shared memory. Then each lane sums its 8
 * positions, and a scan over the lanes adds the sums of rows that several lanes share. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/sparse/score_kernel.h"

#include <cuda_runtime.h>

#include "gpu/sparse/own_row.cuh"
#include "gpu/sparse/share_walk.cuh"
#include "gpu/sparse/wide_rows.cuh"

/* Thread blocks on a multiprocessor, with 128 registers a thread. */
enum { SCORE_CTAS = 4 };
static_assert(WARPS == TS_SCORE_UNITS, "a warp a unit");

/* ------------------------------------------------------------------ sums of residuals */

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

static __device__ inline void add_sums(ts_score_sums &to, const ts_score_sums &x)
{
    to.n += x.n;
    to.weight += x.weight;
    to.value += x.value;
    to.model += x.model;
    to.squares += x.squares;
    to.magnitudes += x.magnitudes;
}

/* Returns the value of x in the lane d lanes before. */
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

/* The sums of residuals over a lane's nonzeros, and after add_lanes over those of a warp. */
struct unit_sums : ts_score_share {
    __device__ inline void add_lanes()
    {
        sums.n = group_sum<32>(sums.n);
        sums.weight = group_sum<32>(sums.weight);
        sums.value = group_sum<32>(sums.value);
        sums.model = group_sum<32>(sums.model);
        sums.squares = group_sum<32>(sums.squares);
        sums.magnitudes = group_sum<32>(sums.magnitudes);
        logs = group_sum<32>(logs);
        others = group_sum<32>(others);
    }
    __device__ inline void add(const unit_sums &more)
    {
        add_sums(sums, more.sums);
        logs += more.logs;
        others += more.others;
    }
};

/* ------------------------------------------------------------------ a warp's memory */

/* Shared memory of a warp besides warp_memory (mttkrp_stages.cuh): the model's value at each
 * position, and the weights of cells. */
template <class T, int LPR> struct score_memory {
    T *model;
    float *weight; /* weights of cells; NULL: they have none */

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

/* The destination of decoded weights; `at` NULL: cells have none. */
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

/* ------------------------------------------------------------------ values of the model */

/* Computes the model's value at 8 nonzeros of a group, and stores it in to[0 .. 7]. */
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

/* Computes the model's values at the nonzeros of a block. row: the row before the first one that
 * begins among the nonzeros of the group (of lanes). */
template <class T, int LPR, int NL, int U>
static __device__ inline void tell_block(const share_walk<T, LPR, NL> &walk, const ts_gpu_scores &s,
                                         const lane_columns<T, T, LPR, NL> &columns, uint32_t row,
                                         T *model)
{
    own_row<T> own((const char *)s.own + columns.byte, columns.active, row, columns.row_bytes);
    (void)walk.each_eight([&](auto begins, uint32_t place, uint32_t, uint32_t f) {
        tell_nonzeros<T, LPR, NL, U, decltype(begins)::value>(
            walk.p, columns, walk.at.member, walk.mem.index + place, f, own, model + place);
    });
}

/* ---------------------------------------------------------------- sums over a block of nonzeros */

/* Calls f for the lane's nonzeros, 8 lane .. 8 lane + 7, of a block of n nonzeros. */
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

/* The state of a unit (a warp's nonzeros): its current row and, in the last lane, the sums of this
 * row so far. */
struct unit_slices {
    ts_score_sums open;
    uint32_t row;
    bool any; /* a row has ended in this unit (the warp's nonzeros) */
};

/* Adds the nonzeros of a block to the sums of their slices. row: the row before the first one that
 * begins among the lane's nonzeros; flags: the nonzeros of the lane that begin a row. */
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
    /* The sums so far of the last row of the block before are added first. */
    ts_score_sums before;
    before.n = __shfl_sync(ALL_LANES, unit.open.n, 31);
    before.weight = __shfl_sync(ALL_LANES, unit.open.weight, 31);
    before.value = __shfl_sync(ALL_LANES, unit.open.value, 31);
    before.model = __shfl_sync(ALL_LANES, unit.open.model, 31);
    before.squares = __shfl_sync(ALL_LANES, unit.open.squares, 31);
    before.magnitudes = __shfl_sync(ALL_LANES, unit.open.magnitudes, 31);
    if (lane == 0) {
        if (has)
            add_sums(head, before);
        else
            add_sums(sum, before);
    }
    /* An inclusive scan of the lanes' sums, which restarts at lanes where a row begins. */
    const uint32_t heads = __ballot_sync(ALL_LANES, has);
    const uint32_t up_to = heads & (ALL_LANES >> (31 - lane));
    const uint32_t distance = up_to == 0 ? lane : lane - (31 - __clz(up_to));
#pragma unroll 1
    for (uint32_t d = 1; d < 32; d <<= 1) {
        const ts_score_sums x = of_lane_before(sum, d);
        if (distance >= d)
            add_sums(sum, x);
    }
    const ts_score_sums x = of_lane_before(sum, 1);
    if (has) {
        if (lane > 0)
            add_sums(head, x);
        if (!unit.any && (heads & below(lane)) == 0)
            part[0] = head;
        else
            s.slice[first_row] = head;
    }
    unit.any |= heads != 0;
    unit.open = sum;
}

/* ------------------------------------------------------------------ nonzeros of a thread block */

/* s.share[k] := the sums over the nonzeros of share k; if s.slice is not NULL, also the sums of
 * each row.
 *
 *   launch  grid (shares of the launch), 4 warps a thread block, which have all columns; WIDE: rows
 *           are computed in pieces (wide_rows.cuh) */
template <class T, int LPR, int NL, int U, bool WIDE>
__global__ void __launch_bounds__(32 * WARPS, SCORE_CTAS)
    score_packed(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_scores s)
{
    extern __shared__ uint4 shared[];
    __shared__ unit_sums of_unit[WARPS];
    share_walk<T, LPR, NL> walk(p, shared, 1);
    const uint32_t lane = walk.at.lane;
    const T *const value = walk.mem.val;
    const score_memory<T, LPR> own(
        (char *)shared + shared_size<T, LPR, NL>::bytes(walk.n_levels, 1), walk.at.warp, p.weights);
    const uint64_t unit_number = walk.number() * WARPS + walk.at.warp;
    const lane_columns<T, T, LPR, NL> columns(p, other_models<false>(), walk.at, 0);
    unit_sums sum = {};
    unit_slices unit = {};
    walk.start(1);
    const uint32_t unit_row = walk.rows.last_row;
    walk.each_block(weights_if{ own.weight }, [&](const walked_block &block) {
        const uint32_t new_row = lane == 0 && block.first_row != walk.rows.last_row;
        const uint32_t row = walk.place(block);
        if constexpr (WIDE)
            tell_models<T, true>(p, s.own, walk.at, walk.mem, row, own.model);
        else
            tell_block<T, LPR, NL, U>(walk, s, columns, row, own.model);
        __syncwarp();
        each_cell<T, LPR>(value, own, block.n, lane, [&](uint32_t, double x, double m, double w) {
            add_cell(sum.sums, x, m, w);
            if (s.logs) {
                const bool counts = x >= 0 && x == floor(x) && (m > 0 || (x == 0 && m == 0));
                sum.others += !counts;
                sum.logs += counts && x > 0 ? x * log(m) : 0;
            }
        });
        if (s.slice != NULL)
            add_slices<T, LPR>(s, s.part + 2 * unit_number, value, own, block.n,
                               block.first_row + block.d.rows_before - new_row,
                               block.d.row_flags | new_row, lane, unit);
        __syncwarp(); /* the next block overwrites values and models */
    });
    if (s.slice != NULL && lane == 31) {
        const bool there = walk.blocks.first < walk.blocks.end;
        p.edge_row[2 * unit_number] = there ? unit_row : UINT32_MAX;
        p.edge_row[2 * unit_number + 1] = there && unit.any ? walk.rows.last_row : UINT32_MAX;
        s.part[2 * unit_number + (unit.any ? 1 : 0)] = unit.open;
    }
    if (walk.end_sums(sum, of_unit))
        s.share[walk.number()] = sum;
}

/* ------------------------------------------------------------------ launches of kernels */

template <class T, int LPR, int NL, int U, bool WIDE>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_scores *what,
                          cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LPR, NL>::bytes(args->n_levels, 1) +
                           WARPS * score_memory<T, LPR>::bytes(args->weights);
    return launch_shares(score_packed<T, LPR, NL, U, WIDE>, dim3(args->n_shares), bytes, args, what,
                         stream);
}

template <class T, int NL, int U>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_scores *what,
                               cudaStream_t s)
{
    return launch_lanes<T, 4>(
        args->ld,
        [&](auto lanes) { return launch<T, decltype(lanes)::value, NL, U, false>(args, what, s); },
        [&]() { return launch<T, 32, 0, 4, true>(args, what, s); });
}

ts_gpu_error ts_scores_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              const struct ts_gpu_scores *what, ts_gpu_stream stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (precision == TS_FLOAT64)
        return launch_rank<double, 0, 4>(args, what, stream);
    return args->n_levels == 2 ? launch_rank<float, 2, 4>(args, what, stream)
                               : launch_rank<float, 0, 4>(args, what, stream);
}
