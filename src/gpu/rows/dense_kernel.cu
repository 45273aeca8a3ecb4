/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for rows: products times the matrix of an update, scaling, and conversion of rows to and
 * from float64. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/rows/dense_kernel.h"

#include <cuda_runtime.h>

#include "gpu/rows/tensor_core.cuh"

/* CHUNKS: thread blocks that 132 multiprocessors run at the same time. */
enum { CHUNKS = 528, THREADS = 256, MOST_COLUMNS = 2048 };

/* ------------------------------------------------------------------ vectors of four elements */

template <class T> struct quad {
    T v[4];
};
template <class T> static __device__ inline quad<T> load4(const T *p);
template <> __device__ inline quad<float> load4(const float *p)
{
    const float4 x = *(const float4 *)p;
    return { { x.x, x.y, x.z, x.w } };
}
template <> __device__ inline quad<double> load4(const double *p)
{
    const double2 x = ((const double2 *)p)[0], y = ((const double2 *)p)[1];
    return { { x.x, x.y, y.x, y.y } };
}
static __device__ inline void store4(float *p, const quad<float> &x)
{
    *(float4 *)p = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
}
static __device__ inline void store4(double *p, const quad<double> &x)
{
    ((double2 *)p)[0] = make_double2(x.v[0], x.v[1]);
    ((double2 *)p)[1] = make_double2(x.v[2], x.v[3]);
}

/* ------------------------------------------------------------------ a(row, :) := m(row, :) w
 *
 * a is the factor, w the matrix of the update. m has elements of type T. It is a itself, or
 * products in float64 when a is float (type A).
 *
 * Lane L of a warp is at (i, j) = (L / 4, L % 4). A warp works on 8 rows; the lane holds row i. Of
 * each 16 columns it holds the four from 4 j on, by one vector load; the loads of neighbouring
 * lanes form whole sectors. These four values are its operands in 4 products with 16 rows of w, as
 * the order of the summation index k is free. Two products give 16 columns of the result. Column 2
 * i + u of w is column i of product u. A lane holds columns 2 j and 2 j + 1 of each product, which
 * then are the same four columns of the result that it loaded.
 *
 * Each element of the result is summed in float64 over ascending groups of 16 k, always in the same
 * order inside a group. So it does not depend on the other rows of the call. */

/* The loads of rows and of w below clamp their address instead of being conditional. With a branch
 * for each load, only one load at a time would be in flight. */

static __device__ inline void load2(const double *p, double (&x)[2])
{
    const double2 v = *(const double2 *)p;
    x[0] = v.x;
    x[1] = v.y;
}

/* Loads w(k, column) and w(k, column + 1), for an even column, as right operands of the products of
 * 16 columns; zeros outside of w. */
static __device__ inline void load_right(const double *w, uint32_t ld, uint32_t k, uint32_t column,
                                         double (&b)[2])
{
    const bool inside = k < ld && column < ld;
    double x[2];
    load2(w + (uint64_t)min(k, ld - 1) * ld + min(column, ld - 2), x);
    b[0] = inside ? x[0] : 0;
    b[1] = inside ? x[1] : 0;
}

/* Returns columns 4 j .. 4 j + 3 of the lane's row, from the two products of 16 columns. */
template <class T> static __device__ inline quad<T> round4(const double (&d)[2][2])
{
    return { { (T)d[0][0], (T)d[1][0], (T)d[0][1], (T)d[1][1] } };
}

template <class T, class A>
static __device__ inline double dot4(const quad<T> &x, const quad<A> &y, double sum)
{
#pragma unroll
    for (int c = 0; c < 4; c++)
        sum += (double)x.v[c] * (double)y.v[c];
    return sum;
}

