/* SPDX-License-Identifier: BSD-3-Clause */
/* Solves for rows of observed cells with more than 32 columns: a thread block takes the rows of its
 * share (a range of nonzeros) one after another.
 *
 * Columns form panels of 32. Each warp has a pair of panels, which may be equal, and sums their
 * block of the Gram matrix S in its registers. All warps take the same nonzeros, and each loads the
 * columns that it needs. When a row ends, S is copied to shared memory, where all warps factor it.
 *
 * Arithmetic is that of observed_kernel.cu. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/observed/observed_wide.h"

#include <cuda_runtime.h>

#include "gpu/observed/panel_system.cuh"

/* ------------------------------------------------------------------ sums of a row */

/* The sums of a warp: the block of the Gram matrix S in the rows of its left and the columns of its
 * right panel and, if these panels are equal, the panel's part of the right side m. */
template <class COUNT> struct wide_sum {
    /* s: tiles (0, b) and (1, b) as a pair for each tile b of the right panel, then (2, b) and (3,
     * b), as in gram_tiles.cuh */
    double s[8][4], m[4];
    COUNT count; /* number of nonzeros t, t + 4, ... (t: lane % 4), or sum of their weights */

    __device__ inline void clear()
    {
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                s[i][k] = 0;
#pragma unroll
        for (int c = 0; c < 4; c++)
            m[c] = 0;
        count = 0;
    }
};

/* Adds to the warp's sums the nonzeros at positions pos .. end - 1, all of one row. */
template <class T, class WEIGHTS>
static __device__ inline void add_wide(const ts_gpu_mttkrp &p, const warp_memory<T, LANES, 0> &mem,
                                       const WEIGHTS &weights, const uint32_t *kept, uint32_t pos,
                                       uint32_t end, uint32_t left, uint32_t right, uint32_t lane,
                                       wide_sum<typename WEIGHTS::count> &sum)
{
    const uint32_t t = lane % 4,
                   from[2] = { PANEL * left + lane / 4 * 4, PANEL * right + lane / 4 * 4 };
#pragma unroll 1
    for (; pos < end; pos += 8) {
        uint32_t place[2], byte[2][2];
        T x[2][2][4]; /* indices: panel, nonzero, column */
        double d[2][2][4];
        bool on[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t q = pos + 4 * k + t, at = min(q, end - 1);
            place[k] = spread<LANES>::at(at);
            on[k] = q < end && (kept[at / 32] >> at % 32 & 1);
            sum.count += on[k] ? weights.of_cell(place[k]) : 0;
#pragma unroll
            for (int h = 0; h < 2; h++)
                byte[h][k] = from[h] < p.ld ? from[h] * (uint32_t)sizeof(T) : 0;
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
            multiply_rows<T, 4, 0, 2>(p, mem, weights, place, byte[h], x[h]);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const double value = on[k] ? (double)mem.val[place[k]] : 0.0;
#pragma unroll
            for (int c = 0; c < 4; c++) {
#pragma unroll
                for (int h = 0; h < 2; h++)
                    d[h][k][c] = on[k] && from[h] < p.ld ? (double)x[h][k][c] : 0.0;
                sum.m[c] += value * d[0][k][c];
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int a = i / 4 * 2, b = i % 4;
            const double upper[2] = { d[0][0][a], d[0][1][a] };
            const double lower[2] = { d[0][0][a + 1], d[0][1][a + 1] };
            const double beside[2] = { d[1][0][b], d[1][1][b] };
            multiply_add_pair(sum.s[i], upper, lower, beside);
        }
    }
}

/* Stores the sums of all warps, the Gram matrix to w.s and the right side to w.y, and returns the
 * count. */
template <class COUNT>
static __device__ inline COUNT spill_wide(wide_sum<COUNT> &sum, const wide_memory &w, uint32_t left,
                                          uint32_t right, uint32_t lane)
{
    const uint32_t g = lane / 4, t = lane % 4;
    COUNT count = sum.count;
    count += __shfl_xor_sync(ALL_LANES, count, 1);
    count += __shfl_xor_sync(ALL_LANES, count, 2);
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t row = PANEL * left + 4 * g + i / 4 * 2 + k / 2;
            const uint32_t column = PANEL * right + 4 * (2 * t + k % 2) + i % 4;
            if (row <= column)
                w.s[row * w.stride + column] = sum.s[i][k];
        }
#pragma unroll
    for (int c = 0; c < 4; c++) {
        double m = sum.m[c];
        m += __shfl_xor_sync(ALL_LANES, m, 1);
        m += __shfl_xor_sync(ALL_LANES, m, 2);
        if (left == right && t == 0)
            w.y[PANEL * left + 4 * g + c] = m;
    }
    sum.clear();
    __syncthreads();
    return count;
}

