/* SPDX-License-Identifier: BSD-3-Clause */
/* Solves for rows of observed cells, each with its own Gram matrix S. A warp decodes blocks as for
 * the MTTKRP, and solves for a row in one of three ways:
 *
 * S of a row is summed by tensor cores in registers (gram_tiles.cuh). If l2 is positive and entries
 * have no bounds, the warp solves for the row in the same registers when the row ends
 * (tile_solve.cuh). That takes some 1300 instructions, as many as 80 nonzeros. Otherwise S is
 * copied to shared memory (gram_solve.cuh), because columns may have to be left out in their order,
 * and bounds need S again.
 *
 * If l2 is positive, entries have no bounds and rows have at least 8 columns, complete rows within
 * 8 nonzeros are solved for together. Let the rows of P be the products p of the nonzeros, and x
 * their values. Then a = P' y, where (P P' + l2 I) y = x. P P' of 8 nonzeros is one tile, even if
 * they belong to several rows, and all these rows are solved for at once. A row of up to 16
 * nonzeros and more columns is solved for in the same way, since its P P' is smaller than S.
 *
 * Sums and solutions are float64; products are in the precision of the rows, as on CPU cores. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/observed/observed_kernel.h"

#include <cuda_runtime.h>

#include "gpu/sparse/mttkrp_stages.cuh"
#include "gpu/observed/observed_few.cuh"
#include "gpu/observed/observed_long.h"
#include "gpu/observed/observed_row.cuh"
#include "gpu/observed/observed_wide.h"

enum {
    NARROW = 32,  /* most columns for which the registers of a warp hold a Gram matrix */
    RESIDENT = 14 /* warps on a multiprocessor, with 128 registers a thread */
};
static_assert(WARPS == TS_OBSERVED_UNITS, "a warp a unit");

/* ----------------------------------------------------------------- sums and solution of one row */

/* Returns from + index * bytes. In assembly, since the compiler would multiply in 64 bits, whose
 * upper halves are 0. */
static __device__ inline const char *row_at(const char *from, uint32_t index, uint32_t bytes)
{
    uint64_t at;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(at) : "r"(index), "r"(bytes));
    return from + at;
}

/* Factor rows of 8 nonzeros of a block, loaded ahead: lane 4 g + t, t < 4, has its columns of
 * nonzeros pos + t and pos + 4 + t. */
template <class T, int C, int NL, class WEIGHTS> struct rows_ahead {
    T y[NL][2][C], value[2];
    uint32_t place[2];

    /* Loads the factor rows of 8 nonzeros. No position after `last` is read. */
    __device__ inline void load(const char *const (&from)[NL], uint32_t row_bytes,
                                const warp_memory<T, LANES, NL> &mem, uint32_t pos, uint32_t last)
    {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            place[k] = spread<LANES>::at(min(pos + 4 * k, last));
            value[k] = mem.val[place[k]];
#pragma unroll
            for (int l = 0; l < NL; l++)
                load_columns<C>(
                    row_at(from[l], mem.index[l * spread<LANES>::words + place[k]], row_bytes),
                    y[l][k]);
        }
    }
    __device__ inline void multiply(const WEIGHTS &weights, T (&x)[2][C]) const
    {
#pragma unroll
        for (int k = 0; k < 2; k++) {
#pragma unroll
            for (int c = 0; c < C; c++) {
                x[k][c] = y[0][k][c];
#pragma unroll
                for (int l = 1; l < NL; l++)
                    x[k][c] *= y[l][k][c];
            }
            weights.weigh(place[k], x[k]);
        }
    }
};

/* Returns x if mask is UINT32_MAX, or 0 if mask is 0. In assembly, since the compiler would select
 * both halves of the double that x is converted to. */
static __device__ inline float masked(float x, uint32_t mask)
{
    uint32_t bits = __float_as_uint(x);
    asm volatile("and.b32 %0, %0, %1;" : "+r"(bits) : "r"(mask));
    return __uint_as_float(bits);
}
static __device__ inline double masked(double x, uint32_t mask)
{
    return mask != 0 ? x : 0.0;
}

/* Adds 8 nonzeros to the sums of their row. Bit k of `on`: nonzero k counts; whole: all lanes have
 * columns. Usually all nonzeros count, and as all lanes know that, nothing is masked. */
