/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows with Gram matrices of their own. A warp decodes blocks as for the MTTKRP, and takes the rows in
 * one of three ways:
 *
 * A row's products go through tensor cores as loads leave them (gram_tiles.cuh), and when it ends its S goes to
 * shared memory, where the warp solves for it (gram_solve.cuh). That takes some two thousand instructions a
 * row, as many as some 40 nonzeros.
 *
 * So up to 8 nonzeros of rows that lie in them as a whole are taken together, where l2 is above 0, entries have no bounds
 * and rows no fewer columns than that: with their products as the rows of P, a = P' y and (P P' + l2 I) y = x. P P' of 8 nonzeros
 * is one tile, whichever rows they are of, and all rows in it are solved for at once. Of up to 16 nonzeros of a row of more
 * columns y has the smaller Gram matrix, too.
 *
 * Sums and solutions are float64; products are in the precision of the rows, as on CPU cores. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/observed_kernel.h"

#include <cuda_runtime.h>

#include "gpu/gram_solve.cuh"
#include "gpu/gram_tiles.cuh"
#include "gpu/mttkrp_stages.cuh"
#include "gpu/observed_stages.cuh"
#include "gpu/observed_wide.h"
#include "gpu/row_pairs.cuh"

enum {
    SHORT = 8,  /* nonzeros that are taken together */
    SOME = 16,  /* of a row that is solved for by its nonzeros, where it has more columns */
    NARROW = 32 /* columns of which a warp's registers hold a Gram matrix */
};
static_assert(WARPS == TS_OBSERVED_UNITS, "a warp a unit");

/* ------------------------------------------------------------------ a warp's memory */

/* Beside what the stages of the MTTKRP take: S, and the same once more where entries have bounds; which nonzeros of a block
 * begin rows, and which are not held out. */
template <int C> struct own_memory {
    double *s, *copy;
    uint32_t *begins, *kept; /* 10 words each: bit 256 is that after the last nonzero */

    static __host__ __device__ uint32_t bytes(bool bounded)
    {
        return (bounded ? 2 : 1) * gram_square<C>::elements * (uint32_t)sizeof(double) + 80;
    }
    __device__ own_memory(char *shared, uint32_t warp, bool bounded)
    {
        s = (double *)(shared + warp * bytes(bounded));
        copy = s + gram_square<C>::elements;
        begins = (uint32_t *)(s + (bounded ? 2 : 1) * gram_square<C>::elements);
        kept = begins + 10;
    }
};

/* ------------------------------------------------------------------ one row */

/* Solves for a row: S, a sum, is in own.s, m(lane) and the count are given. */
template <class T, int C>
static __device__ inline void solve_row(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                        const own_memory<C> &own, uint32_t row, double m,
                                        uint32_t count, uint32_t lane)
{
    constexpr int stride = gram_square<C>::stride;
    const double weight = o.by_count ? count : 1.0;
    double diagonal = 0, a = 0;
    T *const to = (T *)p.out + (uint64_t)row * p.ld;
    if (count > 0) {
        if (lane < o.rank) {
            diagonal = own.s[lane * stride + lane] + o.l2 * weight;
            own.s[lane * stride + lane] = diagonal;
        }
        __syncwarp();
        if (is_bounded(o)) {
            for (uint32_t i = 0; i < 8 * C; i++)
                if (lane < 8 * C && lane >= i)
                    own.copy[i * stride + lane] = own.copy[lane * stride + i] =
                        own.s[i * stride + lane];
            __syncwarp();
        }
        a = solve_gram<C>(own.s, m, diagonal, cut_of<T>(o), lane);
        if (is_bounded(o))
            a = descend_gram<C>(own.copy, m, a, o.rank, o.lower, o.upper,
                                sizeof(T) == sizeof(float) ? 1e-7 : 1e-15, lane);
    }
    const T kept = (T)(lane < o.rank ? a : 0.0);
    if (lane < p.ld)
        to[lane] = kept;
    if (o.size != NULL) {
        const double square = warp_sum((double)kept * (double)kept);
        if (lane == 0)
            o.size[row] = weight * square;
    }
    __syncwarp(); /* own.s is written again */
}

