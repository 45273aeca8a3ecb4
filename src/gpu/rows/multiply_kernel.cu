/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for the rows of a Poisson model before, between and after its rounds of multiplicative
 * updates. Each kernel reads the rows once; arithmetic is float64. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/rows/multiply_kernel.h"

#include <cfloat>
#include <cuda_runtime.h>

#include "stream/row_update.h"

enum {
    THREADS = 256,
    BLOCKS = 2112,     /* the most thread blocks: 16 for each of 132 multiprocessors */
    SHARD_BLOCKS = 32, /* thread blocks for each shard of a launch */
    COLUMN_ROWS = 8    /* rows that a thread block adds at once, 32 columns of each */
};

/* ------------------------------------------------------------ marks of entries with phi above 1 */

static __device__ inline bool last_bit(float x)
{
    return __float_as_uint(x) & 1;
}
static __device__ inline bool last_bit(double x)
{
    return __double_as_longlong(x) & 1;
}
static __device__ inline float with_last_bit(float x, bool bit)
{
    return __uint_as_float((__float_as_uint(x) & ~1u) | (uint32_t)bit);
}
static __device__ inline double with_last_bit(double x, bool bit)
{
    return __longlong_as_double((__double_as_longlong(x) & ~1ll) | (long long)bit);
}

template <class T> static __device__ inline bool has_mark(T a)
{
    return a == 0 ? signbit(a) != 0 : (double)a < TS_ROW_ZERO && last_bit(a);
}

/* Returns a, which is not negative, with a mark that says whether its phi (weighted product) was
 * above 1: the sign of a zero, or the last bit of a number below TS_ROW_ZERO. Values below the
 * normal numbers become 0. */
template <class T> static __device__ inline T marked(double a, bool mark)
{
    const double least = sizeof(T) == sizeof(float) ? FLT_MIN : DBL_MIN;
    if (a < least)
        return mark ? (T)-0.0 : (T)0.0;
    return a < TS_ROW_ZERO ? with_last_bit((T)a, mark) : (T)a;
}

/* ------------------------------------------------------------------ multiplication of rows */

template <class T>
static __global__ void begin_rows(const struct ts_gpu_rows r, const double *weight, double grow)
{
    const uint64_t n = r.n_rows * r.ld, step = (uint64_t)gridDim.x * THREADS;
    const T *const a = (const T *)r.a;
    T *const b = (T *)r.b;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *r.kkt = 0;
    for (uint64_t k = (uint64_t)blockIdx.x * THREADS + threadIdx.x; k < n; k += step) {
        const uint32_t column = (uint32_t)(k % r.ld);
        const T was = a[k];
        const double more = grow > 0 && has_mark(was) ? grow : 0;
        b[k] = column < r.rank ? (T)((fabs((double)was) + more) * weight[column]) : (T)0;
    }
}

/* Multiplies an entry b by phi, its weighted product. If `last` (the last round) is set and phi >
 * 1, the result is negative. Returns how much the old b violates the KKT conditions: |min(b, 1 -
 * phi)|. */
template <class T> static __device__ inline double multiply(T *b, double phi, bool last)
{
    const double was = fabs((double)*b), now = was * phi, less = fmin(was, 1 - phi);
    *b = (T)(last && phi > 1 ? -now : now);
    return fabs(less);
}

/* *kkt := the larger of *kkt and the largest x of a warp. x is not negative, so numbers have the
 * same order as their bits. */
static __device__ inline void keep_largest(double x, double *kkt)
{
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        x = fmax(x, __shfl_xor_sync(0xffffffff, x, d));
    if (threadIdx.x % 32 == 0 && x > 0)
        atomicMax((unsigned long long *)kkt, (unsigned long long)__double_as_longlong(x));
}

/* Finds the rows of shard `number` that no other shard shares: first .. end - 1. */
static __device__ inline void own_rows(const struct ts_gpu_rows &r, uint64_t number,
                                       uint64_t &first, uint64_t &end)
{
    first = r.shard_row[2 * number];
    end = (uint64_t)r.shard_row[2 * number + 1] + 1;
    first += number > 0 && r.shard_row[2 * number - 1] == first;
    end -= number + 1 < r.n_shards && (uint64_t)r.shard_row[2 * number + 2] + 1 == end;
}

template <class T>
static __global__ void multiply_shards(const struct ts_gpu_rows r,
                                       const __grid_constant__ ts_gpu_mttkrp p, bool judge,
                                       bool last)
{
    const uint64_t number = p.n_many > 0 ? p.many[blockIdx.x].number : p.one.number;
    const T *const phi = (const T *)r.phi;
    double most = 0;
    uint64_t first, end;
    own_rows(r, number, first, end);
    for (uint64_t k = first * r.ld + blockIdx.y * THREADS + threadIdx.x; k < end * r.ld;
         k += (uint64_t)gridDim.y * THREADS)
        most = fmax(most, multiply((T *)r.b + k, (double)phi[k], last));
    if (judge)
        keep_largest(most, r.kkt);
}

/* Multiplies rows that several shards share. A warp takes the first row of shard blockIdx.x + 1, if
 * it continues from the shard before and is not also the first row of that shard. */
template <class T> static __global__ void multiply_spans(const struct ts_gpu_rows r)
{
    const uint64_t s = blockIdx.x + UINT64_C(1), row = r.shard_row[2 * s];
    const T *const phi = (const T *)r.phi + row * r.ld;
    T *const b = (T *)r.b + row * r.ld;
    double most = 0;
    if (r.shard_row[2 * s - 1] != row)
        return;
    if (s > 1 && r.shard_row[2 * s - 2] == row && r.shard_row[2 * s - 3] == row)
        return;
    for (uint32_t c = threadIdx.x; c < r.ld; c += 32)
        most = fmax(most, multiply(b + c, (double)phi[c], true));
    keep_largest(most, r.kkt);
}

