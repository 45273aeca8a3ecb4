/* SPDX-License-Identifier: BSD-3-Clause */
/* Solves for rows of observed cells whose Gram matrices S are in device memory. A thread block
 * takes one share (a range of nonzeros) after another, and solves for the rows that begin in it.
 *
 * The products p of the other factors' rows at up to BATCH nonzeros of a row are the rows of P, and
 * the values x an additional column. So [P x]' [P x] contains S and the right side m. S is factored
 * in place into U' U in blocks of 32 columns, which turns m into U'^-1 m. Tensor cores compute the
 * products of P and of blocks of U in tiles of 32 x 32, one warp each. The order of all sums
 * depends on the row alone.
 *
 * Rows within bounds are found by block principal pivoting (cpu/rows/bounded_row.h). The lower
 * triangle keeps S meanwhile. The matrix of the free entries is copied from there to the upper
 * triangle, and factored like S.
 *
 * Products are in the precision of the rows, the rest in float64, as in observed_wide.cu. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/observed/observed_long.h"

#include <cuda_runtime.h>

#include "gpu/observed/long_bounds.cuh"
#include "gpu/observed/long_system.cuh"
#include "gpu/observed/observed_stages.cuh"

/* ------------------------------------------------------------------ solution of one row */

/* Stores the solution w.a as the row, or zeros if no nonzero counts. All threads call. */
template <class T>
static __device__ inline void store_long(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                         const long_memory &w, uint32_t row, double count)
{
    T *const to = (T *)p.out + (uint64_t)row * p.ld;
    double square = 0;
    if (threadIdx.x < 32) {
        for (uint32_t j = threadIdx.x; j < p.ld; j += 32) {
            const T kept = (T)(count > 0 && j < o.rank ? w.a[j] : 0.0);
            to[j] = kept;
            square += (double)kept * (double)kept;
        }
        square = warp_sum(square);
        if (threadIdx.x == 0 && o.size != NULL)
            o.size[row] = (o.by_count ? count : 1.0) * square;
    }
    __syncthreads(); /* the next row overwrites a */
}

/* Adds l2 to the first k of the n diagonal entries of the Gram matrix S, and copies the diagonal to
 * w.diagonal. */
static __device__ inline void add_l2(const long_memory &w, uint32_t k, uint32_t n, double l2)
{
    for (uint32_t j = threadIdx.x; j < n; j += THREADS)
        w.diagonal[j] = w.s[j * w.stride + j] += j < k ? l2 : 0;
    __syncthreads();
}

/* Solves for a row, whose Gram matrix S and right side m are in w.s. All threads call. */
template <class T>
static __device__ inline void solve_long(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                         const long_memory &w, uint32_t row, double count,
                                         diagonal_tile &tile)
{
    if (count > 0) {
        add_l2(w, o.rank, w.n, o.l2 * (o.by_count ? count : 1.0));
        if (is_bounded(o)) {
            for (uint32_t i = 0; i < o.rank; i++)
                for (uint32_t j = i + 1 + threadIdx.x; j < o.rank; j += THREADS)
                    w.s[j * w.stride + i] = w.s[i * w.stride + j];
            for (uint32_t j = threadIdx.x; j < o.rank; j += THREADS)
                w.right[j] = w.s[j * w.stride + w.n];
            __syncthreads();
        }
        factor_long(w, w.n, cut_of<T>(o), tile);
        substitute_long(w, w.n, tile);
        if (is_bounded(o)) { /* pivoting overwrites P, which is no longer needed */
            const double tolerance = sizeof(T) == sizeof(float) ? 1e-7 : 1e-15;
            if (!pivot_long(w, o, cut_of<T>(o), tolerance, tile))
                descend_long(w, o, tolerance, w.p);
        }
    }
    store_long<T>(p, o, w, row, count);
}

/* Solves for a row a of q nonzeros by (P P' + l2 I) y = x and a = P' y. w.p has P (the products of
 * the nonzeros) and x (their values). All threads call. */