template <class T, int C, class COUNT>
static __device__ inline void add_eight(T (&x)[2][C], const T (&value)[2], uint32_t on, uint32_t t,
                                        bool active, bool whole, gram_sum<C, COUNT> &sum)
{
    double d[2][C];
    T v[2] = { value[0], value[1] };
    if (!whole || (on & 255) != 255) {
        __syncwarp();
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t mask = active && (on >> 4 * h >> t & 1) != 0 ? UINT32_MAX : 0;
            v[h] = masked(v[h], mask);
#pragma unroll
            for (int c = 0; c < C; c++)
                x[h][c] = masked(x[h][c], mask);
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int c = 0; c < C; c++) {
            d[h][c] = (double)x[h][c];
            sum.m[c] += (double)v[h] * d[h][c];
        }
    sum.add(d[0], d[1]);
}

/* Returns x, but hides its value from the compiler, which would otherwise compute parts of
 * addresses again for each load. */
template <class X> static __device__ inline X opaque(X x)
{
    if constexpr (sizeof(X) == 8)
        asm volatile("" : "+l"(x));
    else
        asm volatile("" : "+r"(x));
    return x;
}

/* Adds to `sum` the nonzeros at positions pos .. end - 1, all of one row, of a block of n
 * nonzeros. */
template <class T, int C, int NL, class WEIGHTS>
static __device__ inline void
add_nonzeros(const ts_gpu_mttkrp &p, const warp_memory<T, LANES, NL> &mem, const own_memory<C> &own,
             const WEIGHTS &weights, uint32_t pos, uint32_t end, uint32_t n, uint32_t lane,
             gram_sum<C, typename WEIGHTS::count> &sum)
{
    const uint32_t column = C * (lane / 4), t = lane % 4;
    const bool active = column < p.ld, whole = p.ld == 8 * C;
    const uint32_t offset = active ? column * (uint32_t)sizeof(T) : 0;
    if constexpr (NL > 0) {
        const uint32_t row_bytes = opaque(p.ld * (uint32_t)sizeof(T));
        const char *from[NL];
        rows_ahead<T, C, NL, WEIGHTS> near, far;
#pragma unroll
        for (int l = 0; l < NL; l++)
            from[l] = opaque((const char *)p.factor[l] + offset);
        near.load(from, row_bytes, mem, pos + t, n - 1);
#pragma unroll 1
        /* the next 8 nonzeros are loaded ahead, even if they belong to the next row */
        for (; pos < end; pos += 16) {
            const uint32_t on = bits_from(own.kept, pos) & below(min(end - pos, 16u));
            T x[2][C], y[2][C];
            far.load(from, row_bytes, mem, pos + 8 + t, n - 1);
            near.multiply(weights, x);
            add_eight(x, near.value, on, t, active, whole, sum);
            near.load(from, row_bytes, mem, pos + 16 + t, n - 1);
            far.multiply(weights, y);
            add_eight(y, far.value, on >> 8, t, active, whole, sum);
            sum.count += weights.of_lane(on, pos, t);
        }
    } else {
        /* nonzeros that a lane loads at once */
        constexpr int K = sizeof(T) == sizeof(float) ? 4 : 2;
#pragma unroll 1
        for (; pos < end; pos += 4 * K) {
            const uint32_t on = bits_from(own.kept, pos) & below(min(end - pos, 4u * K));
            uint32_t place[K], byte[K];
            T x[K][C];
#pragma unroll
            for (int k = 0; k < K; k++) {
                place[k] = spread<LANES>::at(min(pos + 4 * k + t, n - 1));
                byte[k] = offset;
            }
            multiply_rows<T, C, NL, K>(p, mem, weights, place, byte, x);
            sum.count += weights.of_lane(on, pos, t);
#pragma unroll
            for (int k = 0; k < K; k += 2)
                if (pos + 4 * k < end) {
                    T two[2][C], value[2];
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        value[h] = mem.val[place[k + h]];
#pragma unroll
                        for (int c = 0; c < C; c++)
                            two[h][c] = x[k + h][c];
                    }
                    add_eight(two, value, on >> 4 * k, t, active, whole, sum);
                }
        }
    }
}

/* ------------------------------------------------------------------ a unit (a warp's nonzeros) */

/* The position of a warp in its unit (its range of nonzeros), and the sums of the current row. */
template <int C, class COUNT> struct unit_rows {
    gram_sum<C, COUNT> sum; /* sums of the current row */
    uint32_t row, first_row;
    /* open: the current row has begun before this block; first: it is the first row of the unit
     * (the warp's nonzeros) */
    bool open, first;
};

/* Ends the current row: solves for it or, if it is the first row of the unit (the warp's nonzeros),
 * stores its sums as a part (partial sums), since the row may have begun in an earlier unit. */
