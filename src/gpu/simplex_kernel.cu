/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows on the simplex by ADMM, on tensor cores.
 *
 * Of a round,  h := (m + rho (a + u)) P,  a := nearest(h - u),  u := u + a - h  with P the inverse
 * of G + rho I, only v = h - u need be kept, and of each row two numbers: its greatest entry and a
 * threshold t, as a_r = v_r - most - t where that is above TS_ROW_NONE, and else 0. Then u = a - v,
 * and the round is
 *     h := (m + rho (2 a - v)) P,  v := h + v - a,  and most and t of the new v.
 *
 * Tiles of 8 rows and 8 columns lie in a warp as in descend_kernel.cu: lane L, (i, j) = (L / 4,
 * L % 4), has row i and columns 2 j and 2 j + 1, and a fragment of a matrix is its row 8 b + i,
 * columns 8 c + 2 j and 8 c + 2 j + 1, for what columns 8 c .. 8 c + 7 of the left side add to
 * columns 8 b .. 8 b + 7 of the result. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/simplex_kernel.h"

#include <cuda_runtime.h>

#include "gpu/dense_kernel.h"
#include "gpu/row_pairs.cuh"
#include "gpu/tensor_core.cuh"

enum {
    TILES = TS_DESCEND_UNIT / 8, /* of a unit's rows */
    NARROW_WARPS = 4,
    NARROW_TILES = 2,     /* of a warp at a time: as many as registers hold */
    NARROW_BLOCKS = 2112, /* thread blocks at most: 16 for each of 132 multiprocessors */
    WIDE_WARPS = 8
};

/* Where the entries of a row that are kept begin. */
struct threshold {
    double most, t;
};

static __device__ inline double above(double v, const threshold &at)
{
    const double x = v - at.most - at.t;
    return x > TS_ROW_NONE ? x : 0;
}