template <class T>
static __device__ inline void solve_few(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                        const long_memory &w, uint32_t row, uint32_t q,
                                        double count, diagonal_tile &tile)
{
    const uint32_t n = padded(q);
    if (count > 0) {
        add_tiles_of(w.p, 1, w.stride, w.n, 1, true, 0, n / SIDE, n / SIDE, w.s, w.stride);
        for (uint32_t k = threadIdx.x; k < n * SIDE; k += THREADS)
            w.s[k / SIDE * w.stride + n + k % SIDE] =
                k % SIDE == 0 ? w.p[k / SIDE * w.stride + w.n] : 0;
        __syncthreads();
        add_l2(w, q, n, o.l2 * (o.by_count ? count : 1.0));
        factor_long(w, n, cut_of_few(o), tile);
        substitute_long(w, n, tile);
        /* w.a holds y: the row is computed in unused memory, then copied to w.a */
        for (uint32_t j = threadIdx.x; j < w.n; j += THREADS) {
            double a = 0;
            for (uint32_t i = 0; i < q; i++)
                a += w.p[i * w.stride + j] * w.a[i];
            w.right[j] = a;
        }
        __syncthreads();
        for (uint32_t j = threadIdx.x; j < w.n; j += THREADS)
            w.a[j] = w.right[j];
        __syncthreads();
    }
    store_long<T>(p, o, w, row, count);
}

/* Stores the Gram matrix S, the right side m and the count as a part (partial sums of a row). All
 * threads call. */
static __device__ inline void pack_long(const long_memory &w, uint32_t rank, double count,
                                        double *to)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (uint32_t i = warp; i < rank; i += LONG_WARPS)
        for (uint32_t j = i + lane; j < rank; j += 32)
            to[packed_at(i, j, rank)] = w.s[i * w.stride + j];
    to += (uint64_t)rank * (rank + 1) / 2;
    for (uint32_t j = threadIdx.x; j < rank; j += THREADS)
        to[j] = w.s[j * w.stride + w.n];
    if (threadIdx.x == 0)
        to[rank] = count;
    __syncthreads();
}

/* ------------------------------------------------------------------ sums of a row */

/* The state of the current row, the same in all threads. q: number of its nonzeros whose products
 * are in P (w.p) but not yet in S; summed: S contains the nonzeros before these. */
struct long_row {
    uint32_t q;
    bool summed;
    double count;
};

/* Sets rows of P (products of nonzeros) to zero, from row q up to a multiple of `unit` rows. */
static __device__ inline void fill_up(const long_memory &w, uint32_t q, uint32_t unit)
{
    const uint32_t end = (q + unit - 1) / unit * unit;
    for (uint32_t k = q * w.stride + threadIdx.x; k < end * w.stride; k += THREADS)
        w.p[k] = 0;
    __syncthreads();
}

/* Adds the nonzeros whose products are in P to the Gram matrix S and the right side m, and empties
 * P. */
static __device__ inline void sum_batch(const long_memory &w, long_row &r)
{
    fill_up(w, r.q, 4);
    add_tiles_of(w.p, w.stride, 1, (r.q + 3) / 4 * 4, 1, !r.summed, 0, w.n / SIDE, w.n / SIDE + 1,
                 w.s, w.stride);
    r.summed = true;
    r.q = 0;
}

/* Adds the nonzeros at positions pos .. end - 1 of a block to the current row. A nonzero that does
 * not count (its bit in `kept` is 0) gets a row of zeros in P. */
template <class T, class WEIGHTS>
static __device__ inline void add_long(const ts_gpu_mttkrp &p, const warp_memory<T, LANES, 0> &mem,
                                       const WEIGHTS &weights, const uint32_t *kept, uint32_t pos,
                                       uint32_t end, const long_memory &w, long_row &r)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    while (pos < end) {
        const uint32_t n = min(end - pos, BATCH - r.q);
        for (uint32_t k = warp; k < n; k += LONG_WARPS) {
            const uint32_t at = pos + k, place = spread<LANES>::at(at);
            const bool on = kept[at / 32] >> at % 32 & 1;
            double *const to = w.p + (r.q + k) * w.stride;
            for (uint32_t c = lane; c < w.stride; c += 32) {
                T x[1] = { 0 };
                if (on && c < p.ld) {
                    x[0] = ((const T *)p.factor[0])[(uint64_t)mem.index[place] * p.ld + c];
                    for (uint32_t l = 1; l < p.n_levels; l++)
                        x[0] *= ((const T *)p.factor[l])
                            [(uint64_t)mem.index[l * spread<LANES>::words + place] * p.ld + c];
                    weights.weigh(place, x);
                } else if (on && c == w.n) {
                    x[0] = mem.val[place];
                }
                to[c] = (double)x[0];
            }
        }
        for (uint32_t k = pos; k < pos + n; k++)
            if (kept[k / 32] >> k % 32 & 1)
                r.count += weights.of_cell(spread<LANES>::at(k));
        r.q += n;
        pos += n;
        __syncthreads();
        if (r.q == BATCH && pos < end)
            sum_batch(w, r);
    }
}

