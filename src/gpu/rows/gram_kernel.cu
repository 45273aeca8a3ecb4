/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds up one number per row, and computes Gram matrices, over all rows of a factor on a GPU. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/rows/dense_kernel.h"

#include <cuda_runtime.h>

#include "gpu/rows/tensor_core.cuh"

/* CHUNKS, GRAM_PARTS: thread blocks of a sum, as many as 132 multiprocessors run at the same time.
 * They are constants because the order of a sum depends on them. */
enum { CHUNKS = 528, GRAM_PARTS = 396, THREADS = 256, TILE = 32, GRAM_ROWS = 128 };

/* Returns the sum of x over the thread block, always in the same order. Thread 0 gets the
 * result. */
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

/* ------------------------------------------------------------------ sum of one number per row */

/* part[block] := sum of x[i] over the threads of a thread block; thread t of the grid adds x[t],
 * x[t + n_threads], ... */
static __global__ void __launch_bounds__(THREADS)
    sum_parts(const double *x, uint64_t n, double *part)
{
    __shared__ double shared[THREADS];
    const uint64_t step = (uint64_t)gridDim.x * THREADS;
    double sum = 0;
#pragma unroll 8
    for (uint64_t i = blockIdx.x * (uint64_t)THREADS + threadIdx.x; i < n; i += step)
        sum += x[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

/* *sum := the sum of the parts (sums of thread blocks). One warp, whose lanes add in a fixed
 * tree. */
static __global__ void add_parts(const double *part, uint32_t n_parts, double *sum)
{
    double x = 0;
    for (uint32_t k = threadIdx.x; k < n_parts; k += 32)
        x += part[k];
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_down_sync(0xffffffff, x, d);
    if (threadIdx.x == 0)
        *sum = x;
}

ts_gpu_error ts_dense_sum(const double *x, uint64_t n, double *scratch, double *sum,
                          ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    const uint64_t blocks = (n + THREADS - 1) / THREADS;
    const uint32_t parts = blocks < CHUNKS ? (uint32_t)blocks : (uint32_t)CHUNKS;
    static_assert(CHUNKS <= TS_DENSE_SUM_SCRATCH, "a part for each thread block");
    if (parts > 0)
        sum_parts<<<parts, THREADS, 0, s>>>(x, n, scratch);
    add_parts<<<1, 32, 0, s>>>(scratch, parts, sum);
    return cudaGetLastError();
}

/* ------------------------------------------------------------------ Gram matrix of a factor */

static uint32_t tiles_of(uint32_t ld)
{
    return (ld + TILE - 1) / TILE;
}

static uint32_t tile_pairs(uint32_t ld)
{
    return tiles_of(ld) * (tiles_of(ld) + 1) / 2;
}

/* Returns the number of parts of a Gram matrix (sums over some of the rows). Each part and pair of
 * column tiles has one thread block. */
uint32_t ts_dense_gram_parts(uint32_t ld, uint64_t n_rows)
{
    const uint64_t tiles = (n_rows + GRAM_ROWS - 1) / GRAM_ROWS;
    uint32_t parts = GRAM_PARTS / tile_pairs(ld);
    if (parts < 8)
        parts = 8;
    return tiles < parts ? (uint32_t)(tiles > 0 ? tiles : 1) : parts;
}

uint64_t ts_dense_part_elements(uint32_t ld)
{
    return (uint64_t)tile_pairs(ld) * TILE * TILE;
}

uint64_t ts_dense_scratch(uint32_t ld)
{
    return ts_dense_gram_parts(ld, UINT64_MAX / 2) * ts_dense_part_elements(ld);
}

/* part[p][pair](i, j) = sum over the part's rows of a(row, 32 ti + i) a(row, 32 tj + j), where a is
 * the factor and the pair consists of column tiles ti and tj
 *
 *   launch  grid (parts from first_part on, pairs of column tiles ti <= tj), 8 warps each
 *   shared  32 x 32 sums, to which the warps add theirs one after another
 *
 * Of each group of n_parts times 128 rows, part p has the 128 rows from 128 p on.
 *
 * A warp takes 4 rows at a time. Lane L loads a(row L % 4, column L / 4). This element is the
 * lane's share of both operands, the transposed one on the left and the one on the right. So each
 * element is read from memory once for 32 columns, in whole sectors, and lanes exchange no data. */
template <class T, bool SAME>
static __global__ void __launch_bounds__(THREADS)
    gram_tiles(const T *a, uint64_t n_rows, uint32_t ld, uint32_t first_part, uint32_t n_parts,
               double *part)
{
    __shared__ double total[TILE][TILE];
    constexpr int STEP = 4; /* groups of 4 rows that are loaded at once */
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32,
                   n_tiles = (ld + TILE - 1) / TILE;
    const uint64_t p = first_part + blockIdx.x;
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
    static_assert(GRAM_ROWS == THREADS / 32 * 4 * STEP, "rows that a thread block takes at a time");
    for (uint64_t first = p * GRAM_ROWS + warp * 4 * STEP; first < n_rows;
         first += (uint64_t)n_parts * GRAM_ROWS) {
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
    /* number of the pair of column tiles, row by row of the triangle ti <= tj */
    const uint32_t pair = ti * n_tiles - ti * (ti + 1) / 2 + tj;
    double *const out = part + (p * (n_tiles * (n_tiles + 1) / 2) + pair) * TILE * TILE;
    for (uint32_t i = threadIdx.x; i < TILE * TILE; i += THREADS)
        out[i] = total[i / TILE][i % TILE];
}

/* Adds the parts of a Gram matrix and mirrors the result. A warp computes one element of the upper
 * triangle. */
static __global__ void gram_finish(const double *part, uint32_t n_parts, uint32_t n_pairs,
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
    for (uint32_t k = lane; k < n_parts; k += 32)
        sum += part[((uint64_t)k * n_pairs + pair) * TILE * TILE + i * TILE + j];
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0) {
        gram[(uint64_t)row * ld + column] = sum;
        gram[(uint64_t)column * ld + row] = sum;
    }
}

template <class T>
static cudaError_t gram_part(const T *a, uint64_t n_rows, uint32_t ld, uint32_t first_part,
                             uint32_t n_parts, double *scratch, cudaStream_t s)
{
    const uint32_t pairs = tile_pairs(ld), tiles = tiles_of(ld),
                   all = ts_dense_gram_parts(ld, n_rows);
    if (n_parts == 0)
        return cudaSuccess;
    gram_tiles<T, true>
        <<<dim3(n_parts, tiles), THREADS, 0, s>>>(a, n_rows, ld, first_part, all, scratch);
    if (pairs > tiles)
        gram_tiles<T, false><<<dim3(n_parts, pairs - tiles), THREADS, 0, s>>>(
            a, n_rows, ld, first_part, all, scratch);
    return cudaGetLastError();
}

ts_gpu_error ts_dense_gram_part(enum ts_precision precision, const void *a, uint64_t n_rows,
                                uint32_t ld, uint32_t first_part, uint32_t n_parts, double *scratch,
                                ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    return precision == TS_FLOAT32
               ? gram_part((const float *)a, n_rows, ld, first_part, n_parts, scratch, s)
               : gram_part((const double *)a, n_rows, ld, first_part, n_parts, scratch, s);
}

ts_gpu_error ts_dense_gram_finish(uint64_t n_rows, uint32_t ld, double *scratch, double *gram,
                                  ts_gpu_stream stream)
{
    const uint32_t pairs = tile_pairs(ld);
    gram_finish<<<pairs * TILE * TILE / 8, 256, 0, stream>>>(
        scratch, ts_dense_gram_parts(ld, n_rows), pairs, ld, gram);
    return cudaGetLastError();
}

ts_gpu_error ts_dense_gram(enum ts_precision precision, const void *a, uint64_t n_rows, uint32_t ld,
                           double *scratch, double *gram, ts_gpu_stream stream)
{
    const uint32_t parts = ts_dense_gram_parts(ld, n_rows);
    const ts_gpu_error rc = ts_dense_gram_part(precision, a, n_rows, ld, 0, parts, scratch, stream);
    return rc != cudaSuccess ? rc : ts_dense_gram_finish(n_rows, ld, scratch, gram, stream);
}
