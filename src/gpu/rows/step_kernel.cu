/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds the part of gradients that comes from unlisted cells, by column sums and at drawn columns or
 * cells, and makes the steps of rows. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/rows/step_kernel.h"

#include <cuda_runtime.h>

#include "gpu/rows/step_draws.cuh"
#include "gpu/rows/tensor_core.cuh"

/* ------------------------------------------------------------------ rows at drawn columns */

/* gradient(i, :) += l2 a_i + linear closed + sum over the columns k of w_k (g(0, <a_i, k>) -
 * linear) k; or, with VALUES, row_value(i) := sum over the columns of w_k (f(0, m) - linear m).
 * Here a_i is row i of the factor, k also stands for a drawn column, w_k for its weight and m for
 * <a_i, k>. f is the loss, g its derivative by m, linear the constant part of g(0, m)
 * (stream/loss.h), closed the product of the other modes' column sums.
 *
 *   launch  a warp has 8 rows from `first` on
 *
 * Tensor cores compute the model's values <a_i, k>. Lane L gets those of row L / 4 at columns 2 (L
 * % 4) and 2 (L % 4) + 1. They serve as left operands of two products, one over the even and one
 * over the odd columns, which sum the gradient. */
template <class T, int TILES, bool VALUES>
__global__ void __launch_bounds__(THREADS)
    rows_at_columns(const __grid_constant__ ts_gpu_steps s, uint64_t first, uint64_t end)
{
    /* entries of a drawn column, and distance of columns, in shared memory */
    constexpr int WIDTH = TILE * TILES, STEP = WIDTH + 4;
    __shared__ double columns[CHUNK * STEP], weights[CHUNK];
    const uint32_t lane = threadIdx.x % 32, high = lane / 4, low = lane % 4;
    const uint64_t row = first + ((uint64_t)blockIdx.x * WARPS + threadIdx.x / 32) * TILE + high;
    const void *const own = s.factor[s.mode];
    double a[2 * TILES], g[TILES][2] = {}, value = 0;
#pragma unroll
    for (int q = 0; q < 2 * TILES; q++) {
        const uint32_t c = 4 * q + low;
        a[q] = row < end && c < s.ld ? entry<T>(own, row * s.ld + c) : 0;
    }
#pragma unroll 1
    for (uint32_t from = 0; from < s.n_columns; from += CHUNK) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < CHUNK * WIDTH; i += THREADS) {
            const uint32_t k = i / WIDTH, c = i % WIDTH;
            columns[k * STEP + c] =
                from + k < s.n_columns && c < s.ld ? s.column[(uint64_t)(from + k) * s.ld + c] : 0;
        }
        if (threadIdx.x < CHUNK)
            weights[threadIdx.x] =
                from + threadIdx.x < s.n_columns ? s.weight[from + threadIdx.x] : 0;
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < CHUNK; k += TILE) {
            double m[2] = { 0, 0 };
#pragma unroll
            for (int q = 0; q < 2 * TILES; q++)
                multiply_add(m, a[q], columns[(k + high) * STEP + 4 * q + low]);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint32_t at = k + 2 * low + e;
                const double w = weights[at];
                if (VALUES) {
                    value += w * (ts_loss_value(s.kind, 0, m[e], s.at) - s.linear * m[e]);
                } else {
                    const double slope = w * (ts_loss_slope(s.kind, 0, m[e], s.at) - s.linear);
#pragma unroll
                    for (int j = 0; j < TILES; j++)
                        multiply_add(g[j], slope, columns[at * STEP + TILE * j + high]);
                }
            }
        }
    }
    if constexpr (VALUES) {
        value += __shfl_xor_sync(ALL_LANES, value, 1);
        value += __shfl_xor_sync(ALL_LANES, value, 2);
        if (row < end && low == 0)
            s.row_value[row] = value;
    } else {
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint32_t c = TILE * j + 2 * low + e;
                const uint64_t i = row * s.ld + c;
                if (row < end && c < s.rank)
                    ((T *)s.gradient)[i] =
                        (T)(entry<T>(s.gradient, i) +
                            (s.l2 * entry<T>(own, i) + (s.sums ? s.linear * s.closed[c] : 0)) +
                            g[j][e]);
            }
    }
}