/* Sum over the four lanes of a row of a tile; each of them gets it. */
static __device__ inline double row_sum(double x)
{
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

static __device__ inline double row_max(double x)
{
    x = fmax(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmax(x, __shfl_xor_sync(0xffffffff, x, 2));
}

/* ------------------------------------------------------------------ units of few columns
 *
 * Rows of up to 8 B columns. A warp has NARROW_TILES tiles of rows at a time, whose m and v stay in
 * its registers for all rounds; G and P lie in shared memory as fragments.
 *
 *   launch  any number of thread blocks; a warp takes a unit, then the unit `stride` on, ... */
template <int B> struct narrow_rows {
    double v[B][NARROW_TILES][2];
    threshold at[NARROW_TILES];
};

/* h := x times the matrix. x(c, q, u): the lane's entries of the left side. */
template <int B, class X>
static __device__ inline void times_narrow(const double2 *matrix, const X &x,
                                           double (&h)[B][NARROW_TILES][2])
{
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int b = 0; b < B; b++)
#pragma unroll
        for (int q = 0; q < NARROW_TILES; q++)
            h[b][q][0] = h[b][q][1] = 0;
#pragma unroll
    for (int c = 0; c < B; c++) {
        double left[NARROW_TILES][2];
#pragma unroll
        for (int q = 0; q < NARROW_TILES; q++)
#pragma unroll
            for (int u = 0; u < 2; u++)
                left[q][u] = x(c, q, u);
#pragma unroll
        for (int b = 0; b < B; b++) {
            const double2 right = matrix[(b * B + c) * 32 + lane];
#pragma unroll
            for (int q = 0; q < NARROW_TILES; q++)
                multiply_add(h[b][q], left[q][0], right.x);
#pragma unroll
            for (int q = 0; q < NARROW_TILES; q++)
                multiply_add(h[b][q], left[q][1], right.y);
        }
    }
}

/* Thresholds of the rows: t rises as entries fall below it, until none does (Michelot 1986). */
template <int B> static __device__ inline void project_narrow(uint32_t rank, narrow_rows<B> &r)
{
    const uint32_t j = threadIdx.x % 4;
    double count[NARROW_TILES];
#pragma unroll
    for (int q = 0; q < NARROW_TILES; q++) {
        double most = -INFINITY, sum = 0;
#pragma unroll
        for (int b = 0; b < B; b++)
#pragma unroll
            for (int u = 0; u < 2; u++)
                if (8 * b + 2 * j + u < rank)
                    most = fmax(most, r.v[b][q][u]);
        most = row_max(most);
#pragma unroll
        for (int b = 0; b < B; b++)
#pragma unroll
            for (int u = 0; u < 2; u++)
                if (8 * b + 2 * j + u < rank)
                    sum += r.v[b][q][u] - most;
        sum = row_sum(sum);
        count[q] = rank;
        r.at[q].most = most;
        r.at[q].t = (sum - 1) / rank;
    }
    for (uint32_t round = 0; round < rank; round++) {
        bool less = false;
#pragma unroll
        for (int q = 0; q < NARROW_TILES; q++) {
            double sum = 0, left = 0;
#pragma unroll
            for (int b = 0; b < B; b++)
#pragma unroll
                for (int u = 0; u < 2; u++) {
                    const double y = r.v[b][q][u] - r.at[q].most;
                    const bool in = 8 * b + 2 * j + u < rank && y > r.at[q].t;
                    sum += in ? y : 0;
                    left += in ? 1 : 0;
                }
            sum = row_sum(sum);
            left = row_sum(left);
            if (left < count[q]) {
                less = true;
                count[q] = left;
                r.at[q].t = (sum - 1) / left;
            }
        }
        if (!__any_sync(0xffffffff, less))
            break;
    }
}

/* The lane's entries of a, zeros from the rank on. */
template <int B>
static __device__ inline double entry(uint32_t rank, const narrow_rows<B> &r, int b, int q, int u)
{
    const double x = above(r.v[b][q][u], r.at[q]);
    return 8 * b + 2 * (threadIdx.x % 4) + u < rank ? x : 0;
}

/* value[q] := 1/2 a G a' - m a' of the lane's rows, h being a G */
template <int B>
static __device__ inline void
value_narrow(uint32_t rank, const narrow_rows<B> &r, const double (&m)[B][NARROW_TILES][2],
             const double (&h)[B][NARROW_TILES][2], double (&value)[NARROW_TILES])
{
#pragma unroll
    for (int q = 0; q < NARROW_TILES; q++) {
        double sum = 0;
#pragma unroll
        for (int b = 0; b < B; b++)
#pragma unroll
            for (int u = 0; u < 2; u++)
                sum += entry<B>(rank, r, b, q, u) * (0.5 * h[b][q][u] - m[b][q][u]);
        value[q] = row_sum(sum);
    }
}

/* v := a - u for the u that would make a the best row, h being a G. */
template <int B>
static __device__ inline void begin_narrow(uint32_t rank, double rho,
                                           const double (&m)[B][NARROW_TILES][2],
                                           const double (&h)[B][NARROW_TILES][2], narrow_rows<B> &r)
{
    const uint32_t j = threadIdx.x % 4;
#pragma unroll
    for (int q = 0; q < NARROW_TILES; q++) {
        double sum = 0, count = 0;
#pragma unroll
        for (int b = 0; b < B; b++)
#pragma unroll
            for (int u = 0; u < 2; u++)
                if (entry<B>(rank, r, b, q, u) > 0) {
                    sum += (h[b][q][u] - m[b][q][u]) / rho;
                    count += 1;
                }
        sum = row_sum(sum);
        count = row_sum(count);
        const double t = count > 0 ? sum / count : sum;
#pragma unroll
        for (int b = 0; b < B; b++)
#pragma unroll
            for (int u = 0; u < 2; u++) {
                const double a = entry<B>(rank, r, b, q, u);
                const double g = (h[b][q][u] - m[b][q][u]) / rho;
                const double v = a - (a > 0 || g < t ? t : g);
                r.v[b][q][u] = 8 * b + 2 * j + u < rank ? v : 0;
            }
        r.at[q].most = 0;
        r.at[q].t = -t;
    }
}

/* v := the old rows times their weights, and their thresholds. */
template <class A, int B>
static __device__ inline void load_narrow(const A *a, const double2 *weight, uint32_t first,
                                          uint32_t n_rows, uint32_t rank, uint32_t ld,
                                          narrow_rows<B> &r)
{
    const uint32_t i = threadIdx.x % 32 / 4, j = threadIdx.x % 4;
#pragma unroll
    for (int b = 0; b < B; b++) {
        const double2 w = weight[b * 4 + j];
#pragma unroll
        for (int q = 0; q < NARROW_TILES; q++) {
            const double2 old = load_pair(a, first + 8 * q + i, n_rows, 8 * b + 2 * j, ld);
            r.v[b][q][0] = old.x * w.x;
            r.v[b][q][1] = old.y * w.y;
        }
    }
    project_narrow<B>(rank, r);
}

/* v and thresholds after all rounds, but those of the old row where that is better. */
template <class A, int B>
static __device__ inline void
rounds_narrow(const struct ts_descend &d, const double2 *g, const double2 *inverse,
              const double2 *weight, const A *a, uint32_t first, uint32_t n_rows,
              const double (&m)[B][NARROW_TILES][2], narrow_rows<B> &r)
{
    double h[B][NARROW_TILES][2], before[NARROW_TILES], after[NARROW_TILES];
    bool worse = false;
    load_narrow<A, B>(a, weight, first, n_rows, d.rank, d.ld, r);
    times_narrow<B>(
        g, [&](int c, int q, int u) { return entry<B>(d.rank, r, c, q, u); }, h);
    value_narrow<B>(d.rank, r, m, h, before);
    begin_narrow<B>(d.rank, d.rho, m, h, r);
    for (uint32_t round = 0; round < d.rounds; round++) {
        times_narrow<B>(
            inverse,
            [&](int c, int q, int u) {
                return m[c][q][u] + d.rho * (2 * entry<B>(d.rank, r, c, q, u) - r.v[c][q][u]);
            },
            h);
#pragma unroll
        for (int b = 0; b < B; b++)
#pragma unroll
            for (int q = 0; q < NARROW_TILES; q++)
#pragma unroll
                for (int u = 0; u < 2; u++)
                    r.v[b][q][u] += h[b][q][u] - entry<B>(d.rank, r, b, q, u);
        project_narrow<B>(d.rank, r);
    }
    times_narrow<B>(
        g, [&](int c, int q, int u) { return entry<B>(d.rank, r, c, q, u); }, h);
    value_narrow<B>(d.rank, r, m, h, after);
#pragma unroll
    for (int q = 0; q < NARROW_TILES; q++)
        worse |= after[q] > before[q];
    if (__any_sync(0xffffffff, worse)) {
        narrow_rows<B> old;
        load_narrow<A, B>(a, weight, first, n_rows, d.rank, d.ld, old);
#pragma unroll
        for (int q = 0; q < NARROW_TILES; q++) {
            const bool back = after[q] > before[q];
            r.at[q].most = back ? old.at[q].most : r.at[q].most;
            r.at[q].t = back ? old.at[q].t : r.at[q].t;
#pragma unroll
            for (int b = 0; b < B; b++)
#pragma unroll
                for (int u = 0; u < 2; u++)
                    r.v[b][q][u] = back ? old.v[b][q][u] : r.v[b][q][u];
        }
    }
}

template <class T, class A, int B>
static __global__ void __launch_bounds__(32 * NARROW_WARPS, B == 4 ? 3 : 4)
    simplex_narrow(const struct ts_descend d)
{
    __shared__ double2 g[B * B * 32], inverse[B * B * 32], weight[B * 4];
    const uint32_t lane = threadIdx.x % 32, i = lane / 4, j = lane % 4, ld = d.ld;
    const uint64_t stride = gridDim.x * (uint64_t)NARROW_WARPS;

    for (uint32_t k = threadIdx.x; k < B * B * 32; k += blockDim.x) {
        const uint32_t row = k / 32 / B * 8 + k % 32 / 4, column = k / 32 % B * 8 + 2 * (k % 4);
        g[k] = load_pair(d.g, row, ld, column, ld);
        inverse[k] = load_pair(d.inverse, row, ld, column, ld);
    }
    for (uint32_t k = threadIdx.x; k < B * 4; k += blockDim.x)
        weight[k] = load_pair(d.table, TS_DESCEND_WEIGHT, TS_DESCEND_TABLE, 2 * k, ld);
    __syncthreads();

    for (uint64_t unit = blockIdx.x * (uint64_t)NARROW_WARPS + threadIdx.x / 32; unit < d.n_units;
         unit += stride) {
        const uint64_t top = (d.first_unit + unit) * TS_DESCEND_UNIT;
        const uint32_t n_rows = (uint32_t)min((uint64_t)TS_DESCEND_UNIT, d.n_rows - top);
        const T *const product = (const T *)d.m + top * ld;
        A *const a = (A *)d.a + top * ld;
        double inner = 0, sum = 0;
#pragma unroll 1
        for (uint32_t first = 0; first < n_rows; first += 8 * NARROW_TILES) {
            double m[B][NARROW_TILES][2];
            narrow_rows<B> r;
#pragma unroll
            for (int b = 0; b < B; b++)
#pragma unroll
                for (int q = 0; q < NARROW_TILES; q++) {
                    const double2 want =
                        load_pair(product, first + 8 * q + i, n_rows, 8 * b + 2 * j, ld);
                    m[b][q][0] = want.x;
                    m[b][q][1] = want.y;
                }
            rounds_narrow<A, B>(d, g, inverse, weight, a, first, n_rows, m, r);
            __syncwarp();
#pragma unroll
            for (int b = 0; b < B; b++)
#pragma unroll
                for (int q = 0; q < NARROW_TILES; q++) {
                    const uint32_t row = first + 8 * q + i, column = 8 * b + 2 * j;
                    double2 now =
                        make_double2(entry<B>(d.rank, r, b, q, 0), entry<B>(d.rank, r, b, q, 1));
                    if (row >= n_rows || column >= ld)
                        continue;
                    store2(a + row * ld + column, now);
                    sum += fabs(now.x) + fabs(now.y);
                    inner += m[b][q][0] * now.x + m[b][q][1] * now.y;
                }
        }
        inner = warp_sum(inner);
        sum = warp_sum(sum);
        if (lane == 0 && d.inner != NULL)
            d.inner[d.first_unit + unit] = inner;
        if (lane == 0 && d.size != NULL)
            d.size[d.first_unit + unit] = sum;
    }
}

/* ------------------------------------------------------------------ units of any length
 *
 * A thread block has 8 Q rows of a unit at a time. Their v and the left sides x of products lie in
 * shared memory, or where that is too small in `scratch`, as tiles: pair [(b * Q + q) * 32 + lane]
 * is tile q of columns 8 b .. 8 b + 7. A warp computes every WIDE_WARPS-th tile of columns, for all
 * rows, from a matrix that it takes from the caches; then the warps take the rows in turn for their
 * thresholds.
 *
 *   launch  any number of thread blocks; where v and x are in `scratch`, as many as there is room for
 *   shared  v, then x, unless they are in `scratch` */
template <int Q> struct wide_rows {
    double2 *v, *x;
    threshold *at;  /* 8 Q */
    double *before; /* 8 Q: the value of the old rows, */
    double *after;  /* of the new ones, */
    double *part;   /* and of WIDE_WARPS x 8 Q parts of one */
    uint32_t eights, rank, ld;
};

/* Calls f(b, h, where), of each tile of columns b of the warp, with h := x times the matrix, and where
 * the lane's pairs are. */
template <int Q, class F>
static __device__ inline void times_wide(const wide_rows<Q> &r, const double *matrix, const F &f)
{
    const uint32_t lane = threadIdx.x % 32, i = lane / 4, j = lane % 4, ld = r.ld;
    for (uint32_t b = threadIdx.x / 32; b < r.eights; b += WIDE_WARPS) {
        const double *const right = matrix + (uint64_t)min(8 * b + i, ld - 1) * ld;
        double h[Q][2] = {};
#pragma unroll 4
        for (uint32_t c = 0; c < r.eights; c++) {
            const double2 g = load2(right + min(8 * c + 2 * j, ld - 2));
#pragma unroll
            for (int q = 0; q < Q; q++) {
                const double2 left = r.x[(c * Q + q) * 32 + lane];
                multiply_add(h[q], left.x, g.x);
                multiply_add(h[q], left.y, g.y);
            }
        }
#pragma unroll
        for (int q = 0; q < Q; q++)
            f(8 * b + 2 * j, q, (b * Q + q) * 32 + lane, make_double2(h[q][0], h[q][1]));
    }
}

/* Calls f(column, row, where) of each pair of the rows. */
template <int Q, class F> static __device__ inline void each_pair(const wide_rows<Q> &r, const F &f)
{
    for (uint32_t k = threadIdx.x; k < r.eights * Q * 32; k += 32 * WIDE_WARPS)
        f(k / (Q * 32) * 8 + 2 * (k % 4), k / 32 % Q * 8 + k % 32 / 4, k);
}

/* The pair of a at v, zeros from the rank on. */
template <int Q>
static __device__ inline double2 pair_at(const wide_rows<Q> &r, uint32_t column, uint32_t row,
                                         uint32_t where)
{
    const double2 v = r.v[where];
    const threshold at = r.at[row];
    return make_double2(column < r.rank ? above(v.x, at) : 0,
                        column + 1 < r.rank ? above(v.y, at) : 0);
}

/* Calls f(row, sum) for the rows of a warp, sum(add) being over the row's entries: add(y) is called
 * with those of v. */
template <int Q> struct wide_row {
    const wide_rows<Q> *r;
    uint32_t row;

    template <class F> __device__ inline void entries(const F &f) const
    {
        const uint32_t lane = threadIdx.x % 32;
        for (uint32_t k = lane; 2 * k < r->rank; k += 32) {
            const uint32_t where = (k / 4 * Q + row / 8) * 32 + row % 8 * 4 + k % 4;
            const double2 v = r->v[where], x = r->x[where];
            f(v.x, x.x);
            if (2 * k + 1 < r->rank)
                f(v.y, x.y);
        }
    }
};

static __device__ inline double warp_max(double x)
{
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        x = fmax(x, __shfl_xor_sync(0xffffffff, x, d));
    return x;
}

/* Thresholds of all rows of v. */
template <int Q> static __device__ inline void project_wide(const wide_rows<Q> &r)
{
    for (uint32_t row = threadIdx.x / 32; row < 8 * Q; row += WIDE_WARPS) {
        const wide_row<Q> its = { &r, row };
        double most = -INFINITY, sum = 0, count = r.rank, t;
        its.entries([&](double v, double) { most = fmax(most, v); });
        most = warp_max(most);
        its.entries([&](double v, double) { sum += v - most; });
        t = (warp_sum(sum) - 1) / r.rank;
        for (uint32_t round = 0; round < r.rank; round++) {
            double left = 0;
            sum = 0;
            its.entries([&](double v, double) {
                const double y = v - most;
                sum += y > t ? y : 0;
                left += y > t ? 1 : 0;
            });
            sum = warp_sum(sum);
            left = warp_sum(left);
            if (!(left < count))
                break;
            count = left;
            t = (sum - 1) / left;
        }
        if (threadIdx.x % 32 == 0)
            r.at[row] = { most, t };
    }
}

/* v := the old rows times their weights, and their thresholds. */
template <int Q, class A>
static __device__ inline void load_wide(const wide_rows<Q> &r, const A *a, const double *weight,
                                        uint32_t first, uint32_t n_rows)
{
    each_pair<Q>(r, [&](uint32_t column, uint32_t row, uint32_t where) {
        const double2 old = load_pair(a, first + row, n_rows, column, r.ld);
        const double2 w = load2(weight + min(column, r.ld - 2));
        r.v[where] = make_double2(old.x * w.x, old.y * w.y);
    });
    __syncthreads();
    project_wide<Q>(r);
    __syncthreads();
}

/* x := a; then value := 1/2 a G a' - m a' of each row; with `begin`, v := (a G - m) / rho, too. */
template <int Q, class T>
static __device__ inline void value_wide(const wide_rows<Q> &r, const struct ts_descend &d,
                                         const T *m, uint32_t first, uint32_t n_rows, bool begin,
                                         double *value)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = lane / 4;
    double sum[Q] = {};
    each_pair<Q>(r, [&](uint32_t column, uint32_t row, uint32_t where) {
        r.x[where] = pair_at<Q>(r, column, row, where);
    });
    __syncthreads();
    times_wide<Q>(r, d.g, [&](uint32_t column, int q, uint32_t where, double2 h) {
        const double2 want = load_pair(m, first + 8 * q + i, n_rows, column, r.ld), a = r.x[where];
        sum[q] += a.x * (0.5 * h.x - want.x) + a.y * (0.5 * h.y - want.y);
        if (begin)
            r.v[where] = make_double2((h.x - want.x) / d.rho, (h.y - want.y) / d.rho);
    });
#pragma unroll
    for (int q = 0; q < Q; q++) {
        const double all = row_sum(sum[q]);
        if (lane % 4 == 0)
            r.part[warp * 8 * Q + 8 * q + i] = all;
    }
    __syncthreads();
    if (threadIdx.x < 8 * Q) {
        double all = 0;
        for (int w = 0; w < WIDE_WARPS; w++)
            all += r.part[w * 8 * Q + threadIdx.x];
        value[threadIdx.x] = all;
    }
    __syncthreads();
}

