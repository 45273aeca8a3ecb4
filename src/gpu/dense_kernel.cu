#define _Static_assert static_assert /* layout.h is C */
#include "gpu/dense_kernel.h"

#include <cuda_runtime.h>

/* Thread blocks of a sum over rows: what 132 multiprocessors hold at a time, and constants, because
 * the order of the sum follows from them. */
enum { CHUNKS = 528, GRAM_CHUNKS = 396, THREADS = 256, TILE = 32, GRAM_ROWS = 128 };

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
    uint32_t chunks = GRAM_CHUNKS / tile_pairs(ld);
    if (chunks < 8)
        chunks = 8;
    return tiles < chunks ? (uint32_t)(tiles > 0 ? tiles : 1) : chunks;
}

uint64_t ts_dense_scratch(uint32_t ld)
{
    const uint64_t gram = (uint64_t)gram_chunks(ld, UINT64_MAX / 2) * tile_pairs(ld) * TILE * TILE;
    return gram > 2 * CHUNKS ? gram : 2 * CHUNKS;
}

/* d += a b on the tensor cores, float64: a is 8 x 4, b 4 x 8, d 8 x 8. Lane L holds a(L / 4, L % 4),
 * b(L % 4, L / 4) and d(L / 4, 2 (L % 4) + 0..1). */
static __device__ inline void multiply_add(double (&d)[2], double a, double b)
{
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(d[0]), "+d"(d[1])
        : "d"(a), "d"(b));
}

/* part[chunk][pair](i, j) = sum over the chunk's rows of a(row, 32 ti + i) a(row, 32 tj + j)
 *
 *   launch  grid (chunks, pairs of column tiles ti <= tj), 8 warps each
 *   shared  32 x 32 sums, to which the warps add theirs one after another
 *
 * A warp takes 4 rows at a time. A lane's element of them, a(row L % 4, column L / 4), is its part of
 * both operands: of the transposed one on the left and of the one on the right. So each element is
 * read from memory once for 32 columns, by requests of whole sectors, and never shuffled. */
template <class T, bool SAME>
static __global__ void __launch_bounds__(THREADS) gram_tiles(const T *a, uint64_t n_rows,
                                                             uint32_t ld, double *part)
{
    __shared__ double total[TILE][TILE];
    constexpr int STEP = 4; /* groups of 4 rows whose loads are under way together */
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_tiles = (ld + TILE - 1) / TILE;
    uint32_t ti = 0, tj = SAME ? 0 : blockIdx.y;
    if (SAME)
        ti = tj = blockIdx.y;
    else {
        while (tj >= n_tiles - 1 - ti) {
            tj -= n_tiles - 1 - ti;
            ti++;
        }
        tj += ti + 1;
    }
    double sum[4][4][2] = {};
    const uint64_t stride = (uint64_t)gridDim.x * (THREADS / 32) * 4 * STEP;
    for (uint64_t first = (blockIdx.x * (uint64_t)(THREADS / 32) + warp) * 4 * STEP; first < n_rows;
         first += stride) {
        T x[STEP][4], y[STEP][4];
#pragma unroll
        for (int s = 0; s < STEP; s++) {
            const uint64_t row = first + 4 * s + lane % 4;
#pragma unroll
            for (int t = 0; t < 4; t++) {
                const uint32_t i = ti * TILE + 8 * t + lane / 4, j = tj * TILE + 8 * t + lane / 4;
                x[s][t] = row < n_rows && i < ld ? __ldg(a + row * ld + i) : (T)0;
                y[s][t] = SAME ? x[s][t] : row < n_rows && j < ld ? __ldg(a + row * ld + j) : (T)0;
            }
        }
#pragma unroll
        for (int s = 0; s < STEP; s++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = SAME ? i : 0; j < 4; j++)
                    multiply_add(sum[i][j], (double)x[s][i], (double)y[s][j]);
    }
    for (uint32_t w = 0; w < THREADS / 32; w++) {
        __syncthreads();
        if (warp != w)
            continue;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    double *to = &total[8 * i + lane / 4][8 * j + 2 * (lane % 4) + k];
                    *to = w == 0 ? sum[i][j][k] : *to + sum[i][j][k];
                }
    }
    __syncthreads();
    const uint32_t pair = ti * n_tiles - ti * (ti + 1) / 2 + tj; /* counted row by row, ti <= tj */
    double *const out =
        part + ((uint64_t)blockIdx.x * (n_tiles * (n_tiles + 1) / 2) + pair) * TILE * TILE;
    for (uint32_t i = threadIdx.x; i < TILE * TILE; i += THREADS)
        out[i] = total[i / TILE][i % TILE];
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

template <class T>
static int gram_of(const T *a, uint64_t n_rows, uint32_t ld, double *scratch, double *gram,
                   cudaStream_t s)
{
    const uint32_t pairs = tile_pairs(ld), chunks = gram_chunks(ld, n_rows), tiles = tiles_of(ld);
    gram_tiles<T, true><<<dim3(chunks, tiles), THREADS, 0, s>>>(a, n_rows, ld, scratch);
    if (pairs > tiles)
        gram_tiles<T, false><<<dim3(chunks, pairs - tiles), THREADS, 0, s>>>(a, n_rows, ld, scratch);
    gram_finish<<<pairs * TILE * TILE / 8, 256, 0, s>>>(scratch, chunks, pairs, ld, gram);
    return cudaGetLastError();
}

int ts_dense_gram(enum ts_precision precision, const void *a, uint64_t n_rows, uint32_t ld,
                  double *scratch, double *gram, void *stream)
{
    cudaStream_t s = (cudaStream_t)stream;
    return precision == TS_FLOAT32 ? gram_of((const float *)a, n_rows, ld, scratch, gram, s)
                                   : gram_of((const double *)a, n_rows, ld, scratch, gram, s);
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
