/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates units of 32 rows by coordinate descent, on tensor cores. G is the matrix of the rows'
 * least-squares problems, m the row's product (MTTKRP).
 *
 * The rows x of a unit are updated column by column. For eight columns at a time, tensor cores
 * compute t := m - x G. Then the eight columns are updated one after another. The change of a
 * column, times its row of G, is subtracted from the t of the others.
 *
 * Lane L of a warp is at (i, j) = (L / 4, L % 4). In a tile of 8 rows and 8 columns, the lane has
 * row i, columns 2 j and 2 j + 1, as in a product of tensor cores. The order of the summation index
 * in x G is free, so the same registers also serve as operands: of the 8 columns of a tile of x,
 * product u takes columns 2 j + u. Its right operand is G(2 j + u, column i), which equals G(column
 * i, 2 j + u) as G is symmetric. So a lane's operands for both products are neighbours in a row of
 * G. Such pairs for all lanes are called a fragment.
 *
 * The steps on columns depend on each other. If a warp has a unit, each lane makes the steps of one
 * row: t and x of eight columns pass through shared memory, and no lane waits for another. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/rows/descend_kernel.h"

#include <cuda_runtime.h>

#include "gpu/rows/dense_kernel.h"
#include "gpu/rows/row_pairs.cuh"
#include "gpu/rows/tensor_core.cuh"

enum {
    TILES = TS_DESCEND_UNIT / 8, /* tiles of rows in a unit (32 rows) */
    TILE_LANES = TILES * 32,     /* pairs of entries in 8 columns of a unit of rows */
    NARROW_WARPS = 4,
    NARROW_BLOCKS = 2112, /* the most thread blocks: 16 for each of 132 multiprocessors */
    KEEP_WARPS = 8
};

/* ------------------------------------------------------------------ steps on eight columns */

/* Returns the new entry of a row x by the formula of stream/row_update.h, where t is the residual m
 * - x G at this entry. */
template <bool SIMPLE>
static __device__ inline double step(double old, double t, double inverse, double threshold,
                                     double lower, double upper)
{
    double x = old + t * inverse;
    if (!SIMPLE) {
        const double less = x - threshold, more = x + threshold;
        x = (less > 0 ? less : 0) + (more < 0 ? more : 0);
    }
    x = x > lower ? x : lower;
    return SIMPLE || x < upper ? x : upper;
}

/* The parameters of the coordinate-descent steps on the two columns of a lane. */
struct columns {
    double2 inverse, threshold, lower, upper;
};

/* Loads the parameters of the lane's two columns. table: points to these columns in the first row
 * of the table; its rows are ld elements apart. */
template <bool SIMPLE>
static __device__ inline columns load_columns(const double *table, uint32_t ld)
{
    columns c = {};
    c.inverse = load2(table + TS_DESCEND_INVERSE * ld);
    c.lower = load2(table + TS_DESCEND_LOWER * ld);
    if (!SIMPLE) {
        c.threshold = load2(table + TS_DESCEND_THRESHOLD * ld);
        c.upper = load2(table + TS_DESCEND_UPPER * ld);
    }
    return c;
}

/* Makes the steps of coordinate descent on the 8 columns of N tiles, one after another. g(c): the
 * lane's pair of row c of the matrix G in these columns. Adds squares of changes to moved, and
 * squares of entries to size. */
