/* SPDX-License-Identifier: BSD-3-Clause */
/* step_draws.cuh - column sums of factors, and columns of a mode's unfolding that are drawn at
 * random.
 *
 *   owner    struct ts_gpu_steps has the arrays
 *   threads  as each launch says
 *   errors   none */
#ifndef TS_GPU_STEP_DRAWS_CUH
#define TS_GPU_STEP_DRAWS_CUH

#include "gpu/rows/step_kernel.h"

#define ALL_LANES 0xffffffffu

enum {
    THREADS = 128,
    WARPS = THREADS / 32,
    CHUNK = 32, /* drawn columns in shared memory at a time */
    TILE = 8,   /* rows of a warp, and columns of an operand of tensor cores */
    SOME = 8,   /* drawn cells at which a warp computes the model at a time */
    PIECE = 128 /* most columns that a warp holds; longer rows are split into pieces */
};

static __host__ __device__ inline uint32_t pieces_of(uint32_t ld)
{
    return (ld + PIECE - 1) / PIECE;
}

template <class T> static __device__ inline double entry(const void *of, uint64_t i)
{
    return (double)((const T *)of)[i];
}

static __device__ inline double sum_of_lanes(double x)
{
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}

/* ------------------------------------------------------------------ column sums of factors */

/* sum(g, c) := sum of column c of the factor over the rows of group g. Each thread computes one
 * sum. */
template <class T>
static __global__ void sum_groups(const void *a, uint64_t n_rows, uint32_t ld, uint64_t n_groups,
                                  double *sum)
{
    const uint64_t at = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint64_t g = at / ld, c = at % ld;
    const uint64_t end = min((g + 1) * TS_STEP_GROUP, n_rows);
    double x = 0;
    if (g >= n_groups)
        return;
#pragma unroll 8
    for (uint64_t i = g * TS_STEP_GROUP; i < end; i++)
        x += entry<T>(a, i * ld + c);
    sum[at] = x;
}

/* Adds to the column sums of each group of rows those of all groups before it. Each thread has a
 * column. */
static __global__ void add_groups(uint32_t ld, uint64_t n_groups, double *sum)
{
    const uint32_t c = blockIdx.x * THREADS + threadIdx.x;
    double x = 0;
    if (c >= ld)
        return;
#pragma unroll 8
    for (uint64_t g = 0; g < n_groups; g++) {
        x += sum[g * ld + c];
        sum[g * ld + c] = x;
    }
}

static __device__ inline uint64_t groups_of(const ts_gpu_steps &s, uint32_t m)
{
    return (s.n_rows[m] + TS_STEP_GROUP - 1) / TS_STEP_GROUP;
}

/* Returns the sum of column c of the factor of mode m. */
static __device__ inline double of_column(const ts_gpu_steps &s, uint32_t m, uint32_t c)
{
    return s.sum[m][(groups_of(s, m) - 1) * s.ld + c];
}

/* closed[c] := the product of the sums of column c of all other modes. upto[c] := the sum over
 * columns up to c of that product times the mode's own column sum.
 *
 *   launch  one thread block */