/* S of a sum to own.s; returns m(lane). */
template <int C>
static __device__ inline double spill_sum(const gram_sum<C> &sum, const own_memory<C> &own,
                                          uint32_t lane, uint32_t &count)
{
    constexpr int stride = gram_square<C>::stride;
    double m[C];
    count = sum.count;
    count += __shfl_xor_sync(ALL_LANES, count, 1);
    count += __shfl_xor_sync(ALL_LANES, count, 2);
    sum.each(lane, [&](const gram_place &at, double x) { own.s[at.row * stride + at.column] = x; });
#pragma unroll
    for (int c = 0; c < C; c++) {
        m[c] = sum.m[c];
        m[c] += __shfl_xor_sync(ALL_LANES, m[c], 1);
        m[c] += __shfl_xor_sync(ALL_LANES, m[c], 2);
        if (lane % 4 == 0)
            own.s[8 * C * stride + C * (lane / 4) + c] = m[c];
    }
    __syncwarp();
    return lane < 8 * C ? own.s[8 * C * stride + lane] : 0;
}

/* S in own.s, m and the count to a part. */
template <int C>
static __device__ inline void pack_part(const own_memory<C> &own, double m, uint32_t count,
                                        uint32_t rank, double *to, uint32_t lane)
{
    for (uint32_t i = 0; i < rank; to += rank - i, i++)
        if (lane >= i && lane < rank)
            to[lane - i] = own.s[i * gram_square<C>::stride + lane];
    if (lane < rank)
        to[lane] = m;
    if (lane == 0)
        to[rank] = count;
    __syncwarp();
}

/* ------------------------------------------------------------------ rows one by one */

/* Adds the nonzeros at positions pos .. end - 1, of one row. */
template <class T, int C, int NL>
static __device__ inline void
add_nonzeros(const ts_gpu_mttkrp &p, const warp_memory<T, LANES, NL> &mem, const own_memory<C> &own,
             uint32_t pos, uint32_t end, uint32_t lane, gram_sum<C> &sum)
{
    constexpr int K = sizeof(T) == sizeof(float) ? 4 : 2; /* loads of a lane that go together */
    const uint32_t column = C * (lane / 4), t = lane % 4;
    const bool active = column < p.ld;
#pragma unroll 1
    for (; pos < end; pos += 4 * K) {
        uint32_t place[K], byte[K];
        T x[K][C];
        bool on[K];
#pragma unroll
        for (int k = 0; k < K; k++) {
            const uint32_t q = pos + 4 * k + t, at = min(q, end - 1);
            place[k] = spread<LANES>::at(at);
            byte[k] = active ? column * (uint32_t)sizeof(T) : 0;
            on[k] = q < end && (own.kept[at / 32] >> at % 32 & 1);
            sum.count += on[k];
        }
        multiply_rows<T, C, NL, K>(p, mem, place, byte, x);
#pragma unroll
        for (int k = 0; k < K; k += 2) {
            double d[2][C];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const double value = on[k + h] ? (double)mem.val[place[k + h]] : 0.0;
#pragma unroll
                for (int c = 0; c < C; c++) {
                    d[h][c] = on[k + h] && active ? (double)x[k + h][c] : 0.0;
                    sum.m[c] += value * d[h][c];
                }
            }
            if (pos + 4 * k < end)
                sum.add(d[0], d[1]);
        }
    }
}

/* ------------------------------------------------------------------ short rows together */