/* ------------------------------------------------------------------ sums of columns */

/* part(p, c) := sum of the magnitudes in column c of b, over the p-th part of the rows. Each of
 * COLUMN_ROWS threads adds every COLUMN_ROWS-th row. */
template <class T>
static __global__ void __launch_bounds__(32 * COLUMN_ROWS)
    sum_columns(const struct ts_gpu_rows r, double *part)
{
    __shared__ double sums[COLUMN_ROWS][32];
    const uint32_t lane = threadIdx.x % 32, w = threadIdx.x / 32;
    const uint32_t column = 32 * blockIdx.y + lane;
    const uint64_t first = r.n_rows * blockIdx.x / TS_MULTIPLY_PARTS;
    const uint64_t end = r.n_rows * (blockIdx.x + UINT64_C(1)) / TS_MULTIPLY_PARTS;
    const T *const b = (const T *)r.b;
    double sum = 0;
    if (column < r.ld)
#pragma unroll 4
        for (uint64_t i = first + w; i < end; i += COLUMN_ROWS)
            sum += fabs((double)b[i * r.ld + column]);
    sums[w][lane] = sum;
    __syncthreads();
    if (w > 0 || column >= r.ld)
        return;
    for (int k = 1; k < COLUMN_ROWS; k++)
        sum += sums[k][lane];
    part[(uint64_t)blockIdx.x * r.ld + column] = sum;
}

static __global__ void add_parts(uint32_t ld, const double *part, double *column)
{
    const uint32_t c = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    if (c >= ld)
        return;
    for (uint32_t p = 0; p < TS_MULTIPLY_PARTS; p++)
        sum += part[(uint64_t)p * ld + c];
    column[c] = sum;
}

template <class T> static __global__ void end_rows(const struct ts_gpu_rows r, const double *sums)
{
    const uint64_t n = r.n_rows * r.ld, step = (uint64_t)gridDim.x * THREADS;
    const T *const b = (const T *)r.b;
    T *const a = (T *)r.a;
    for (uint64_t k = (uint64_t)blockIdx.x * THREADS + threadIdx.x; k < n; k += step) {
        const uint32_t column = (uint32_t)(k % r.ld);
        const double sum = sums[column];
        const T was = b[k];
        a[k] = column >= r.rank
                   ? (T)0
                   : marked<T>(sum > 0 ? fabs((double)was) / sum : 0, signbit(was) != 0);
    }
}

/* ------------------------------------------------------------------ launches of kernels */

static unsigned blocks_for(uint64_t n)
{
    const uint64_t blocks = (n + THREADS - 1) / THREADS;
    return blocks < 1 ? 1u : blocks < BLOCKS ? (unsigned)blocks : (unsigned)BLOCKS;
}

ts_gpu_error ts_multiply_begin(const struct ts_gpu_rows *r, const double *weight, double grow,
                               ts_gpu_stream stream)
{
    const unsigned blocks = blocks_for(r->n_rows * r->ld);
    if (r->precision == TS_FLOAT32)
        begin_rows<float><<<blocks, THREADS, 0, stream>>>(*r, weight, grow);
    else
        begin_rows<double><<<blocks, THREADS, 0, stream>>>(*r, weight, grow);
    return cudaGetLastError();
}

ts_gpu_error ts_multiply_shards(const struct ts_gpu_rows *r, const struct ts_gpu_mttkrp *shards,
                                int judge, int last, ts_gpu_stream stream)
{
    const dim3 grid(shards->n_many > 0 ? shards->n_many : 1, SHARD_BLOCKS);
    if (shards->n_shares == 0)
        return cudaSuccess;
    if (r->precision == TS_FLOAT32)
        multiply_shards<float><<<grid, THREADS, 0, stream>>>(*r, *shards, judge != 0, last != 0);
    else
        multiply_shards<double><<<grid, THREADS, 0, stream>>>(*r, *shards, judge != 0, last != 0);
    return cudaGetLastError();
}

ts_gpu_error ts_multiply_spans(const struct ts_gpu_rows *r, ts_gpu_stream stream)
{
    const unsigned blocks = r->n_shards > 1 ? (unsigned)(r->n_shards - 1) : 0;
    if (blocks == 0)
        return cudaSuccess;
    if (r->precision == TS_FLOAT32)
        multiply_spans<float><<<blocks, 32, 0, stream>>>(*r);
    else
        multiply_spans<double><<<blocks, 32, 0, stream>>>(*r);
    return cudaGetLastError();
}

ts_gpu_error ts_multiply_end(const struct ts_gpu_rows *r, double *scratch, double *column,
                             ts_gpu_stream stream)
{
    const dim3 grid(TS_MULTIPLY_PARTS, (r->ld + 31) / 32);
    const unsigned blocks = blocks_for(r->n_rows * r->ld);
    if (r->precision == TS_FLOAT32)
        sum_columns<float><<<grid, 32 * COLUMN_ROWS, 0, stream>>>(*r, scratch);
    else
        sum_columns<double><<<grid, 32 * COLUMN_ROWS, 0, stream>>>(*r, scratch);
    add_parts<<<(r->ld + 127) / 128, 128, 0, stream>>>(r->ld, scratch, column);
    if (r->precision == TS_FLOAT32)
        end_rows<float><<<blocks, THREADS, 0, stream>>>(*r, column);
    else
        end_rows<double><<<blocks, THREADS, 0, stream>>>(*r, column);
    return cudaGetLastError();
}