static __global__ void sum_model(const __grid_constant__ ts_gpu_steps s)
{
    for (uint32_t c = threadIdx.x; c < s.ld; c += THREADS) {
        double closed = c < s.rank ? 1 : 0, all = closed;
        for (uint32_t m = 0; m < s.order && c < s.rank; m++) {
            const double x = of_column(s, m, c);
            all *= x;
            closed *= m != s.mode ? x : 1;
        }
        s.closed[c] = closed;
        s.upto[c] = all;
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    double sum = 0;
    for (uint32_t c = 0; c < s.rank; c++) {
        sum += s.upto[c];
        s.upto[c] = sum;
    }
    s.upto[s.ld] = sum;
}

/* ------------------------------------------------------------------ drawing columns */

static __device__ inline double draw(const ts_gpu_steps &s, uint32_t of, uint32_t k)
{
    return ts_draw_unit(s.seed, s.draw, s.mode, of, k, s.n_columns);
}

/* Returns the number of the first of n ascending sums, `step` elements apart, that is above x. */
static __device__ inline uint64_t find(const double *sum, uint64_t n, uint64_t step, double x)
{
    uint64_t low = 0, high = n - 1;
    while (low < high) {
        const uint64_t mid = (low + high) / 2;
        if (sum[mid * step] > x)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Returns, to all lanes, a random row of mode m, with probabilities in proportion to column c of
 * its factor. unit: a random number from 0 to 1. */
template <class T>
static __device__ inline uint64_t draw_row(const ts_gpu_steps &s, uint32_t m, uint32_t c,
                                           double unit)
{
    const uint64_t groups = groups_of(s, m);
    const double *sum = s.sum[m] + c;
    const double x = unit * sum[(groups - 1) * s.ld];
    const uint64_t g = find(sum, groups, s.ld, x);
    const uint64_t end = min((g + 1) * TS_STEP_GROUP, s.n_rows[m]);
    double before = g > 0 ? sum[(g - 1) * s.ld] : 0;
    uint64_t last = g * TS_STEP_GROUP;
    for (uint64_t i = last; i < end; i += 32) {
        const uint32_t lane = threadIdx.x % 32;
        const double mine = i + lane < end ? entry<T>(s.factor[m], (i + lane) * s.ld + c) : 0;
        for (uint32_t k = 0; k < 32 && i + k < end; k++) { /* adds in the order of the rows */
            const double a = __shfl_sync(ALL_LANES, mine, k);
            before += a;
            last = a > 0 ? i + k : last;
            if (before > x)
                return i + k;
        }
    }
    return last;
}

/* Draws column k of the mode's unfolding: a factor row in each other mode, whose elementwise
 * product is stored in s.column, and the column's weight.
 *
 *   launch  one warp for each column */
template <class T> static __global__ void draw_columns(const __grid_constant__ ts_gpu_steps s)
{
    const uint32_t lane = threadIdx.x % 32, k = blockIdx.x * WARPS + threadIdx.x / 32;
    const double sum = s.sums ? s.upto[s.ld] : 0;
    uint64_t row[TS_MAX_ORDER], rest = k;
    double all = 0;
    if (k >= s.n_columns)
        return;
    /* the model is 0 everywhere, so no column can be drawn */
    if (s.from_model && !s.all_columns && !(sum > 0)) {
        for (uint32_t c = lane; c < s.ld; c += 32)
            s.column[(uint64_t)k * s.ld + c] = 0;
        if (lane == 0)
            s.weight[k] = 0;
        return;
    }
    const uint32_t r =
        s.from_model && !s.all_columns ? (uint32_t)find(s.upto, s.rank, 1, sum * draw(s, 0, k)) : 0;
#pragma unroll 1
    for (uint32_t m = 0; m < s.order; m++) {
        row[m] = 0;
        if (m == s.mode)
            continue;
        if (s.all_columns) {
            row[m] = rest % s.n_rows[m];
            rest /= s.n_rows[m];
            continue;
        }
        const double unit = draw(s, m + 1, k);
        row[m] = s.from_model ? draw_row<T>(s, m, r, unit) : (uint64_t)(unit * (double)s.n_rows[m]);
    }
    for (uint32_t c = lane; c < s.ld; c += 32) {
        double p = c < s.rank ? 1 : 0;
        for (uint32_t m = 0; m < s.order; m++)
            p *= m == s.mode ? 1 : entry<T>(s.factor[m], row[m] * s.ld + c);
        s.column[(uint64_t)k * s.ld + c] = p;
        all += s.from_model && c < s.rank ? of_column(s, s.mode, c) * p : 0;
    }
    all = sum_of_lanes(all);
    if (lane == 0)
        s.weight[k] = s.all_columns  ? 1
                      : s.from_model ? (all > 0 ? sum / (all * s.n_columns) : 0)
                                     : s.each;
}

#endif