template <bool SIMPLE, int N, class G>
static __device__ inline void descend_tiles(double (&x)[N][2], double (&t)[N][2], const G &g,
                                            const columns &k, double &moved, double &size)
{
    const uint32_t lane = threadIdx.x % 32, j = lane % 4;
    double old[N][2];
#pragma unroll
    for (int q = 0; q < N; q++) {
        old[q][0] = x[q][0];
        old[q][1] = x[q][1];
    }
#pragma unroll
    for (int c = 0; c < 8; c++) {
        const double2 row = g(c);
#pragma unroll
        for (int q = 0; q < N; q++) {
            const double was = x[q][c % 2];
            const double now =
                c % 2 == 0
                    ? step<SIMPLE>(was, t[q][0], k.inverse.x, k.threshold.x, k.lower.x, k.upper.x)
                    : step<SIMPLE>(was, t[q][1], k.inverse.y, k.threshold.y, k.lower.y, k.upper.y);
            const double change = __shfl_sync(0xffffffff, now - was, lane / 4 * 4 + c / 2);
            x[q][c % 2] = j == c / 2 ? now : was;
            t[q][0] -= change * row.x;
            t[q][1] -= change * row.y;
        }
    }
#pragma unroll
    for (int q = 0; q < N; q++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const double change = x[q][u] - old[q][u];
            moved += change * change;
            size += x[q][u] * x[q][u];
        }
}

/* ------------------------------------------------------------------ a unit of rows */

/* A unit of TS_DESCEND_UNIT rows. `m` and `a` are the addresses of its first row. */
template <class T, class A> struct unit_rows {
    uint32_t n_rows;
    const T *m;
    A *a;

    __device__ __forceinline__ unit_rows(const ts_descend &d, uint64_t unit)
    {
        const uint64_t top = (d.first_unit + unit) * TS_DESCEND_UNIT;
        n_rows = (uint32_t)min((uint64_t)TS_DESCEND_UNIT, d.n_rows - top);
        m = (const T *)d.m + top * d.ld;
        a = (A *)d.a + top * d.ld;
    }

    __device__ __forceinline__ bool has(const ts_descend &d, uint32_t row, uint32_t column) const
    {
        return row < n_rows && column < d.ld;
    }
    /* Stores the final values of a pair of columns, and adds their products with m (the MTTKRP) to
     * `inner` and their absolute values to `sum`. */
    __device__ __forceinline__ void keep(const ts_descend &d, uint32_t row, uint32_t column,
                                         double2 now, double &inner, double &sum) const
    {
        store2(a + row * d.ld + column, now);
        sum += fabs(now.x) + fabs(now.y);
        if (d.inner != NULL) {
            const double2 want = load2(m + row * d.ld + column);
            inner += want.x * now.x + want.y * now.y;
        }
    }
};

/* Whether a round is the last one, since it changed the unit of rows so little. moved: sum of
 * squares of changes; size: sum of squares of entries. */
static __device__ __forceinline__ bool is_last_round(const ts_descend &d, double moved, double size)
{
    return moved <= TS_ROW_TOL(d.rounds) * TS_ROW_TOL(d.rounds) * size;
}

/* ------------------------------------------------------------------ units of few columns
 *
 * Rows x of up to 8 B columns. A warp has a unit of rows, which stay in its registers for all
 * rounds. The matrix G is in shared memory as fragments. The product m is read in every round.
 *
 *   launch  any number of thread blocks; a warp takes a unit, then the unit `stride` units later,
 *           ...
 *   turned  32 rows of 8 columns of a warp, which are accessed as tiles by tensor cores and as rows
 *           by steps. Pair k of a row is placed so that neither 8 lanes that access tiles nor 8
 *           that access rows use the same bank */
struct turned {
    double2 *pair; /* TILE_LANES pairs */

    __device__ inline double2 &at(uint32_t row, uint32_t k) const
    {
        return pair[4 * row + (k ^ (row / 2 % 4))];
    }
    __device__ inline void put_tile(uint32_t q, uint32_t lane, double x, double y) const
    {
        at(8 * q + lane / 4, lane % 4) = make_double2(x, y);
    }
    __device__ inline double2 tile(uint32_t q, uint32_t lane) const
    {
        return at(8 * q + lane / 4, lane % 4);
    }
    __device__ inline void put_row(uint32_t lane, const double (&x)[8]) const
    {
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            at(lane, k) = make_double2(x[2 * k], x[2 * k + 1]);
    }
    __device__ inline void row(uint32_t lane, double (&x)[8]) const
    {
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) {
            const double2 both = at(lane, k);
            x[2 * k] = both.x;
            x[2 * k + 1] = both.y;
        }
    }
};