/* Stores the Gram matrix (in w.s), the right side (in w.y) and the count as a part (partial sums of
 * a row). */
static __device__ inline void pack_wide(const wide_memory &w, uint32_t rank, double count,
                                        double *to)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (uint32_t i = warp; i < rank; i += warps)
        for (uint32_t j = i + lane; j < rank; j += 32)
            to[packed_at(i, j, rank)] = w.s[i * w.stride + j];
    to += (uint64_t)rank * (rank + 1) / 2;
    for (uint32_t j = threadIdx.x; j < rank; j += blockDim.x)
        to[j] = w.y[j];
    if (threadIdx.x == 0)
        to[rank] = count;
    __syncthreads();
}

/* --------------------------------------------------------------- rows of a thread block's share */

/* out(i, :) = the row a that solves (S + l2 I) a = m (S: its Gram matrix, m: its right side), for
 * each row inside a share
 *
 *   launch  grid (shares of the launch), a warp for each pair of panels left <= right
 *   out     only rows that begin and end inside the share are stored
 *   part    (2 x shares of the mode copy) sums over the share's nonzeros of its first and last row
 *   shared  decoded blocks; S and vectors of the system; weights of the blocks */
template <class T, bool WEIGHTED>
__global__ void __launch_bounds__(32 * MOST_WARPS, 1)
    observed_wide(const __grid_constant__ ts_gpu_mttkrp p,
                  const __grid_constant__ ts_gpu_observed o)
{
    extern __shared__ uint4 shared[];
    typedef block_weights<T, WEIGHTED> weights_of_block;
    lane_place<LANES> at;
    const uint32_t warp = at.warp, lane = at.lane;
    const wide_memory w((char *)shared + shared_size<T, LANES, 0>::bytes(p.n_levels, 1), p.ld);
    char *const weights_at = (char *)(w.block + DECODERS);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, first = share * p.share_blocks;
    const uint32_t end = min(first + p.share_blocks, shard.n_blocks);
    const uint64_t unit = shard.first_share + share, size = ts_observed_part(o.rank);
    double *const part = o.part + 2 * unit * size;
    uint32_t left = 0, right = warp, first_row = 0, row = 0;
    bool is_first = true;
    wide_sum<typename weights_of_block::count> sum;
    while (right >= panels_of(p.ld) - left) { /* pairs (0, 0), (0, 1), ..., (1, 1), ... */
        right -= panels_of(p.ld) - left;
        left++;
    }
    right += left;
    sum.clear();
    for (uint32_t base = first; base < end; base += DECODERS) {
        __syncthreads(); /* all threads have finished the blocks before */
        if (warp < DECODERS && base + warp < end) {
            const warp_memory<T, LANES, 0> mem(shared, p.n_levels, 1, at);
            const weights_of_block weights(weights_at + warp * weights_of_block::bytes());
            decode_wide(p, o, shard, mem, weights, base + warp, end, lane, w.block[warp]);
        }
        __syncthreads();
        for (uint32_t k = 0; k < DECODERS && base + k < end; k++) {
            const wide_block &b = w.block[k];
            at.warp = k;
            const warp_memory<T, LANES, 0> mem(shared, p.n_levels, 1, at);
            const weights_of_block weights(weights_at + k * weights_of_block::bytes());
            at.warp = warp;
            row = b.row;
            first_row = base + k == first ? row : first_row;
            for (uint32_t pos = 0, stop; pos < b.n; pos = stop) {
                stop = pos + 1;
                while (stop < b.n && (b.begins[stop / 32] >> stop % 32 & 1) == 0)
                    stop++;
                add_wide(p, mem, weights, b.kept, pos, stop, left, right, lane, sum);
                if (stop == b.n && !b.closed)
                    break;
                const double count = spill_wide(sum, w, left, right, lane);
                if (is_first)
                    pack_wide(w, o.rank, count, part);
                else
                    solve_wide<T>(p, o, w, row, count);
                is_first = false;
                row++;
            }
        }
    }
    const double count = spill_wide(sum, w, left, right, lane);
    pack_wide(w, o.rank, count, part + (is_first ? 0 : size));
    if (threadIdx.x < 2)
        p.edge_row[2 * unit + threadIdx.x] = threadIdx.x == 0 ? first_row : row;
}