/* Rows first, ... that have the n nonzeros from position pos on and no others. Bit q of ends: one ends after nonzero q. */
template <class T, int C, int NL>
static __device__ inline void solve_short(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                          const warp_memory<T, LANES, NL> &mem,
                                          const own_memory<C> &own, uint32_t pos, uint32_t n,
                                          uint32_t ends, uint32_t row, uint32_t lane)
{
    constexpr int stride = gram_square<C>::stride;
    const uint32_t g = lane / 4, t = lane % 4, at = pos + min(g, n - 1);
    const uint32_t kept = bits_from(own.kept, pos) & below(n);
    const bool on = kept >> g & 1;
    const uint32_t first = 32 - __clz(ends & below(g)), end = g < n ? g + __ffs(ends >> g) : first;
    const uint32_t count = __popc(kept & below(end) & ~below(first));
    const double l2 = o.l2 * (o.by_count ? count : 1.0), cut = cut_of<T>(o);
    uint32_t place[2], byte[2];
    T x[2][C];
    double d[2] = { 0, 0 };
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint32_t column = 4 * C * h + C * t;
        place[h] = spread<LANES>::at(at);
        byte[h] = column < p.ld ? column * (uint32_t)sizeof(T) : 0;
    }
    multiply_rows<T, C, NL, 2>(p, mem, place, byte, x);
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int c = 0; c < C; c++) {
            const uint32_t column = 4 * C * h + C * t;
            const double one = on && column < p.ld ? (double)x[h][c] : 0.0;
            own.s[g * stride + column + c] = one;
            multiply_add(d, one, one);
        }
    const double value = on ? (double)mem.val[place[0]] : 0.0;
    const bool diagonal = t == g / 2;
    d[0] += diagonal && g % 2 == 0 ? l2 : 0;
    d[1] += diagonal && g % 2 == 1 ? l2 : 0;
    const double least = cut * (g % 2 == 0 ? d[0] : d[1]);

    /* Gauss-Jordan: in step i the i-th nonzero of every row, all others of the row. Columns of other rows are not read. */
    double y = value;
    const uint32_t steps = __reduce_max_sync(ALL_LANES, end - first);
#pragma unroll 1
    for (uint32_t i = 0; i < steps; i++) {
        const uint32_t k = min(first + i, 7u);
        const bool counts = first + i < end;
        const double mine = g % 2 == 0 ? d[0] : d[1];
        const bool fine = diagonal && mine > least;
        const double inverse = fine ? 1 / mine : 0;
        const double by = __shfl_sync(ALL_LANES, inverse, 4 * k + k / 2);
        const double r0 = __shfl_sync(ALL_LANES, d[0], 4 * k + t);
        const double r1 = __shfl_sync(ALL_LANES, d[1], 4 * k + t);
        const double c0 = __shfl_sync(ALL_LANES, d[0], 4 * g + k / 2);
        const double c1 = __shfl_sync(ALL_LANES, d[1], 4 * g + k / 2);
        const double yk = __shfl_sync(ALL_LANES, y, 4 * k) * by;
        const double f = (k % 2 == 0 ? c0 : c1) * by;
        if (counts) {
            d[0] = g == k ? r0 * by : d[0] - f * r0;
            d[1] = g == k ? r1 * by : d[1] - f * r1;
            y = g == k ? yk : y - (k % 2 == 0 ? c0 : c1) * yk;
        }
    }
    if (t == 0) { /* |a|^2 = y' P P' y */
        own.s[8 * C * stride + g] = y;
        own.s[(8 * C + 1) * stride + g] = (o.by_count ? count : 1.0) * y * (value - l2 * y);
    }
    __syncwarp();
    double a = 0, size = 0;
    T *to = (T *)p.out + (uint64_t)row * p.ld;
    const uint32_t j = lane < 8 * C ? lane : 0;
#pragma unroll 1
    for (uint32_t q = 0; q < n; q++) {
        a += own.s[8 * C * stride + q] * own.s[q * stride + j];
        size += own.s[(8 * C + 1) * stride + q];
        if ((ends >> q & 1) == 0)
            continue;
        if (lane < p.ld)
            to[lane] = (T)(lane < o.rank ? a : 0.0);
        if (lane == 0 && o.size != NULL)
            o.size[row] = fmax(size, 0.0);
        a = size = 0;
        to += p.ld;
        row++;
    }
    __syncwarp();
}

/* ------------------------------------------------------------------ rows of some nonzeros */

/* Row `row`, which has the n nonzeros from position pos on, more than SHORT and no more than SOME, and no others: y by the solution
 * of 16 columns, which takes less than that of 32. */
