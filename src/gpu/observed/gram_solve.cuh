/* SPDX-License-Identifier: BSD-3-Clause */
/* gram_solve.cuh - a warp solves S a = m for a row a, with its Gram matrix S in shared memory and m
 * as right side. S has 8 C columns, at most 32.
 *
 * Rows of S are `stride` elements apart, and only the upper triangle is stored. S = U' U is
 * factored in place in panels of 8 rows. Tensor cores subtract the products of earlier rows from a
 * panel, then each lane computes one column of the panel. As on CPU cores (cpu/sparse/gram_body.h),
 * if only rounding remains of a column after subtracting earlier columns, its unknown becomes 0.
 *
 *   owner    shared memory is the caller's
 *   units    lane j has column j
 *   threads  all 32 lanes of a warp take part
 */
#ifndef TS_GPU_GRAM_SOLVE_CUH
#define TS_GPU_GRAM_SOLVE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "gpu/rows/row_pairs.cuh"
#include "gpu/rows/tensor_core.cuh"

template <int C> struct gram_square {
    static constexpr int columns = 8 * C, stride = 8 * C + 2;
    /* two rows more than the matrix, as operands of tensor cores extend past its end */
    static constexpr int elements = (columns + 2) * stride;
};

/* Subtracts from a panel (8 rows of the Gram matrix S) the products of the rows of U before it,
 * where U' U = S. */
template <int C> static __device__ inline void update_panel(double *s, int panel, uint32_t lane)
{
    constexpr int stride = gram_square<C>::stride;
    const uint32_t g = lane / 4, t = lane % 4;
    for (int b = panel; b < C; b++) {
        double d[2] = { 0, 0 };
        for (int k = 0; k < 8 * panel; k += 4) {
            const double *const row = s + (k + t) * stride + g;
            multiply_add(d, row[8 * panel], row[8 * b]);
        }
        double *const to = s + (8 * panel + g) * stride + 8 * b + 2 * t;
        to[0] -= d[0];
        to[1] -= d[1];
    }
    __syncwarp();
}

/* Returns a(lane), the solution for the right side m(lane). diagonal: entry (lane, lane) of S
 * before factoring. *whole: 1 in all lanes if no column was left out. */
template <int C>
static __device__ inline double solve_gram(double *s, double m, double diagonal, double cut,
                                           uint32_t lane, bool *whole)
{
    constexpr int n = gram_square<C>::columns, stride = gram_square<C>::stride;
    const int j = (int)lane < n ? (int)lane : n - 1;
    const double least = cut * diagonal;
    double inverse = 0, a = 0;
#pragma unroll
    for (int panel = 0; panel < C; panel++) {
        double x[8];
        if (panel > 0)
            update_panel<C>(s, panel, lane);
#pragma unroll
        for (int k = 0; k < 8; k++)
            x[k] = j >= 8 * panel + k ? s[(8 * panel + k) * stride + j] : 0;
        __syncwarp();
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const int row = 8 * panel + k;
            const bool mine = (int)lane == row;
            const bool counts = mine && x[k] > least;
            const double own = rsqrt(counts ? x[k] : 1.0);
            const double by = __shfl_sync(0xffffffff, counts ? own : 0.0, row);
            const double y = __shfl_sync(0xffffffff, m, row) * by, u = x[k] * by;
            if ((int)lane < n)
                s[row * stride + lane] = u;
            inverse = mine ? by : inverse;
            m = mine ? y : (int)lane > row ? m - u * y : m;
            __syncwarp();
#pragma unroll
            for (int i = k + 1; i < 8; i++)
                x[i] -= s[row * stride + 8 * panel + i] * u;
        }
        __syncwarp();
    }
    *whole = __all_sync(0xffffffff, inverse > 0 || (int)lane >= n);
#pragma unroll 8
    for (int k = n - 1; k >= 0; k--) {
        const double now = __shfl_sync(0xffffffff, m * inverse, k);
        a = (int)lane == k ? now : a;
        if ((int)lane < k)
            m -= s[lane * stride + k] * now;
    }
    return a;
}

/* Finds the row a within the bounds that minimizes a' S a / 2 - m' a (S: Gram matrix, m: right
 * side), by block principal pivoting (cpu/rows/bounded_row.h), starting at a, the solution of S a =
 * m. Returns whether it was found; then it is in a. copy: all of S; s: memory for another matrix.
 * It is not found if S of the free entries (those not fixed at a bound) is not positive
 * definite. */