/* ----------------------------------------------------------------- parts (partial sums) of rows */

/* Adds the parts (partial sums) of a row and solves for it, like fold_row of observed_kernel.cu,
 * but by a thread block. */
template <class T>
static __device__ inline void fold_wide_row(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                            const wide_memory &w, const double *part,
                                            const part_rows &rows, uint64_t e, double *ends)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const uint64_t size = ts_observed_part(o.rank), triangle = size - o.rank - 1;
    bool is_first = true;
    if (!rows.there(e))
        return;
    const uint32_t row = rows.row[e];
    for (uint64_t before = e; before-- > 0;)
        if (rows.there(before)) {
            if (rows.row[before] == row)
                return;
            is_first = false;
            break;
        }
    uint64_t next = e + 1;
    while (next < rows.n && (!rows.there(next) || rows.row[next] == row))
        next++;
    double *const to = ends != NULL && is_first         ? ends
                       : ends != NULL && next == rows.n ? ends + size
                                                        : NULL;
    auto total = [&](uint64_t at) {
        double sum = 0;
        for (uint64_t k = e; k < rows.n; k = rows.same(k + 1, row))
            sum += part[k * size + at];
        return sum;
    };
    if (to != NULL) {
        for (uint64_t at = threadIdx.x; at < size; at += blockDim.x)
            to[at] = total(at);
        return;
    }
    for (uint32_t i = warp; i < o.rank; i += warps)
        for (uint32_t j = i + lane; j < o.rank; j += 32)
            w.s[i * w.stride + j] = total(packed_at(i, j, o.rank));
    for (uint32_t j = threadIdx.x; j < o.rank; j += blockDim.x)
        w.y[j] = total(triangle + j);
    const double count = total(size - 1);
    __syncthreads();
    solve_wide<T>(p, o, w, row, count);
}

/* Adds the parts (partial sums of rows) of shares (a thread block's nonzeros each) inside a shard.
 * A thread block for each part of the launch. */
template <class T>
__global__ void __launch_bounds__(32 * MOST_WARPS, 1)
    fold_wide_shares(const __grid_constant__ ts_gpu_mttkrp p,
                     const __grid_constant__ ts_gpu_observed o, double *ends)
{
    extern __shared__ uint4 shared[];
    const wide_memory w((char *)shared, p.ld);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint64_t size = ts_observed_part(o.rank), first = 2 * shard.first_share;
    const uint32_t shares = (shard.n_blocks + p.share_blocks - 1) / p.share_blocks;
    const part_rows rows = { p.edge_row + first, 2 * (uint64_t)shares };
    fold_wide_row<T>(p, o, w, o.part + first * size, rows,
                     2 * (blockIdx.x - shard.first_cta) + blockIdx.y,
                     ends != NULL ? ends + 2 * shard.number * size : NULL);
}

