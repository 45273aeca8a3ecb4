/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of observed cells whose Gram matrices lie in device memory: a thread block takes one share after another, and of it the rows
 * that begin there.
 *
 * The products p of up to BATCH nonzeros of a row are stored as the rows of P, their values x behind them as one more column: so
 * [P x]' [P x] has S and m, and U of U' U = S, computed in place by blocks of 32 columns, has U'^-1 m there. Products of P and of blocks
 * of U are by tensor cores, of tiles of 32 x 32, a warp each. Everything is in one order, which the row alone decides on.
 *
 * Rows within bounds are found by block principal pivoting, as everywhere (cpu/bounded_row.h). The lower triangle keeps S meanwhile; the
 * matrix of the free entries alone, which is of lower order, is copied from there to the upper one, and factored like S.
 *
 * Products are in the precision of the rows, the rest in float64, as in observed_wide.cu. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/observed_long.h"

#include <cuda_runtime.h>

#include "gpu/mttkrp_stages.cuh"
#include "gpu/observed_stages.cuh"
#include "gpu/row_pairs.cuh"
#include "gpu/tensor_core.cuh"

enum {
    LONG_WARPS = 8,
    THREADS = 32 * LONG_WARPS,
    SIDE = 32, /* of a tile */
    BATCH = TS_OBSERVED_LONG_BATCH
};

/* ------------------------------------------------------------------ memory */

static __host__ __device__ inline uint32_t padded(uint32_t n)
{
    return (n + SIDE - 1) / SIDE * SIDE;
}

/* A place, of rows of up to n columns, a multiple of SIDE. A system of order k has the upper triangle of its matrix in S(0 .. k - 1,
 * 0 .. k - 1) and what it is solved for in column padded(k), with zeros in what is left of these tiles. The lower triangle is free,
 * where entries have no bounds. */
struct long_memory {
    uint32_t n, stride; /* of s and p */
    double *s, *p;      /* n and BATCH rows */
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
    /* Of the symmetric S, what it was before, where the lower triangle keeps it. */
    __device__ inline double before(uint32_t i, uint32_t j) const
    {
        return i == j ? diagonal[i] : i < j ? s[j * stride + i] : s[i * stride + j];
    }
};

/* A place that no other thread block has. Those who have one wait for nobody, so that it comes. */
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

/* ------------------------------------------------------------------ products */

/* Tile (i, j) of c += or -= sum over k < n_k, a multiple of 4, of  a(k, row) a(k, column); entry a(k, i) is at k * k_step + i * i_step.
 * begin: c is 0 before. Of a tile on the diagonal the upper triangle is stored. By one warp. */
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

/* The tiles (i, j), first <= i < rows, i <= j < columns, each by a warp; all threads call, and see them then. */
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

/* ------------------------------------------------------------------ a system */

/* A tile of S on the diagonal, in shared memory; every thread block has one. */
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

/* U' U := a tile, by one warp. A column of which no more than rounding is left gets 0. */
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

/* U' U := S of order n, a multiple of SIDE, in place of its upper triangle; column n := U'^-1 column n. All threads call. */
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

/* a := U^-1 column n. All threads call. */
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

/* ------------------------------------------------------------------ bounds */

/* y := m - S a, of the first `rank` entries. S is what it was before; all threads call. */
static __device__ inline void subtract_long(const long_memory &w, uint32_t rank, const double *a,
                                            double *y)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (uint32_t i = warp; i < rank; i += LONG_WARPS) {
        double sum = lane == 0 ? w.diagonal[i] * a[i] : 0;
        for (uint32_t j = lane; j < i; j += 32)
            sum += w.s[i * w.stride + j] * a[j];
        sum = warp_sum(sum);
        if (lane == 0)
            y[i] = w.right[i] - sum;
    }
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < rank; j += THREADS) {
        double left = y[j];
#pragma unroll 8
        for (uint32_t i = j / 32 * 32; i < rank; i++) /* the same i in all lanes */
            left -= i > j ? w.s[i * w.stride + j] * a[i] : 0;
        y[j] = left;
    }
    __syncthreads();
}