/* v := a - u for the u that would make a the best row, x being a and v (a G - m) / rho. */
template <int Q> static __device__ inline void begin_wide(const wide_rows<Q> &r)
{
    for (uint32_t row = threadIdx.x / 32; row < 8 * Q; row += WIDE_WARPS) {
        const wide_row<Q> its = { &r, row };
        double sum = 0, count = 0;
        its.entries([&](double g, double a) {
            sum += a > 0 ? g : 0;
            count += a > 0 ? 1 : 0;
        });
        sum = warp_sum(sum);
        count = warp_sum(count);
        if (threadIdx.x % 32 == 0)
            r.at[row] = { 0, -(count > 0 ? sum / count : sum) };
    }
    __syncthreads();
    each_pair<Q>(r, [&](uint32_t column, uint32_t row, uint32_t where) {
        const double t = -r.at[row].t;
        const double2 a = r.x[where], g = r.v[where];
        r.v[where] = make_double2(column < r.rank ? a.x - (a.x > 0 || g.x < t ? t : g.x) : 0,
                                  column + 1 < r.rank ? a.y - (a.y > 0 || g.y < t ? t : g.y) : 0);
    });
    __syncthreads();
}

template <int Q, class T>
static __device__ inline void round_wide(const wide_rows<Q> &r, const struct ts_descend &d,
                                         const T *m, uint32_t first, uint32_t n_rows)
{
    each_pair<Q>(r, [&](uint32_t column, uint32_t row, uint32_t where) {
        const double2 want = load_pair(m, first + row, n_rows, column, r.ld), v = r.v[where];
        const double2 a = pair_at<Q>(r, column, row, where);
        r.x[where] =
            make_double2(want.x + d.rho * (2 * a.x - v.x), want.y + d.rho * (2 * a.y - v.y));
    });
    __syncthreads();
    times_wide<Q>(r, d.inverse, [&](uint32_t column, int q, uint32_t where, double2 h) {
        const double2 v = r.v[where];
        const double2 a = pair_at<Q>(r, column, 8 * q + threadIdx.x % 32 / 4, where);
        r.v[where] = make_double2(column < r.rank ? h.x + v.x - a.x : 0,
                                  column + 1 < r.rank ? h.y + v.y - a.y : 0);
    });
    __syncthreads();
    project_wide<Q>(r);
    __syncthreads();
}