/* Makes the steps on 8 columns of the lane's row. own: the block of G for these columns. table: the
 * parameters, from the first pair of these columns on, with `pairs` pairs a row. Both are the same
 * for all lanes. Adds squares of changes to moved, and squares of entries to size. */
template <bool SIMPLE>
static __device__ inline void descend_row(double (&x)[8], double (&t)[8], const double2 *own,
                                          const double2 *table, uint32_t pairs, double &moved,
                                          double &size)
{
#pragma unroll
    for (int c = 0; c < 8; c++) {
        const double *const k = (const double *)(table + c / 2) + c % 2;
        const uint32_t row = 2 * pairs;
        const double was = x[c];
        x[c] = step<SIMPLE>(was, t[c], k[TS_DESCEND_INVERSE * row],
                            SIMPLE ? 0 : k[TS_DESCEND_THRESHOLD * row], k[TS_DESCEND_LOWER * row],
                            SIMPLE ? 0 : k[TS_DESCEND_UPPER * row]);
        const double change = x[c] - was;
        moved += change * change;
        size += x[c] * x[c];
#pragma unroll
        for (int j = (c + 1) / 2; j < 4; j++) {
            const double2 g = own[4 * c + j];
            t[2 * j] -= change * g.x;
            t[2 * j + 1] -= change * g.y;
        }
    }
}

/* Data for all units of a thread block: the matrix G as fragments (pairs in the order of the
 * lanes), and the table of the columns' parameters. */
template <int B> struct narrow_tables {
    double2 g[B * B * 32];
    double2 table[TS_DESCEND_TABLE * B * 4];

    __device__ __forceinline__ void load(const ts_descend &d)
    {
        for (uint32_t k = threadIdx.x; k < B * B * 32; k += blockDim.x) {
            const uint32_t row = k / 32 / B * 8 + k % 32 / 4;
            const uint32_t column = k / 32 % B * 8 + 2 * (k % 4);
            g[k] = load_pair(d.g, row, d.ld, column, d.ld);
        }
        for (uint32_t k = threadIdx.x; k < TS_DESCEND_TABLE * B * 4; k += blockDim.x)
            table[k] = load_pair(d.table, k / (B * 4), TS_DESCEND_TABLE, 2 * (k % (B * 4)), d.ld);
        __syncthreads();
    }
};

/* Makes the steps of coordinate descent on columns 8 b .. 8 b + 7 of a unit of rows. */
template <class T, class A, int B, bool SIMPLE>
static __device__ __forceinline__ void
narrow_eight(const unit_rows<T, A> &unit, uint32_t ld, int b, const narrow_tables<B> &shared,
             const turned &of_t, const turned &of_x, double (&x)[B][TILES][2], double &moved,
             double &size)
{
    const uint32_t lane = threadIdx.x % 32, i = lane / 4, j = lane % 4;
    double t[TILES / 2][4] = {}, rest[8], mine[8];
    double2 want[TILES];
    uint32_t here = ld;
    /* keeps the compiler from moving up the loads of all columns, for which registers do not
     * suffice */
    asm volatile("" : "+r"(here)::"memory");
#pragma unroll
    for (int q = 0; q < TILES; q++) {
        want[q] = load_pair(unit.m, 8 * q + i, unit.n_rows, 8 * b + 2 * j, here);
        of_x.put_tile(q, lane, x[b][q][0], x[b][q][1]);
    }
#pragma unroll
    for (int c = 0; c < B; c++) {
        const double2 right = shared.g[(b * B + c) * 32 + lane];
        const double both[2] = { right.x, right.y };
#pragma unroll
        for (int q = 0; q < TILES; q += 2)
            multiply_add_pair(t[q / 2], x[c][q], x[c][q + 1], both);
    }
#pragma unroll
    for (int q = 0; q < TILES; q++)
        of_t.put_tile(q, lane, want[q].x - t[q / 2][q % 2 * 2],
                      want[q].y - t[q / 2][q % 2 * 2 + 1]);
    __syncwarp();
    of_t.row(lane, rest);
    of_x.row(lane, mine);
    descend_row<SIMPLE>(mine, rest, shared.g + (b * B + b) * 32, shared.table + b * 4, B * 4, moved,
                        size);
    of_x.put_row(lane, mine); /* no other lane accesses this row */
    __syncwarp();
#pragma unroll
    for (int q = 0; q < TILES; q++) {
        const double2 now = of_x.tile(q, lane);
        x[b][q][0] = now.x;
        x[b][q][1] = now.y;
    }
    __syncwarp(); /* the next columns overwrite t and x in shared memory */
}

