/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for dense tensors with unknown cells: products of pairs of columns, copies without
 * held-out cells, and the errors of a model. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/dense/cells_kernel.h"

#include <cuda_runtime.h>

enum {
    GROUP = TS_CELLS_GROUP,     /* threads of a thread block */
    TILE = TS_CELLS_ERROR_TILE, /* rows and columns of a tile of cells */
    DEPTH = 16,                 /* columns of K and B that are multiplied at a time */
    EACH = 4                    /* rows and columns of a tile for each thread */
};

/* ----------------------------------------------------------------- products of pairs of columns */

/* The kernel of ts_cells_pairs: each thread computes one product of two columns in `out`, or
 * several. */
template <class A>
static __global__ void __launch_bounds__(GROUP)
    pairs(const A *factor, uint64_t elements, uint32_t factor_ld, uint32_t rank, uint32_t first,
          uint32_t n, double *out, uint32_t ld)
{
    const uint32_t n_pairs = (uint32_t)ts_cells_pair_row(rank, rank);
    for (uint64_t at = blockIdx.x * (uint64_t)GROUP + threadIdx.x; at < elements;
         at += (uint64_t)gridDim.x * GROUP) {
        const uint32_t k = (uint32_t)(at % ld);
        const A *row = factor + at / ld * factor_ld;
        double x = k < n ? 1 : 0;
        if (k < n && first + k < n_pairs) {
            uint32_t r, s;
            ts_cells_pair(rank, first + k, &r, &s);
            x = (double)row[r] * (double)row[s];
        }
        out[at] = x;
    }
}

