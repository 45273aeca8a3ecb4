#define _Static_assert static_assert /* layout.h is C */
#include "gpu/dense_kernel.h"

#include <cuda_runtime.h>

/* Thread blocks of a sum over rows: enough to fill any GPU, and a constant, because the order of the
 * sum follows from it. */
enum { CHUNKS = 528, THREADS = 256, TILE = 32, GRAM_ROWS = 64 };

/* ------------------------------------------------------------------ a := a w */

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

/* Sum of x over the thread block, the same order each time; the result is thread 0's. */
static __device__ double block_sum(double x, double *shared)
{
    __syncthreads();
    shared[threadIdx.x] = x;
    for (int d = THREADS / 2; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d)
            shared[threadIdx.x] += shared[threadIdx.x + d];
    }
    return shared[0];
}

/* a(i, c) := sum_k a(i, k) w(k, c);  part[block] := sum of a before .* a after
 *
 *   launch  up to CHUNKS thread blocks, each with every gridDim.x-th tile of `tile_rows` rows
 *   shared  the tile before, rows ld + 4 elements apart; nobody else reads or writes its rows
 *
 * A thread computes 4 rows x 4 columns: per 4 k, 4 vector loads of each operand for 64 products. */
template <class T>
static __global__ void __launch_bounds__(THREADS) solve_rows(T *a, uint64_t n_rows, uint32_t ld,
                                                             const T *w, uint32_t tile_rows,
                                                             double *part)
{
    extern __shared__ uint4 shared[];
    double *const sums = (double *)shared;
    T *const tile = (T *)(sums + THREADS);
    const uint32_t stride = ld + 4, quads = ld / 4;
    double inner = 0;
    for (uint64_t t = blockIdx.x; t * tile_rows < n_rows; t += gridDim.x) {
        T *const rows = a + t * tile_rows * ld;
        const uint32_t n = (uint32_t)min((uint64_t)tile_rows, n_rows - t * tile_rows);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < tile_rows * quads; i += THREADS) {
            const uint32_t row = i / quads, q = i % quads;
            quad<T> x = { { 0, 0, 0, 0 } };
            if (row < n)
                x = load4(rows + (uint64_t)row * ld + 4 * q);
            store4(tile + row * stride + 4 * q, x);
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < tile_rows / 4 * quads; i += THREADS) {
            const uint32_t row = i / quads * 4, column = i % quads * 4;
            quad<T> sum[4] = {};
            for (uint32_t k = 0; k < ld; k += 4) {
                quad<T> x[4], y[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    x[j] = load4(tile + (row + j) * stride + k);
                    y[j] = load4(w + (uint64_t)(k + j) * ld + column);
                }
#pragma unroll
                for (int r = 0; r < 4; r++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
#pragma unroll
                        for (int c = 0; c < 4; c++)
                            sum[r].v[c] += x[r].v[j] * y[j].v[c];
            }
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const quad<T> before = load4(tile + (row + r) * stride + column);
                if (row + r < n)
                    store4(rows + (uint64_t)(row + r) * ld + column, sum[r]);
#pragma unroll
                for (int c = 0; c < 4; c++)
                    inner += (double)before.v[c] * (double)sum[r].v[c];
            }
        }
    }
    inner = block_sum(inner, sums);
    if (threadIdx.x == 0)
        part[blockIdx.x] = inner;
}

/* out[i] = sum of part[k * n + i] over k < n_parts; a warp per element, lanes in a fixed tree */
static __global__ void add_parts(const double *part, uint32_t n_parts, uint32_t n, double *out)
{
    const uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    double sum = 0;
    if (i >= n)
        return;
    for (uint32_t k = lane; k < n_parts; k += 32)
        sum += part[(uint64_t)k * n + i];
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0)
        out[i] = sum;
}

