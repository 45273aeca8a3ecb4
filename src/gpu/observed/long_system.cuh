/* SPDX-License-Identifier: BSD-3-Clause */
/* long_system.cuh - systems of equations with many columns in device memory: the place (work area)
 * of a system, products of tiles, and the factorization S = U' U by a thread block.
 *
 *   owner    the caller of the launch owns the places; a thread block uses one at a time
 *   units    columns, in tiles of SIDE
 *   threads  all threads of a thread block call together, unless a comment names a warp
 *   errors   none */
#ifndef TS_GPU_LONG_SYSTEM_CUH
#define TS_GPU_LONG_SYSTEM_CUH

#include "gpu/sparse/mttkrp_stages.cuh"
#include "gpu/observed/observed_long.h"
#include "gpu/rows/row_pairs.cuh"
#include "gpu/rows/tensor_core.cuh"

enum {
    LONG_WARPS = 8,
    THREADS = 32 * LONG_WARPS,
    SIDE = 32, /* rows and columns of a tile */
    BATCH = TS_OBSERVED_LONG_BATCH
};

/* ------------------------------------------------------------------ memory of a system */

static __host__ __device__ inline uint32_t padded(uint32_t n)
{
    return (n + SIDE - 1) / SIDE * SIDE;
}

/* A place: the memory for a system of up to n columns, a multiple of SIDE. A system of order k has
 * the upper triangle of its matrix in S(0 .. k - 1, 0 .. k - 1) and its right side in column
 * padded(k); the rest of these tiles is zero. The lower triangle keeps S before factoring if
 * entries have bounds. */
struct long_memory {
    uint32_t n, stride; /* columns and stride of s and p */
    double *s, *p;      /* S, n rows; P, BATCH rows: the products of nonzeros */
    double *diagonal, *inverse, *right, *a;

    static __host__ __device__ uint64_t elements(uint32_t n)
    {
        return (uint64_t)(n + BATCH) * (n + SIDE) + 4 * (uint64_t)n;
    }
    __device__ long_memory(const ts_gpu_observed &o, uint32_t ld, uint32_t place)
    {
        n = padded(ld);
        stride = n + SIDE;
        s = o.place + place * elements(n);
        p = s + n * stride;
        diagonal = p + BATCH * stride;
        inverse = diagonal + n;
        right = inverse + n;
        a = right + n;
    }
    /* Returns an entry of the symmetric Gram matrix S before factoring, if the lower triangle keeps
     * it. */
    __device__ inline double before(uint32_t i, uint32_t j) const
    {
        return i == j ? diagonal[i] : i < j ? s[j * stride + i] : s[i * stride + j];
    }
};

/* Waits for a free place (memory for one system) and returns its number. Thread blocks that have a
 * place do not wait for other thread blocks, so a place becomes free. */
static __device__ inline uint32_t claim_place(const ts_gpu_observed &o)
{
    __shared__ uint32_t mine;
    if (threadIdx.x == 0) {
        uint32_t at = blockIdx.x % o.n_places;
        while (atomicCAS(&o.lock[at], 0u, 1u) != 0) {
            at = at + 1 < o.n_places ? at + 1 : 0;
            __nanosleep(200);
        }
        __threadfence();
        mine = at;
    }
    __syncthreads();
    return mine;
}

static __device__ inline void give_place_back(const ts_gpu_observed &o, uint32_t place)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicExch(&o.lock[place], 0u);
    }
}

/* ------------------------------------------------------------------ products of tiles */

/* Adds to tile (i, j) of c: sign times the sum over k < n_k, a multiple of 4, of a(k, row) a(k,
 * column). Entry a(k, i) is at k * k_step + i * i_step. begin: c is taken as 0 before. For a tile
 * on the diagonal, only the upper triangle is stored. Called by one warp. */