ts_gpu_error ts_cells_pairs(enum ts_precision precision, const void *factor, uint64_t n_rows,
                            uint32_t factor_ld, uint32_t rank, uint32_t first, uint32_t n,
                            double *out, uint32_t ld, ts_gpu_stream stream)
{
    const uint64_t elements = n_rows * ld;
    if (precision == TS_FLOAT32)
        pairs<float><<<ts_cells_blocks(elements), GROUP, 0, stream>>>(
            (const float *)factor, elements, factor_ld, rank, first, n, out, ld);
    else
        pairs<double><<<ts_cells_blocks(elements), GROUP, 0, stream>>>(
            (const double *)factor, elements, factor_ld, rank, first, n, out, ld);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(GROUP) number(uint32_t *row, uint64_t n_rows, uint64_t n)
{
    for (uint64_t e = blockIdx.x * (uint64_t)GROUP + threadIdx.x; e < n;
         e += (uint64_t)gridDim.x * GROUP)
        row[e] = e < n_rows ? (uint32_t)e : UINT32_MAX;
}

ts_gpu_error ts_cells_number(uint32_t *row, uint64_t n_rows, uint64_t n, ts_gpu_stream stream)
{
    number<<<ts_cells_blocks(n), GROUP, 0, stream>>>(row, n_rows, n);
    return cudaGetLastError();
}

/* ------------------------------------------------------------------ cells that are held out */

/* The indices in each mode of the rows and columns of a tile, in shared memory. */
struct tile_index {
    uint32_t row[TS_DENSE_MAX_ORDER][TILE], col[TS_DENSE_MAX_ORDER][TILE];

    /* Cells outside the array get indices as well, which are not used. */
    __device__ inline void fill(const ts_cells_places &p, uint64_t row0, uint64_t col0)
    {
        if (threadIdx.x < TILE) {
            uint64_t q = row0 + threadIdx.x;
            for (uint32_t l = p.n_outer; l-- > 0;) {
                row[p.layout[l]][threadIdx.x] = (uint32_t)(q % p.dim[l]);
                q /= p.dim[l];
            }
        } else if (threadIdx.x < 2 * TILE) {
            uint64_t q = col0 + threadIdx.x - TILE;
            for (uint32_t l = p.order; l-- > p.n_outer;) {
                col[p.layout[l]][threadIdx.x - TILE] = (uint32_t)(q % p.dim[l]);
                q /= p.dim[l];
            }
        }
    }
};

/* Returns a set of modes: bit m is set if mode m is outer. */
static __device__ inline uint32_t outer_modes(const ts_cells_places &p)
{
    uint32_t bits = 0;
    for (uint32_t l = 0; l < p.n_outer; l++)
        bits |= 1u << p.layout[l];
    return bits;
}

static __device__ inline bool is_held(const ts_hold_out &h, const tile_index &index, uint32_t order,
                                      uint32_t outer, uint32_t i, uint32_t j)
{
    uint64_t hash = ts_hold_out_begin(&h);
    for (uint32_t m = 0; m < order; m++)
        hash = ts_hold_out_add(hash, outer >> m & 1 ? index.row[m][i] : index.col[m][j]);
    return ts_hold_out_held(&h, hash);
}

/* Copies cells, and replaces held-out cells by NaN.
 *
 *   launch  thread blocks (columns by TILE, fastest; rows by TILE), GROUP threads, each with one
 *           column of every fourth row */
template <class T>
static __global__ void __launch_bounds__(GROUP)
    mark(const T *x, uint64_t pitch, uint64_t row, uint64_t n_rows, uint64_t col, uint64_t n_cols,
         uint32_t col_tiles, const __grid_constant__ ts_cells_places places,
         const __grid_constant__ ts_hold_out hold_out, T *out, uint64_t out_pitch)
{
    __shared__ tile_index index;
    const uint64_t i0 = (uint64_t)(blockIdx.x / col_tiles) * TILE;
    const uint64_t j0 = (uint64_t)(blockIdx.x % col_tiles) * TILE;
    const uint32_t outer = outer_modes(places), j = threadIdx.x % TILE;
    index.fill(places, row + i0, col + j0);
    __syncthreads();
    for (uint32_t i = threadIdx.x / TILE; i < TILE; i += GROUP / TILE) {
        if (i0 + i >= n_rows || j0 + j >= n_cols)
            continue;
        const T own = x[(i0 + i) * pitch + j0 + j];
        out[(i0 + i) * out_pitch + j0 + j] =
            is_held(hold_out, index, places.order, outer, i, j) ? (T)NAN : own;
    }
}

template <class T>
static cudaError_t launch_mark(const struct ts_cells_x *x, const struct ts_cells_places *places,
                               const struct ts_hold_out *hold_out, void *out, cudaStream_t stream)
{
    const uint64_t col_tiles = ts_cells_ceil_div(x->n_cols, TILE),
                   grid = col_tiles * ts_cells_ceil_div(x->n_rows, TILE);
    if (grid > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (grid > 0)
        mark<T><<<(uint32_t)grid, GROUP, 0, stream>>>(
            (const T *)x->cell, x->pitch, x->row, x->n_rows, x->col, x->n_cols, (uint32_t)col_tiles,
            *places, *hold_out, (T *)out, ts_cells_mark_pitch(x->n_cols));
    return cudaGetLastError();
}

ts_gpu_error ts_cells_mark(const struct ts_cells_x *x, const struct ts_cells_places *places,
                           const struct ts_hold_out *hold_out, void *out, ts_gpu_stream stream)
{
    return x->narrow ? launch_mark<float>(x, places, hold_out, out, stream)
                     : launch_mark<double>(x, places, hold_out, out, stream);
}

/* ------------------------------------------------------------------ errors of a model */

enum { SUMS = TS_CELLS_ERRORS / 2 };

struct error_sums {
    double at[SUMS];

    __device__ inline void add(double x, double m)
    {
        at[0] += 1;
        at[1] += x;
        at[2] += x * x;
        at[3] += x * m;
        at[4] += (x - m) * (x - m);
    }
};

/* Rows of K and of B (products of the outer and of the inner modes' factor rows) in shared memory,
 * DEPTH columns of TILE rows each. */
struct table_tile {
    double k[DEPTH][TILE + 1], b[DEPTH][TILE + 1];
};

/* model[a][c] := the model's value at row y + 16 a and column z + 16 c of a tile, for the thread
 * (y, z) of 16 x 16: the inner product of the rows of K and B (products of factor rows) that belong
 * there. All threads call. */
static __device__ inline void model_tile(const ts_cells_errors &e, table_tile &s,
                                         const uint32_t *u_row, const uint32_t *v_row, uint64_t col,
                                         uint32_t cols, double (&model)[EACH][EACH])
{
    const uint32_t z = threadIdx.x % DEPTH, y = threadIdx.x / DEPTH;
#pragma unroll
    for (int a = 0; a < EACH; a++)
#pragma unroll
        for (int c = 0; c < EACH; c++)
            model[a][c] = 0;
    for (uint32_t r0 = 0; r0 < e.ld; r0 += DEPTH) {
        const uint32_t r = r0 + z;
        for (uint32_t i = y; i < TILE; i += GROUP / DEPTH) {
            const bool row = r < e.ld && u_row[i] != UINT32_MAX, column = r < e.ld && i < cols;
            s.k[z][i] =
                row ? e.u[(uint64_t)u_row[i] * e.ld + r] * e.v[(uint64_t)v_row[i] * e.ld + r] : 0.0;
            s.b[z][i] = column ? e.b[(col + i) * e.ld + r] : 0.0;
        }
        __syncthreads();
#pragma unroll
        for (uint32_t k = 0; k < DEPTH; k++) {
            double left[EACH], right[EACH];
#pragma unroll
            for (int a = 0; a < EACH; a++) {
                left[a] = s.k[k][y + 16 * a];
                right[a] = s.b[k][z + 16 * a];
            }
#pragma unroll
            for (int a = 0; a < EACH; a++)
#pragma unroll
                for (int c = 0; c < EACH; c++)
                    model[a][c] += left[a] * right[c];
        }
        __syncthreads(); /* the next columns overwrite the tables */
    }
}

/* sums(step, part, :) = error sums over the known cells of a unit (a block of cells)
 *
 *   launch  thread blocks (parts of the columns of x, fastest; steps of its rows), GROUP threads
 *           each: they take the tiles of a unit in turn, and a thread takes the same 4 x 4 cells of
 *           each tile
 *   x       the cell at row `row`, the first one of a step, and column col of X */
template <class T>
static __global__ void __launch_bounds__(GROUP)
    errors(const T *x, uint64_t pitch, uint64_t row, uint64_t col, uint64_t n_cols,
           uint32_t col_parts, uint64_t first_step, const __grid_constant__ ts_cells_errors e)
{
    __shared__ table_tile tables;
    __shared__ tile_index index;
    __shared__ uint32_t u_row[TILE], v_row[TILE];
    __shared__ double total[TS_CELLS_ERRORS][GROUP];
    const uint32_t part = blockIdx.x % col_parts, z = threadIdx.x % DEPTH, y = threadIdx.x / DEPTH;
    const uint64_t step = first_step + blockIdx.x / col_parts;
    const uint64_t begin = ts_cells_first(&e.cut, step), end = ts_cells_end(&e.cut, step);
    const uint64_t c_begin = part * e.unit_cols, c_end = min(c_begin + e.unit_cols, n_cols);
    const uint32_t outer = outer_modes(e.places);
    error_sums kept = {}, held = {};
    for (uint64_t p = begin; p < end; p += TILE)
        for (uint64_t c0 = c_begin; c0 < c_end; c0 += TILE) {
            const uint32_t cols = (uint32_t)min((uint64_t)TILE, c_end - c0);
            double model[EACH][EACH];
            __syncthreads(); /* the next tile overwrites the indices */
            if (e.hold_out.share > 0)
                index.fill(e.places, p, col + c0);
            if (threadIdx.x < TILE) {
                const uint64_t at = p + threadIdx.x;
                u_row[threadIdx.x] = at < end ? (uint32_t)(at / e.n_v) : UINT32_MAX;
                v_row[threadIdx.x] = (uint32_t)(at % e.n_v);
            }
            __syncthreads();
            model_tile(e, tables, u_row, v_row, col + c0, cols, model);
#pragma unroll
            for (int a = 0; a < EACH; a++)
#pragma unroll
                for (int c = 0; c < EACH; c++) {
                    const uint32_t i = y + 16 * a, j = z + 16 * c;
                    if (p + i >= end || j >= cols)
                        continue;
                    const double own = (double)x[(p + i - row) * pitch + c0 + j];
                    if (own != own)
                        continue;
                    if (e.hold_out.share > 0 &&
                        is_held(e.hold_out, index, e.places.order, outer, i, j))
                        held.add(own, model[a][c] + e.mean);
                    else
                        kept.add(own, model[a][c] + e.mean);
                }
        }
#pragma unroll
    for (int k = 0; k < SUMS; k++) {
        total[k][threadIdx.x] = kept.at[k];
        total[SUMS + k][threadIdx.x] = held.at[k];
    }
    for (uint32_t half = GROUP / 2; half > 0; half /= 2) {
        __syncthreads();
        for (uint32_t k = 0; k < TS_CELLS_ERRORS && threadIdx.x < half; k++)
            total[k][threadIdx.x] += total[k][threadIdx.x + half];
    }
    __syncthreads();
    if (threadIdx.x < TS_CELLS_ERRORS)
        e.sums[(step * e.n_parts + e.first_part + part) * TS_CELLS_ERRORS + threadIdx.x] =
            total[threadIdx.x][0];
}

template <class T>
static cudaError_t launch_errors(const struct ts_cells_x *x, const struct ts_cells_errors *what,
                                 cudaStream_t stream)
{
    const uint64_t first = ts_cells_step(&what->cut, x->row),
                   end = ts_cells_step(&what->cut, x->row + x->n_rows);
    const uint64_t parts = ts_cells_ceil_div(x->n_cols, what->unit_cols),
                   grid = parts * (end - first);
    if (grid > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (grid > 0)
        errors<T><<<(uint32_t)grid, GROUP, 0, stream>>>(
            (const T *)x->cell, x->pitch, x->row, x->col, x->n_cols, (uint32_t)parts, first, *what);
    return cudaGetLastError();
}

ts_gpu_error ts_cells_judge(const struct ts_cells_x *x, const struct ts_cells_errors *what,
                            ts_gpu_stream stream)
{
    return x->narrow ? launch_errors<float>(x, what, stream)
                     : launch_errors<double>(x, what, stream);
}