template <class T, int NL>
static __device__ inline void
solve_some(const ts_gpu_mttkrp &p, const ts_gpu_observed &o, const warp_memory<T, LANES, NL> &mem,
           const own_memory<4> &own, uint32_t pos, uint32_t n, uint32_t row, uint32_t lane)
{
    constexpr int stride = gram_square<4>::stride, narrow = gram_square<2>::stride;
    static_assert(SOME * stride + gram_square<2>::elements <= gram_square<4>::elements,
                  "P and P P' lie where S would");
    const uint32_t g = lane / 4, t = lane % 4;
    const uint32_t kept = bits_from(own.kept, pos) & below(n), count = __popc(kept);
    const double weight = o.by_count ? count : 1.0;
    double *const square = own.s + SOME * stride;
    double x[2][8], d[2][4] = {};
#pragma unroll
    for (uint32_t u = 0; u < 2;
         u++) { /* nonzero 8 u + g, its columns 4 t .. 4 t + 3 and those 16 further on */
        const uint32_t q = 8 * u + g, at = spread<LANES>::at(pos + min(q, n - 1));
        const bool on = kept >> q & 1;
        const uint32_t place[2] = { at, at };
        uint32_t byte[2];
        T y[2][4];
#pragma unroll
        for (uint32_t h = 0; h < 2; h++)
            byte[h] = 16 * h + 4 * t < p.ld ? (16 * h + 4 * t) * (uint32_t)sizeof(T) : 0;
        multiply_rows<T, 4, NL, 2>(p, mem, place, byte, y);
#pragma unroll
        for (uint32_t h = 0; h < 2; h++)
#pragma unroll
            for (uint32_t c = 0; c < 4; c++) {
                x[u][4 * h + c] = on && 16 * h + 4 * t < p.ld ? (double)y[h][c] : 0.0;
                own.s[q * stride + 16 * h + 4 * t + c] = x[u][4 * h + c];
            }
    }
#pragma unroll
    for (int v = 0; v < 8; v += 2) {
        const double upper[2] = { x[0][v], x[0][v + 1] }, lower[2] = { x[1][v], x[1][v + 1] };
        multiply_add_pair(d[0], upper, lower, upper);
        multiply_add_pair(d[1], upper, lower, lower);
    }
#pragma unroll
    for (int b = 0; b < 2; b++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t i = g + k / 2 * 8, j = 8 * b + 2 * t + k % 2;
            if (i <= j)
                square[i * narrow + j] = d[b][k] + (i == j && i < n ? o.l2 * weight : 0.0);
        }
    __syncwarp();
    const double value = kept >> lane & 1 ? (double)mem.val[spread<LANES>::at(pos + lane)] : 0.0;
    const double diagonal = lane < SOME ? square[lane * narrow + lane] : 0;
    const double y = solve_gram<2>(square, value, diagonal, cut_of<T>(o), lane);
    __syncwarp();
    if (lane < SOME)
        square[lane] = y;
    __syncwarp();
    double a = 0;
    for (uint32_t q = 0; q < n; q++)
        a += square[q] * own.s[q * stride + lane];
    const T done = (T)(lane < o.rank ? a : 0.0);
    if (lane < p.ld)
        ((T *)p.out)[(uint64_t)row * p.ld + lane] = done;
    if (o.size != NULL) {
        const double sum = warp_sum((double)done * (double)done);
        if (lane == 0)
            o.size[row] = weight * sum;
    }
    __syncwarp();
}

/* ------------------------------------------------------------------ a unit */

/* Where a warp is. */
template <int C> struct unit_rows {
    gram_sum<C> sum; /* of the current row */
    uint32_t row, first_row;
    bool open,
        first; /* it has nonzeros before these, maybe none yet; it is the first one of the unit */
};

/* The current row has ended. */
template <class T, int C>
static __device__ inline void end_row(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                      const own_memory<C> &own, double *part, uint32_t lane,
                                      unit_rows<C> &r)
{
    uint32_t count;
    const double m = spill_sum<C>(r.sum, own, lane, count);
    if (r.first)
        pack_part<C>(own, m, count, o.rank, part, lane);
    else
        solve_row<T, C>(p, o, own, r.row, m, count, lane);
    r.first = r.open = false;
    r.sum.clear();
}