template <class T, int C, class WEIGHTS>
static __device__ inline void end_row(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                      const own_memory<C> &own, const WEIGHTS &weights, bool plain,
                                      double *part, uint32_t lane,
                                      unit_rows<C, typename WEIGHTS::count> &r)
{
    const typename WEIGHTS::count count = weights.total_of(r.sum.count);
    if (r.first) {
        pack_part(r.sum, count, o.rank, part, lane);
    } else if (plain) {
        solve_sum<T>(p, o, r.sum, count, r.row, lane);
    } else {
        const double m = spill_sum(r.sum, own, lane);
        solve_row<T>(p, o, own, r.row, m, count, lane);
    }
    r.first = r.open = false;
    r.sum.clear();
}

/* Returns the position after the last nonzero of the row that nonzero pos belongs to, at most n. */
static __device__ inline uint32_t row_end(const uint32_t *begins, uint32_t pos, uint32_t n)
{
    for (uint32_t at = pos + 1; at < n; at += 32) {
        const uint32_t ends = bits_from(begins, at);
        if (ends != 0)
            return min(at + __ffs(ends) - 1, n);
    }
    return n;
}

/* Adds the nonzeros of a block to the sums of their rows. closed: a row ends with the block. */
template <class T, int C, int NL, class WEIGHTS>
static __device__ inline void
take_rows(const ts_gpu_mttkrp &p, const ts_gpu_observed &o, const warp_memory<T, LANES, NL> &mem,
          const own_memory<C> &own, const WEIGHTS &weights, uint32_t n, bool closed, bool plain,
          double *part, uint32_t lane, unit_rows<C, typename WEIGHTS::count> &r)
{
    const bool together = plain && o.rank >= SHORT;
    uint32_t pos = 0;
#pragma unroll 1
    while (pos < n) {
        /* bit k: a row ends after nonzero pos + k */
        const uint32_t ends = bits_from(own.begins, pos + 1);
        if (!r.open && together && (ends & below(SHORT)) != 0) {
            const uint32_t some = 32 - __clz(ends & below(SHORT));
            solve_short(p, o, mem, own, weights, pos, some, ends & below(some), r.row, lane);
            /* the sums are 0 already; clearing them here frees their registers until now */
            r.sum.clear();
            r.row += __popc(ends & below(some));
            pos += some;
            continue;
        }
        if constexpr (C == 4)
            if (!r.open && together && (ends & below(SOME)) != 0) {
                const uint32_t some = __ffs(ends);
                solve_some(p, o, mem, own, weights, pos, some, r.row++, lane);
                r.sum.clear();
                pos += some;
                continue;
            }
        const uint32_t end = row_end(own.begins, pos, n);
        add_nonzeros(p, mem, own, weights, pos, end, n, lane, r.sum);
        pos = end;
        r.open = true;
        if (end < n || closed) {
            end_row<T>(p, o, own, weights, plain, part, lane, r);
            r.row++;
        }
    }
}

/* out(i, :) = the row a that solves (S + l2 I) a = m (S: its Gram matrix, m: its right side), for
 * each row inside a unit
 *
 *   launch  grid (units of the launch), thread blocks of one warp: units with many rows take long,
 *           and a block of four warps would occupy a multiprocessor until the last warp is done
 *   out     only rows that begin and end inside the unit are stored, of which no other warp has
 *           nonzeros
 *   part    (2 x units of the mode copy) sums over the unit's nonzeros of its first and last row */