/* Returns, to each of the 4 lanes that share a row, the sum of their x. */
static __device__ inline double row_sum(double x)
{
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

/* Solves rows of up to 16 GROUPS columns: multiplies them by w, the matrix of the update.
 *
 *   launch  any number of thread blocks; a warp takes 8 rows, then the 8 rows `step` rows later,
 *           ...
 *   list    (n) the rows, each once, or NULL: 0 .. n - 1. No other kernel uses them meanwhile
 *
 * Each warp holds all of w in registers and loads rows AHEAD rounds before they are needed. So
 * warps wait for memory only: there is no shared memory and no barrier. */
template <class T, class A, int GROUPS, bool INNER>
static __global__ void __launch_bounds__(THREADS, GROUPS == 1 ? 4 : 2)
    solve_narrow(const T *m, A *a, const uint32_t *list, uint64_t n, uint32_t ld, const double *w,
                 double *row_inner)
{
    constexpr int AHEAD = sizeof(T) == 4 ? 2 : 1; /* as many rounds ahead as registers allow */
    const uint32_t lane = threadIdx.x % 32, i = lane / 4, j = lane % 4;
    const uint64_t first = (blockIdx.x * (uint64_t)(THREADS / 32) + threadIdx.x / 32) * 8;
    const uint64_t step = gridDim.x * (uint64_t)(THREADS / 32) * 8;
    double b[GROUPS][4][GROUPS][2];
    quad<T> x[AHEAD][GROUPS];
    uint32_t row[AHEAD];

    /* Rows past the end load row n - 1 (never stored); columns past the end load the last four (w
     * is zero there). */
    auto fetch = [&](uint64_t at, int slot) {
        at = min(at, n - 1);
        row[slot] = list != NULL ? list[at] : (uint32_t)at;
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            x[slot][g] = load4(m + (uint64_t)row[slot] * ld + min(16 * g + 4 * j, ld - 4));
    };

    if (first >= n)
        return;
#pragma unroll
    for (int slot = 0; slot < AHEAD; slot++)
        fetch(first + slot * step + i, slot);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int h = 0; h < GROUPS; h++)
                load_right(w, ld, 16 * g + 4 * j + s, 16 * h + 2 * i, b[g][s][h]);
#pragma unroll
    for (int k = 0; k < GROUPS * 4 * GROUPS * 2; k++)
        /* keeps w in registers as float64: the compiler would convert it at each use */
        asm volatile("" : "+d"((&b[0][0][0][0])[k]));

    for (uint64_t base = first; base < n; base += AHEAD * step) {
#pragma unroll
        for (int slot = 0; slot < AHEAD; slot++) {
            const uint64_t at = base + slot * step + i;
            double d[GROUPS][2][2] = {}, inner = 0;
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
#pragma unroll
                for (int s = 0; s < 4; s++)
#pragma unroll
                    for (int h = 0; h < GROUPS; h++)
#pragma unroll
                        for (int u = 0; u < 2; u++)
                            multiply_add(d[h][u], (double)x[slot][g].v[s], b[g][s][h][u]);
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                const quad<A> after = round4<A>(d[g]);
                if (at < n && 16 * g + 4 * j < ld)
                    store4(a + (uint64_t)row[slot] * ld + 16 * g + 4 * j, after);
                if (INNER) /* entries past the last column are zero */
                    inner = dot4(x[slot][g], after, inner);
            }
            if (INNER) {
                inner = row_sum(inner);
                if (at < n && j == 0)
                    row_inner[row[slot]] = inner;
            }
            fetch(at + AHEAD * step, slot);
        }
    }
}

/* Solves rows of any length: multiplies them by w, the matrix of the update.
 *
 *   launch  one thread block for each `tile_rows` of the n rows, 8 M or a multiple of it
 *   shared  the old rows, `stride` elements apart; with INNER also (tile_rows, ceil(ld / 32)) parts
 *           of inner products of old and new rows
 *
 * A warp computes 8 M rows x 32 columns at a time. It reads w through the caches and uses each
 * operand from w in M products. */