/* Copies entries c0 .. c0 + PIECE - 1 of CHUNK drawn columns, from column `from` on, to shared
 * memory. All threads call. */
static __device__ inline void fetch_columns(const ts_gpu_steps &s, uint32_t from, uint32_t c0,
                                            double *columns)
{
    __syncthreads(); /* all threads have read the columns that were fetched before */
    for (uint32_t i = threadIdx.x; i < CHUNK * PIECE; i += THREADS) {
        const uint32_t k = i / PIECE, c = c0 + i % PIECE;
        columns[k * (PIECE + 4) + i % PIECE] =
            from + k < s.n_columns && c < s.ld ? s.column[(uint64_t)(from + k) * s.ld + c] : 0;
    }
    __syncthreads();
}

/* Computes the sums of rows_at_columns for rows of more columns than PIECE.
 *
 *   launch  grid (as for rows_at_columns, pieces of the gradient, or 1 with VALUES): each computes
 *           the models from all pieces */
template <class T, bool VALUES>
__global__ void __launch_bounds__(THREADS)
    rows_at_columns_wide(const __grid_constant__ ts_gpu_steps s, uint64_t first, uint64_t end)
{
    constexpr int TILES = PIECE / TILE, STEP = PIECE + 4;
    __shared__ double columns[CHUNK * STEP];
    const uint32_t lane = threadIdx.x % 32, high = lane / 4, low = lane % 4;
    const uint64_t row = first + ((uint64_t)blockIdx.x * WARPS + threadIdx.x / 32) * TILE + high;
    const uint32_t mine = blockIdx.y * PIECE;
    const void *const own = s.factor[s.mode];
    double g[TILES][2] = {}, value = 0;
#pragma unroll 1
    for (uint32_t from = 0; from < s.n_columns; from += CHUNK) {
        double m[CHUNK / TILE][2] = {};
#pragma unroll 1
        for (uint32_t c0 = 0; c0 < s.ld; c0 += PIECE) {
            fetch_columns(s, from, c0, columns);
#pragma unroll 4
            for (int q = 0; q < 2 * TILES; q++) {
                const uint32_t c = c0 + 4 * q + low;
                const double a = row < end && c < s.ld ? entry<T>(own, row * s.ld + c) : 0;
#pragma unroll
                for (int k = 0; k < CHUNK / TILE; k++)
                    multiply_add(m[k], a, columns[(TILE * k + high) * STEP + 4 * q + low]);
            }
        }
        if (!VALUES)
            fetch_columns(s, from, mine, columns);
#pragma unroll
        for (int k = 0; k < CHUNK / TILE; k++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint32_t at = TILE * k + 2 * low + e;
                const double w = from + at < s.n_columns ? s.weight[from + at] : 0;
                if (VALUES) {
                    value += w * (ts_loss_value(s.kind, 0, m[k][e], s.at) - s.linear * m[k][e]);
                } else {
                    const double slope = w * (ts_loss_slope(s.kind, 0, m[k][e], s.at) - s.linear);
#pragma unroll
                    for (int j = 0; j < TILES; j++)
                        multiply_add(g[j], slope, columns[at * STEP + TILE * j + high]);
                }
            }
    }
    if constexpr (VALUES) {
        value += __shfl_xor_sync(ALL_LANES, value, 1);
        value += __shfl_xor_sync(ALL_LANES, value, 2);
        if (row < end && low == 0)
            s.row_value[row] = value;
    } else {
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint32_t c = mine + TILE * j + 2 * low + e;
                const uint64_t i = row * s.ld + c;
                if (row < end && c < s.rank)
                    ((T *)s.gradient)[i] =
                        (T)(entry<T>(s.gradient, i) +
                            (s.l2 * entry<T>(own, i) + (s.sums ? s.linear * s.closed[c] : 0)) +
                            g[j][e]);
            }
    }
}

/* ------------------------------------------------------------------ rows at drawn cells */

/* Finds the rows of the other factors at drawn cell k of a row, and stores their numbers in
 * row[m][lane] for each mode m. */
static __device__ inline void place_cell(const ts_gpu_steps &s, uint64_t k, uint32_t (*row)[32],
                                         uint32_t lane)
{
    const uint64_t cell = ts_drawn_cell(&s.cells, k);
    uint64_t rest = k;
#pragma unroll 1
    for (uint32_t m = 0; m < s.order; m++)
        if (m != s.mode)
            row[m][lane] = (uint32_t)ts_drawn_row(&s.cells, cell, m, &rest);
}

