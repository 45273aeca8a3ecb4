/* SPDX-License-Identifier: BSD-3-Clause */
/* long_bounds.cuh - finds the row a within bounds that minimizes a' S a / 2 - m' a, with S in
 * device memory (long_system.cuh), by block principal pivoting or coordinate descent.
 *
 *   owner    memory of a place (work area of a row)
 *   threads  all threads of a thread block call together
 *   errors   none */
#ifndef TS_GPU_LONG_BOUNDS_CUH
#define TS_GPU_LONG_BOUNDS_CUH

#include "gpu/observed/long_system.cuh"

/* ------------------------------------------------------------------ rows within bounds */

/* Sets y to the residual m - S a of a row a, for the first `rank` entries. m is the right side, S
 * the Gram matrix before factoring. All threads call. */
static __device__ inline void subtract_long(const long_memory &w, uint32_t rank, const double *a,
                                            double *y)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (uint32_t i = warp; i < rank; i += LONG_WARPS) {
        double sum = lane == 0 ? w.diagonal[i] * a[i] : 0;
        for (uint32_t j = lane; j < i; j += 32)
            sum += w.s[i * w.stride + j] * a[j];
        sum = warp_sum(sum);
        if (lane == 0)
            y[i] = w.right[i] - sum;
    }
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < rank; j += THREADS) {
        double left = y[j];
#pragma unroll 8
        for (uint32_t i = j / 32 * 32; i < rank; i++) /* all lanes have the same i */
            left -= i > j ? w.s[i * w.stride + j] * a[i] : 0;
        y[j] = left;
    }
    __syncthreads();
}

/* Improves the row w.a, clamped to the bounds, by coordinate descent until it converges. y (n
 * entries) holds the residual m - S a (S: Gram matrix, m: right side). All threads call and take
 * the same steps. */
static __device__ inline void descend_long(const long_memory &w, const ts_gpu_observed &o,
                                           double tolerance, double *y)
{
    for (uint32_t j = threadIdx.x; j < o.rank; j += THREADS)
        w.a[j] = fmin(fmax(w.a[j], o.lower), o.upper);
    __syncthreads();
#pragma unroll 1
    for (int round = 0; round < 500; round++) {
        double change = 0, size = 0;
        subtract_long(w, o.rank, w.a, y);
#pragma unroll 1
        for (uint32_t k = 0; k < o.rank; k++) {
            const double old = w.a[k], diagonal = w.diagonal[k];
            const double now =
                diagonal > 0 ? fmin(fmax(old + y[k] / diagonal, o.lower), o.upper) : old;
            change += (now - old) * (now - old);
            size += now * now;
            if (now == old)
                continue;
            __syncthreads(); /* all threads have read a and y */
            if (threadIdx.x == 0)
                w.a[k] = now;
            for (uint32_t j = threadIdx.x; j < o.rank; j += THREADS)
                y[j] -= w.before(k, j) * (now - old);
            __syncthreads();
        }
        if (change <= tolerance * tolerance * size)
            break;
        __syncthreads(); /* y is overwritten next */
    }
    __syncthreads();
}

/* The memory of pivoting, which overwrites P (the products of nonzeros). An entry of the row is
 * free if it is not fixed at a bound. left: the right side m minus the Gram matrix S times the
 * fixed entries; fixed: the row, with 0 for free entries; entry: the numbers of the free entries,
 * ascending. The matrix of the free entries is factored in the upper triangle of S. */
struct pivot_memory {
    double *left, *fixed;
    uint32_t *entry;
    long_memory free;

    __device__ pivot_memory(const long_memory &w) : free(w)
    {
        left = w.p;
        fixed = left + w.n;
        free.diagonal = fixed + w.n;
        free.a = free.diagonal + w.n;
        entry = (uint32_t *)(free.a + w.n);
    }
};

/* Copies tile (i, j) of the matrix of the n free entries (those not fixed at a bound) from the
 * lower triangle of the Gram matrix S. Called by one warp. */
static __device__ inline void copy_free_tile(const long_memory &w, const pivot_memory &p,
                                             uint32_t n, uint32_t i, uint32_t j)
{
    const uint32_t column = SIDE * j + threadIdx.x % 32;
    const uint32_t at = p.entry[min(column, n - 1)];
#pragma unroll 1
    for (uint32_t row = SIDE * i; row < SIDE * (i + 1); row += 8) {
        double x[8]; /* all loads are issued before the stores */
#pragma unroll
        for (uint32_t k = 0; k < 8; k++)
            x[k] = column < n && row + k <= column ? w.before(p.entry[row + k], at) : 0;
#pragma unroll
        for (uint32_t k = 0; k < 8; k++)
            if (row + k <= column)
                w.s[(row + k) * w.stride + column] = x[k];
    }
}

/* Solves for the n free entries (those not fixed at a bound) while the others keep their values.
 * Returns whether no column was left out as mere rounding. All threads call. */