template <class T, class A, int B, bool SIMPLE>
static __global__ void __launch_bounds__(32 * NARROW_WARPS, 4)
    descend_narrow(const struct ts_descend d)
{
    __shared__ narrow_tables<B> shared;
    __shared__ double2 room[NARROW_WARPS][2][TILE_LANES];
    const uint32_t lane = threadIdx.x % 32, i = lane / 4, j = lane % 4;
    const uint64_t stride = gridDim.x * (uint64_t)NARROW_WARPS;
    const turned of_t = { room[threadIdx.x / 32][0] }, of_x = { room[threadIdx.x / 32][1] };

    shared.load(d);
    for (uint64_t k = blockIdx.x * (uint64_t)NARROW_WARPS + threadIdx.x / 32; k < d.n_units;
         k += stride) {
        const unit_rows<T, A> unit(d, k);
        double x[B][TILES][2], inner = 0, sum = 0;
#pragma unroll
        for (int b = 0; b < B; b++) {
            const double2 weight = shared.table[TS_DESCEND_WEIGHT * B * 4 + b * 4 + j];
#pragma unroll
            for (int q = 0; q < TILES; q++) {
                const double2 old = load_pair(unit.a, 8 * q + i, unit.n_rows, 8 * b + 2 * j, d.ld);
                x[b][q][0] = old.x * weight.x;
                x[b][q][1] = old.y * weight.y;
            }
        }
        for (uint32_t round = 0; round < d.rounds; round++) {
            double moved = 0, size = 0;
#pragma unroll
            for (int b = 0; b < B; b++)
                narrow_eight<T, A, B, SIMPLE>(unit, d.ld, b, shared, of_t, of_x, x, moved, size);
            moved = warp_sum(moved);
            size = warp_sum(size);
            if (is_last_round(d, moved, size))
                break;
        }
#pragma unroll
        for (int b = 0; b < B; b++)
#pragma unroll
            for (int q = 0; q < TILES; q++)
                if (unit.has(d, 8 * q + i, 8 * b + 2 * j))
                    unit.keep(d, 8 * q + i, 8 * b + 2 * j, make_double2(x[b][q][0], x[b][q][1]),
                              inner, sum);
        if (d.inner != NULL)
            inner = warp_sum(inner);
        if (d.size != NULL)
            sum = warp_sum(sum);
        if (lane == 0 && d.inner != NULL)
            d.inner[d.first_unit + k] = inner;
        if (lane == 0 && d.size != NULL)
            d.size[d.first_unit + k] = sum;
    }
}

/* ------------------------------------------------------------------ units of any length
 *
 * A thread block has a unit. Its rows x are stored in shared memory or, if that is too small, in
 * `scratch`, as tiles: pair [(b * TILES + q) * 32 + lane] belongs to tile q of columns 8 b .. 8 b +
 * 7. For eight columns of x G, each warp computes a partial sum over every WARPS-th group of eight
 * rows of G. It reads G from the caches once for all 32 rows. Then warp q adds the partial sums of
 * tile q and makes its steps.
 *
 *   launch  any number of thread blocks; if x is in `scratch`, as many as fit there
 *   shared  WARPS x TILE_LANES pairs, then x unless it is in `scratch` */