static __device__ inline void add_tile(const double *a, uint32_t k_step, uint32_t i_step,
                                       uint32_t n_k, double sign, bool begin, uint32_t i,
                                       uint32_t j, double *c, uint32_t stride)
{
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const double *left = a + t * k_step + (SIDE * i + g) * i_step;
    const double *right = a + t * k_step + (SIDE * j + g) * i_step;
    double *const to = c + (SIDE * i + g) * stride + SIDE * j + 2 * t;
    double d[4][4][2];
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
        for (int v = 0; v < 4; v++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                d[u][v][e] = begin ? 0 : to[8 * u * stride + 8 * v + e];
#pragma unroll 2
    for (uint32_t k = 0; k < n_k; k += 4) {
        double x[4], y[4];
#pragma unroll
        for (int u = 0; u < 4; u++) {
            x[u] = sign * left[8 * u * i_step];
            y[u] = right[8 * u * i_step];
        }
#pragma unroll
        for (int u = 0; u < 4; u++)
#pragma unroll
            for (int v = 0; v < 4; v++)
                multiply_add(d[u][v], x[u], y[v]);
        left += 4 * k_step;
        right += 4 * k_step;
    }
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
        for (int v = 0; v < 4; v++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (i < j || 8 * u + g <= 8 * v + 2 * t + e)
                    to[8 * u * stride + 8 * v + e] = d[u][v][e];
}

/* Calls add_tile for the tiles (i, j), first <= i < rows, i <= j < columns, one warp for each. All
 * threads call, and see the results after the call. */
static __device__ inline void add_tiles_of(const double *a, uint32_t k_step, uint32_t i_step,
                                           uint32_t n_k, double sign, bool begin, uint32_t first,
                                           uint32_t rows, uint32_t columns, double *c,
                                           uint32_t stride)
{
    uint32_t at = threadIdx.x / 32;
    for (uint32_t i = first; i < rows; i++) {
        for (; at < columns - i; at += LONG_WARPS)
            add_tile(a, k_step, i_step, n_k, sign, begin, i, i + at, c, stride);
        at -= columns - i;
    }
    __syncthreads();
}

/* ------------------------------------------------------------------ solving a system */

/* A tile on the diagonal of the Gram matrix S, in the shared memory of the thread block. */
struct diagonal_tile {
    double u[SIDE][SIDE + 1];
    double inverse[SIDE];
};

static __device__ inline void load_diagonal(const long_memory &w, uint32_t k0, diagonal_tile &tile)
{
    for (uint32_t k = threadIdx.x; k < SIDE * SIDE; k += THREADS)
        tile.u[k / SIDE][k % SIDE] = w.s[(k0 + k / SIDE) * w.stride + k0 + k % SIDE];
    if (threadIdx.x < SIDE)
        tile.inverse[threadIdx.x] = w.inverse[k0 + threadIdx.x];
    __syncthreads();
}

/* Factors a tile on the diagonal into U' U. If only rounding errors remain of a column, it is left
 * out: its unknown becomes 0. Called by one warp. */
static __device__ inline void factor_tile(const long_memory &w, uint32_t k0, double cut,
                                          diagonal_tile &tile, uint32_t lane)
{
    for (uint32_t k = 0; k < SIDE; k++) {
        const double pivot = tile.u[k][k];
        const double by = pivot > cut * w.diagonal[k0 + k] ? rsqrt(pivot) : 0;
        __syncwarp();
        if (lane > k)
            tile.u[k][lane] *= by;
        if (lane == k)
            tile.inverse[k] = by;
        __syncwarp();
        for (uint32_t i = k + 1; i < SIDE; i++)
            if (lane >= i)
                tile.u[i][lane] -= tile.u[k][i] * tile.u[k][lane];
        __syncwarp();
    }
}

/* Factors the Gram matrix S of order n, a multiple of SIDE, into U' U, in place of its upper
 * triangle. Column n, the right side, is multiplied by U'^-1. All threads call. */
static __device__ inline void factor_long(const long_memory &w, uint32_t n, double cut,
                                          diagonal_tile &tile)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 1
    for (uint32_t k0 = 0; k0 < n; k0 += SIDE) {
        load_diagonal(w, k0, tile);
        if (warp == 0)
            factor_tile(w, k0, cut, tile, lane);
        __syncthreads();
        for (uint32_t k = threadIdx.x; k < SIDE * SIDE; k += THREADS)
            if (k / SIDE < k % SIDE)
                w.s[(k0 + k / SIDE) * w.stride + k0 + k % SIDE] = tile.u[k / SIDE][k % SIDE];
        if (threadIdx.x < SIDE)
            w.inverse[k0 + threadIdx.x] = tile.inverse[threadIdx.x];
        for (uint32_t j = k0 + SIDE + threadIdx.x; j <= n; j += THREADS) {
            double *const column = w.s + k0 * w.stride + j;
            double x[SIDE];
#pragma unroll
            for (uint32_t k = 0; k < SIDE; k++)
                x[k] = column[k * w.stride];
#pragma unroll
            for (uint32_t k = 0; k < SIDE; k++) {
                x[k] *= tile.inverse[k];
#pragma unroll
                for (uint32_t i = k + 1; i < SIDE; i++)
                    x[i] -= tile.u[k][i] * x[k];
                column[k * w.stride] = x[k];
            }
        }
        __syncthreads();
        add_tiles_of(w.s + k0 * w.stride, w.stride, 1, SIDE, -1, false, k0 / SIDE + 1, n / SIDE,
                     n / SIDE + 1, w.s, w.stride);
    }
}

/* Sets w.a to the solution: U^-1 times column n, after factor_long. All threads call. */
static __device__ inline void substitute_long(const long_memory &w, uint32_t n, diagonal_tile &tile)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 1
    for (uint32_t k0 = n; k0 > 0;) {
        k0 -= SIDE;
        load_diagonal(w, k0, tile);
        if (warp == 0) {
            double y = w.s[(k0 + lane) * w.stride + n];
            for (uint32_t k = SIDE; k-- > 0;) {
                const double now = __shfl_sync(ALL_LANES, y, k) * tile.inverse[k];
                y = lane == k ? now : lane < k ? y - tile.u[lane][k] * now : y;
            }
            w.a[k0 + lane] = y;
        }
        __syncthreads();
        const double a = w.a[k0 + lane];
        for (uint32_t i = warp; i < k0; i += LONG_WARPS) {
            const double less = warp_sum(w.s[i * w.stride + k0 + lane] * a);
            if (lane == 0)
                w.s[i * w.stride + n] -= less;
        }
        __syncthreads();
    }
}

#endif