/* Adds the parts (partial sums) of the first and last rows of shards. A thread block for each
 * part. */
template <class T>
__global__ void __launch_bounds__(32 * MOST_WARPS, 1)
    fold_wide_ends(const __grid_constant__ ts_gpu_mttkrp p,
                   const __grid_constant__ ts_gpu_observed o, uint64_t n_shards, const double *ends,
                   const uint32_t *edge_row)
{
    extern __shared__ uint4 shared[];
    const wide_memory w((char *)shared, p.ld);
    const part_rows rows = { edge_row, 2 * n_shards };
    fold_wide_row<T>(p, o, w, ends, rows, blockIdx.x, NULL);
}

/* ------------------------------------------------------------------ launches of kernels */

/* Returns the highest rank for which the Gram matrix of a row fits in shared memory. In float64 the
 * limit is lower, for the kernel that sums the errors of the model (errors_kernel.h). */
uint32_t ts_observed_wide_most(enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? PANEL * MOST_PANELS : PANEL * MOST_PANELS / 2;
}

template <class F> static cudaError_t allow(F kernel, uint32_t bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

template <class T, bool WEIGHTED>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                          cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LANES, 0>::bytes(args->n_levels, 1) +
                           wide_memory::bytes(args->ld) +
                           DECODERS * block_weights<T, WEIGHTED>::bytes();
    const cudaError_t rc = allow(observed_wide<T, WEIGHTED>, bytes);
    if (rc == cudaSuccess)
        observed_wide<T, WEIGHTED>
            <<<args->n_shares, 32 * warps_of(args->ld), bytes, stream>>>(*args, *o);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

ts_gpu_error ts_observed_wide_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                     const struct ts_gpu_observed *o, ts_gpu_stream stream)
{
    if (args->weights)
        return precision == TS_FLOAT32 ? launch<float, true>(args, o, stream)
                                       : launch<double, true>(args, o, stream);
    return precision == TS_FLOAT32 ? launch<float, false>(args, o, stream)
                                   : launch<double, false>(args, o, stream);
}

template <class T>
static cudaError_t fold_shards(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                               double *ends, cudaStream_t stream)
{
    const uint32_t bytes = wide_memory::bytes(args->ld);
    const cudaError_t rc = allow(fold_wide_shares<T>, bytes);
    if (rc == cudaSuccess)
        fold_wide_shares<T>
            <<<dim3(args->n_shares, 2), 32 * warps_of(args->ld), bytes, stream>>>(*args, *o, ends);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

ts_gpu_error ts_observed_wide_fold_shards(enum ts_precision precision,
                                          const struct ts_gpu_mttkrp *args,
                                          const struct ts_gpu_observed *o, double *ends,
                                          ts_gpu_stream stream)
{
    return precision == TS_FLOAT32 ? fold_shards<float>(args, o, ends, stream)
                                   : fold_shards<double>(args, o, ends, stream);
}

template <class T>
static cudaError_t fold(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                        uint64_t n_shards, const double *ends, const uint32_t *edge_row,
                        cudaStream_t stream)
{
    const uint32_t bytes = wide_memory::bytes(args->ld);
    const cudaError_t rc = allow(fold_wide_ends<T>, bytes);
    if (rc == cudaSuccess)
        fold_wide_ends<T><<<(unsigned)(2 * n_shards), 32 * warps_of(args->ld), bytes, stream>>>(
            *args, *o, n_shards, ends, edge_row);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

ts_gpu_error ts_observed_wide_fold(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                   const struct ts_gpu_observed *o, uint64_t n_shards,
                                   const double *ends, const uint32_t *edge_row,
                                   ts_gpu_stream stream)
{
    return precision == TS_FLOAT32 ? fold<float>(args, o, n_shards, ends, edge_row, stream)
                                   : fold<double>(args, o, n_shards, ends, edge_row, stream);
}