/* Stores in `share` the warp's part of x G (rows times the matrix G) in columns 8 b .. 8 b + 7. */
template <int WARPS>
static __device__ __forceinline__ void share_product(const ts_descend &d, const double2 *x,
                                                     uint32_t b, double2 *share)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = lane / 4, j = lane % 4;
    const uint32_t ld = d.ld, eights = (ld + 7) / 8;
    double t[TILES][2] = {};
    /* Columns past the end read the last row of G. These columns of x are 0 and stay 0. */
    const double *const right = d.g + (uint64_t)min(8 * b + i, ld - 1) * ld;
#pragma unroll 4
    for (uint32_t c = warp; c < eights; c += WARPS) {
        const double2 g = load2(right + min(8 * c + 2 * j, ld - 2));
#pragma unroll
        for (int q = 0; q < TILES; q++) {
            const double2 left = x[c * TILE_LANES + q * 32 + lane];
            multiply_add(t[q], left.x, g.x);
            multiply_add(t[q], left.y, g.y);
        }
    }
#pragma unroll
    for (int q = 0; q < TILES; q++)
        share[warp * TILE_LANES + q * 32 + lane] = make_double2(t[q][0], t[q][1]);
}

/* Makes the coordinate-descent steps on the warp's tile in columns 8 b .. 8 b + 7, after all warps
 * have stored their parts of x G (rows times the matrix G). */
template <int WARPS, bool SIMPLE, class T, class A>
static __device__ __forceinline__ void step_tile(const ts_descend &d, const unit_rows<T, A> &unit,
                                                 uint32_t b, const double2 *share, double2 *x,
                                                 double &moved, double &size)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = lane / 4, j = lane % 4;
    const uint32_t ld = d.ld, column = min(8 * b + 2 * j, ld - 2);
    double2 *const mine = x + b * TILE_LANES + warp * 32 + lane;
    double2 g[8];
    double tile[1][2] = { { mine->x, mine->y } }, left[1][2];
    const double2 want = load_pair(unit.m, 8 * warp + i, unit.n_rows, 8 * b + 2 * j, ld);
    columns k = load_columns<SIMPLE>(d.table + column, ld);
    double2 all = make_double2(0, 0);
    if (8 * b + 2 * j >= ld)
        k = {};
#pragma unroll
    for (int c = 0; c < 8; c++)
        g[c] = load2(d.g + (uint64_t)min(8 * b + c, ld - 1) * ld + column);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        const double2 s = share[w * TILE_LANES + warp * 32 + lane];
        all.x += s.x;
        all.y += s.y;
    }
    left[0][0] = want.x - all.x;
    left[0][1] = want.y - all.y;
    descend_tiles<SIMPLE, 1>(
        tile, left, [&](int c) { return g[c]; }, k, moved, size);
    *mine = make_double2(tile[0][0], tile[0][1]);
}

/* Stores two sums of each warp in shared memory, where all warps can read them after the call. */
template <int WARPS>
static __device__ __forceinline__ void tell_sums(double (&sums)[2][WARPS], double first,
                                                 double second)
{
    first = warp_sum(first);
    second = warp_sum(second);
    if (threadIdx.x % 32 == 0) {
        sums[0][threadIdx.x / 32] = first;
        sums[1][threadIdx.x / 32] = second;
    }
    __syncthreads();
}

