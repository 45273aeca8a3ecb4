/* SPDX-License-Identifier: BSD-3-Clause */
/* panel_system.cuh - a thread block solves a row's system of equations, with its Gram matrix S in
 * shared memory: factorization, solution, and bounds.
 *
 *   owner    memory of a thread block, divided by wide_memory
 *   units    columns, in panels of 32
 *   threads  all threads of a thread block call together
 *   errors   none */
#ifndef TS_GPU_PANEL_SYSTEM_CUH
#define TS_GPU_PANEL_SYSTEM_CUH

#include "gpu/sparse/mttkrp_stages.cuh"
#include "gpu/observed/observed_stages.cuh"
#include "gpu/observed/observed_wide.h"
#include "gpu/rows/row_pairs.cuh"
#include "gpu/rows/tensor_core.cuh"

enum {
    PANEL = 32, /* columns of a panel */
    MOST_PANELS = 4,
    MOST_WARPS = MOST_PANELS * (MOST_PANELS + 1) / 2,
    DECODERS = 3 /* blocks that are decoded at the same time, each by a warp */
};

static __host__ __device__ inline uint32_t panels_of(uint32_t ld)
{
    return (ld + PANEL - 1) / PANEL;
}

static __host__ __device__ inline uint32_t warps_of(uint32_t ld)
{
    return panels_of(ld) * (panels_of(ld) + 1) / 2;
}

/* ------------------------------------------------------------------ memory of a system */

/* The memory of a row's system of equations. The upper triangle of the Gram matrix S is at s[i *
 * stride + j], and becomes U of U' U = S. If entries have bounds, the lower triangle keeps S. */
struct wide_memory {
    double *s, *diagonal, *inverse, *right, *y, *a;
    uint32_t stride;
    wide_block *block; /* DECODERS decoded blocks */

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
    /* Returns an entry of the symmetric Gram matrix S before factoring. */
    __device__ inline double before(uint32_t i, uint32_t j) const
    {
        return i == j ? diagonal[i] : i < j ? s[j * stride + i] : s[i * stride + j];
    }
};

/* ------------------------------------------------------------------ solution of one row */

/* Factors the Gram matrix S into U' U in place of its upper triangle, and multiplies the right
 * side w.y by U'^-1. If only rounding errors remain of a column, it is left out: its unknown
 * becomes 0. */
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

/* Sets w.a to the solution U^-1 y, by back substitution. Called by one warp. */
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

/* Improves the row w.a, clamped to the bounds, by coordinate descent until it converges. w.y holds
 * the residual m - S a (S: Gram matrix, m: right side). Called by one warp. */
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
            __syncwarp(); /* all lanes have read a and y */
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

/* Whether column i is in a set of columns. Bit c of lane L says whether column L + 32 c is in
 * it. */
static __device__ inline bool bit_of(uint32_t bits, uint32_t i)
{
    return __shfl_sync(ALL_LANES, bits, i % 32) >> i / 32 & 1;
}

/* Solves for the free entries (those not fixed at a bound) while the others keep their values. The
 * upper triangle of S becomes U. Returns whether no column was left out as mere rounding. All
 * threads call, with the same arguments. */
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
    if (warp == 0) { /* the other entries of a do not change */
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

/* Finds the row a within the bounds that minimizes a' S a / 2 - m' a (S: Gram matrix, m: right
 * side), by block principal pivoting (cpu/rows/bounded_row.h), from w.a, which solves S a = m.
 * Returns whether it was found; then it is in w.a. All threads call. */
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
        __syncthreads(); /* all threads have read a */
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

/* Solves for a row, whose Gram matrix S is in w.s and whose right side m is in w.y. All threads
 * call. */
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
    __syncthreads(); /* the next row overwrites S */
}

#endif