/* Computes sums like rows_at_columns, but at drawn cells, which are different for each row. The sum
 * over part q of a row's cells goes to part(i, q, :) or, if rows have one part, to gradient(i, :).
 *
 *   launch  a warp for each part of a row's cells, from row `first` on; a lane has every 32nd
 *           column */
template <class T, int PER_LANE, bool VALUES>
__global__ void __launch_bounds__(THREADS)
    rows_at_cells(const __grid_constant__ ts_gpu_steps s, uint64_t first, uint64_t end,
                  uint32_t n_parts)
{
    __shared__ uint32_t rows[WARPS][TS_MAX_ORDER][32];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64_t at = first * n_parts + (uint64_t)blockIdx.x * WARPS + warp;
    const uint64_t row = at / n_parts, q = at % n_parts;
    double a[PER_LANE], g[PER_LANE] = {}, value = 0;
    if (row >= end)
        return;
    const uint64_t begin = s.cells.all ? 0 : ts_drawn_first(&s.cells, row);
    const uint64_t stop = s.cells.all ? s.cells.of_row : ts_drawn_first(&s.cells, row + 1);
    const uint64_t last = begin + (stop - begin) * (q + 1) / n_parts;
#pragma unroll
    for (int j = 0; j < PER_LANE; j++) {
        const uint32_t c = lane + 32 * j;
        a[j] = c < s.ld ? entry<T>(s.factor[s.mode], row * s.ld + c) : 0;
    }
#pragma unroll 1
    for (uint64_t k = begin + (stop - begin) * q / n_parts; k < last; k += 32) {
        const uint32_t n = (uint32_t)min((uint64_t)32, last - k);
        __syncwarp();
        if (lane < n)
            place_cell(s, k + lane, rows[warp], lane);
        __syncwarp();
#pragma unroll 1
        for (uint32_t u0 = 0; u0 < n; u0 += SOME) {
            double p[SOME][PER_LANE], mine = 0;
#pragma unroll
            for (int u = 0; u < SOME; u++) {
                double m = 0;
#pragma unroll
                for (int j = 0; j < PER_LANE; j++) {
                    const uint32_t c = lane + 32 * j;
                    p[u][j] = u0 + u < n && c < s.ld ? 1 : 0;
                }
                for (uint32_t l = 0; l < s.order && u0 + u < n; l++) {
                    if (l == s.mode)
                        continue;
                    const T *const b =
                        (const T *)s.factor[l] + (uint64_t)rows[warp][l][u0 + u] * s.ld;
#pragma unroll
                    for (int j = 0; j < PER_LANE; j++)
                        if (lane + 32 * j < s.ld)
                            p[u][j] *= (double)b[lane + 32 * j];
                }
#pragma unroll
                for (int j = 0; j < PER_LANE; j++)
                    m += a[j] * p[u][j];
                m = sum_of_lanes(m);
                mine = lane % SOME == u ? m : mine;
            }
            const bool counts = u0 + lane % SOME < n;
            if constexpr (VALUES) {
                value += counts && lane < SOME
                             ? ts_loss_value(s.kind, 0, mine, s.at) - s.linear * mine
                             : 0;
            } else {
                const double slope =
                    counts ? s.cells.weight * (ts_loss_slope(s.kind, 0, mine, s.at) - s.linear) : 0;
#pragma unroll
                for (int u = 0; u < SOME; u++) {
                    const double w = __shfl_sync(ALL_LANES, slope, u);
#pragma unroll
                    for (int j = 0; j < PER_LANE; j++)
                        g[j] += w * p[u][j];
                }
            }
        }
    }
    if constexpr (VALUES) {
        value = s.cells.weight * sum_of_lanes(value);
        if (lane == 0)
            (n_parts > 1 ? s.part : s.row_value)[at] = value;
    } else {
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            const uint32_t c = lane + 32 * j;
            const uint64_t i = row * s.ld + c;
            if (c >= s.rank)
                continue;
            if (n_parts > 1)
                s.part[at * s.ld + c] = g[j];
            else
                ((T *)s.gradient)[i] = (T)(entry<T>(s.gradient, i) + g[j]);
        }
    }
}

