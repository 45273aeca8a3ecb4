/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates rows on the simplex by ADMM, on tensor cores. A row a on the simplex minimizes 1/2 a G a'
 * - m a', where m is its product; u is the dual variable.
 *
 * With P the inverse of G + rho I, and nearest() the projection on the simplex, a round is
 *     h := (m + rho (a + u)) P,  a := nearest(h - u),  u := u + a - h.
 * It is enough to store v = h - u and two numbers of each row: its greatest entry `most` and a
 * threshold t. Then a_r = v_r - most - t if that is above TS_ROW_NONE, otherwise 0; and u = a - v.
 * The round becomes
 *     h := (m + rho (2 a - v)) P,  v := h + v - a,  and most and t of the new v.
 *
 * Tiles of 8 rows and 8 columns are stored in a warp as in descend_kernel.cu: lane L, (i, j) = (L /
 * 4, L % 4), has row i and columns 2 j and 2 j + 1. A fragment of a matrix has its row 8 b + i,
 * columns 8 c + 2 j and 8 c + 2 j + 1. It multiplies columns 8 c .. 8 c + 7 of the left side, for
 * columns 8 b .. 8 b + 7 of the result. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/rows/simplex_kernel.h"

#include <cuda_runtime.h>

#include "gpu/rows/dense_kernel.h"
#include "gpu/rows/simplex_narrow.cuh"

enum { WIDE_WARPS = 8 };

/* ------------------------------------------------------------------ units of any length
 *
 * A thread block has 8 Q rows of a unit at a time. Their vectors v = h - u and the left sides x of
 * products are stored in shared memory or, if that is too small, in `scratch`, as tiles: pair [(b *
 * Q + q) * 32 + lane] belongs to tile q of columns 8 b .. 8 b + 7. A warp computes every
 * WIDE_WARPS-th tile of columns for all rows, with the matrix read from the caches. Then each warp
 * computes the thresholds of every WIDE_WARPS-th row.
 *
 *   launch  any number of thread blocks; if v and x are in `scratch`, as many as fit there
 *   shared  v, then x, unless they are in `scratch` */
template <int Q> struct wide_rows {
    double2 *v, *x;
    threshold *at;  /* the thresholds of the 8 Q rows */
    double *before; /* 1/2 a G a' - m a' of each of the 8 Q old rows */
    double *after;  /* the same sum for each of the 8 Q new rows */
    double *part;   /* WIDE_WARPS x 8 Q: what each warp adds to these sums */
    uint32_t eights, rank, ld;
};

/* Calls f(b, h, where) for each tile of columns b of the warp, with h = x times the matrix; where:
 * the index of the lane's pairs. */
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

/* Calls f(column, row, where) for each pair of columns of each row; where: the index of the pair in
 * v and x. */
template <int Q, class F> static __device__ inline void each_pair(const wide_rows<Q> &r, const F &f)
{
    for (uint32_t k = threadIdx.x; k < r.eights * Q * 32; k += 32 * WIDE_WARPS)
        f(k / (Q * 32) * 8 + 2 * (k % 4), k / 32 % Q * 8 + k % 32 / 4, k);
}

/* Returns the entries of the row a at a pair of columns, which are computed from v; zeros from the
 * rank on. */
template <int Q>
static __device__ inline double2 pair_at(const wide_rows<Q> &r, uint32_t column, uint32_t row,
                                         uint32_t where)
{
    const double2 v = r.v[where];
    const threshold at = r.at[row];
    return make_double2(column < r.rank ? above(v.x, at) : 0,
                        column + 1 < r.rank ? above(v.y, at) : 0);
}

/* A row of a warp, for sums over its entries: `entries` calls f(v, x) for each pair of entries of v
 * and x that the lane has. */
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

/* Computes the thresholds of all rows of v, by which they are projected on the simplex. */
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

/* Sets the vectors v to the old rows times their column weights, then computes the thresholds of
 * the rows, by which they are projected on the simplex. */
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

/* Sets x to the rows a, and `value` to 1/2 a G a' - m a' of each row. With `begin`, also sets v to
 * (a G - m) / rho. */
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

/* Sets the vectors v of rows to a - u, where u is the dual variable for which the row a would be
 * optimal. On entry x is a, and v is (a G - m) / rho. */
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
            __syncthreads(); /* the next step overwrites v and x */
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
        __syncthreads(); /* the next rows overwrite the sums */
    }
}

/* ------------------------------------------------------------------ launches of kernels */

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

/* Chooses as many rows at a time as fit in shared memory: a matrix is read from the caches once for
 * all of them. */
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