/* From a, clamped, to the best row within the bounds: coordinate descent to the end, y (n) being what is left of m. All threads
 * call, and know what each step does. */
static __device__ inline void descend_long(const long_memory &w, const ts_gpu_observed &o,
                                           double tolerance, double *y)
{
    for (uint32_t j = threadIdx.x; j < o.rank; j += THREADS)
        w.a[j] = fmin(fmax(w.a[j], o.lower), o.upper);
    __syncthreads();
#pragma unroll 1
    for (int round = 0; round < 500; round++) {
        double change = 0, size = 0;
        subtract_long(w, o.rank, w.a, y);
#pragma unroll 1
        for (uint32_t k = 0; k < o.rank; k++) {
            const double old = w.a[k], diagonal = w.diagonal[k];
            const double now =
                diagonal > 0 ? fmin(fmax(old + y[k] / diagonal, o.lower), o.upper) : old;
            change += (now - old) * (now - old);
            size += now * now;
            if (now == old)
                continue;
            __syncthreads(); /* all have read a and y */
            if (threadIdx.x == 0)
                w.a[k] = now;
            for (uint32_t j = threadIdx.x; j < o.rank; j += THREADS)
                y[j] -= w.before(k, j) * (now - old);
            __syncthreads();
        }
        if (change <= tolerance * tolerance * size)
            break;
        __syncthreads(); /* y is written again */
    }
    __syncthreads();
}

/* What pivoting has where P was: what is left of m; a, with 0 for what is free; which entries are free, in their order; and their
 * system, whose matrix is factored in the upper triangle of S. */
struct pivot_memory {
    double *left, *fixed;
    uint32_t *entry;
    long_memory free;

    __device__ pivot_memory(const long_memory &w) : free(w)
    {
        left = w.p;
        fixed = left + w.n;
        free.diagonal = fixed + w.n;
        free.a = free.diagonal + w.n;
        entry = (uint32_t *)(free.a + w.n);
    }
};

/* Tile (i, j) of the matrix of the n free entries; by one warp. */
static __device__ inline void copy_free_tile(const long_memory &w, const pivot_memory &p,
                                             uint32_t n, uint32_t i, uint32_t j)
{
    const uint32_t column = SIDE * j + threadIdx.x % 32;
    const uint32_t at = p.entry[min(column, n - 1)];
#pragma unroll 1
    for (uint32_t row = SIDE * i; row < SIDE * (i + 1); row += 8) {
        double x[8]; /* loads do not wait for stores */
#pragma unroll
        for (uint32_t k = 0; k < 8; k++)
            x[k] = column < n && row + k <= column ? w.before(p.entry[row + k], at) : 0;
#pragma unroll
        for (uint32_t k = 0; k < 8; k++)
            if (row + k <= column)
                w.s[(row + k) * w.stride + column] = x[k];
    }
}

/* The n free entries, solved for as if the others stood where they are. Returns whether no column of them was left out. All threads
 * call. */
static __device__ inline bool solve_free(const long_memory &w, const pivot_memory &p, uint32_t rank,
                                         uint32_t n, double cut, diagonal_tile &tile)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, end = padded(n);
    bool whole = true;
    subtract_long(w, rank, p.fixed, p.left);
    for (uint32_t i = 0, at = warp; i < end / SIDE; i++) {
        for (; at < end / SIDE - i; at += LONG_WARPS)
            copy_free_tile(w, p, n, i, i + at);
        at -= end / SIDE - i;
    }
    for (uint32_t i = warp; i < end; i += LONG_WARPS) {
        const uint32_t at = p.entry[min(i, n - 1)];
        w.s[i * w.stride + end + lane] = i < n && lane == 0 ? p.left[at] : 0;
        if (lane == 0)
            p.free.diagonal[i] = i < n ? w.diagonal[at] : 0;
    }
    __syncthreads();
    factor_long(p.free, end, cut, tile);
    for (uint32_t k = threadIdx.x; k < n; k += THREADS)
        whole = whole && w.inverse[k] > 0;
    substitute_long(p.free, end, tile);
    for (uint32_t k = threadIdx.x; k < n; k += THREADS)
        w.a[p.entry[k]] = p.free.a[k];
    return __syncthreads_and(whole);
}