template <class T, int C, int NL, bool WEIGHTED>
__global__ void __launch_bounds__(32, RESIDENT)
    observed_packed(const __grid_constant__ ts_gpu_mttkrp p,
                    const __grid_constant__ ts_gpu_observed o)
{
    extern __shared__ uint4 shared[];
    const lane_place<LANES> at;
    const uint32_t n_levels = NL > 0 ? NL : p.n_levels, lane = at.lane;
    const bool plain = is_plain(o);
    const warp_memory<T, LANES, NL> mem(shared, n_levels, 1, at, 1);
    const own_memory<C> own((char *)shared + shared_size<T, LANES, NL>::bytes(n_levels, 1, 1), 0,
                            plain, is_bounded(o));
    const block_weights<T, WEIGHTED> weights((char *)own.s +
                                             own_memory<C>::bytes(plain, is_bounded(o)));
    const uint32_t of_launch = blockIdx.x / WARPS, warp = blockIdx.x % WARPS;
    const ts_gpu_shard shard = shard_of_share(p, of_launch);
    const uint32_t share = of_launch - shard.first_cta, unit_blocks = p.share_blocks / WARPS;
    const uint64_t unit = (shard.first_share + share) * WARPS + warp;
    double *part = o.part + 2 * unit * ts_observed_part(o.rank);
    unit_rows<C, typename block_weights<T, WEIGHTED>::count> r;
    warp_blocks blocks;
    blocks.first = share * p.share_blocks + warp * unit_blocks;
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
        /* decoding is not unrolled: warps are at different places of this long code, and would wait
         * for the instruction cache */
        const decoded d = take_block<0>(p, shard, at, mem, blocks, b, weights.decoded());
        const bool closed = b + 1 < blocks.end && next_row != first_row + d.n_rows;
        prepare_block(p, o, mem, weights, own.begins, own.kept, d, first_row, closed, lane);
        r.row = first_row;
        take_rows(p, o, mem, own, weights, n, closed, plain, part, lane, r);
    }
    if (!r.first)
        part += ts_observed_part(o.rank);
    pack_part(r.sum, weights.total_of(r.sum.count), o.rank, part, lane);
    if (lane < 2)
        p.edge_row[2 * unit + lane] = lane == 0 ? r.first_row : r.row;
}

/* ----------------------------------------------------------------- parts (partial sums) of rows */

enum { BATCH = 4 }; /* parts (partial sums of a row) that are loaded at once */

/* Unpacks the Gram matrix S from the part (partial sums of a row) in own.copy to own.s, and returns
 * entry `lane` of the right side m. */
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

/* If part e (partial sums of a row) is the first one of its row, adds all parts of the row and
 * solves for it. With `ends` (two parts, or NULL), the sum of the first or last row is stored there
 * instead, since the row may continue outside these parts. */
template <class T, int C>
static __device__ inline void
fold_row(const ts_gpu_mttkrp &p, const ts_gpu_observed &o, const own_memory<C> &own,
         const double *part, const part_rows &rows, uint64_t e, double *ends, uint32_t lane)
{
    constexpr int N = (8 * C * (8 * C + 1) / 2 + 8 * C + 1 + 31) / 32;
    const uint32_t size = (uint32_t)ts_observed_part(o.rank);
    double sum[N];
    uint64_t before = e;
    bool is_first = true, is_last = true;
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
    /* each lane checks one part (partial sums of a row) */
    for (uint64_t next = e; next < rows.n && is_last; next += 32) {
        const uint64_t one = next + lane;
        const bool there = one < rows.n && rows.there(one), same = there && rows.row[one] == row;
        const uint32_t others = __ballot_sync(ALL_LANES, there && !same);
        uint32_t left =
            __ballot_sync(ALL_LANES, same) & below(others != 0 ? __ffs(others) - 1 : 32);
        is_last = others == 0;
        while (left != 0) {
            double x[BATCH][N];
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const uint64_t at = next + (left != 0 ? __ffs(left) - 1 : 0);
#pragma unroll
                for (int k = 0; k < N; k++)
                    x[i][k] =
                        left != 0 && 32 * k + lane < size ? part[at * size + 32 * k + lane] : 0.0;
                left &= left - 1;
            }
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum[k] += x[i][k];
        }
    }
    double *const to =
        ends != NULL && (is_first || is_last) ? ends + (is_first ? 0 : size) : own.copy;
#pragma unroll
    for (int k = 0; k < N; k++)
        if (32 * k + lane < size)
            to[32 * k + lane] = sum[k];
    __syncwarp();
    if (to != own.copy)
        return;
    const double count = own.copy[size - 1];
    const double m = unpack_part<C>(own, o.rank, lane);
    __syncwarp();
    solve_row<T>(p, o, own, row, m, count, lane);
}

/* Adds the parts (partial sums of rows) of units (a warp's range of nonzeros each) inside a shard,
 * and solves for the rows. A warp for each unit of the launch. */
template <class T, int C>
__global__ void __launch_bounds__(32 * WARPS, 2)
    fold_units(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_observed o,
               double *ends)
{
    extern __shared__ uint4 shared[];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const own_memory<C> own((char *)shared, warp, false, true);
    const ts_gpu_shard shard = shard_of_block(p);
    const uint64_t unit = (blockIdx.x - shard.first_cta) * (uint64_t)WARPS + warp;
    const uint64_t first = 2 * shard.first_share * WARPS, size = ts_observed_part(o.rank);
    const uint32_t shares = (shard.n_blocks + p.share_blocks - 1) / p.share_blocks;
    const part_rows rows = { p.edge_row + first, 2 * (uint64_t)shares * WARPS };
    for (uint64_t e = 2 * unit; e < 2 * unit + 2; e++)
        fold_row<T, C>(p, o, own, o.part + first * size, rows, e,
                       ends != NULL ? ends + 2 * shard.number * size : NULL, lane);
}