template <class T, class A, int M, bool INNER>
static __global__ void __launch_bounds__(THREADS, 2)
    solve_wide(const T *before, A *a, const uint32_t *list, uint64_t n, uint32_t ld,
               const double *w, uint32_t tile_rows, uint32_t stride, double *row_inner)
{
    extern __shared__ uint4 shared[];
    T *const tile = (T *)shared;
    double *const sums = (double *)(tile + (size_t)tile_rows * stride);
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = lane / 4, j = lane % 4;
    const uint32_t quads = (ld + 15) / 16 * 4, chunks = (ld + 31) / 32;
    const uint64_t first = blockIdx.x * (uint64_t)tile_rows;
    const uint32_t n_here = (uint32_t)min((uint64_t)tile_rows, n - first);

    auto place = [&](uint32_t r) { return list != NULL ? list[first + r] : first + r; };

#pragma unroll 4
    for (uint32_t at = threadIdx.x; at < tile_rows * quads; at += THREADS) {
        const uint32_t r = at / quads, column = at % quads * 4;
        quad<T> x = { { 0, 0, 0, 0 } };
        if (r < n_here && column < ld)
            x = load4(before + place(r) * ld + column);
        store4(tile + r * stride + column, x);
    }
    __syncthreads();

    for (uint32_t item = warp; item < tile_rows / (8 * M) * chunks; item += THREADS / 32) {
        const uint32_t top = item / chunks * 8 * M, chunk = item % chunks;
        double d[M][2][2][2] = {};
        for (uint32_t k = 0; k < ld; k += 16) {
            quad<T> x[M];
#pragma unroll
            for (int m = 0; m < M; m++)
                x[m] = load4(tile + (top + 8 * m + i) * stride + k + 4 * j);
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    double b[2];
                    load_right(w, ld, k + 4 * j + s, 32 * chunk + 16 * h + 2 * i, b);
#pragma unroll
                    for (int m = 0; m < M; m++)
#pragma unroll
                        for (int u = 0; u < 2; u++)
                            multiply_add(d[m][h][u], (double)x[m].v[s], b[u]);
                }
        }
#pragma unroll
        for (int m = 0; m < M; m++) {
            const uint32_t r = top + 8 * m + i;
            double inner = 0;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint32_t column = 32 * chunk + 16 * h + 4 * j;
                const quad<A> after = round4<A>(d[m][h]);
                if (column >= ld)
                    continue;
                if (r < n_here)
                    store4(a + place(r) * ld + column, after);
                if (INNER)
                    inner = dot4(load4(tile + r * stride + column), after, inner);
            }
            if (INNER) {
                inner = row_sum(inner);
                if (j == 0)
                    sums[r * chunks + chunk] = inner;
            }
        }
    }
    if (INNER) {
        __syncthreads();
        for (uint32_t r = threadIdx.x; r < n_here; r += THREADS) {
            double inner = 0;
            for (uint32_t c = 0; c < chunks; c++)
                inner += sums[r * chunks + c];
            row_inner[place(r)] = inner;
        }
    }
}

template <class T, class A, int GROUPS>
static cudaError_t launch_narrow(const T *m, A *a, const uint32_t *list, uint64_t n, uint32_t ld,
                                 const double *w, double *row_inner, cudaStream_t s)
{
    const uint64_t blocks = (n + THREADS / 4 - 1) / (THREADS / 4);
    /* thread blocks that run at the same time */
    const uint32_t most = GROUPS == 1 ? CHUNKS : CHUNKS / 2;
    const uint32_t grid = (uint32_t)(blocks < most ? blocks : most);
    if (row_inner != NULL)
        solve_narrow<T, A, GROUPS, true><<<grid, THREADS, 0, s>>>(m, a, list, n, ld, w, row_inner);
    else
        solve_narrow<T, A, GROUPS, false><<<grid, THREADS, 0, s>>>(m, a, list, n, ld, w, NULL);
    return cudaGetLastError();
}

/* Returns the elements between the starts of neighbouring rows in shared memory. Eight lanes load
 * vectors at once, 4 from each of two rows; with this stride they all use different banks. */
template <class T> static uint32_t tile_stride(uint32_t ld)
{
    const uint32_t padded = (ld + 15) / 16 * 16;
    if (sizeof(T) == 8)
        return padded + 2;
    return padded % 32 == 16 ? padded : padded + 16;
}

/* Returns the bytes of shared memory of a thread block that solves tile_rows rows. */
template <class T, bool INNER> static uint64_t wide_bytes(uint32_t tile_rows, uint32_t ld)
{
    const uint64_t sums = INNER ? (uint64_t)tile_rows * ((ld + 31) / 32) * sizeof(double) : 0;
    return (uint64_t)tile_rows * tile_stride<T>(ld) * sizeof(T) + sums;
}