/* Of entries lane + 32 c, as bits c, in the lanes of the first warp. */
struct long_sides {
    uint64_t free, at_upper;
    uint32_t least, spare;
    static_assert(TS_OBSERVED_LONG_MOST <= 32 * 64, "a lane has a bit for each of its entries");
};

/* Entries that are wrong change sides, as cpu/bounded_row.h says; those that leave the free ones go to their bounds. Returns how many are
 * wrong. By the first warp. */
static __device__ inline uint32_t change_sides(const long_memory &w, const ts_gpu_observed &o,
                                               const double *left, double tolerance, uint32_t lane,
                                               long_sides &side)
{
    uint64_t change = 0, above = 0;
    uint32_t last = 0;
    double few = 0;
    for (uint32_t j = lane; j < o.rank; j += 32)
        few += w.a[j] * w.a[j] * w.diagonal[j];
    few = (tolerance > 1e-13 ? tolerance : 1e-13) * sqrt(warp_sum(few));
    for (uint32_t c = 0, j = lane; j < o.rank; c++, j += 32) {
        const double a = w.a[j], most = few * sqrt(w.diagonal[j]);
        const bool wrong = side.free >> c & 1       ? a < o.lower || a > o.upper
                           : side.at_upper >> c & 1 ? left[j] < -most
                                                    : left[j] > most;
        change |= (uint64_t)wrong << c;
        above |= (uint64_t)(a > o.upper) << c;
        last = wrong ? j : last;
    }
    const uint32_t number = __reduce_add_sync(ALL_LANES, __popcll(change));
    if (number < side.least) {
        side.least = number;
        side.spare = 3;
    } else if (side.spare > 0) {
        side.spare--;
    } else {
        last = __reduce_max_sync(ALL_LANES, last);
        change &= last % 32 == lane ? UINT64_C(1) << last / 32 : 0;
    }
    const uint64_t bound = change & side.free;
    for (uint32_t c = 0, j = lane; j < o.rank; c++, j += 32)
        if (bound >> c & 1)
            w.a[j] = above >> c & 1 ? o.upper : o.lower;
    side.at_upper = (side.at_upper & ~change) | (bound & above);
    side.free ^= change;
    return number;
}

/* Lists the free entries, and what the others are. Returns how many are free. By the first warp. */
static __device__ inline uint32_t list_free(const long_memory &w, const pivot_memory &p,
                                            uint32_t rank, uint32_t lane, uint64_t free)
{
    uint32_t n = 0;
    for (uint32_t c = 0; 32 * c < rank; c++) {
        const uint32_t j = 32 * c + lane;
        const bool mine = j < rank && (free >> c & 1) != 0;
        const uint32_t all = __ballot_sync(ALL_LANES, mine);
        if (mine)
            p.entry[n + __popc(all & ((1u << lane) - 1))] = j;
        if (j < rank)
            p.fixed[j] = mine ? 0 : w.a[j];
        n += __popc(all);
    }
    return n;
}

/* Whether block principal pivoting (cpu/bounded_row.h) finds the best row within the bounds, which is in w.a then; from w.a, which
 * solves S a = m. All threads call, and know the same. */