template <class T, class A, int WARPS, bool SIMPLE>
static __global__ void __launch_bounds__(32 * WARPS, WARPS == 4 ? 4 : 2)
    descend_wide(const struct ts_descend d, bool in_scratch)
{
    extern __shared__ double2 memory[];
    __shared__ double sums[2][WARPS];
    const uint32_t ld = d.ld, eights = (ld + 7) / 8;
    double2 *const share = memory;
    double2 *const x = in_scratch
                           ? (double2 *)d.scratch + blockIdx.x * (uint64_t)eights * TILE_LANES
                           : memory + WARPS * TILE_LANES;
    static_assert(WARPS >= TILES, "a warp for each tile");

    for (uint64_t number = blockIdx.x; number < d.n_units; number += gridDim.x) {
        const unit_rows<T, A> unit(d, number);
        double inner = 0, sum = 0;
        for (uint32_t k = threadIdx.x; k < eights * TILE_LANES; k += 32 * WARPS) {
            const uint32_t column = k / TILE_LANES * 8 + 2 * (k % 4);
            const double2 old = load_pair(unit.a, k % TILE_LANES / 4, unit.n_rows, column, ld);
            const double2 weight = load2(d.table + TS_DESCEND_WEIGHT * ld + min(column, ld - 2));
            x[k] = make_double2(old.x * weight.x, old.y * weight.y);
        }
        __syncthreads();
        for (uint32_t round = 0; round < d.rounds; round++) {
            double moved = 0, size = 0;
            for (uint32_t b = 0; b < eights; b++) {
                share_product<WARPS>(d, x, b, share);
                __syncthreads();
                if (threadIdx.x / 32 < TILES)
                    step_tile<WARPS, SIMPLE>(d, unit, b, share, x, moved, size);
                __syncthreads();
            }
            tell_sums(sums, moved, size);
            moved = size = 0;
#pragma unroll
            for (int w = 0; w < TILES; w++) {
                moved += sums[0][w];
                size += sums[1][w];
            }
            __syncthreads(); /* the next round overwrites the sums */
            if (is_last_round(d, moved, size))
                break;
        }
        for (uint32_t k = threadIdx.x; k < eights * TILE_LANES; k += 32 * WARPS) {
            const uint32_t row = k % TILE_LANES / 4, column = k / TILE_LANES * 8 + 2 * (k % 4);
            if (unit.has(d, row, column))
                unit.keep(d, row, column, x[k], inner, sum);
        }
        tell_sums(sums, inner, sum);
        if (threadIdx.x == 0) {
            inner = sum = 0;
            for (int w = 0; w < WARPS; w++) {
                inner += sums[0][w];
                sum += sums[1][w];
            }
            if (d.inner != NULL)
                d.inner[d.first_unit + number] = inner;
            if (d.size != NULL)
                d.size[d.first_unit + number] = sum;
        }
        __syncthreads(); /* the next unit of rows overwrites x and the sums */
    }
}

/* ------------------------------------------------------------------ sums of rows that do not
 * change */

/* Computes the sums `inner` and `size` (struct ts_row_sums) of rows that do not change: each warp
 * those of a unit (32 rows), whose elements are contiguous. */
template <class T, class A>
static __global__ void __launch_bounds__(32 * KEEP_WARPS) keep_rows(const struct ts_descend d)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t step = gridDim.x * (uint64_t)KEEP_WARPS;
    for (uint64_t unit = d.first_unit + blockIdx.x * (uint64_t)KEEP_WARPS + threadIdx.x / 32;
         unit < d.first_unit + d.n_units; unit += step) {
        const uint64_t first = unit * TS_DESCEND_UNIT;
        const uint32_t n = (uint32_t)min((uint64_t)TS_DESCEND_UNIT, d.n_rows - first) * d.ld;
        const T *const m = (const T *)d.m + first * d.ld;
        const A *const a = (const A *)d.a + first * d.ld;
        double inner = 0, sum = 0;
#pragma unroll 4
        for (uint32_t k = lane; k < n; k += 32) {
            const double x = (double)a[k] * d.table[TS_DESCEND_WEIGHT * d.ld + k % d.ld];
            inner += (double)m[k] * x;
            sum += fabs(x);
        }
        inner = warp_sum(inner);
        sum = warp_sum(sum);
        if (lane == 0 && d.inner != NULL)
            d.inner[unit] = inner;
        if (lane == 0 && d.size != NULL)
            d.size[unit] = sum;
    }
}

