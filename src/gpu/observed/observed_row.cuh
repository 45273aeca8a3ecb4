/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_row.cuh - sums and solves for rows of observed cells whose Gram matrix fits in a warp.
 *
 *   owner    memory of a thread block, divided by own_memory; sums in registers
 *   threads  all lanes of a warp call together
 *   errors   none
 */
#ifndef TS_GPU_OBSERVED_ROW_CUH
#define TS_GPU_OBSERVED_ROW_CUH

#include "gpu/observed/gram_solve.cuh"
#include "gpu/observed/gram_tiles.cuh"
#include "gpu/observed/observed_stages.cuh"
#include "gpu/rows/row_pairs.cuh"
#include "gpu/observed/tile_solve.cuh"

enum { SHORT = 8 }; /* most nonzeros whose rows are solved for together */

/* ------------------------------------------------------------------ a warp's memory */

/* Shared memory of a warp besides warp_memory (mttkrp_stages.cuh): the Gram matrix S, for rows that
 * are solved for in shared memory; a copy of S if entries have bounds, or else the products of
 * SHORT nonzeros; and bits for the nonzeros of a block that begin rows, and for those that are not
 * held out. */
template <int C> struct own_memory {
    double *s, *copy;
    /* a bit for each nonzero of a block that begins a row (begins), or is not held out (kept); bit
     * 256 is for the position after the last one; 10 words each */
    uint32_t *begins, *kept;

    static __host__ __device__ uint32_t elements(bool plain, bool bounded)
    {
        return plain ? SHORT * gram_square<C>::stride
                     : (bounded ? 2 : 1) * gram_square<C>::elements;
    }
    static __host__ __device__ uint32_t bytes(bool plain, bool bounded)
    {
        return elements(plain, bounded) * (uint32_t)sizeof(double) + 80;
    }
    __device__ own_memory(char *shared, uint32_t warp, bool plain, bool bounded)
    {
        s = (double *)(shared + warp * bytes(plain, bounded));
        copy = s + gram_square<C>::elements;
        begins = (uint32_t *)(s + elements(plain, bounded));
        kept = begins + 10;
    }
};

/* ------------------------------------------------------------------ solution of one row */

/* Solves for a row from its sums: the Gram matrix S in own.s, entry `lane` of the right side m, and
 * the count of nonzeros. */
template <class T, int C, class COUNT>
static __device__ inline void solve_row(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                        const own_memory<C> &own, uint32_t row, double m,
                                        COUNT count, uint32_t lane)
{
    constexpr int stride = gram_square<C>::stride;
    const double weight = o.by_count ? count : 1.0;
    double diagonal = 0, a = 0;
    T *const to = (T *)p.out + (uint64_t)row * p.ld;
    if (count > 0) {
        if (lane < o.rank) {
            diagonal = own.s[lane * stride + lane] + o.l2 * weight;
            own.s[lane * stride + lane] = diagonal;
        }
        __syncwarp();
        if (is_bounded(o)) {
            for (uint32_t i = 0; i < 8 * C; i++)
                if (lane < 8 * C && lane >= i)
                    own.copy[i * stride + lane] = own.copy[lane * stride + i] =
                        own.s[i * stride + lane];
            __syncwarp();
        }
        const double cut = cut_of<T>(o), tolerance = sizeof(T) == sizeof(float) ? 1e-7 : 1e-15;
        bool whole;
        a = solve_gram<C>(own.s, m, diagonal, cut, lane, &whole);
        __syncwarp(); /* own.s is overwritten next */
        if (is_bounded(o) &&
            !pivot_gram<C>(own.s, own.copy, m, a, cut, o.rank, o.lower, o.upper, tolerance, lane))
            a = descend_gram<C>(own.copy, m, a, o.rank, o.lower, o.upper, tolerance, lane);
    }
    const T kept = (T)(lane < o.rank ? a : 0.0);
    if (lane < p.ld)
        to[lane] = kept;
    if (o.size != NULL) {
        const double square = warp_sum((double)kept * (double)kept);
        if (lane == 0)
            o.size[row] = weight * square;
    }
    __syncwarp(); /* own.s is overwritten next */
}