template <int C>
static __device__ inline bool pivot_gram(double *s, const double *copy, double m, double &a,
                                         double cut, uint32_t rank, double lower, double upper,
                                         double tolerance, uint32_t lane)
{
    constexpr int n = gram_square<C>::columns, stride = gram_square<C>::stride;
    const uint32_t j = lane < n ? lane : n - 1, all = rank < 32 ? (1u << rank) - 1 : UINT32_MAX;
    const double diagonal = copy[j * stride + j];
    uint32_t free = all, at_upper = 0, least = 33, spare = 3;
    if (__any_sync(0xffffffff, lane < rank && !(diagonal > 0)))
        return false;
    a = lane < rank ? a : 0.0;
#pragma unroll 1
    for (int k = 0; k < 100; k++) {
        if (k > 0) {
            /* S of the free entries (those not fixed at a bound), with 1 on the diagonal for the
             * other entries */
            const bool mine = free >> lane & 1;
            double right = m;
            for (uint32_t left = ~free & all; left != 0; left &= left - 1) {
                const uint32_t i = __ffs(left) - 1;
                right -= copy[i * stride + j] * __shfl_sync(0xffffffff, a, i);
            }
            for (uint32_t i = 0; i < n; i++)
                if (lane < n && lane >= i)
                    s[i * stride + lane] = mine && (free >> i & 1) != 0 ? copy[i * stride + lane]
                                           : i == lane                  ? 1.0
                                                                        : 0.0;
            __syncwarp();
            bool whole;
            const double x =
                solve_gram<C>(s, mine ? right : 0.0, mine ? diagonal : 1.0, cut, lane, &whole);
            __syncwarp(); /* the next step overwrites s */
            if (!whole)
                return false;
            a = mine ? x : a;
        }
        const double few = (tolerance > 1e-13 ? tolerance : 1e-13) *
                           sqrt(warp_sum(a * a * diagonal)) * sqrt(diagonal);
        double left = m;
        for (uint32_t i = 0; i < rank; i++)
            left -= copy[i * stride + j] * __shfl_sync(0xffffffff, a, i);
        const bool is_free = free >> lane & 1, is_upper = at_upper >> lane & 1;
        const bool wrong = lane < rank && (is_free    ? a < lower || a > upper
                                           : is_upper ? left < -few
                                                      : left > few);
        uint32_t change = __ballot_sync(0xffffffff, wrong);
        const uint32_t number = __popc(change);
        if (change == 0)
            return true;
        if (number < least) {
            least = number;
            spare = 3;
        } else if (spare > 0) {
            spare--;
        } else {
            change = 1u << (31 - __clz(change));
        }
        at_upper = (at_upper & ~change) |
                   __ballot_sync(0xffffffff, (change >> lane & 1) != 0 && is_free && a > upper);
        free ^= change;
        if ((change >> lane & 1) != 0 && is_free)
            a = a > upper ? upper : lower;
    }
    return false;
}

/* Finds the row a within the bounds that minimizes a' S a / 2 - m' a (m: right side), by coordinate
 * descent, starting at a, clamped to the bounds. s has the Gram matrix S, above and below the
 * diagonal. */
template <int C>
static __device__ inline double descend_gram(const double *s, double m, double a, uint32_t rank,
                                             double lower, double upper, double tolerance,
                                             uint32_t lane)
{
    constexpr int n = gram_square<C>::columns, stride = gram_square<C>::stride;
    const uint32_t j = lane < n ? lane : n - 1;
    const double diagonal = s[j * stride + j];
    a = lane < rank ? fmin(fmax(a, lower), upper) : 0;
    for (int round = 0; round < 500; round++) {
        double left = m, change = 0, size;
        for (uint32_t k = 0; k < rank; k++)
            left -= s[k * stride + j] * __shfl_sync(0xffffffff, a, k);
        for (uint32_t k = 0; k < rank; k++) {
            const double want = fmin(fmax(a + left / diagonal, lower), upper);
            const double own = diagonal > 0 ? want - a : 0;
            const double by = __shfl_sync(0xffffffff, own, k);
            a = lane == k && diagonal > 0 ? want : a;
            left -= s[k * stride + j] * by;
            change += by * by;
        }
        size = warp_sum(a * a);
        if (change <= tolerance * tolerance * size)
            break;
    }
    return a;
}

#endif
