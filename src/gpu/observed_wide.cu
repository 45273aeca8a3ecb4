/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of more than 32 columns with Gram matrices of their own: a thread block takes one row after the
 * other of its share.
 *
 * Columns are taken by panels of 32. A warp has two of them, the same or not, and sums what they have of S in its registers:
 * all warps walk over the same nonzeros, and each loads the columns that it needs. When a row ends,
 * S goes to shared memory, where all warps factor it.
 *
 * Arithmetic is that of observed_kernel.cu. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/observed_wide.h"

#include <cuda_runtime.h>

#include "gpu/mttkrp_stages.cuh"
#include "gpu/observed_stages.cuh"
#include "gpu/row_pairs.cuh"
#include "gpu/tensor_core.cuh"

enum {
    PANEL = 32, /* columns */
    MOST_PANELS = 4,
    MOST_WARPS = MOST_PANELS * (MOST_PANELS + 1) / 2,
    DECODERS = 3 /* blocks that are decoded at a time, each by a warp */
};

static __host__ __device__ inline uint32_t panels_of(uint32_t ld)
{
    return (ld + PANEL - 1) / PANEL;
}

static __host__ __device__ inline uint32_t warps_of(uint32_t ld)
{
    return panels_of(ld) * (panels_of(ld) + 1) / 2;
}

/* ------------------------------------------------------------------ memory */

/* S has its upper triangle at s[i * stride + j]. The lower one is free: where entries have bounds it keeps what the
 * upper one was, which becomes U, of U' U = S. */
struct wide_memory {
    double *s, *diagonal, *inverse, *right, *y, *a;
    uint32_t stride;
    wide_block *block; /* DECODERS */

    static __host__ __device__ uint32_t bytes(uint32_t ld)
    {
        const uint32_t n = panels_of(ld) * PANEL;
        return 8 * (n * (n + 1) + 5 * n) + DECODERS * (uint32_t)sizeof(wide_block);
    }
    __device__ wide_memory(char *shared, uint32_t ld)
    {
        const uint32_t n = panels_of(ld) * PANEL;
        stride = n + 1;
        s = (double *)shared;
        diagonal = s + n * stride;
        inverse = diagonal + n;
        right = inverse + n;
        y = right + n;
        a = y + n;
        block = (wide_block *)(a + n);
    }
    /* Of the symmetric S, what it was before. */
    __device__ inline double before(uint32_t i, uint32_t j) const
    {
        return i == j ? diagonal[i] : i < j ? s[j * stride + i] : s[i * stride + j];
    }
};

/* ------------------------------------------------------------------ one row */

/* U' U := S in place of its upper triangle, y := U'^-1 y. A column of which no more than rounding is left gets 0. */
static __device__ inline void factor_wide(const wide_memory &w, uint32_t rank, double cut)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (uint32_t k = 0; k < rank; k++) {
        double *const row = w.s + k * w.stride;
        __syncthreads();
        const double pivot = row[k];
        const double by = pivot > cut * w.diagonal[k] ? rsqrt(pivot) : 0;
        for (uint32_t j = k + 1 + threadIdx.x; j < rank; j += blockDim.x)
            row[j] *= by;
        if (threadIdx.x == 0) {
            w.inverse[k] = by;
            w.y[k] *= by;
        }
        __syncthreads();
        for (uint32_t i = k + 1 + warp; i < rank; i += warps) {
            const double f = row[i];
            for (uint32_t j = i + lane; j < rank; j += 32)
                w.s[i * w.stride + j] -= f * row[j];
            if (lane == 0)
                w.y[i] -= f * w.y[k];
        }
    }
    __syncthreads();
}

/* a := U^-1 y, by one warp */
static __device__ inline void substitute_wide(const wide_memory &w, uint32_t rank, uint32_t lane)
{
    for (uint32_t k = rank; k-- > 0;) {
        const double now = w.y[k] * w.inverse[k];
        if (lane == 0)
            w.a[k] = now;
        for (uint32_t i = lane; i < k; i += 32)
            w.y[i] -= w.s[i * w.stride + k] * now;
        __syncwarp();
    }
}