uint32_t ts_dense_most(int device)
{
    uint32_t ld = MOST_COLUMNS;
    int most = 0;
    if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
        cudaSuccess)
        return ld; /* ld is returned on an error, which the next CUDA call reports */
    while (ld > 0 && wide_bytes<double, true>(8, ld) > (uint64_t)most)
        ld -= 16;
    return ld;
}

template <class T, class A, int M, bool INNER>
static cudaError_t launch_wide(const T *before, A *a, const uint32_t *list, uint64_t n, uint32_t ld,
                               const double *w, uint32_t tile_rows, uint32_t stride,
                               double *row_inner, cudaStream_t s)
{
    const uint64_t bytes = wide_bytes<T, INNER>(tile_rows, ld);
    const cudaError_t rc = cudaFuncSetAttribute(
        solve_wide<T, A, M, INNER>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (rc != cudaSuccess)
        return rc;
    solve_wide<T, A, M, INNER><<<(uint32_t)((n + tile_rows - 1) / tile_rows), THREADS, bytes, s>>>(
        before, a, list, n, ld, w, tile_rows, stride, row_inner);
    return cudaGetLastError();
}

template <class T, class A>
static cudaError_t solve_list(const T *m, A *a, const uint32_t *list, uint64_t n, uint32_t ld,
                              const double *w, double *row_inner, cudaStream_t s)
{
    const uint32_t stride = tile_stride<T>(ld);
    uint32_t tile_rows = 128;
    if (n == 0)
        return cudaSuccess;
    if (ld <= 16)
        return launch_narrow<T, A, 1>(m, a, list, n, ld, w, row_inner, s);
    if (ld <= 32)
        return launch_narrow<T, A, 2>(m, a, list, n, ld, w, row_inner, s);
    /* two thread blocks fit on a multiprocessor; with few rows every multiprocessor gets some */
    while (tile_rows > 8 && (uint64_t)tile_rows * stride * sizeof(T) > 80 * 1024)
        tile_rows /= 2;
    while (tile_rows > 32 && n / tile_rows < CHUNKS / 2)
        tile_rows /= 2;
    if (tile_rows >= 32)
        return row_inner != NULL
                   ? launch_wide<T, A, 4, true>(m, a, list, n, ld, w, tile_rows, stride, row_inner,
                                                s)
                   : launch_wide<T, A, 4, false>(m, a, list, n, ld, w, tile_rows, stride, NULL, s);
    return row_inner != NULL
               ? launch_wide<T, A, 1, true>(m, a, list, n, ld, w, tile_rows, stride, row_inner, s)
               : launch_wide<T, A, 1, false>(m, a, list, n, ld, w, tile_rows, stride, NULL, s);
}

ts_gpu_error ts_dense_solve_rows(enum ts_precision precision, void *a, const uint32_t *list,
                                 uint64_t n, uint32_t ld, const double *w, double *row_inner,
                                 ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    return precision == TS_FLOAT32
               ? solve_list((const float *)a, (float *)a, list, n, ld, w, row_inner, s)
               : solve_list((const double *)a, (double *)a, list, n, ld, w, row_inner, s);
}

ts_gpu_error ts_dense_solve_products(const double *m, float *a, const uint32_t *list, uint64_t n,
                                     uint32_t ld, const double *w, double *row_inner,
                                     ts_gpu_stream stream)
{
    return solve_list(m, a, list, n, ld, w, row_inner, stream);
}

/* --------------------------------------------------------------- scaling and conversion of rows */

template <class T>
static __device__ inline void scale_elements(T *a, uint64_t n, uint32_t ld, const double *s)
{
    const uint64_t step = 4 * (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = 4 * (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x); i < n; i += step) {
        quad<T> x = load4(a + i);
        const quad<double> f = load4(s + i % ld);
#pragma unroll
        for (int k = 0; k < 4; k++)
            x.v[k] = (T)(x.v[k] * f.v[k]);
        store4(a + i, x);
    }
}

template <class T>
static __global__ void scale_columns(T *a, uint64_t n, uint32_t ld, const double *s)
{
    scale_elements(a, n, ld, s);
}

/* Scales that are passed as an argument of the kernel. */
struct scales {
    double of[TS_DENSE_BY_VALUE];
};

template <class T>
static __global__ void __launch_bounds__(THREADS)
    scale_by(T *a, uint64_t n, uint32_t ld, const __grid_constant__ struct scales given)
{
    __shared__ __align__(16) double s[TS_DENSE_BY_VALUE];
    if (threadIdx.x < TS_DENSE_BY_VALUE)
        s[threadIdx.x] = given.of[threadIdx.x];
    __syncthreads();
    scale_elements(a, n, ld, s);
}

/* Returns the number of thread blocks for n elements; a thread takes four at once. */
static unsigned scale_grid(uint64_t n)
{
    const uint64_t blocks = (n / 4 + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 8 * CHUNKS ? blocks : 8 * CHUNKS);
}

ts_gpu_error ts_dense_scale_by(enum ts_precision precision, void *a, uint64_t n_rows, uint32_t ld,
                               const double *s, uint32_t rank, ts_gpu_stream stream)
{
    const uint64_t n = n_rows * ld;
    struct scales given = {};
    static_assert(TS_DENSE_BY_VALUE <= THREADS, "a thread for each");
    for (uint32_t r = 0; r < rank; r++)
        given.of[r] = s[r];
    if (precision == TS_FLOAT32)
        scale_by<<<scale_grid(n), THREADS, 0, stream>>>((float *)a, n, ld, given);
    else
        scale_by<<<scale_grid(n), THREADS, 0, stream>>>((double *)a, n, ld, given);
    return cudaGetLastError();
}

ts_gpu_error ts_dense_scale(enum ts_precision precision, void *a, uint64_t n_rows, uint32_t ld,
                            const double *s, ts_gpu_stream stream)
{
    const cudaStream_t st = stream;
    const uint64_t n = n_rows * ld;
    const unsigned grid = scale_grid(n);
    if (precision == TS_FLOAT32)
        scale_columns<<<grid, THREADS, 0, st>>>((float *)a, n, ld, s);
    else
        scale_columns<<<grid, THREADS, 0, st>>>((double *)a, n, ld, s);
    return cudaGetLastError();
}

template <class T>
static __global__ void put_rows(T *a, uint64_t n, uint32_t ld, uint32_t rank, const double *rows)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n * ld; i += step)
        a[i] = i % ld < rank ? (T)rows[i / ld * rank + i % ld] : (T)0;
}