template <class T>
static int solve(T *a, uint64_t n_rows, uint32_t ld, const T *w, double *scratch, double *inner,
                 cudaStream_t s)
{
    uint32_t tile_rows = 128;
    size_t bytes;
    uint64_t tiles;
    unsigned blocks;
    while (tile_rows > 8 && tile_rows * (ld + 4) * sizeof(T) > 40000)
        tile_rows /= 2;
    bytes = THREADS * sizeof(double) + (size_t)tile_rows * (ld + 4) * sizeof(T);
    tiles = (n_rows + tile_rows - 1) / tile_rows;
    blocks = (unsigned)(tiles < 2 * CHUNKS ? tiles : 2 * CHUNKS);
    if (bytes > 48 * 1024) {
        const cudaError_t rc = cudaFuncSetAttribute(
            solve_rows<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (rc != cudaSuccess)
            return rc;
    }
    solve_rows<T><<<blocks, THREADS, bytes, s>>>(a, n_rows, ld, w, tile_rows, scratch);
    add_parts<<<1, 32, 0, s>>>(scratch, blocks, 1, inner);
    return cudaGetLastError();
}

int ts_dense_solve(enum ts_precision precision, void *a, uint64_t n_rows, uint32_t ld,
                   const void *w, double *scratch, double *inner, void *stream)
{
    cudaStream_t s = (cudaStream_t)stream;
    return precision == TS_FLOAT32
               ? solve((float *)a, n_rows, ld, (const float *)w, scratch, inner, s)
               : solve((double *)a, n_rows, ld, (const double *)w, scratch, inner, s);
}

/* ------------------------------------------------------------------ gram */

static uint32_t tiles_of(uint32_t ld)
{
    return (ld + TILE - 1) / TILE;
}

static uint32_t tile_pairs(uint32_t ld)
{
    return tiles_of(ld) * (tiles_of(ld) + 1) / 2;
}

/* Thread blocks that share the rows, for each pair of column tiles. */
static uint32_t gram_chunks(uint32_t ld, uint64_t n_rows)
{
    const uint64_t tiles = (n_rows + GRAM_ROWS - 1) / GRAM_ROWS;
    uint32_t chunks = CHUNKS / tile_pairs(ld);
    if (chunks < 8)
        chunks = 8;
    return tiles < chunks ? (uint32_t)(tiles > 0 ? tiles : 1) : chunks;
}

uint64_t ts_dense_scratch(uint32_t ld)
{
    const uint64_t gram = (uint64_t)gram_chunks(ld, UINT64_MAX / 2) * tile_pairs(ld) * TILE * TILE;
    return gram > 2 * CHUNKS ? gram : 2 * CHUNKS;
}

/* The n-th of the 36 pairs (y, x) with y <= x < 8. */
static __device__ inline void upper_pair(uint32_t n, uint32_t *y, uint32_t *x)
{
    uint32_t row = 0, left = 8;
    while (n >= left) {
        n -= left--;
        row++;
    }
    *y = row;
    *x = row + n;
}

/* part[chunk][pair](i, j) = sum over the chunk's rows of a(row, 32 ti + i) a(row, 32 tj + j)
 *
 *   launch  grid (chunks, pairs of column tiles ti <= tj)
 *   shared  64 rows of both column tiles as float64, then the sums
 *
 * A thread sums a 4 x 4 corner over every g-th row: 36 corners x 7 row groups when the tiles are the
 * same (only the upper half is wanted), else 64 x 4. Row groups are added in order at the end. */
template <class T>
static __global__ void __launch_bounds__(THREADS) gram_tiles(const T *a, uint64_t n_rows,
                                                             uint32_t ld, double *part)
{
    __shared__ __align__(16) double rows[2][GRAM_ROWS][TILE];
    const uint64_t tiles = (n_rows + GRAM_ROWS - 1) / GRAM_ROWS;
    uint32_t ti = 0, tj = blockIdx.y, n_tiles = (ld + TILE - 1) / TILE, corner, group, y, x;
    while (tj >= n_tiles - ti) {
        tj -= n_tiles - ti;
        ti++;
    }
    tj += ti;
    const bool same = ti == tj;
    const uint32_t n_corners = same ? 36 : 64, n_groups = same ? 7 : 4;
    corner = threadIdx.x % n_corners;
    group = threadIdx.x / n_corners;
    if (same)
        upper_pair(corner, &y, &x);
    else {
        y = corner / 8;
        x = corner % 8;
    }
    double sum[4][4] = {};
    for (uint64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        __syncthreads();
        for (int half = 0; half < (same ? 1 : 2); half++)
            for (uint32_t i = threadIdx.x; i < GRAM_ROWS * TILE / 4; i += THREADS) {
                const uint32_t row = i / (TILE / 4), c = i % (TILE / 4) * 4;
                const uint32_t column = (half == 0 ? ti : tj) * TILE + c;
                quad<T> v = { { 0, 0, 0, 0 } };
                if (t * GRAM_ROWS + row < n_rows && column < ld)
                    v = load4(a + (t * GRAM_ROWS + row) * ld + column);
                store4(&rows[half][row][c],
                       quad<double>{ { (double)v.v[0], (double)v.v[1], (double)v.v[2],
                                       (double)v.v[3] } });
            }
        __syncthreads();
        if (group < n_groups) {
            const double(*other)[TILE] = rows[same ? 0 : 1];
#pragma unroll 2
            for (uint32_t row = group; row < GRAM_ROWS; row += n_groups) {
                const quad<double> u = load4(&rows[0][row][4 * y]), v = load4(&other[row][4 * x]);
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        sum[i][j] += u.v[i] * v.v[j];
            }
        }
    }
    double *const total = &rows[0][0][0]; /* TILE x TILE */
    for (uint32_t g = 0; g < n_groups; g++) {
        __syncthreads();
        if (group == g)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) {
                    double *to = total + (4 * y + i) * TILE + 4 * x + j;
                    *to = g == 0 ? sum[i][j] : *to + sum[i][j];
                }
    }
    __syncthreads();
    double *const out = part + ((uint64_t)blockIdx.x * gridDim.y + blockIdx.y) * TILE * TILE;
    for (uint32_t i = threadIdx.x; i < TILE * TILE; i += THREADS) {
        const uint32_t r = i / TILE, c = i % TILE; /* below the diagonal: nothing was computed */
        out[i] = same && r / 4 > c / 4 ? 0 : total[i];
    }
}

