/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_few.cuh - solves for rows of observed cells with fewer nonzeros than columns, by a
 * system of equations with an unknown for each nonzero.
 *
 *   owner    memory of a thread block, divided by own_memory
 *   threads  all lanes of a warp call together
 *   errors   none
 */
#ifndef TS_GPU_OBSERVED_FEW_CUH
#define TS_GPU_OBSERVED_FEW_CUH

#include "gpu/observed/observed_row.cuh"

/* Most nonzeros of a row that solve_some takes, if the row has more columns. */
enum { SOME = 16 };

/* ---------------------------------------------------- rows of up to 8 nonzeros, several at once */

/* Returns the number of the i-th set bit of 8 bits, or 7 if fewer are set. */
static __device__ inline uint32_t last_of(uint32_t bits, uint32_t i)
{
    for (; i > 0; i--)
        bits &= bits - 1;
    return bits != 0 ? __ffs(bits) - 1 : 7;
}

/* Solves for several rows, from `first` on, whose nonzeros are exactly the n from position pos of
 * the decoded block on. Bit q of ends: a row ends after nonzero q. */
template <class T, int C, int NL, class WEIGHTS>
static __device__ inline void
solve_short(const ts_gpu_mttkrp &p, const ts_gpu_observed &o, const warp_memory<T, LANES, NL> &mem,
            const own_memory<C> &own, const WEIGHTS &weights, uint32_t pos, uint32_t n,
            uint32_t ends, uint32_t row, uint32_t lane)
{
    constexpr int stride = gram_square<C>::stride;
    const uint32_t g = lane / 4, t = lane % 4, at = pos + min(g, n - 1);
    const uint32_t kept = bits_from(own.kept, pos) & below(n);
    const bool on = kept >> g & 1;
    const uint32_t first = 32 - __clz(ends & below(g)), end = g < n ? g + __ffs(ends >> g) : first;
    const typename WEIGHTS::count count = weights.of(kept & below(end) & ~below(first), pos);
    const double l2 = o.l2 * (o.by_count ? count : 1.0), cut = cut_of_few(o);
    uint32_t place[2], byte[2];
    T x[2][C];
    double d[2] = { 0, 0 };
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint32_t column = 4 * C * h + C * t;
        place[h] = spread<LANES>::at(at);
        byte[h] = column < p.ld ? column * (uint32_t)sizeof(T) : 0;
    }
    multiply_rows<T, C, NL, 2>(p, mem, weights, place, byte, x);
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int c = 0; c < C; c++) {
            const uint32_t column = 4 * C * h + C * t;
            const double one = on && column < p.ld ? (double)x[h][c] : 0.0;
            own.s[g * stride + column + c] = one;
            multiply_add(d, one, one);
        }
    const double value = on ? (double)mem.val[place[0]] : 0.0;
    const bool diagonal = t == g / 2;
    d[0] += diagonal && g % 2 == 0 ? l2 : 0;
    d[1] += diagonal && g % 2 == 1 ? l2 : 0;
    const double least = cut * (g % 2 == 0 ? d[0] : d[1]);

    /* Gauss-Jordan elimination: step i eliminates the i-th nonzero of every row from all others of
     * the same row. Columns of other rows are not read. */
    double y = value;
    const uint32_t steps = __reduce_max_sync(ALL_LANES, end - first);
#pragma unroll 1
    for (uint32_t i = 0; i < steps; i++) {
        const uint32_t k = min(first + i, 7u);
        const bool counts = first + i < end;
        const double mine = g % 2 == 0 ? d[0] : d[1];
        const bool fine = diagonal && mine > least;
        const double inverse = fine ? reciprocal(mine) : 0;
        const double by = __shfl_sync(ALL_LANES, inverse, 4 * k + k / 2);
        const double r0 = __shfl_sync(ALL_LANES, d[0], 4 * k + t);
        const double r1 = __shfl_sync(ALL_LANES, d[1], 4 * k + t);
        const double c0 = __shfl_sync(ALL_LANES, d[0], 4 * g + k / 2);
        const double c1 = __shfl_sync(ALL_LANES, d[1], 4 * g + k / 2);
        const double yk = __shfl_sync(ALL_LANES, y, 4 * k) * by;
        const double f = (k % 2 == 0 ? c0 : c1) * by;
        if (counts) {
            d[0] = g == k ? r0 * by : d[0] - f * r0;
            d[1] = g == k ? r1 * by : d[1] - f * r1;
            y = g == k ? yk : y - (k % 2 == 0 ? c0 : c1) * yk;
        }
    }
    /* a = P' y for each row, where row k of P is the product of the other factors' rows at nonzero
     * k. It is computed as a product of tiles M P: row i of M has y at the nonzeros of the i-th
     * row, and 0 elsewhere. */
    __syncwarp();
    const uint32_t of_row = __popc(ends & below(g)), rows = __popc(ends);
    double m[2], square = 0;
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        const uint32_t q = 4 * (t + 4 * h); /* the lane that holds nonzero t + 4 h */
        const double one = __shfl_sync(ALL_LANES, y, q);
        m[h] = __shfl_sync(ALL_LANES, of_row, q) == g ? one : 0.0;
    }
    T *const to = (T *)p.out + (uint64_t)(row + g) * p.ld;