/* Ends the current row. at_end: the row may continue in another shard. It is then solved for from
 * its Gram matrix S and right side m, like a row that is a sum of several parts (partial sums).
 * part: where its sums are stored instead, or NULL. */
template <class T>
static __device__ inline void end_long(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                       const long_memory &w, uint32_t row, bool at_end,
                                       double *part, diagonal_tile &tile, long_row &r)
{
    if (!at_end && !r.summed && r.q < o.rank && is_plain(o)) {
        fill_up(w, r.q, SIDE);
        solve_few<T>(p, o, w, row, r.q, r.count, tile);
    } else {
        sum_batch(w, r);
        if (part != NULL)
            pack_long(w, o.rank, r.count, part);
        else
            solve_long<T>(p, o, w, row, r.count, tile);
    }
    r = { 0, false, 0 };
}

/* --------------------------------------------------------------- rows of a thread block's share */

/* Returns the part of o.ends (partial sums) for the first or the last row of a shard; NULL for
 * other rows. */
static __device__ inline double *end_of(const ts_gpu_observed &o, const ts_gpu_shard &shard,
                                        uint32_t row)
{
    const uint64_t part = 2 * (uint64_t)shard.number + (row != shard.row_first);
    return o.ends == NULL ? NULL : o.ends + part * ts_observed_part(o.rank);
}

/* Solves for the rows that begin in blocks first .. end - 1 of a shard, including their nonzeros in
 * later blocks of the shard. */
template <class T, bool WEIGHTED>
static __device__ inline void
take_share(const ts_gpu_mttkrp &p, const ts_gpu_observed &o, const ts_gpu_shard &shard,
           uint32_t first, uint32_t end, const warp_memory<T, LANES, 0> &mem,
           const block_weights<T, WEIGHTED> &weights, const long_memory &w, wide_block &block,
           diagonal_tile &tile)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_blocks = shard.n_blocks;
    long_row r = { 0, false, 0 };
    /* open: a row continues from the block before; own: it began in this thread block's share */
    bool open = false, own = true;
#pragma unroll 1
    for (uint32_t b = first > 0 ? first - 1 : 0; b < n_blocks; b++) {
        __syncthreads(); /* all threads have finished the block before */
        if (warp == 0)
            decode_wide(p, o, shard, mem, weights, b, n_blocks, lane, block);
        __syncthreads();
        if (b < first) {
            open = !block.closed;
            own = !open;
            continue;
        }
        uint32_t row = block.row;
#pragma unroll 1
        for (uint32_t pos = 0, stop; pos < block.n && (b < end || open); pos = stop) {
            stop = pos + 1;
            while (stop < block.n && (block.begins[stop / 32] >> stop % 32 & 1) == 0)
                stop++;
            if (own)
                add_long(p, mem, weights, block.kept, pos, stop, w, r);
            open = stop == block.n && !block.closed;
            if (open && b + 1 < n_blocks)
                break;
            const bool at_end = open || row == shard.row_first;
            if (own)
                end_long<T>(p, o, w, row, at_end, at_end ? end_of(o, shard, row) : NULL, tile, r);
            open = false;
            own = true;
            row++;
        }
        if (b + 1 >= end && !(open && own))
            break;
    }
    __syncthreads();
}

/* out(i, :) = the row a that solves (S + l2 I) a = m, for each row with Gram matrix S and right
 * side m
 *
 *   launch  as many thread blocks as there are shares or places, whichever are fewer; block b of n
 *           takes a place and the shares b, b + n, ...
 *   out     rows that begin in the share, except the first and last row of a shard, whose sums go
 *           to o.ends unless that is NULL
 *   shared  a decoded block, and the weights of its cells */