template <class T, class A, int Q>
static __global__ void __launch_bounds__(32 * WIDE_WARPS, 2)
    simplex_wide(const struct ts_descend d, bool in_scratch)
{
    extern __shared__ double2 memory[];
    __shared__ threshold at[8 * Q];
    __shared__ double values[(2 + WIDE_WARPS) * 8 * Q], sums[2][WIDE_WARPS];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, eights = (d.ld + 7) / 8;
    double2 *const place =
        in_scratch ? (double2 *)d.scratch + blockIdx.x * (uint64_t)(2 * eights * Q * 32) : memory;
    const wide_rows<Q> r = { place,
                             place + eights * Q * 32,
                             at,
                             values,
                             values + 8 * Q,
                             values + 2 * 8 * Q,
                             eights,
                             d.rank,
                             d.ld };
    const double *const weight = d.table + TS_DESCEND_WEIGHT * d.ld;

    for (uint64_t unit = blockIdx.x; unit < d.n_units; unit += gridDim.x) {
        const uint64_t top = (d.first_unit + unit) * TS_DESCEND_UNIT;
        const uint32_t n_rows = (uint32_t)min((uint64_t)TS_DESCEND_UNIT, d.n_rows - top);
        const T *const m = (const T *)d.m + top * d.ld;
        A *const a = (A *)d.a + top * d.ld;
        double inner = 0, sum = 0;
        for (uint32_t first = 0; first < n_rows; first += 8 * Q) {
            bool worse;
            load_wide<Q, A>(r, a, weight, first, n_rows);
            value_wide<Q, T>(r, d, m, first, n_rows, true, r.before);
            begin_wide<Q>(r);
            for (uint32_t round = 0; round < d.rounds; round++)
                round_wide<Q, T>(r, d, m, first, n_rows);
            value_wide<Q, T>(r, d, m, first, n_rows, false, r.after);
            worse = threadIdx.x < 8 * Q && r.after[threadIdx.x] > r.before[threadIdx.x];
            worse = __syncthreads_or(worse);
            if (worse)
                load_wide<Q, A>(r, a, weight, first, n_rows);
            each_pair<Q>(r, [&](uint32_t column, uint32_t row, uint32_t where) {
                const bool back = worse && r.after[row] > r.before[row];
                double2 now = back ? pair_at<Q>(r, column, row, where) : r.x[where];
                if (first + row >= n_rows || column >= d.ld)
                    return;
                const double2 want = load2(m + (first + row) * d.ld + column);
                store2(a + (first + row) * d.ld + column, now);
                sum += fabs(now.x) + fabs(now.y);
                inner += want.x * now.x + want.y * now.y;
            });
            __syncthreads(); /* v and x are written again */
        }
        inner = warp_sum(inner);
        sum = warp_sum(sum);
        if (lane == 0) {
            sums[0][warp] = inner;
            sums[1][warp] = sum;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            inner = sum = 0;
            for (int w = 0; w < WIDE_WARPS; w++) {
                inner += sums[0][w];
                sum += sums[1][w];
            }
            if (d.inner != NULL)
                d.inner[d.first_unit + unit] = inner;
            if (d.size != NULL)
                d.size[d.first_unit + unit] = sum;
        }
        __syncthreads(); /* sums are written again */
    }
}