static __device__ inline bool pivot_long(const long_memory &w, const ts_gpu_observed &o, double cut,
                                         double tolerance, diagonal_tile &tile)
{
    __shared__ uint32_t wrong, n_free;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const pivot_memory p(w);
    long_sides side = { UINT64_MAX, 0, UINT32_MAX, 3 };
    bool positive = true;
    for (uint32_t j = threadIdx.x; j < o.rank; j += THREADS)
        positive = positive && w.diagonal[j] > 0;
    if (!__syncthreads_and(positive))
        return false;
#pragma unroll 1
    for (int k = 0; k < 100; k++) {
        if (k > 0 && !solve_free(w, p, o.rank, n_free, cut, tile))
            return false;
        subtract_long(w, o.rank, w.a, p.left);
        if (warp == 0) {
            const uint32_t number = change_sides(w, o, p.left, tolerance, lane, side);
            const uint32_t n = list_free(w, p, o.rank, lane, side.free);
            if (lane == 0) {
                wrong = number;
                n_free = n;
            }
        }
        __syncthreads();
        if (wrong == 0)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ one row */

/* Stores row a; all threads call. */
template <class T>
static __device__ inline void store_long(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                         const long_memory &w, uint32_t row, double count)
{
    T *const to = (T *)p.out + (uint64_t)row * p.ld;
    double square = 0;
    if (threadIdx.x < 32) {
        for (uint32_t j = threadIdx.x; j < p.ld; j += 32) {
            const T kept = (T)(count > 0 && j < o.rank ? w.a[j] : 0.0);
            to[j] = kept;
            square += (double)kept * (double)kept;
        }
        square = warp_sum(square);
        if (threadIdx.x == 0 && o.size != NULL)
            o.size[row] = (o.by_count ? count : 1.0) * square;
    }
    __syncthreads(); /* a is written again */
}

/* Adds l2 to a diagonal of order k, of which the rest up to n stays 0. */
static __device__ inline void add_l2(const long_memory &w, uint32_t k, uint32_t n, double l2)
{
    for (uint32_t j = threadIdx.x; j < n; j += THREADS)
        w.diagonal[j] = w.s[j * w.stride + j] += j < k ? l2 : 0;
    __syncthreads();
}

/* Solves for a row, S and m being in w.s; all threads call. */
template <class T>
static __device__ inline void solve_long(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                         const long_memory &w, uint32_t row, double count,
                                         diagonal_tile &tile)
{
    if (count > 0) {
        add_l2(w, o.rank, w.n, o.l2 * (o.by_count ? count : 1.0));
        if (is_bounded(o)) {
            for (uint32_t i = 0; i < o.rank; i++)
                for (uint32_t j = i + 1 + threadIdx.x; j < o.rank; j += THREADS)
                    w.s[j * w.stride + i] = w.s[i * w.stride + j];
            for (uint32_t j = threadIdx.x; j < o.rank; j += THREADS)
                w.right[j] = w.s[j * w.stride + w.n];
            __syncthreads();
        }
        factor_long(w, w.n, cut_of<T>(o), tile);
        substitute_long(w, w.n, tile);
        if (is_bounded(o)) { /* P is not read any more */
            const double tolerance = sizeof(T) == sizeof(float) ? 1e-7 : 1e-15;
            if (!pivot_long(w, o, cut_of<T>(o), tolerance, tile))
                descend_long(w, o, tolerance, w.p);
        }
    }
    store_long<T>(p, o, w, row, count);
}

/* Solves for a row that has q nonzeros, of which P and values are in w.p: (P P' + l2 I) y = x, a = P' y. All threads call. */
template <class T>
static __device__ inline void solve_few(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                        const long_memory &w, uint32_t row, uint32_t q,
                                        double count, diagonal_tile &tile)
{
    const uint32_t n = padded(q);
    if (count > 0) {
        add_tiles_of(w.p, 1, w.stride, w.n, 1, true, 0, n / SIDE, n / SIDE, w.s, w.stride);
        for (uint32_t k = threadIdx.x; k < n * SIDE; k += THREADS)
            w.s[k / SIDE * w.stride + n + k % SIDE] =
                k % SIDE == 0 ? w.p[k / SIDE * w.stride + w.n] : 0;
        __syncthreads();
        add_l2(w, q, n, o.l2 * (o.by_count ? count : 1.0));
        factor_long(w, n, cut_of_few(o), tile);
        substitute_long(w, n, tile);
        /* a is y: it becomes the row, by way of what is not in use */
        for (uint32_t j = threadIdx.x; j < w.n; j += THREADS) {
            double a = 0;
            for (uint32_t i = 0; i < q; i++)
                a += w.p[i * w.stride + j] * w.a[i];
            w.right[j] = a;
        }
        __syncthreads();
        for (uint32_t j = threadIdx.x; j < w.n; j += THREADS)
            w.a[j] = w.right[j];
        __syncthreads();
    }
    store_long<T>(p, o, w, row, count);
}

/* S, m and the count to a part; all threads call. */
static __device__ inline void pack_long(const long_memory &w, uint32_t rank, double count,
                                        double *to)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (uint32_t i = warp; i < rank; i += LONG_WARPS)
        for (uint32_t j = i + lane; j < rank; j += 32)
            to[packed_at(i, j, rank)] = w.s[i * w.stride + j];
    to += (uint64_t)rank * (rank + 1) / 2;
    for (uint32_t j = threadIdx.x; j < rank; j += THREADS)
        to[j] = w.s[j * w.stride + w.n];
    if (threadIdx.x == 0)
        to[rank] = count;
    __syncthreads();
}

/* ------------------------------------------------------------------ sums */

/* The row under way: q of its nonzeros are in P, `summed`: S has those before. The same in all threads. */
struct long_row {
    uint32_t q;
    bool summed;
    double count;
};

/* Rows q .. of P up to a multiple of `unit` become 0. */
static __device__ inline void fill_up(const long_memory &w, uint32_t q, uint32_t unit)
{
    const uint32_t end = (q + unit - 1) / unit * unit;
    for (uint32_t k = q * w.stride + threadIdx.x; k < end * w.stride; k += THREADS)
        w.p[k] = 0;
    __syncthreads();
}

/* What is in P goes to S. */
static __device__ inline void sum_batch(const long_memory &w, long_row &r)
{
    fill_up(w, r.q, 4);
    add_tiles_of(w.p, w.stride, 1, (r.q + 3) / 4 * 4, 1, !r.summed, 0, w.n / SIDE, w.n / SIDE + 1,
                 w.s, w.stride);
    r.summed = true;
    r.q = 0;
}

/* Adds the nonzeros at positions pos .. end - 1 of a block to the row under way. A nonzero that is not kept has a row of zeros. */
template <class T, class WEIGHTS>
static __device__ inline void add_long(const ts_gpu_mttkrp &p, const warp_memory<T, LANES, 0> &mem,
                                       const WEIGHTS &weights, const uint32_t *kept, uint32_t pos,
                                       uint32_t end, const long_memory &w, long_row &r)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    while (pos < end) {
        const uint32_t n = min(end - pos, BATCH - r.q);
        for (uint32_t k = warp; k < n; k += LONG_WARPS) {
            const uint32_t at = pos + k, place = spread<LANES>::at(at);
            const bool on = kept[at / 32] >> at % 32 & 1;
            double *const to = w.p + (r.q + k) * w.stride;
            for (uint32_t c = lane; c < w.stride; c += 32) {
                T x[1] = { 0 };
                if (on && c < p.ld) {
                    x[0] = ((const T *)p.factor[0])[(uint64_t)mem.index[place] * p.ld + c];
                    for (uint32_t l = 1; l < p.n_levels; l++)
                        x[0] *= ((const T *)p.factor[l])
                            [(uint64_t)mem.index[l * spread<LANES>::words + place] * p.ld + c];
                    weights.weigh(place, x);
                } else if (on && c == w.n) {
                    x[0] = mem.val[place];
                }
                to[c] = (double)x[0];
            }
        }
        for (uint32_t k = pos; k < pos + n; k++)
            if (kept[k / 32] >> k % 32 & 1)
                r.count += weights.of_cell(spread<LANES>::at(k));
        r.q += n;
        pos += n;
        __syncthreads();
        if (r.q == BATCH && pos < end)
            sum_batch(w, r);
    }
}