#pragma unroll
    for (uint32_t c = 0; c < C; c++) {
        const uint32_t column = 8 * c + 2 * t;
        double a[2] = { 0, 0 };
#pragma unroll
        for (uint32_t h = 0; h < 2; h++)
            multiply_add(a, m[h], own.s[(t + 4 * h) * stride + 8 * c + g]);
        T x[2];
#pragma unroll
        for (uint32_t e = 0; e < 2; e++) {
            x[e] = (T)(column + e < o.rank ? a[e] : 0.0);
            square += (double)x[e] * (double)x[e];
        }
        if (g < rows)
            store_columns<2>(to + column, x, column, p.ld);
    }
    if (o.size != NULL) {
        square += __shfl_xor_sync(ALL_LANES, square, 1);
        square += __shfl_xor_sync(ALL_LANES, square, 2);
        const typename WEIGHTS::count kept_of_row =
            __shfl_sync(ALL_LANES, count, 4 * last_of(ends, g));
        if (t == 0 && g < rows)
            o.size[row + g] = (o.by_count ? kept_of_row : 1.0) * square;
    }
    __syncwarp();
}

/* -------------------------------------------------------- rows of up to 16 nonzeros, one by one */

/* Solves for `row`, whose nonzeros are exactly the n from position pos on, with SHORT < n <= SOME.
 * Its system has 16 unknowns y, which takes less time than one of 32 columns. */
template <class T, int NL, class WEIGHTS>
static __device__ inline void solve_some(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                         const warp_memory<T, LANES, NL> &mem,
                                         const own_memory<4> &own, const WEIGHTS &weights,
                                         uint32_t pos, uint32_t n, uint32_t row, uint32_t lane)
{
    const uint32_t g = lane / 4, t = lane % 4;
    const uint32_t kept = bits_from(own.kept, pos) & below(n);
    const typename WEIGHTS::count count = weights.of(kept, pos);
    const double weight = o.by_count ? count : 1.0, cut = cut_of_few(o);
    double x[2][8], both[4] = { 0, 0, 0, 0 }, s[2][2][2], r[2][2], least[2], y[2], a[8];
    /* loads columns 4 t .. 4 t + 3 and 16 + 4 t .. 16 + 4 t + 3 at nonzero 8 u + g */
#pragma unroll
    for (uint32_t u = 0; u < 2; u++) {
        const uint32_t q = 8 * u + g, at = spread<LANES>::at(pos + min(q, n - 1));
        const bool on = kept >> q & 1;
        const uint32_t place[2] = { at, at };
        uint32_t byte[2];
        T z[2][4];
#pragma unroll
        for (uint32_t h = 0; h < 2; h++)
            byte[h] = 16 * h + 4 * t < p.ld ? (16 * h + 4 * t) * (uint32_t)sizeof(T) : 0;
        multiply_rows<T, 4, NL, 2>(p, mem, weights, place, byte, z);
#pragma unroll
        for (uint32_t h = 0; h < 2; h++)
#pragma unroll
            for (uint32_t c = 0; c < 4; c++)
                x[u][4 * h + c] = (double)(on && 16 * h + 4 * t < p.ld ? z[h][c] : (T)0);
    }
    s[1][1][0] = s[1][1][1] = 0;
#pragma unroll
    for (int v = 0; v < 8; v += 2) {
        const double upper[2] = { x[0][v], x[0][v + 1] }, lower[2] = { x[1][v], x[1][v + 1] };
        multiply_add_pair(both, upper, lower, upper);
        add_tiles(s[1][1], lower, lower);
    }
#pragma unroll
    for (uint32_t u = 0; u < 2; u++) {
        const double l2 = t == g / 2 && 8 * u + g < n ? o.l2 * weight : 0.0;
        s[u][0][0] = both[2 * u];
        s[u][0][1] = both[2 * u + 1];
        s[u][u][0] += g % 2 == 0 ? l2 : 0.0;
        s[u][u][1] += g % 2 == 1 ? l2 : 0.0;
        least[u] = cut * (g % 2 == 0 ? s[u][u][0] : s[u][u][1]);
#pragma unroll
        for (uint32_t e = 0; e < 2; e++) {
            const uint32_t q = 8 * u + 2 * t + e;
            r[u][e] =
                g == 0 && (kept >> q & 1) != 0 ? (double)mem.val[spread<LANES>::at(pos + q)] : 0.0;
        }
    }
    solve_tiles<2>(s, r, least, y, lane);
#pragma unroll
    for (int v = 0; v < 8; v++)
        a[v] = -(y[0] * x[0][v] + y[1] * x[1][v]);
    const uint32_t column = 16 * (g / 4) + 4 * t + g % 4;
    const double mine = sum_of_groups(a, lane);
    const T done = (T)(column < o.rank ? mine : 0.0);
    if (column < p.ld)
        ((T *)p.out)[(uint64_t)row * p.ld + column] = done;
    if (o.size != NULL) {
        const double sum = warp_sum((double)done * (double)done);
        if (lane == 0)
            o.size[row] = weight * sum;
    }
}

#endif