/* The nonzeros of a block. closed: a row ends with it. */
template <class T, int C, int NL>
static __device__ inline void take_rows(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                        const warp_memory<T, LANES, NL> &mem,
                                        const own_memory<C> &own, uint32_t n, bool closed,
                                        bool together, double *part, uint32_t lane, unit_rows<C> &r)
{
    uint32_t pos = 0;
#pragma unroll 1
    while (pos < n) {
        const uint32_t ends = bits_from(own.begins, pos + 1); /* bit k: after nonzero pos + k */
        uint32_t end = pos + (ends != 0 ? __ffs(ends) : 32);
        if (!r.open && together && (ends & below(SHORT)) != 0) {
            const uint32_t some = 32 - __clz(ends & below(SHORT));
            solve_short<T, C, NL>(p, o, mem, own, pos, some, ends & below(some), r.row, lane);
            r.sum.clear(); /* it was: so it needs no registers meanwhile */
            r.row += __popc(ends & below(some));
            pos += some;
            continue;
        }
        if constexpr (C == 4)
            if (!r.open && together && (ends & below(SOME)) != 0) {
                solve_some<T, NL>(p, o, mem, own, pos, end - pos, r.row++, lane);
                r.sum.clear();
                pos = end;
                continue;
            }
        if (ends == 0)
            while (end < n && (own.begins[end / 32] >> end % 32 & 1) == 0)
                end++;
        end = min(end, n);
        add_nonzeros<T, C, NL>(p, mem, own, pos, end, lane, r.sum);
        pos = end;
        r.open = true;
        if (end < n || closed) {
            end_row<T, C>(p, o, own, part, lane, r);
            r.row++;
        }
    }
}

/* out(i, :) = the row a that solves (S + l2 I) a = m, of its own nonzeros
 *
 *   launch  grid (shares of the launch), 4 warps a thread block: a warp takes a unit
 *   out     only rows that begin and end inside the unit are stored: no other warp has a nonzero of them
 *   part    (2 x units of the mode copy) what the unit has of its first and its last row */
template <class T, int C, int NL>
__global__ void __launch_bounds__(32 * WARPS, 3)
    observed_packed(const __grid_constant__ ts_gpu_mttkrp p,
                    const __grid_constant__ ts_gpu_observed o)
{
    extern __shared__ uint4 shared[];
    const lane_place<LANES> at;
    const uint32_t n_levels = NL > 0 ? NL : p.n_levels, lane = at.lane;
    const warp_memory<T, LANES, NL> mem(shared, n_levels, 1, at);
    const own_memory<C> own((char *)shared + shared_size<T, LANES, NL>::bytes(n_levels, 1), at.warp,
                            is_bounded(o));
    const bool together = o.l2 > 0 && !is_bounded(o) && o.rank >= SHORT;
    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t share = blockIdx.x - shard.first_cta, unit_blocks = p.share_blocks / WARPS;
    const uint64_t unit = (shard.first_share + share) * WARPS + at.warp;
    double *part = o.part + 2 * unit * ts_observed_part(o.rank);
    uint32_t count;
    unit_rows<C> r;
    warp_blocks blocks;
    blocks.first = share * p.share_blocks + at.warp * unit_blocks;
    blocks.end = min(blocks.first + unit_blocks, shard.n_blocks);
    if (blocks.first >= blocks.end) {
        if (lane < 2)
            p.edge_row[2 * unit + lane] = UINT32_MAX;
        return;
    }
    (void)start_warp(shard, at, mem, 1, blocks);
    r.sum.clear();
    r.open = r.first = true;
    r.row = r.first_row = __shfl_sync(ALL_LANES, blocks.lane_row, 0);
#pragma unroll 1
    for (uint32_t b = blocks.first; b < blocks.end; b++) {
        const uint32_t i = b - blocks.first;
        const uint32_t n =
            b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
        const uint32_t first_row = __shfl_sync(ALL_LANES, blocks.lane_row, i);
        const uint32_t next_row = __shfl_sync(ALL_LANES, blocks.lane_row, min(i + 1, 31u));
        const decoded d = take_block(p, shard, at, mem, blocks, b);
        const bool closed = b + 1 < blocks.end && next_row != first_row + d.n_rows;
        prepare_block<T, NL>(p, o, mem, own.begins, own.kept, d, first_row, closed, lane);
        r.row = first_row;
        take_rows<T, C, NL>(p, o, mem, own, n, closed, together, part, lane, r);
    }
    const double m = spill_sum<C>(r.sum, own, lane, count);
    if (!r.first)
        part += ts_observed_part(o.rank);
    pack_part<C>(own, m, count, o.rank, part, lane);
    if (lane < 2)
        p.edge_row[2 * unit + lane] = lane == 0 ? r.first_row : r.row;
}