template <class T>
static __global__ void get_rows(const T *a, uint64_t n, uint32_t ld, uint32_t rank, double *rows)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n * rank; i += step)
        rows[i] = a[i / rank * ld + i % rank];
}

ts_gpu_error ts_dense_put(enum ts_precision precision, void *a, uint64_t n, uint32_t ld,
                          uint32_t rank, const double *rows, ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    if (precision == TS_FLOAT32)
        put_rows<<<CHUNKS, THREADS, 0, s>>>((float *)a, n, ld, rank, rows);
    else
        put_rows<<<CHUNKS, THREADS, 0, s>>>((double *)a, n, ld, rank, rows);
    return cudaGetLastError();
}

ts_gpu_error ts_dense_get(enum ts_precision precision, const void *a, uint64_t n, uint32_t ld,
                          uint32_t rank, double *rows, ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    if (precision == TS_FLOAT32)
        get_rows<<<CHUNKS, THREADS, 0, s>>>((const float *)a, n, ld, rank, rows);
    else
        get_rows<<<CHUNKS, THREADS, 0, s>>>((const double *)a, n, ld, rank, rows);
    return cudaGetLastError();
}

static __global__ void copy(uint4 *to, const uint4 *from, uint64_t n)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n; i += step)
        to[i] = from[i];
}

ts_gpu_error ts_dense_copy(void *to, const void *from, uint64_t bytes, ts_gpu_stream stream)
{
    const uint64_t n = bytes / 16, blocks = (n + THREADS - 1) / THREADS, most = CHUNKS;
    if (n > 0)
        copy<<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, stream>>>(
            (uint4 *)to, (const uint4 *)from, n);
    return cudaGetLastError();
}