/* Sets m[c] to entry C g + c of the right side m, by adding up the partial sums of the lanes. */
template <int C, class COUNT>
static __device__ inline void sum_right(const gram_sum<C, COUNT> &sum, double (&m)[C])
{
#pragma unroll
    for (int c = 0; c < C; c++) {
        m[c] = sum.m[c];
        m[c] += __shfl_xor_sync(ALL_LANES, m[c], 1);
        m[c] += __shfl_xor_sync(ALL_LANES, m[c], 2);
    }
}

/* Copies the Gram matrix S of a row from registers to own.s, and returns entry `lane` of the right
 * side m. */
template <int C, class COUNT>
static __device__ inline double spill_sum(const gram_sum<C, COUNT> &sum, const own_memory<C> &own,
                                          uint32_t lane)
{
    constexpr int stride = gram_square<C>::stride;
    double m[C];
    sum_right(sum, m);
    sum.each(lane, [&](const gram_place &at, double x) { own.s[at.row * stride + at.column] = x; });
#pragma unroll
    for (int c = 0; c < C; c++)
        if (lane % 4 == 0)
            own.s[8 * C * stride + C * (lane / 4) + c] = m[c];
    __syncwarp();
    return lane < 8 * C ? own.s[8 * C * stride + lane] : 0;
}

/* Solves for a row from its sums in the registers of a warp. There are no bounds, and l2 is
 * positive. */
template <class T, int C, class COUNT>
static __device__ inline void solve_sum(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                        const gram_sum<C, COUNT> &sum, COUNT count, uint32_t row,
                                        uint32_t lane)
{
    const uint32_t g = lane / 4, t = lane % 4;
    const double weight = o.by_count ? count : 1.0, cut = cut_of<T>(o);
    double s[C][C][2], m[C], r[C][2], least[C], turned[C], square = 0;
    T *const to = (T *)p.out + (uint64_t)row * p.ld;
    sum.tiles(s);
    sum_right(sum, m);
#pragma unroll
    for (int c = 0; c < C; c++) {
        const double l2 = t == g / 2 && C * g + c < o.rank ? o.l2 * weight : 0.0;
        s[c][c][0] += g % 2 == 0 ? l2 : 0.0;
        s[c][c][1] += g % 2 == 1 ? l2 : 0.0;
        least[c] = cut * (g % 2 == 0 ? s[c][c][0] : s[c][c][1]);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const double x = __shfl_sync(ALL_LANES, m[c], 4 * (2 * t + e));
            r[c][e] = g == 0 ? x : 0.0;
        }
    }
    solve_tiles<C>(s, r, least, turned, lane);
#pragma unroll
    for (uint32_t e = 0; e < 2; e++) {
        const uint32_t column = C * (2 * t + e);
        T x[C];
#pragma unroll
        for (int c = 0; c < C; c++) {
            x[c] = column + c < o.rank ? (T)-r[c][e] : (T)0;
            square += (double)x[c] * (double)x[c];
        }
        if (g == 0)
            store_columns<C>(to + column, x, column, p.ld);
    }
    if (o.size != NULL) {
        square += __shfl_xor_sync(ALL_LANES, square, 1);
        square += __shfl_xor_sync(ALL_LANES, square, 2);
        if (lane == 0)
            o.size[row] = weight * square;
    }
}

/* Stores the sums of a row as a part (partial sums). Partial sums from other warps' nonzeros are
 * added later. */
template <int C, class COUNT>
static __device__ inline void pack_part(const gram_sum<C, COUNT> &sum, COUNT count, uint32_t rank,
                                        double *to, uint32_t lane)
{
    double m[C];
    sum_right(sum, m);
    sum.each(lane, [&](const gram_place &at, double x) {
        if (at.column < (int)rank)
            to[at.row * (int)rank - at.row * (at.row + 1) / 2 + at.column] = x;
    });
    to += rank * (rank + 1) / 2;
#pragma unroll
    for (int c = 0; c < C; c++)
        if (lane % 4 == 0 && C * (lane / 4) + c < rank)
            to[C * (lane / 4) + c] = m[c];
    if (lane == 0)
        to[rank] = count;
}

#endif