/* ------------------------------------------------------------------ parts */

enum { BATCH = 4 }; /* parts that are loaded at a time */

/* S of packed values in own.copy, to own.s; returns m(lane). */
template <int C>
static __device__ inline double unpack_part(const own_memory<C> &own, uint32_t rank, uint32_t lane)
{
    const double *from = own.copy;
    for (uint32_t i = 0; i < 8 * C; i++) {
        if (lane >= i && lane < 8 * C)
            own.s[i * gram_square<C>::stride + lane] =
                i < rank && lane < rank ? from[lane - i] : 0.0;
        from += i < rank ? rank - i : 0;
    }
    return lane < rank ? from[lane] : 0;
}

/* Adds parts from e on, if the row begins with that one, and solves for it; or leaves the sum of a row that may go on outside of
 * the parts in `ends`, of which there are two, unless that is NULL. */
template <class T, int C>
static __device__ inline void
fold_row(const ts_gpu_mttkrp &p, const ts_gpu_observed &o, const own_memory<C> &own,
         const double *part, const part_rows &rows, uint64_t e, double *ends, uint32_t lane)
{
    constexpr int N = (8 * C * (8 * C + 1) / 2 + 8 * C + 1 + 31) / 32;
    const uint32_t size = (uint32_t)ts_observed_part(o.rank);
    double sum[N];
    uint64_t next, before = e;
    bool is_first = true, is_last;
    if (!rows.there(e))
        return;
    const uint32_t row = rows.row[e];
    while (before-- > 0)
        if (rows.there(before)) {
            if (rows.row[before] == row)
                return;
            is_first = false;
            break;
        }
#pragma unroll
    for (int k = 0; k < N; k++)
        sum[k] = 0;
    for (next = e; next < rows.n;) {
        uint64_t at[BATCH];
        double x[BATCH][N];
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            at[i] = next;
            next = next < rows.n ? rows.same(next + 1, row) : next;
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int k = 0; k < N; k++)
                x[i][k] = at[i] < rows.n && 32 * k + lane < size
                              ? part[at[i] * size + 32 * k + lane]
                              : 0.0;
#pragma unroll
        for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] += x[i][k];
    }
    for (next = e + 1; next < rows.n && (!rows.there(next) || rows.row[next] == row);)
        next++;
    is_last = next == rows.n;
    double *const to =
        ends != NULL && (is_first || is_last) ? ends + (is_first ? 0 : size) : own.copy;
#pragma unroll
    for (int k = 0; k < N; k++)
        if (32 * k + lane < size)
            to[32 * k + lane] = sum[k];
    __syncwarp();
    if (to != own.copy)
        return;
    const uint32_t count = (uint32_t)own.copy[size - 1];
    const double m = unpack_part<C>(own, o.rank, lane);
    __syncwarp();
    solve_row<T, C>(p, o, own, row, m, count, lane);
}

/* A warp for each unit of the launch. */
template <class T, int C>
__global__ void __launch_bounds__(32 * WARPS, 2)
    fold_units(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_observed o,
               double *ends)
{
    extern __shared__ uint4 shared[];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const own_memory<C> own((char *)shared, warp, true);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint64_t unit = (blockIdx.x - shard.first_cta) * (uint64_t)WARPS + warp;
    const uint64_t first = 2 * shard.first_share * WARPS, size = ts_observed_part(o.rank);
    const uint32_t shares = (shard.n_blocks + p.share_blocks - 1) / p.share_blocks;
    const part_rows rows = { p.edge_row + first, 2 * (uint64_t)shares * WARPS };
    for (uint64_t e = 2 * unit; e < 2 * unit + 2; e++)
        fold_row<T, C>(p, o, own, o.part + first * size, rows, e,
                       ends != NULL ? ends + 2 * shard.number * size : NULL, lane);
}

/* A warp for each part of the shards. */
template <class T, int C>
__global__ void __launch_bounds__(32)
    fold_ends(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_observed o,
              uint64_t n_shards, const double *ends, const uint32_t *edge_row)
{
    extern __shared__ uint4 shared[];
    const own_memory<C> own((char *)shared, 0, true);
    const part_rows rows = { edge_row, 2 * n_shards };
    fold_row<T, C>(p, o, own, ends, rows, blockIdx.x, NULL, threadIdx.x);
}