/* Adds the parts (partial sums) of the first and last rows of shards, and solves for these rows. A
 * warp for each part. */
template <class T, int C>
__global__ void __launch_bounds__(32)
    fold_ends(const __grid_constant__ ts_gpu_mttkrp p, const __grid_constant__ ts_gpu_observed o,
              uint64_t n_shards, const double *ends, const uint32_t *edge_row)
{
    extern __shared__ uint4 shared[];
    const own_memory<C> own((char *)shared, 0, false, true);
    const part_rows rows = { edge_row, 2 * n_shards };
    fold_row<T, C>(p, o, own, ends, rows, blockIdx.x, NULL, threadIdx.x);
}

/* ------------------------------------------------------------------ launches of kernels */

uint32_t ts_observed_most(enum ts_precision precision)
{
    return ts_observed_wide_most(precision);
}

template <class F> static cudaError_t allow(F kernel, uint32_t bytes)
{
    return bytes <= 48 * 1024
               ? cudaSuccess
               : cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)bytes);
}

template <class T, int C, int NL, bool WEIGHTED>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                          cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LANES, NL>::bytes(args->n_levels, 1, 1) +
                           own_memory<C>::bytes(is_plain(*o), is_bounded(*o)) +
                           block_weights<T, WEIGHTED>::bytes();
    const cudaError_t rc = allow(observed_packed<T, C, NL, WEIGHTED>, bytes);
    if (rc == cudaSuccess)
        observed_packed<T, C, NL, WEIGHTED>
            <<<WARPS * args->n_shares, 32, bytes, stream>>>(*args, *o);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

template <class T, int NL, bool WEIGHTED>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                               cudaStream_t s)
{
    if (args->ld <= 8)
        return launch<T, 1, NL, WEIGHTED>(args, o, s);
    if (args->ld <= 16)
        return launch<T, 2, NL, WEIGHTED>(args, o, s);
    return launch<T, 4, NL, WEIGHTED>(args, o, s);
}

template <bool WEIGHTED>
static cudaError_t launch_levels(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                 const struct ts_gpu_observed *o, cudaStream_t stream)
{
    if (precision == TS_FLOAT64)
        return launch_rank<double, 0, WEIGHTED>(args, o, stream);
    return args->n_levels == 2 ? launch_rank<float, 2, WEIGHTED>(args, o, stream)
                               : launch_rank<float, 0, WEIGHTED>(args, o, stream);
}

ts_gpu_error ts_observed_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                const struct ts_gpu_observed *o, ts_gpu_stream stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (ts_observed_is_long(precision, o->rank))
        return ts_observed_long_launch(precision, args, o, stream);
    if (args->ld > NARROW)
        return ts_observed_wide_launch(precision, args, o, stream);
    return args->weights ? launch_levels<true>(precision, args, o, stream)
                         : launch_levels<false>(precision, args, o, stream);
}

template <class T, int C>
static cudaError_t launch_units(const struct ts_gpu_mttkrp *args, const struct ts_gpu_observed *o,
                                double *ends, cudaStream_t stream)
{
    const uint32_t bytes = WARPS * own_memory<C>::bytes(false, true);
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

ts_gpu_error ts_observed_fold_shards(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                     const struct ts_gpu_observed *o, double *ends,
                                     ts_gpu_stream stream)
{
    if (args->n_shares == 0 || ts_observed_is_long(precision, o->rank))
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
    fold_ends<T, C><<<(unsigned)(2 * n_shards), 32, own_memory<C>::bytes(false, true), stream>>>(
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

ts_gpu_error ts_observed_fold(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              const struct ts_gpu_observed *o, uint64_t n_shards,
                              const double *ends, const uint32_t *edge_row, ts_gpu_stream stream)
{
    if (n_shards == 0)
        return cudaSuccess;
    if (ts_observed_is_long(precision, o->rank))
        return ts_observed_long_fold(precision, args, o, n_shards, ends, edge_row, stream);
    if (args->ld > NARROW)
        return ts_observed_wide_fold(precision, args, o, n_shards, ends, edge_row, stream);
    return precision == TS_FLOAT32 ? fold<float>(args, o, n_shards, ends, edge_row, stream)
                                   : fold<double>(args, o, n_shards, ends, edge_row, stream);
}