/* Returns column c of the product of the other modes' factor rows at drawn cell u. place_cell has
 * found these rows. */
template <class T>
static __device__ inline double cell_term(const ts_gpu_steps &s, const uint32_t (*row)[32],
                                          uint32_t u, uint32_t c)
{
    double p = c < s.ld ? 1 : 0;
    for (uint32_t l = 0; l < s.order && c < s.ld; l++)
        p *= l == s.mode ? 1 : entry<T>(s.factor[l], (uint64_t)row[l][u] * s.ld + c);
    return p;
}

/* Computes the sums of rows_at_cells for rows of more columns than PIECE.
 *
 *   launch  grid (as for rows_at_cells, pieces of the gradient, or 1 with VALUES): each computes
 *           the models from all columns */
template <class T, bool VALUES>
__global__ void __launch_bounds__(THREADS)
    rows_at_cells_wide(const __grid_constant__ ts_gpu_steps s, uint64_t first, uint64_t end,
                       uint32_t n_parts)
{
    constexpr int PER_LANE = PIECE / 32;
    __shared__ uint32_t rows[WARPS][TS_MAX_ORDER][32];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64_t at = first * n_parts + (uint64_t)blockIdx.x * WARPS + warp;
    const uint64_t row = at / n_parts, q = at % n_parts;
    const uint32_t mine = blockIdx.y * PIECE + lane;
    double g[PER_LANE] = {}, value = 0;
    if (row >= end)
        return;
    const uint64_t begin = s.cells.all ? 0 : ts_drawn_first(&s.cells, row);
    const uint64_t stop = s.cells.all ? s.cells.of_row : ts_drawn_first(&s.cells, row + 1);
    const uint64_t last = begin + (stop - begin) * (q + 1) / n_parts;
#pragma unroll 1
    for (uint64_t k = begin + (stop - begin) * q / n_parts; k < last; k += 32) {
        const uint32_t n = (uint32_t)min((uint64_t)32, last - k);
        __syncwarp();
        if (lane < n)
            place_cell(s, k + lane, rows[warp], lane);
        __syncwarp();
        double model = 0; /* the model's value at cell `lane` */
#pragma unroll 1
        for (uint32_t u = 0; u < n; u++) {
            double m = 0;
            for (uint32_t c = lane; c < s.ld; c += 32)
                m += entry<T>(s.factor[s.mode], row * s.ld + c) * cell_term<T>(s, rows[warp], u, c);
            m = sum_of_lanes(m);
            model = lane == u ? m : model;
        }
        if constexpr (VALUES) {
            value += lane < n ? ts_loss_value(s.kind, 0, model, s.at) - s.linear * model : 0;
        } else {
            const double slope =
                lane < n ? s.cells.weight * (ts_loss_slope(s.kind, 0, model, s.at) - s.linear) : 0;
#pragma unroll 1
            for (uint32_t u = 0; u < n; u++) {
                const double w = __shfl_sync(ALL_LANES, slope, u);
#pragma unroll
                for (int j = 0; j < PER_LANE; j++)
                    g[j] += w * cell_term<T>(s, rows[warp], u, mine + 32 * j);
            }
        }
    }
    if constexpr (VALUES) {
        value = s.cells.weight * sum_of_lanes(value);
        if (lane == 0)
            (n_parts > 1 ? s.part : s.row_value)[at] = value;
    } else {
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            const uint32_t c = mine + 32 * j;
            const uint64_t i = row * s.ld + c;
            if (c >= s.rank)
                continue;
            if (n_parts > 1)
                s.part[at * s.ld + c] = g[j];
            else
                ((T *)s.gradient)[i] = (T)(entry<T>(s.gradient, i) + g[j]);
        }
    }
}

/* Adds the sums over the parts of a row's cells, in their order. A thread adds one entry. */
template <class T, bool VALUES>
static __global__ void add_parts(const __grid_constant__ ts_gpu_steps s, uint64_t first,
                                 uint64_t end, uint32_t n_parts)
{
    const uint32_t width = VALUES ? 1 : s.ld;
    const uint64_t at = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint64_t row = first + at / width, c = at % width;
    double sum = 0;
    if (row >= end || (!VALUES && c >= s.rank))
        return;
    for (uint32_t q = 0; q < n_parts; q++)
        sum += s.part[(row * n_parts + q) * width + c];
    if (VALUES)
        s.row_value[row] = sum;
    else
        ((T *)s.gradient)[row * s.ld + c] = (T)(entry<T>(s.gradient, row * s.ld + c) + sum);
}

