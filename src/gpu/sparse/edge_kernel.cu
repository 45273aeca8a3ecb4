/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds partial sums of rows (edges): those of the shares (thread blocks' nonzeros) of a shard, then
 * those of the shards of a mode, always in file order. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/sparse/edge_kernel.h"

#include <cuda_runtime.h>

/* Edges are partial sums of rows. FOLD: edges of shards that one warp adds. WARPS: warps of a
 * thread block that adds the edges of one shard. BATCH: edges loaded at once, which is a warp's
 * part of a shard of 64 shares. */
enum { FOLD = 32, WARPS = 16, BATCH = 8 };

/* The current row of a thread that adds edges (partial sums of rows) in file order. first: no row
 * has ended yet, so this row may have begun before these edges. */
struct row_walk {
    double sum;
    uint32_t row;
    bool first;
};

/* Adds edges (partial sums of rows) first .. end - 1, at least one, in float64. Sums of rows that
 * begin and end among them go to `out`. The sum of the first row is passed to `head` when the next
 * row begins. The sum of the last row is returned. */
template <class T, class Out, class Head>
static __device__ row_walk add_edges(const T *edge, const uint32_t *row, uint64_t first,
                                     uint64_t end, uint32_t ld, Out *out, Head head)
{
    row_walk at = { 0, __ldg(row + first), true };
    for (uint64_t i = first; i < end; i += BATCH) {
        T x[BATCH];
        uint32_t r[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (i + k < end) {
                x[k] = __ldg(edge + (i + k) * ld);
                r[k] = __ldg(row + i + k);
            }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            if (i + k >= end)
                break;
            if (r[k] != at.row) {
                if (at.first)
                    head(at.sum);
                else
                    out[(uint64_t)at.row * ld] = (Out)at.sum;
                at = { 0, r[k], false };
            }
            at.sum += x[k];
        }
    }
    return at;
}

/* ------------------------------------------------------------------ edges inside a shard */

/* out(row) := sum of the edges (partial sums) of row, for rows strictly inside a shard. The sums of
 * the shard's first and last row go to rows 2 * number and 2 * number + 1 of shard_edge. Without
 * shard_edge they go to `out`, rounded as if they had been stored there first.
 *
 *   launch  grid (shards, ceil(ld / 32)), WARPS warps each, a lane per column
 *   shared  the sums of each warp's first and last row
 *   out     one thread block has all edges of a row inside the shard, and writes the row once
 *
 * Warps take equal, contiguous parts of the shard's edges. Sums are kept in float64. */
template <class T, class Out>
static __global__ void __launch_bounds__(32 * WARPS)
    fold_shard(const __grid_constant__ ts_gpu_mttkrp p, T *shard_edge)
{
    __shared__ double ends[WARPS][2][32];
    __shared__ uint32_t end_row[WARPS][2];
    const ts_gpu_shard *const shard = p.n_many > 0 ? &p.many[blockIdx.x] : &p.one;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t column = 32 * blockIdx.y + lane, ld = p.ld;
    const uint32_t n = 2 * ((shard->n_blocks + p.share_blocks - 1) / p.share_blocks);
    const uint32_t share = (n + WARPS - 1) / WARPS, used = (n + share - 1) / share;
    const uint32_t first = warp * share, end = min(first + share, n);
    const uint32_t *const row = p.edge_row + 2 * shard->first_share;
    const T *const edge = (const T *)p.edge + 2 * shard->first_share * ld + column;
    Out *const out = (Out *)p.out + column;
    T *const to = shard_edge + 2 * (uint64_t)shard->number * ld + column;
    auto store_end = [=](uint32_t r, bool last, double sum) {
        if (shard_edge == NULL)
            out[(uint64_t)r * ld] = (Out)(0.0 + (double)(T)sum);
        else
            to[last ? ld : 0] = (T)sum;
    };

    if (warp < used && column < ld) {
        double *const my_ends = &ends[warp][0][lane];
        const row_walk at =
            add_edges(edge, row, first, end, ld, out, [=](double sum) { my_ends[0] = sum; });
        my_ends[at.first ? 0 : 32] = at.sum;
        if (at.first)
            my_ends[32] = 0;
        if (lane == 0) {
            end_row[warp][0] = row[first];
            end_row[warp][1] = at.row;
        }
    }
    __syncthreads();
    if (warp > 0 || column >= ld)
        return;
    row_walk at = { 0, end_row[0][0], true };
#pragma unroll 4
    for (uint32_t e = 0; e < 2 * used; e++) {
        const uint32_t r = end_row[e / 2][e % 2];
        const double x = ends[e / 2][e % 2][lane];
        if (r != at.row) {
            if (at.first)
                store_end(at.row, false, at.sum);
            else
                out[(uint64_t)at.row * ld] = (Out)at.sum;
            at = { 0, r, false };
        }
        at.sum += x;
    }
    store_end(at.row, !at.first, at.sum);
    if (at.first && shard_edge != NULL)
        to[ld] = 0;
}

template <class T, class Out>
static cudaError_t fold_shards(const struct ts_gpu_mttkrp *args, T *shard_edge, cudaStream_t s)
{
    const uint32_t shards = args->n_many > 0 ? args->n_many : args->n_shares > 0;
    if (shards == 0)
        return cudaSuccess;
    fold_shard<T, Out><<<dim3(shards, (args->ld + 31) / 32), 32 * WARPS, 0, s>>>(*args, shard_edge);
    return cudaGetLastError();
}

ts_gpu_error ts_edge_fold_shards(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                 void *shard_edge, ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    if (precision == TS_FLOAT32)
        return fold_shards<float, float>(args, (float *)shard_edge, s);
    return args->out_float ? fold_shards<double, float>(args, (double *)shard_edge, s)
                           : fold_shards<double, double>(args, (double *)shard_edge, s);
}

/* ------------------------------------------------------------------ edges of several shards */

/* Adds FOLD consecutive edges (partial sums of rows). Sums of rows inside them go to `out`, those
 * of the first and last row to `next`; with only one warp, all go to `out`. Sums are kept in
 * float64.
 *
 *   launch  one warp per FOLD edges, a lane per column
 *   row     (n) ascending; equal rows follow each other */
template <class T, class Out>
static __global__ void fold_edges(const T *edge, const uint32_t *row, uint64_t n, T *next,
                                  uint32_t *next_row, uint32_t ld, Out *out)
{
    const uint64_t chunk = (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x) / 32;
    const uint64_t first = chunk * FOLD, end = min(first + FOLD, n);
    const bool last_level = n <= FOLD;
    if (first >= n)
        return;
    for (uint32_t column = threadIdx.x % 32; column < ld; column += 32) {
        Out *const first_row = out + (uint64_t)__ldg(row + first) * ld + column;
        T *const head = next + 2 * chunk * ld + column;
        auto store_head = [=](double sum) {
            if (last_level)
                *first_row = (Out)sum;
            else
                *head = (T)sum;
        };
        const row_walk at = add_edges(edge + column, row, first, end, ld, out + column, store_head);
        if (at.first)
            store_head(at.sum);
        else if (last_level)
            out[(uint64_t)at.row * ld + column] = (Out)at.sum;
        if (last_level)
            continue;
        head[ld] = at.first ? (T)0 : (T)at.sum;
        if (column == 0) {
            next_row[2 * chunk] = __ldg(row + first);
            next_row[2 * chunk + 1] = at.row;
        }
    }
}

static uint64_t next_edges(uint64_t n)
{
    return 2 * ((n + FOLD - 1) / FOLD);
}

uint64_t ts_edge_count(uint64_t n_shards)
{
    uint64_t n = 2 * n_shards, total = n;
    while (n > FOLD) {
        n = next_edges(n);
        total += n;
    }
    return total;
}

template <class T, class Out>
static cudaError_t fold(uint64_t n_shards, T *edge, uint32_t *row, uint32_t ld, Out *out,
                        cudaStream_t s)
{
    for (uint64_t n = 2 * n_shards;; n = next_edges(n)) {
        const uint64_t warps = (n + FOLD - 1) / FOLD;
        fold_edges<<<(unsigned)((warps + 3) / 4), 128, 0, s>>>(edge, row, n, edge + n * ld, row + n,
                                                               ld, out);
        if (n <= FOLD)
            return cudaGetLastError();
        edge += n * ld;
        row += n;
    }
}

ts_gpu_error ts_edge_fold(enum ts_precision precision, uint64_t n_shards, void *edge,
                          uint32_t *edge_row, uint32_t ld, void *out, ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    return precision == TS_FLOAT32 ? fold(n_shards, (float *)edge, edge_row, ld, (float *)out, s)
                                   : fold(n_shards, (double *)edge, edge_row, ld, (double *)out, s);
}

ts_gpu_error ts_edge_fold_to_float(uint64_t n_shards, double *edge, uint32_t *edge_row, uint32_t ld,
                                   float *out, ts_gpu_stream stream)
{
    return fold(n_shards, edge, edge_row, ld, out, stream);
}