/* ------------------------------------------------------------------ launches of kernels */

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

template <class T, class A, int B, bool SIMPLE>
static cudaError_t launch_narrow(const struct ts_descend *d, cudaStream_t s)
{
    const uint64_t blocks = (d->n_units + NARROW_WARPS - 1) / NARROW_WARPS;
    descend_narrow<T, A, B, SIMPLE><<<least(blocks, NARROW_BLOCKS), 32 * NARROW_WARPS, 0, s>>>(*d);
    return cudaGetLastError();
}

template <class T, class A, int WARPS, bool SIMPLE>
static cudaError_t launch_wide(const struct ts_descend *d, cudaStream_t s)
{
    const uint64_t of_x = (d->ld + 7) / 8 * (uint64_t)TILE_LANES * sizeof(double2);
    const uint64_t room = ts_dense_scratch(d->ld) * sizeof(double) / of_x;
    uint64_t bytes = WARPS * TILE_LANES * sizeof(double2);
    int device, most = 0;
    cudaError_t rc = cudaGetDevice(&device);
    if (rc == cudaSuccess)
        rc = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    const bool in_scratch = bytes + of_x + 1024 > (uint64_t)most;
    bytes += in_scratch ? 0 : of_x;
    if (rc == cudaSuccess)
        rc = cudaFuncSetAttribute(descend_wide<T, A, WARPS, SIMPLE>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (rc != cudaSuccess)
        return rc;
    descend_wide<T, A, WARPS, SIMPLE>
        <<<least(d->n_units, in_scratch ? room : INT32_MAX), 32 * WARPS, bytes, s>>>(*d,
                                                                                     in_scratch);
    return cudaGetLastError();
}

template <class T, class A, bool SIMPLE>
static cudaError_t launch(const struct ts_descend *d, cudaStream_t s)
{
    if (d->ld <= 8)
        return launch_narrow<T, A, 1, SIMPLE>(d, s);
    if (d->ld <= 16)
        return launch_narrow<T, A, 2, SIMPLE>(d, s);
    if (d->ld <= 32)
        return launch_narrow<T, A, 4, SIMPLE>(d, s);
    if (d->ld <= 128) /* with few columns, more thread blocks hide the waits at barriers */
        return launch_wide<T, A, 4, SIMPLE>(d, s);
    return launch_wide<T, A, 8, SIMPLE>(d, s);
}

template <class T, class A>
static cudaError_t launch_keep(const struct ts_descend *d, cudaStream_t s)
{
    const uint64_t blocks = (d->n_units + KEEP_WARPS - 1) / KEEP_WARPS;
    keep_rows<T, A><<<least(blocks, NARROW_BLOCKS), 32 * KEEP_WARPS, 0, s>>>(*d);
    return cudaGetLastError();
}

ts_gpu_error ts_descend_rows(const struct ts_descend *d, ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    if (d->n_units == 0)
        return cudaSuccess;
    if (d->precision == TS_FLOAT64)
        return d->simple ? launch<double, double, true>(d, s) : launch<double, double, false>(d, s);
    if (d->wide)
        return d->simple ? launch<double, float, true>(d, s) : launch<double, float, false>(d, s);
    return d->simple ? launch<float, float, true>(d, s) : launch<float, float, false>(d, s);
}

ts_gpu_error ts_descend_keep(const struct ts_descend *d, ts_gpu_stream stream)
{
    const cudaStream_t s = stream;
    if (d->n_units == 0)
        return cudaSuccess;
    if (d->precision == TS_FLOAT64)
        return launch_keep<double, double>(d, s);
    return d->wide ? launch_keep<double, float>(d, s) : launch_keep<float, float>(d, s);
}
