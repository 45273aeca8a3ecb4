/* SPDX-License-Identifier: BSD-3-Clause */
/* simplex_narrow.cuh - rows on the simplex with few columns. The product m of a row and its vector
 * v (simplex_kernel.cu) stay in registers.
 *
 *   owner    the kernel owns the shared memory
 *   units    rows, in tiles of 8
 *   threads  each warp has its own tiles
 *   errors   none */
#ifndef TS_GPU_SIMPLEX_NARROW_CUH
#define TS_GPU_SIMPLEX_NARROW_CUH

#include "gpu/rows/row_pairs.cuh"
#include "gpu/rows/simplex_kernel.h"
#include "gpu/rows/tensor_core.cuh"

enum {
    TILES = TS_DESCEND_UNIT / 8, /* tiles of rows in a unit (32 rows) */
    NARROW_WARPS = 4,
    NARROW_TILES = 2,    /* tiles of a warp at a time: as many as fit in registers */
    NARROW_BLOCKS = 2112 /* the most thread blocks: 16 for each of 132 multiprocessors */
};

/* The threshold of a row v in its projection on the simplex: a_r = v_r - most - t if that is above
 * TS_ROW_NONE, otherwise 0. */
struct threshold {
    double most, t;
};

static __device__ inline double above(double v, const threshold &at)
{
    const double x = v - at.most - at.t;
    return x > TS_ROW_NONE ? x : 0;
}

/* Returns, to each of the four lanes of a row of a tile, the sum of their x. */
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
 * Rows of up to 8 B columns. A warp has NARROW_TILES tiles of rows at a time, whose products m and
 * vectors v stay in its registers for all rounds. G and P (matrices of simplex_kernel.cu) are in
 * shared memory as fragments (pairs in the order of the lanes).
 *
 *   launch  any number of thread blocks; a warp takes a unit, then the unit `stride` units later,
 *           ... */
template <int B> struct narrow_rows {
    double v[B][NARROW_TILES][2];
    threshold at[NARROW_TILES];
};

/* h := the lane's entries of x times `matrix`. x(c, q, u) returns the lane's entries of x. */
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

/* Computes the thresholds that project the rows on the simplex: t increases while entries fall
 * below it (Michelot 1986). */
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

/* Returns the lane's entry of the row a, which is computed from v; zero from the rank on. */
template <int B>
static __device__ inline double entry(uint32_t rank, const narrow_rows<B> &r, int b, int q, int u)
{
    const double x = above(r.v[b][q][u], r.at[q]);
    return 8 * b + 2 * (threadIdx.x % 4) + u < rank ? x : 0;
}

/* value[q] := the objective 1/2 a G a' - m a' of the lane's rows a (G: matrix of the update, m:
 * product of the row), where h is a G. */
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

/* Sets the vectors v of rows to a - u, where u is the dual variable for which the row a would be
 * optimal. h is the row a times the matrix G of the update. */
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

/* Sets the vectors v of rows to the old rows times their column weights, and computes the
 * thresholds that project the rows on the simplex. */
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

/* Makes all rounds of ADMM, and leaves v and the thresholds of the new rows. A row that is not
 * better than the old row gets v and threshold of the old row. */
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

#endif