/* From a, clamped, to the best row within the bounds, by one warp: coordinate descent to the end, y being what is left of m. */
static __device__ inline void descend_wide(const wide_memory &w, const ts_gpu_observed &o,
                                           double tolerance, uint32_t lane)
{
    for (uint32_t j = lane; j < o.rank; j += 32)
        w.a[j] = fmin(fmax(w.a[j], o.lower), o.upper);
    __syncwarp();
    for (int round = 0; round < 500; round++) {
        double change = 0, size = 0;
        for (uint32_t j = lane; j < o.rank; j += 32) {
            double left = w.right[j];
            for (uint32_t k = 0; k < o.rank; k++)
                left -= w.before(k, j) * w.a[k];
            w.y[j] = left;
        }
        __syncwarp();
        for (uint32_t k = 0; k < o.rank; k++) {
            const double old = w.a[k], diagonal = w.diagonal[k];
            const double now =
                diagonal > 0 ? fmin(fmax(old + w.y[k] / diagonal, o.lower), o.upper) : old;
            __syncwarp(); /* all have read a and y */
            if (lane == 0)
                w.a[k] = now;
            for (uint32_t j = lane; j < o.rank; j += 32)
                w.y[j] -= w.before(k, j) * (now - old);
            change += (now - old) * (now - old);
            __syncwarp();
        }
        for (uint32_t j = lane; j < o.rank; j += 32)
            size += w.a[j] * w.a[j];
        size = warp_sum(size);
        if (change <= tolerance * tolerance * size)
            break;
    }
}

/* Of all columns j, those of a lane, j = lane + 32 c, as bits c. */
static __device__ inline bool bit_of(uint32_t bits, uint32_t i)
{
    return __shfl_sync(ALL_LANES, bits, i % 32) >> i / 32 & 1;
}

/* The free entries, solved for as if the others stood where they are; the upper triangle of S becomes U. Returns whether no column of them was
 * left out. All threads call; warps know the same. */
static __device__ inline bool solve_free(const wide_memory &w, uint32_t rank, double cut,
                                         uint32_t free)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (uint32_t i = warp; i < rank; i += warps) {
        const bool row = bit_of(free, i);
        for (uint32_t c = i / 32; 32 * c < rank; c++) {
            const uint32_t j = 32 * c + lane;
            if (j == i)
                w.s[i * w.stride + i] = row ? w.diagonal[i] : 1.0;
            else if (j > i && j < rank)
                w.s[i * w.stride + j] = row && (free >> c & 1) != 0 ? w.s[j * w.stride + i] : 0.0;
        }
    }
    for (uint32_t c = warp; 32 * c < rank; c += warps) {
        const uint32_t j = 32 * c + lane, at = min(j, rank - 1);
        double right = w.right[at];
        for (uint32_t i = 0; i < rank; i++)
            if (!bit_of(free, i))
                right -= w.before(i, at) * w.a[i];
        if (j < rank)
            w.y[j] = free >> c & 1 ? right : 0.0;
    }
    factor_wide(w, rank, cut);
    bool whole = true;
    for (uint32_t c = 0; 32 * c + lane < rank; c++)
        whole = whole && ((free >> c & 1) == 0 || w.inverse[32 * c + lane] > 0);
    whole = __all_sync(ALL_LANES, whole);
    if (warp == 0) { /* a of the others stays */
        double kept[MOST_PANELS];
        static_assert(PANEL == 32, "a lane has one column of each");
#pragma unroll
        for (uint32_t c = 0; c < MOST_PANELS; c++)
            kept[c] = 32 * c + lane < rank ? w.a[32 * c + lane] : 0.0;
        __syncwarp();
        substitute_wide(w, rank, lane);
        __syncwarp();
#pragma unroll
        for (uint32_t c = 0; c < MOST_PANELS; c++)
            if (32 * c + lane < rank && (free >> c & 1) == 0)
                w.a[32 * c + lane] = kept[c];
    }
    __syncthreads();
    return whole;
}

/* Whether block principal pivoting (cpu/bounded_row.h) finds the best row within the bounds, which is in w.a then; from w.a, which
 * solves S a = m. All threads call. */
static __device__ inline bool pivot_wide(const wide_memory &w, const ts_gpu_observed &o, double cut,
                                         double tolerance)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t free = UINT32_MAX, at_upper = 0, least = UINT32_MAX, spare = 3;
    bool positive = true;
    for (uint32_t j = lane; j < o.rank; j += 32)
        positive = positive && w.diagonal[j] > 0;
    if (!__all_sync(ALL_LANES, positive))
        return false;