/* of_group[g] := sum of row_value over the rows of group g of rows. One warp for each group. */
static __global__ void sum_values(const double *row_value, uint64_t n_rows, uint64_t first,
                                  uint64_t end, double *of_group)
{
    const uint64_t g = first + (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    double sum = 0;
    if (g >= end)
        return;
    for (uint64_t i = g * TS_STEP_GROUP + threadIdx.x % 32;
         i < min((g + 1) * TS_STEP_GROUP, n_rows); i += 32)
        sum += row_value[i];
    sum = sum_of_lanes(sum);
    if (threadIdx.x % 32 == 0)
        of_group[g] = sum;
}

/* ------------------------------------------------------------------ steps of rows */

template <class T>
static __global__ void make_steps(const __grid_constant__ ts_gpu_steps s,
                                  const __grid_constant__ ts_adam adam, uint64_t first, uint64_t n,
                                  T *moment_u, T *moment_v)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n * s.rank)
        return;
    const uint64_t at = (first + i / s.rank) * s.ld + i % s.rank;
    T *const a = (T *)s.factor[s.mode] + at;
    double u = (double)moment_u[i], v = (double)moment_v[i];
    *a = (T)ts_adam_step(&adam, (double)*a, entry<T>(s.gradient, at), &u, &v);
    moment_u[i] = (T)u;
    moment_v[i] = (T)v;
}

template <class T>
static __global__ void get_gradient(const __grid_constant__ ts_gpu_steps s, uint64_t first,
                                    uint64_t n, T *to)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n * s.rank)
        to[i] = ((const T *)s.gradient)[(first + i / s.rank) * s.ld + i % s.rank];
}

/* ------------------------------------------------------------------ launches of kernels */

static unsigned blocks_for(uint64_t n, unsigned each)
{
    return (unsigned)((n + each - 1) / each);
}

template <class T> static cudaError_t prepare(const struct ts_gpu_steps *s, cudaStream_t stream)
{
    for (uint32_t m = 0; m < s->order && s->sums; m++) {
        const uint64_t groups = ts_step_groups(s->n_rows[m]);
        sum_groups<T><<<blocks_for(groups * s->ld, THREADS), THREADS, 0, stream>>>(
            s->factor[m], s->n_rows[m], s->ld, groups, s->sum[m]);
        add_groups<<<blocks_for(s->ld, THREADS), THREADS, 0, stream>>>(s->ld, groups, s->sum[m]);
    }
    if (s->sums)
        sum_model<<<1, THREADS, 0, stream>>>(*s);
    if (s->n_columns > 0)
        draw_columns<T><<<blocks_for(s->n_columns, WARPS), THREADS, 0, stream>>>(*s);
    return cudaGetLastError();
}

ts_gpu_error ts_step_prepare(const struct ts_gpu_steps *s, ts_gpu_stream stream)
{
    return s->precision == TS_FLOAT32 ? prepare<float>(s, stream) : prepare<double>(s, stream);
}

template <class T, bool VALUES>
static cudaError_t at_columns(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                              cudaStream_t stream)
{
    const unsigned blocks = blocks_for(end - first, TILE * WARPS);
    const uint32_t tiles = (s->ld + TILE - 1) / TILE;
    if (tiles <= 1)
        rows_at_columns<T, 1, VALUES><<<blocks, THREADS, 0, stream>>>(*s, first, end);
    else if (tiles <= 2)
        rows_at_columns<T, 2, VALUES><<<blocks, THREADS, 0, stream>>>(*s, first, end);
    else if (tiles <= 4)
        rows_at_columns<T, 4, VALUES><<<blocks, THREADS, 0, stream>>>(*s, first, end);
    else if (tiles <= 8)
        rows_at_columns<T, 8, VALUES><<<blocks, THREADS, 0, stream>>>(*s, first, end);
    else if (tiles <= 16)
        rows_at_columns<T, 16, VALUES><<<blocks, THREADS, 0, stream>>>(*s, first, end);
    else
        rows_at_columns_wide<T, VALUES>
            <<<dim3(blocks, VALUES ? 1 : pieces_of(s->ld)), THREADS, 0, stream>>>(*s, first, end);
    return cudaGetLastError();
}