/* The row under way has ended. at_end: it may go on in another shard, so that it is solved for by S, as the sum of several parts
 * would be; part: where it goes then, or NULL. */
template <class T>
static __device__ inline void end_long(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                       const long_memory &w, uint32_t row, bool at_end,
                                       double *part, diagonal_tile &tile, long_row &r)
{
    if (!at_end && !r.summed && r.q < o.rank && is_plain(o)) {
        fill_up(w, r.q, SIDE);
        solve_few<T>(p, o, w, row, r.q, r.count, tile);
    } else {
        sum_batch(w, r);
        if (part != NULL)
            pack_long(w, o.rank, r.count, part);
        else
            solve_long<T>(p, o, w, row, r.count, tile);
    }
    r = { 0, false, 0 };
}

/* ------------------------------------------------------------------ a share */

/* Where the first or the last row of a shard goes. */
static __device__ inline double *end_of(const ts_gpu_observed &o, const ts_gpu_shard &shard,
                                        uint32_t row)
{
    const uint64_t part = 2 * (uint64_t)shard.number + (row != shard.row_first);
    return o.ends == NULL ? NULL : o.ends + part * ts_observed_part(o.rank);
}

/* The rows that begin in blocks first .. end - 1 of a shard, to where they end in it. */
template <class T, bool WEIGHTED>
static __device__ inline void
take_share(const ts_gpu_mttkrp &p, const ts_gpu_observed &o, const ts_gpu_shard &shard,
           uint32_t first, uint32_t end, const warp_memory<T, LANES, 0> &mem,
           const block_weights<T, WEIGHTED> &weights, const long_memory &w, wide_block &block,
           diagonal_tile &tile)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_blocks = shard.n_blocks;
    long_row r = { 0, false, 0 };
    bool open = false, own = true; /* a row goes on from the block before; it began in the share */