static __device__ inline bool solve_free(const long_memory &w, const pivot_memory &p, uint32_t rank,
                                         uint32_t n, double cut, diagonal_tile &tile)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, end = padded(n);
    bool whole = true;
    subtract_long(w, rank, p.fixed, p.left);
    for (uint32_t i = 0, at = warp; i < end / SIDE; i++) {
        for (; at < end / SIDE - i; at += LONG_WARPS)
            copy_free_tile(w, p, n, i, i + at);
        at -= end / SIDE - i;
    }
    for (uint32_t i = warp; i < end; i += LONG_WARPS) {
        const uint32_t at = p.entry[min(i, n - 1)];
        w.s[i * w.stride + end + lane] = i < n && lane == 0 ? p.left[at] : 0;
        if (lane == 0)
            p.free.diagonal[i] = i < n ? w.diagonal[at] : 0;
    }
    __syncthreads();
    factor_long(p.free, end, cut, tile);
    for (uint32_t k = threadIdx.x; k < n; k += THREADS)
        whole = whole && w.inverse[k] > 0;
    substitute_long(p.free, end, tile);
    for (uint32_t k = threadIdx.x; k < n; k += THREADS)
        w.a[p.entry[k]] = p.free.a[k];
    return __syncthreads_and(whole);
}

/* Whether each entry of the row is free or fixed at a bound, in the lanes of the first warp: bit c
 * of a lane belongs to entry lane + 32 c. free: the entry is not fixed; at_upper: it is fixed at
 * the upper bound. Other entries are fixed at the lower bound. */
struct long_sides {
    uint64_t free, at_upper;
    uint32_t least, spare;
    static_assert(TS_OBSERVED_LONG_MOST <= 32 * 64, "a lane has a bit for each of its entries");
};

/* Frees entries, or fixes them at a bound, where their present state is wrong
 * (cpu/rows/bounded_row.h), and sets entries that stop being free to their bounds. Returns the
 * number of wrong entries. Called by the first warp. */
static __device__ inline uint32_t change_sides(const long_memory &w, const ts_gpu_observed &o,
                                               const double *left, double tolerance, uint32_t lane,
                                               long_sides &side)
{
    uint64_t change = 0, above = 0;
    uint32_t last = 0;
    double few = 0;
    for (uint32_t j = lane; j < o.rank; j += 32)
        few += w.a[j] * w.a[j] * w.diagonal[j];
    few = (tolerance > 1e-13 ? tolerance : 1e-13) * sqrt(warp_sum(few));
    for (uint32_t c = 0, j = lane; j < o.rank; c++, j += 32) {
        const double a = w.a[j], most = few * sqrt(w.diagonal[j]);
        const bool wrong = side.free >> c & 1       ? a < o.lower || a > o.upper
                           : side.at_upper >> c & 1 ? left[j] < -most
                                                    : left[j] > most;
        change |= (uint64_t)wrong << c;
        above |= (uint64_t)(a > o.upper) << c;
        last = wrong ? j : last;
    }
    const uint32_t number = __reduce_add_sync(ALL_LANES, __popcll(change));
    if (number < side.least) {
        side.least = number;
        side.spare = 3;
    } else if (side.spare > 0) {
        side.spare--;
    } else {
        last = __reduce_max_sync(ALL_LANES, last);
        change &= last % 32 == lane ? UINT64_C(1) << last / 32 : 0;
    }
    const uint64_t bound = change & side.free;
    for (uint32_t c = 0, j = lane; j < o.rank; c++, j += 32)
        if (bound >> c & 1)
            w.a[j] = above >> c & 1 ? o.upper : o.lower;
    side.at_upper = (side.at_upper & ~change) | (bound & above);
    side.free ^= change;
    return number;
}

/* Writes the list of free entries (those not fixed at a bound) and the values of the others.
 * Returns the number of free entries. Called by the first warp. */
static __device__ inline uint32_t list_free(const long_memory &w, const pivot_memory &p,
                                            uint32_t rank, uint32_t lane, uint64_t free)
{
    uint32_t n = 0;
    for (uint32_t c = 0; 32 * c < rank; c++) {
        const uint32_t j = 32 * c + lane;
        const bool mine = j < rank && (free >> c & 1) != 0;
        const uint32_t all = __ballot_sync(ALL_LANES, mine);
        if (mine)
            p.entry[n + __popc(all & ((1u << lane) - 1))] = j;
        if (j < rank)
            p.fixed[j] = mine ? 0 : w.a[j];
        n += __popc(all);
    }
    return n;
}

/* Finds the row a within the bounds that minimizes a' S a / 2 - m' a (S: Gram matrix, m: right
 * side), by block principal pivoting (cpu/rows/bounded_row.h), from w.a, which solves S a = m.
 * Returns whether it was found; then it is in w.a. All threads call, and get the same result. */
static __device__ inline bool pivot_long(const long_memory &w, const ts_gpu_observed &o, double cut,
                                         double tolerance, diagonal_tile &tile)
{
    __shared__ uint32_t wrong, n_free;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const pivot_memory p(w);
    long_sides side = { UINT64_MAX, 0, UINT32_MAX, 3 };
    bool positive = true;
    for (uint32_t j = threadIdx.x; j < o.rank; j += THREADS)
        positive = positive && w.diagonal[j] > 0;
    if (!__syncthreads_and(positive))
        return false;
#pragma unroll 1
    for (int k = 0; k < 100; k++) {
        if (k > 0 && !solve_free(w, p, o.rank, n_free, cut, tile))
            return false;
        subtract_long(w, o.rank, w.a, p.left);
        if (warp == 0) {
            const uint32_t number = change_sides(w, o, p.left, tolerance, lane, side);
            const uint32_t n = list_free(w, p, o.rank, lane, side.free);
            if (lane == 0) {
                wrong = number;
                n_free = n;
            }
        }
        __syncthreads();
        if (wrong == 0)
            return true;
    }
    return false;
}

#endif