template <class T, bool VALUES>
static cudaError_t at_cells(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                            cudaStream_t stream)
{
    const uint32_t parts = ts_step_row_parts(s->n_rows[s->mode]);
    const unsigned blocks = blocks_for((end - first) * parts, WARPS);
    if (s->ld <= 32)
        rows_at_cells<T, 1, VALUES><<<blocks, THREADS, 0, stream>>>(*s, first, end, parts);
    else if (s->ld <= 64)
        rows_at_cells<T, 2, VALUES><<<blocks, THREADS, 0, stream>>>(*s, first, end, parts);
    else if (s->ld <= 128)
        rows_at_cells<T, 4, VALUES><<<blocks, THREADS, 0, stream>>>(*s, first, end, parts);
    else
        rows_at_cells_wide<T, VALUES>
            <<<dim3(blocks, VALUES ? 1 : pieces_of(s->ld)), THREADS, 0, stream>>>(*s, first, end,
                                                                                  parts);
    if (parts > 1)
        add_parts<T, VALUES>
            <<<blocks_for((end - first) * (VALUES ? 1 : s->ld), THREADS), THREADS, 0, stream>>>(
                *s, first, end, parts);
    return cudaGetLastError();
}

template <class T>
static cudaError_t gradient(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                            cudaStream_t stream)
{
    const cudaError_t e = at_columns<T, false>(s, first, end, stream);
    return e == cudaSuccess && s->at_cells ? at_cells<T, false>(s, first, end, stream) : e;
}

ts_gpu_error ts_step_gradient(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                              ts_gpu_stream stream)
{
    if (first >= end)
        return cudaSuccess;
    return s->precision == TS_FLOAT32 ? gradient<float>(s, first, end, stream)
                                      : gradient<double>(s, first, end, stream);
}

template <class T>
static cudaError_t values(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                          cudaStream_t stream)
{
    return s->at_cells ? at_cells<T, true>(s, first, end, stream)
                       : at_columns<T, true>(s, first, end, stream);
}

ts_gpu_error ts_step_values(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                            double *of_group, ts_gpu_stream stream)
{
    const uint64_t n_rows = s->n_rows[s->mode];
    const uint64_t top = first * TS_STEP_GROUP, bottom = end * TS_STEP_GROUP;
    cudaError_t e;
    if (first >= end)
        return cudaSuccess;
    e = s->precision == TS_FLOAT32
            ? values<float>(s, top, bottom < n_rows ? bottom : n_rows, stream)
            : values<double>(s, top, bottom < n_rows ? bottom : n_rows, stream);
    if (e != cudaSuccess)
        return e;
    sum_values<<<blocks_for(end - first, WARPS), THREADS, 0, stream>>>(s->row_value, n_rows, first,
                                                                       end, of_group);
    return cudaGetLastError();
}

ts_gpu_error ts_step_make(const struct ts_gpu_steps *s, const struct ts_adam *adam, uint64_t first,
                          uint64_t n, void *u, void *v, ts_gpu_stream stream)
{
    const unsigned blocks = blocks_for(n * s->rank, THREADS);
    if (n == 0)
        return cudaSuccess;
    if (s->precision == TS_FLOAT32)
        make_steps<float>
            <<<blocks, THREADS, 0, stream>>>(*s, *adam, first, n, (float *)u, (float *)v);
    else
        make_steps<double>
            <<<blocks, THREADS, 0, stream>>>(*s, *adam, first, n, (double *)u, (double *)v);
    return cudaGetLastError();
}

ts_gpu_error ts_step_get(const struct ts_gpu_steps *s, uint64_t first, uint64_t n, void *to,
                         ts_gpu_stream stream)
{
    const unsigned blocks = blocks_for(n * s->rank, THREADS);
    if (n == 0)
        return cudaSuccess;
    if (s->precision == TS_FLOAT32)
        get_gradient<float><<<blocks, THREADS, 0, stream>>>(*s, first, n, (float *)to);
    else
        get_gradient<double><<<blocks, THREADS, 0, stream>>>(*s, first, n, (double *)to);
    return cudaGetLastError();
}