#pragma unroll 1
    for (uint32_t b = first > 0 ? first - 1 : 0; b < n_blocks; b++) {
        __syncthreads(); /* the block before was taken */
        if (warp == 0)
            decode_wide(p, o, shard, mem, weights, b, n_blocks, lane, block);
        __syncthreads();
        if (b < first) {
            open = !block.closed;
            own = !open;
            continue;
        }
        uint32_t row = block.row;
#pragma unroll 1
        for (uint32_t pos = 0, stop; pos < block.n && (b < end || open); pos = stop) {
            stop = pos + 1;
            while (stop < block.n && (block.begins[stop / 32] >> stop % 32 & 1) == 0)
                stop++;
            if (own)
                add_long(p, mem, weights, block.kept, pos, stop, w, r);
            open = stop == block.n && !block.closed;
            if (open && b + 1 < n_blocks)
                break;
            const bool at_end = open || row == shard.row_first;
            if (own)
                end_long<T>(p, o, w, row, at_end, at_end ? end_of(o, shard, row) : NULL, tile, r);
            open = false;
            own = true;
            row++;
        }
        if (b + 1 >= end && !(open && own))
            break;
    }
    __syncthreads();
}

/* out(i, :) = the row a that solves (S + l2 I) a = m, of its own nonzeros
 *
 *   launch  as many thread blocks as there are shares or places; each takes a place and every so many-th share
 *   out     rows that begin in the share; the first and the last row of a shard are left in o.ends, unless that is NULL
 *   shared  a decoded block, and the weights of its cells */
template <class T, bool WEIGHTED>
__global__ void __launch_bounds__(THREADS, 1)
    observed_long(const __grid_constant__ ts_gpu_mttkrp p,
                  const __grid_constant__ ts_gpu_observed o)
{
    extern __shared__ uint4 shared[];
    __shared__ diagonal_tile tile;
    __shared__ wide_block block;
    lane_place<LANES> at;
    at.warp = 0; /* all look at what the first one decodes */
    const warp_memory<T, LANES, 0> mem(shared, p.n_levels, 1, at, 1);
    const block_weights<T, WEIGHTED> weights((char *)shared +
                                             shared_size<T, LANES, 0>::bytes(p.n_levels, 1, 1));
    const uint32_t place = claim_place(o);
    const long_memory w(o, p.ld, place);
#pragma unroll 1
    for (uint32_t k = blockIdx.x; k < p.n_shares; k += gridDim.x) {
        const ts_gpu_shard shard = shard_of_share(p, k);
        const uint32_t first = (k - shard.first_cta) * p.share_blocks;
        take_share<T, WEIGHTED>(p, o, shard, first, min(first + p.share_blocks, shard.n_blocks),
                                mem, weights, w, block, tile);
    }
    give_place_back(o, place);
}