/* ------------------------------------------------------------------ launches */

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

template <class T, class A, int B>
static cudaError_t launch_narrow(const struct ts_descend *d, cudaStream_t s)
{
    const uint64_t blocks = (d->n_units + NARROW_WARPS - 1) / NARROW_WARPS;
    simplex_narrow<T, A, B><<<least(blocks, NARROW_BLOCKS), 32 * NARROW_WARPS, 0, s>>>(*d);
    return cudaGetLastError();
}

template <class T, class A, int Q>
static cudaError_t launch_wide(const struct ts_descend *d, cudaStream_t s)
{
    const uint64_t of_rows = 2 * ((d->ld + 7) / 8) * (uint64_t)(Q * 32) * sizeof(double2);
    const uint64_t room = ts_dense_scratch(d->ld) * sizeof(double) / of_rows;
    int device, most = 0;
    cudaError_t rc = cudaGetDevice(&device);
    if (rc == cudaSuccess)
        rc = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    const bool in_scratch = of_rows + 8 * 1024 > (uint64_t)most;
    const uint64_t bytes = in_scratch ? 0 : of_rows;
    if (rc == cudaSuccess && bytes > 0)
        rc = cudaFuncSetAttribute(simplex_wide<T, A, Q>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (rc != cudaSuccess)
        return rc;
    simplex_wide<T, A, Q>
        <<<least(d->n_units, in_scratch ? room : INT32_MAX), 32 * WIDE_WARPS, bytes, s>>>(
            *d, in_scratch);
    return cudaGetLastError();
}

/* As many rows at a time as have room in shared memory: a matrix is read from the caches once for
 * them. */
template <class T, class A> static cudaError_t launch(const struct ts_descend *d, cudaStream_t s)
{
    if (d->ld <= 8)
        return launch_narrow<T, A, 1>(d, s);
    if (d->ld <= 16)
        return launch_narrow<T, A, 2>(d, s);
    if (d->ld <= 32)
        return launch_narrow<T, A, 4>(d, s);
    if (d->ld <= 256)
        return launch_wide<T, A, TILES>(d, s);
    if (d->ld <= 512)
        return launch_wide<T, A, 2>(d, s);
    return launch_wide<T, A, 1>(d, s);
}

ts_gpu_error ts_simplex_rows(const struct ts_descend *d, ts_gpu_stream stream)
{
    if (d->n_units == 0)
        return cudaSuccess;
    if (d->precision == TS_FLOAT64)
        return launch<double, double>(d, stream);
    return d->wide ? launch<double, float>(d, stream) : launch<float, float>(d, stream);
}