/* ------------------------------------------------------------------ launches */

uint32_t ts_observed_most(enum ts_precision precision)
{
    return ts_observed_wide_most(precision);
}

static bool bounds(const struct ts_gpu_observed *o)
{
    return o->lower > -INFINITY || o->upper < INFINITY;
}

template <class F> static cudaError_t allow(F kernel, uint32_t bytes)
{
    return bytes <= 48 * 1024
               ? cudaSuccess
               : cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)bytes);
}

template <class T, int C, int NL>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                          cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LANES, NL>::bytes(args->n_levels, 1) +
                           WARPS * own_memory<C>::bytes(bounds(o));
    const cudaError_t rc = allow(observed_packed<T, C, NL>, bytes);
    if (rc == cudaSuccess)
        observed_packed<T, C, NL><<<args->n_shares, 32 * WARPS, bytes, stream>>>(*args, *o);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

template <class T, int NL>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                               cudaStream_t s)
{
    if (args->ld <= 8)
        return launch<T, 1, NL>(args, o, s);
    if (args->ld <= 16)
        return launch<T, 2, NL>(args, o, s);
    return launch<T, 4, NL>(args, o, s);
}

cudaError_t ts_observed_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                               const struct ts_gpu_observed *o, cudaStream_t stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (args->ld > NARROW)
        return ts_observed_wide_launch(precision, args, o, stream);
    if (precision == TS_FLOAT64)
        return launch_rank<double, 0>(args, o, stream);
    return args->n_levels == 2 ? launch_rank<float, 2>(args, o, stream)
                               : launch_rank<float, 0>(args, o, stream);
}

template <class T, int C>
static cudaError_t launch_units(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                                double *ends, cudaStream_t stream)
{
    const uint32_t bytes = WARPS * own_memory<C>::bytes(true);
    const cudaError_t rc = allow(fold_units<T, C>, bytes);
    if (rc == cudaSuccess)
        fold_units<T, C><<<args->n_shares, 32 * WARPS, bytes, stream>>>(*args, *o, ends);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

template <class T>
static cudaError_t fold_shards(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                               double *ends, cudaStream_t s)
{
    if (args->ld <= 8)
        return launch_units<T, 1>(args, o, ends, s);
    if (args->ld <= 16)
        return launch_units<T, 2>(args, o, ends, s);
    return launch_units<T, 4>(args, o, ends, s);
}

cudaError_t ts_observed_fold_shards(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                    const struct ts_gpu_observed *o, double *ends,
                                    cudaStream_t stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (args->ld > NARROW)
        return ts_observed_wide_fold_shards(precision, args, o, ends, stream);
    return precision == TS_FLOAT32 ? fold_shards<float>(args, o, ends, stream)
                                   : fold_shards<double>(args, o, ends, stream);
}

template <class T, int C>
static cudaError_t launch_ends(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                               uint64_t n_shards, const double *ends, const uint32_t *edge_row,
                               cudaStream_t stream)
{
    fold_ends<T, C><<<(unsigned)(2 * n_shards), 32, own_memory<C>::bytes(true), stream>>>(
        *args, *o, n_shards, ends, edge_row);
    return cudaGetLastError();
}

template <class T>
static cudaError_t fold(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                        uint64_t n_shards, const double *ends, const uint32_t *edge_row,
                        cudaStream_t s)
{
    if (args->ld <= 8)
        return launch_ends<T, 1>(args, o, n_shards, ends, edge_row, s);
    if (args->ld <= 16)
        return launch_ends<T, 2>(args, o, n_shards, ends, edge_row, s);
    return launch_ends<T, 4>(args, o, n_shards, ends, edge_row, s);
}

cudaError_t ts_observed_fold(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                             const struct ts_gpu_observed *o, uint64_t n_shards, const double *ends,
                             const uint32_t *edge_row, cudaStream_t stream)
{
    if (n_shards == 0)
        return cudaSuccess;
    if (args->ld > NARROW)
        return ts_observed_wide_fold(precision, args, o, n_shards, ends, edge_row, stream);
    return precision == TS_FLOAT32 ? fold<float>(args, o, n_shards, ends, edge_row, stream)
                                   : fold<double>(args, o, n_shards, ends, edge_row, stream);
}