#pragma unroll 1
    for (int k = 0; k < 100; k++) {
        if (k > 0 && !solve_free(w, o.rank, cut, free))
            return false;
        double few = 0;
        for (uint32_t j = lane; j < o.rank; j += 32)
            few += w.a[j] * w.a[j] * w.diagonal[j];
        few = (tolerance > 1e-13 ? tolerance : 1e-13) * sqrt(warp_sum(few));
        for (uint32_t j = threadIdx.x; j < o.rank; j += blockDim.x) {
            double left = w.right[j];
            for (uint32_t i = 0; i < o.rank; i++)
                left -= w.before(i, j) * w.a[i];
            w.y[j] = left / sqrt(w.diagonal[j]);
        }
        __syncthreads();
        uint32_t change = 0, above = 0, last = 0;
        for (uint32_t c = 0; 32 * c + lane < o.rank; c++) {
            const double a = w.a[32 * c + lane], left = w.y[32 * c + lane];
            const bool wrong = free >> c & 1       ? a < o.lower || a > o.upper
                               : at_upper >> c & 1 ? left < -few
                                                   : left > few;
            change |= (uint32_t)wrong << c;
            above |= (uint32_t)(a > o.upper) << c;
            last = wrong ? 32 * c + lane : last;
        }
        const uint32_t number = __reduce_add_sync(ALL_LANES, __popc(change));
        if (number == 0)
            return true;
        if (number < least) {
            least = number;
            spare = 3;
        } else if (spare > 0) {
            spare--;
        } else {
            last = __reduce_max_sync(ALL_LANES, last);
            change &= last % 32 == lane ? 1u << last / 32 : 0;
        }
        __syncthreads(); /* all have read a */
        const uint32_t bound = change & free;
        at_upper = (at_upper & ~change) | (bound & above);
        for (uint32_t c = 0; 32 * c + lane < o.rank && warp == 0; c++)
            if (bound >> c & 1)
                w.a[32 * c + lane] = above >> c & 1 ? o.upper : o.lower;
        free ^= change;
        __syncthreads();
    }
    return false;
}

/* Solves for a row, S being in w.s and m in w.y; all threads call. */
template <class T>
static __device__ inline void solve_wide(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                         const wide_memory &w, uint32_t row, double count)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const double weight = o.by_count ? count : 1.0;
    for (uint32_t j = threadIdx.x; j < o.rank; j += blockDim.x) {
        w.diagonal[j] = w.s[j * w.stride + j] += o.l2 * weight;
        w.right[j] = w.y[j];
        w.a[j] = 0;
    }
    for (uint32_t i = warp; i < o.rank && is_bounded(o); i += warps)
        for (uint32_t j = i + 1 + lane; j < o.rank; j += 32)
            w.s[j * w.stride + i] = w.s[i * w.stride + j];
    __syncthreads();
    if (count > 0) {
        const double cut = cut_of<T>(o), tolerance = sizeof(T) == sizeof(float) ? 1e-7 : 1e-15;
        factor_wide(w, o.rank, cut);
        if (warp == 0)
            substitute_wide(w, o.rank, lane);
        __syncthreads();
        if (is_bounded(o) && !pivot_wide(w, o, cut, tolerance) && warp == 0)
            descend_wide(w, o, tolerance, lane);
    }
    if (warp == 0) {
        T *const to = (T *)p.out + (uint64_t)row * p.ld;
        double square = 0;
        __syncwarp();
        for (uint32_t j = lane; j < p.ld; j += 32) {
            const T kept = (T)(j < o.rank ? w.a[j] : 0.0);
            to[j] = kept;
            square += (double)kept * (double)kept;
        }
        square = warp_sum(square);
        if (lane == 0 && o.size != NULL)
            o.size[row] = weight * square;
    }
    __syncthreads(); /* S is written again */
}

/* ------------------------------------------------------------------ sums */

/* What a warp sums of S: its left panel times its right one; and of m, where they are the same, the left one. */
template <class COUNT> struct wide_sum {
    double s[8][4],
        m[4]; /* s: pairs of tiles (0, 1) with each of the right panel, then (2, 3), as in gram_tiles.cuh */
    COUNT count; /* of nonzeros t, t + 4, ... */

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

/* Adds the nonzeros at positions pos .. end - 1, of one row. */
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
        T x[2][2][4]; /* panel, nonzero, column */
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

/* The sums of all warps to w.s and w.y; returns the count. */
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

/* S in w.s, m in w.y and the count to a part. */
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

/* ------------------------------------------------------------------ a share */

/* out(i, :) = the row a that solves (S + l2 I) a = m, of its own nonzeros
 *
 *   launch  grid (shares of the launch), a warp for each pair of panels left <= right
 *   out     only rows that begin and end inside the share are stored
 *   part    (2 x shares of the mode copy) what the share has of its first and its last row
 *   shared  decoded blocks; S and rows beside it; weights of the blocks */
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
        __syncthreads(); /* the blocks before were taken */
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

/* ------------------------------------------------------------------ parts */

/* As fold_row of observed_kernel.cu, by a thread block. */
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

/* A thread block for each part of the launch. */
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

/* A thread block for each part of the shards. */
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

/* ------------------------------------------------------------------ launches */

/* In float64 as many columns as the errors of the model allow (errors_kernel.h). */
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