template <class T, bool WEIGHTED>
__global__ void __launch_bounds__(THREADS, 1)
    observed_long(const __grid_constant__ ts_gpu_mttkrp p,
                  const __grid_constant__ ts_gpu_observed o)
{
    extern __shared__ uint4 shared[];
    __shared__ diagonal_tile tile;
    __shared__ wide_block block;
    lane_place<LANES> at;
    at.warp = 0; /* all warps use the block that the first one decodes */
    const warp_memory<T, LANES, 0> mem(shared, p.n_levels, 1, at, 1);
    const block_weights<T, WEIGHTED> weights((char *)shared +
                                             shared_size<T, LANES, 0>::bytes(p.n_levels, 1, 1));
    const uint32_t place = claim_place(o);
    const long_memory w(o, p.ld, place);
#pragma unroll 1
    for (uint32_t k = blockIdx.x; k < p.n_shares; k += gridDim.x) {
        const ts_gpu_shard shard = shard_of_share(p, k);
        const uint32_t first = (k - shard.first_cta) * p.share_blocks;
        take_share<T, WEIGHTED>(p, o, shard, first, min(first + p.share_blocks, shard.n_blocks),
                                mem, weights, w, block, tile);
    }
    give_place_back(o, place);
}

/* ----------------------------------------------------------------- parts (partial sums) of rows */

/* Adds the parts (partial sums) of the first and last rows of shards and solves for these rows,
 * like fold_row of observed_kernel.cu. */
template <class T>
__global__ void __launch_bounds__(THREADS, 1)
    fold_long(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_observed o,
              uint64_t n_shards, const double *ends, const uint32_t *edge_row)
{
    __shared__ diagonal_tile tile;
    const uint64_t size = ts_observed_part(o.rank), triangle = size - o.rank - 1;
    const part_rows rows = { edge_row, 2 * n_shards };
    const uint32_t place = claim_place(o);
    const long_memory w(o, p.ld, place);
#pragma unroll 1
    for (uint64_t e = blockIdx.x; e < rows.n; e += gridDim.x) {
        const uint32_t row = edge_row[e];
        uint64_t before = e;
        while (before > 0 && !rows.there(before - 1))
            before--;
        if (!rows.there(e) || (before > 0 && edge_row[before - 1] == row))
            continue;
        auto total = [&](uint64_t at) {
            double sum = 0;
            for (uint64_t k = e; k < rows.n; k = rows.same(k + 1, row))
                sum += ends[k * size + at];
            return sum;
        };
        for (uint32_t k = threadIdx.x; k < w.n * w.stride; k += THREADS) {
            const uint32_t i = k / w.stride, j = k % w.stride;
            if (i <= j)
                w.s[k] = i >= o.rank || (j >= o.rank && j != w.n) ? 0
                         : j == w.n                               ? total(triangle + i)
                                                                  : total(packed_at(i, j, o.rank));
        }
        const double count = total(size - 1);
        __syncthreads();
        solve_long<T>(p, o, w, row, count, tile);
    }
    give_place_back(o, place);
}

/* ------------------------------------------------------------------ launches of kernels */

uint64_t ts_observed_long_bytes(uint32_t ld)
{
    return 8 * long_memory::elements(padded(ld));
}

static unsigned blocks_for(uint64_t n, const struct ts_gpu_observed *o)
{
    return (unsigned)(n < o->n_places ? n : o->n_places);
}

template <class T, bool WEIGHTED>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                          cudaStream_t stream)
{
    const uint32_t bytes =
        shared_size<T, LANES, 0>::bytes(args->n_levels, 1, 1) + block_weights<T, WEIGHTED>::bytes();
    observed_long<T, WEIGHTED>
        <<<blocks_for(args->n_shares, o), THREADS, bytes, stream>>>(*args, *o);
    return cudaGetLastError();
}

ts_gpu_error ts_observed_long_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                     const struct ts_gpu_observed *o, ts_gpu_stream stream)
{
    if (args->weights)
        return precision == TS_FLOAT32 ? launch<float, true>(args, o, stream)
                                       : launch<double, true>(args, o, stream);
    return precision == TS_FLOAT32 ? launch<float, false>(args, o, stream)
                                   : launch<double, false>(args, o, stream);
}

ts_gpu_error ts_observed_long_fold(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                   const struct ts_gpu_observed *o, uint64_t n_shards,
                                   const double *ends, const uint32_t *edge_row,
                                   ts_gpu_stream stream)
{
    const unsigned blocks = blocks_for(2 * n_shards, o);
    if (precision == TS_FLOAT32)
        fold_long<float><<<blocks, THREADS, 0, stream>>>(*args, *o, n_shards, ends, edge_row);
    else
        fold_long<double><<<blocks, THREADS, 0, stream>>>(*args, *o, n_shards, ends, edge_row);
    return cudaGetLastError();
}