/* ------------------------------------------------------------------ parts */

/* Rows at the ends of shards, part after part; as fold_row of observed_kernel.cu. */
template <class T>
__global__ void __launch_bounds__(THREADS, 1)
    fold_long(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_observed o,
              uint64_t n_shards, const double *ends, const uint32_t *edge_row)
{
    __shared__ diagonal_tile tile;
    const uint64_t size = ts_observed_part(o.rank), triangle = size - o.rank - 1;
    const part_rows rows = { edge_row, 2 * n_shards };
    const uint32_t place = claim_place(o);
    const long_memory w(o, p.ld, place);
#pragma unroll 1
    for (uint64_t e = blockIdx.x; e < rows.n; e += gridDim.x) {
        const uint32_t row = edge_row[e];
        uint64_t before = e;
        while (before > 0 && !rows.there(before - 1))
            before--;
        if (!rows.there(e) || (before > 0 && edge_row[before - 1] == row))
            continue;
        auto total = [&](uint64_t at) {
            double sum = 0;
            for (uint64_t k = e; k < rows.n; k = rows.same(k + 1, row))
                sum += ends[k * size + at];
            return sum;
        };
        for (uint32_t k = threadIdx.x; k < w.n * w.stride; k += THREADS) {
            const uint32_t i = k / w.stride, j = k % w.stride;
            if (i <= j)
                w.s[k] = i >= o.rank || (j >= o.rank && j != w.n) ? 0
                         : j == w.n                               ? total(triangle + i)
                                                                  : total(packed_at(i, j, o.rank));
        }
        const double count = total(size - 1);
        __syncthreads();
        solve_long<T>(p, o, w, row, count, tile);
    }
    give_place_back(o, place);
}

/* ------------------------------------------------------------------ launches */

uint64_t ts_observed_long_bytes(uint32_t ld)
{
    return 8 * long_memory::elements(padded(ld));
}

static unsigned blocks_for(uint64_t n, const struct ts_gpu_observed *o)
{
    return (unsigned)(n < o->n_places ? n : o->n_places);
}

template <class T, bool WEIGHTED>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                          cudaStream_t stream)
{
    const uint32_t bytes =
        shared_size<T, LANES, 0>::bytes(args->n_levels, 1, 1) + block_weights<T, WEIGHTED>::bytes();
    observed_long<T, WEIGHTED>
        <<<blocks_for(args->n_shares, o), THREADS, bytes, stream>>>(*args, *o);
    return cudaGetLastError();
}

ts_gpu_error ts_observed_long_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                     const struct ts_gpu_observed *o, ts_gpu_stream stream)
{
    if (args->weights)
        return precision == TS_FLOAT32 ? launch<float, true>(args, o, stream)
                                       : launch<double, true>(args, o, stream);
    return precision == TS_FLOAT32 ? launch<float, false>(args, o, stream)
                                   : launch<double, false>(args, o, stream);
}

ts_gpu_error ts_observed_long_fold(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                   const struct ts_gpu_observed *o, uint64_t n_shards,
                                   const double *ends, const uint32_t *edge_row,
                                   ts_gpu_stream stream)
{
    const unsigned blocks = blocks_for(2 * n_shards, o);
    if (precision == TS_FLOAT32)
        fold_long<float><<<blocks, THREADS, 0, stream>>>(*args, *o, n_shards, ends, edge_row);
    else
        fold_long<double><<<blocks, THREADS, 0, stream>>>(*args, *o, n_shards, ends, edge_row);
    return cudaGetLastError();
}