/* Adds the chunks up and mirrors: a warp per element of the upper half. */
static __global__ void gram_finish(const double *part, uint32_t chunks, uint32_t n_pairs,
                                   uint32_t ld, double *gram)
{
    const uint32_t at = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const uint32_t pair = at / (TILE * TILE), i = at % (TILE * TILE) / TILE, j = at % TILE;
    uint32_t ti = 0, tj = pair, n_tiles = (ld + TILE - 1) / TILE;
    double sum = 0;
    if (pair >= n_pairs)
        return;
    while (tj >= n_tiles - ti) {
        tj -= n_tiles - ti;
        ti++;
    }
    tj += ti;
    const uint32_t row = ti * TILE + i, column = tj * TILE + j;
    if (row > column || column >= ld)
        return;
    for (uint32_t k = lane; k < chunks; k += 32)
        sum += part[((uint64_t)k * n_pairs + pair) * TILE * TILE + i * TILE + j];
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0) {
        gram[(uint64_t)row * ld + column] = sum;
        gram[(uint64_t)column * ld + row] = sum;
    }
}

int ts_dense_gram(enum ts_precision precision, const void *a, uint64_t n_rows, uint32_t ld,
                  double *scratch, double *gram, void *stream)
{
    cudaStream_t s = (cudaStream_t)stream;
    const uint32_t pairs = tile_pairs(ld), chunks = gram_chunks(ld, n_rows);
    const dim3 grid(chunks, pairs);
    if (precision == TS_FLOAT32)
        gram_tiles<float><<<grid, THREADS, 0, s>>>((const float *)a, n_rows, ld, scratch);
    else
        gram_tiles<double><<<grid, THREADS, 0, s>>>((const double *)a, n_rows, ld, scratch);
    gram_finish<<<pairs * TILE * TILE / 8, 256, 0, s>>>(scratch, chunks, pairs, ld, gram);
    return cudaGetLastError();
}

/* ------------------------------------------------------------------ element by element */

template <class T>
static __global__ void scale_columns(T *a, uint64_t n, uint32_t ld, const T *s)
{
    const uint64_t step = 4 * (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = 4 * (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x); i < n; i += step) {
        quad<T> x = load4(a + i);
        const quad<T> f = load4(s + i % ld);
#pragma unroll
        for (int k = 0; k < 4; k++)
            x.v[k] *= f.v[k];
        store4(a + i, x);
    }
}

int ts_dense_scale(enum ts_precision precision, void *a, uint64_t n_rows, uint32_t ld,
                   const void *s, void *stream)
{
    cudaStream_t st = (cudaStream_t)stream;
    const uint64_t n = n_rows * ld, blocks = (n / 4 + THREADS - 1) / THREADS;
    const unsigned grid = (unsigned)(blocks < 8 * CHUNKS ? blocks : 8 * CHUNKS);
    if (precision == TS_FLOAT32)
        scale_columns<<<grid, THREADS, 0, st>>>((float *)a, n, ld, (const float *)s);
    else
        scale_columns<<<grid, THREADS, 0, st>>>((double *)a, n, ld, (const double *)s);
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

int ts_dense_put(enum ts_precision precision, void *a, uint64_t n, uint32_t ld, uint32_t rank,
                 const double *rows, void *stream)
{
    cudaStream_t s = (cudaStream_t)stream;
    if (precision == TS_FLOAT32)
        put_rows<<<CHUNKS, THREADS, 0, s>>>((float *)a, n, ld, rank, rows);
    else
        put_rows<<<CHUNKS, THREADS, 0, s>>>((double *)a, n, ld, rank, rows);
    return cudaGetLastError();
}

int ts_dense_get(enum ts_precision precision, const void *a, uint64_t n, uint32_t ld,
                 uint32_t rank, double *rows, void *stream)
{
    cudaStream_t s = (cudaStream_t)stream;
    if (precision == TS_FLOAT32)
        get_rows<<<CHUNKS, THREADS, 0, s>>>((const float *)a, n, ld, rank, rows);
    else
        get_rows<<<CHUNKS, THREADS, 0, s>>>((const double *)a, n, ld, rank, rows);
    return cudaGetLastError();
}
