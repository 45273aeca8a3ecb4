/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_stages.cuh - building blocks of kernels for observed cells: loads of neighbouring
 * columns of factor rows, bits for the nonzeros of a block that begin rows or are held out, and the
 * parts (partial sums) that belong to one row.
 *
 *   owner    shared memory is the caller's
 *   threads  all lanes of a warp call together
 *   errors   none: blocks were checked
 */
#ifndef TS_GPU_OBSERVED_STAGES_CUH
#define TS_GPU_OBSERVED_STAGES_CUH

#include <cfloat>
#include <cuda_runtime.h>

#include "gpu/sparse/held_cells.cuh"
#include "gpu/sparse/mttkrp_stages.cuh"
#include "gpu/observed/observed_kernel.h"

/* lanes of a group (LPR) for the functions of mttkrp_stages.cuh that decode blocks */
enum { LANES = 8 };

/* Loads C neighbouring columns. In assembly, so that the compiler does not move loads behind
 * branches of other loads. */
template <int C> static __device__ inline void load_columns(const char *p, float (&x)[C])
{
    if constexpr (C == 4)
        asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];"
                     : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                     : "l"(p));
    else if constexpr (C == 2)
        asm volatile("ld.global.nc.v2.f32 {%0,%1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "l"(p));
    else
        asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(x[0]) : "l"(p));
}

template <int C> static __device__ inline void load_columns(const char *p, double (&x)[C])
{
    if constexpr (C == 1) {
        asm volatile("ld.global.nc.f64 %0, [%1];" : "=d"(x[0]) : "l"(p));
    } else {
#pragma unroll
        for (int c = 0; c < C; c += 2)
            asm volatile("ld.global.nc.v2.f64 {%0,%1}, [%2];"
                         : "=d"(x[c]), "=d"(x[c + 1])
                         : "l"(p + 8 * c));
    }
}

/* Stores C neighbouring columns of a row of ld columns, from `column` on. */
template <int C>
static __device__ inline void store_columns(float *to, const float (&x)[C], uint32_t column,
                                            uint32_t ld)
{
    if constexpr (C == 4) {
        if (column < ld)
            *(float4 *)to = make_float4(x[0], x[1], x[2], x[3]);
    } else if constexpr (C == 2) {
        if (column < ld)
            *(float2 *)to = make_float2(x[0], x[1]);
    } else if (column < ld) {
        *to = x[0];
    }
}

template <int C>
static __device__ inline void store_columns(double *to, const double (&x)[C], uint32_t column,
                                            uint32_t ld)
{
    if constexpr (C == 1) {
        if (column < ld)
            *to = x[0];
    } else {
#pragma unroll
        for (int c = 0; c < C; c += 2)
            if (column + c < ld)
                *(double2 *)(to + c) = make_double2(x[c], x[c + 1]);
    }
}

/* How often the cells of a block count: once, or as often as their weight says. With weights,
 * values and products are multiplied by the square root of the weight, so products of two of them
 * have the weight, as on CPU cores. A cell of weight 0 counts as unlisted.
 *
 *   count     the type of sums of counts
 *   of        the sum of counts of the cells pos + k, for the set bits k of `kept`
 *   of_lane   the same for cells t, t + 4, ... of a lane with number t; total_of: the sum over all
 *             lanes of such sums */
template <class T, bool WEIGHTED> struct block_weights;

template <class T> struct block_weights<T, false> {
    typedef uint32_t count;
    static __host__ __device__ uint32_t bytes() { return 0; }
    __device__ block_weights(char *) {}
    __device__ inline no_weights decoded() const { return {}; }
    __device__ inline uint32_t of(uint32_t kept, uint32_t) const { return __popc(kept); }
    __device__ inline uint32_t of_lane(uint32_t kept, uint32_t, uint32_t) const
    {
        return __popc(kept);
    }
    static __device__ inline uint32_t total_of(uint32_t count) { return count; }
    __device__ inline uint32_t of_cell(uint32_t) const { return 1; }
    template <int C> __device__ inline void weigh(uint32_t, T (&)[C]) const {}
};

template <class T> struct block_weights<T, true> {
    typedef double count;
    T *root; /* square roots of the weights, in the order of the values */
    float *weight;

    static __host__ __device__ uint32_t bytes()
    {
        return spread<LANES>::words * (uint32_t)(sizeof(T) + sizeof(float));
    }
    __device__ block_weights(char *memory)
    {
        root = (T *)memory;
        weight = (float *)(root + spread<LANES>::words);
    }
    __device__ inline weights_to decoded() const { return { weight }; }
    /* All lanes call, each with its own arguments. */
    __device__ inline double of(uint32_t kept, uint32_t pos) const
    {
        double sum = 0;
        for (; kept != 0; kept &= kept - 1)
            sum += weight[spread<LANES>::at(pos + __ffs(kept) - 1)];
        __syncwarp();
        return sum;
    }
    __device__ inline double of_lane(uint32_t kept, uint32_t pos, uint32_t t) const
    {
        return of(kept & 0x11111111u << t, pos);
    }
    static __device__ inline double total_of(double count)
    {
        count += __shfl_xor_sync(ALL_LANES, count, 1);
        count += __shfl_xor_sync(ALL_LANES, count, 2);
        return count;
    }
    __device__ inline double of_cell(uint32_t place) const { return weight[place]; }
    template <int C> __device__ inline void weigh(uint32_t place, T (&x)[C]) const
    {
        const T by = root[place];
#pragma unroll
        for (int c = 0; c < C; c++)
            x[c] *= by;
    }
};

/* x[k] := the product of the factor rows of the nonzero at place[k], C columns from byte[k] on,
 * times the square root of its weight. */
template <class T, int C, int NL, int K, class WEIGHTS>
static __device__ inline void
multiply_rows(const ts_gpu_mttkrp &p, const warp_memory<T, LANES, NL> &mem, const WEIGHTS &weights,
              const uint32_t (&place)[K], const uint32_t (&byte)[K], T (&x)[K][C])
{
    const uint32_t row_bytes = p.ld * (uint32_t)sizeof(T);
    if constexpr (NL > 0 && sizeof(T) == sizeof(float)) {
        T y[NL][K][C];
#pragma unroll
        for (int l = 0; l < NL; l++)
#pragma unroll
            for (int k = 0; k < K; k++)
                load_columns<C>((const char *)p.factor[l] + byte[k] +
                                    (uint64_t)mem.index[l * spread<LANES>::words + place[k]] *
                                        row_bytes,
                                y[l][k]);
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int c = 0; c < C; c++) {
                x[k][c] = y[0][k][c];
#pragma unroll
                for (int l = 1; l < NL; l++)
                    x[k][c] *= y[l][k][c];
            }
    } else {
        const uint32_t n_levels = NL > 0 ? NL : p.n_levels;
#pragma unroll
        for (int k = 0; k < K; k++)
            load_columns<C>((const char *)p.factor[0] + byte[k] +
                                (uint64_t)mem.index[place[k]] * row_bytes,
                            x[k]);
#pragma unroll 1
        for (uint32_t l = 1; l < n_levels; l++) {
            T y[K][C];
#pragma unroll
            for (int k = 0; k < K; k++)
                load_columns<C>((const char *)p.factor[l] + byte[k] +
                                    (uint64_t)mem.index[l * spread<LANES>::words + place[k]] *
                                        row_bytes,
                                y[k]);
#pragma unroll
            for (int k = 0; k < K; k++)
#pragma unroll
                for (int c = 0; c < C; c++)
                    x[k][c] *= y[k][c];
        }
    }
#pragma unroll
    for (int k = 0; k < K; k++)
        weights.weigh(place[k], x[k]);
}

/* Returns 32 bits of a list of 256 bits, from bit `at` on. */
static __device__ inline uint32_t bits_from(const uint32_t *word, uint32_t at)
{
    return __funnelshift_r(word[at / 32], word[at / 32 + 1], at % 32);
}

static __host__ __device__ inline bool is_bounded(const ts_gpu_observed &o)
{
    return o.lower > -INFINITY || o.upper < INFINITY;
}

/* Whether the row is just the solution of (S + l2 I) a = m: l2 is positive, so a solution exists,
 * and there are no bounds. */
static __host__ __device__ inline bool is_plain(const ts_gpu_observed &o)
{
    return o.l2 > 0 && !is_bounded(o);
}

/* Returns the relative limit below which the remainder of a diagonal entry of S counts as a
 * rounding error, as on CPU cores. */
template <class T> static __device__ inline double cut_of(const ts_gpu_observed &o)
{
    return 8.0 * (sizeof(T) == sizeof(float) ? (double)FLT_EPSILON : DBL_EPSILON * o.rank);
}

/* The relative limit below which a diagonal entry of P P' + l2 I counts as rounding (P: the
 * products of a row's nonzeros, observed_few.cuh). It is smaller than cut_of, since leaving out a
 * column would ignore a cell. P P' is summed in float64, and each pivot includes l2. */
static __device__ inline double cut_of_few(const ts_gpu_observed &o)
{
    return 8.0 * DBL_EPSILON * o.rank;
}

/* Multiplies the values by the square roots of the weights, which are stored in weights.root.
 * Returns bits for the lane's cells of weight 0. */
template <class T, int NL>
static __device__ inline uint32_t weigh_values(const warp_memory<T, LANES, NL> &,
                                               const block_weights<T, false> &, uint32_t)
{
    return 0;
}

template <class T, int NL>
static __device__ inline uint32_t weigh_values(const warp_memory<T, LANES, NL> &mem,
                                               const block_weights<T, true> &weights, uint32_t lane)
{
    uint32_t none = 0;
#pragma unroll 1
    for (uint32_t k = 0; k < 8; k++) {
        const uint32_t place = spread<LANES>::at(8 * lane + k);
        const float weight = weights.weight[place];
        const T root = sqrt((T)weight);
        weights.root[place] = root;
        mem.val[place] *= root;
        none |= (uint32_t)(weight == 0) << k;
    }
    return none;
}

/* Sets the bits of nonzeros that begin rows, and of those that are kept. Subtracts the mean from
 * the values, and multiplies them by the square roots of weights. closed: a row ends with the
 * block. */
template <class T, int NL, class WEIGHTS>
static __device__ inline void
prepare_block(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
              const warp_memory<T, LANES, NL> &mem, const WEIGHTS &weights, uint32_t *begins,
              uint32_t *kept, const decoded &d, uint32_t first_row, bool closed, uint32_t lane)
{
    uint32_t held = 0;
    if (o.hold_out.share > 0)
        held =
            held_cells<T, LANES, NL>(o.hold_out, o.level, p.n_levels + 1, mem, lane, first_row, d);
    ((unsigned char *)begins)[lane] = (unsigned char)d.row_flags;
    if (lane < 2) {
        begins[8 + lane] = lane == 0 && closed;
        kept[8 + lane] = 0;
    }
    if (o.mean != 0)
#pragma unroll 1
        for (uint32_t k = 0; k < 8; k++) {
            T *const x = mem.val + spread<LANES>::at(8 * lane + k);
            *x = (T)((double)*x - o.mean);
        }
    held |= weigh_values(mem, weights, lane);
    ((unsigned char *)kept)[lane] = (unsigned char)~held;
    __syncwarp();
}

/* A block that a warp has decoded for its thread block. */
struct wide_block {
    /* bits of nonzeros that begin rows, and of those that are not left out (prepare_block) */
    uint32_t begins[10], kept[10];
    /* number of nonzeros; the first row; whether a row ends with the block */
    uint32_t n, row, closed;
    uint32_t unused;
};

/* Decodes block b, by one warp. The last row of the last block before `end` is treated as one that
 * may continue. */
template <class T, class WEIGHTS>
static __device__ inline void
decode_wide(const ts_gpu_mttkrp &p, const ts_gpu_observed &o, const ts_gpu_shard &shard,
            const warp_memory<T, LANES, 0> &mem, const WEIGHTS &weights, uint32_t b, uint32_t end,
            uint32_t lane, wide_block &ret)
{
    const uint32_t *const word = shard.raw, *const row = shard.raw + shard.n_blocks + 1;
    const uint32_t n =
        b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
    const uint32_t first_row = shard.row_first + __ldg(row + b);
    const decoded d =
        decode_block<T, LANES, 0>(p, shard.raw + __ldg(word + b), n, lane, mem.part, mem.flag_word,
                                  mem.index, mem.val, weights.decoded());
    const bool closed = b + 1 < end && shard.row_first + __ldg(row + b + 1) != first_row + d.n_rows;
    __syncwarp();
    prepare_block(p, o, mem, weights, ret.begins, ret.kept, d, first_row, closed, lane);
    if (lane == 0) {
        ret.n = n;
        ret.row = first_row;
        ret.closed = closed;
    }
}

/* Returns the position of entry (i, j) of the Gram matrix S, i <= j, in a part (partial sums of a
 * row). */
static __device__ inline uint64_t packed_at(uint32_t i, uint32_t j, uint32_t rank)
{
    return (uint64_t)i * rank - (uint64_t)i * (i + 1) / 2 + j;
}

/* The row numbers of n parts (partial sums of rows). If both parts of a unit (a warp's nonzeros)
 * belong to one row, the second one does not exist; neither do the parts of a unit without
 * blocks. */
struct part_rows {
    const uint32_t *row;
    uint64_t n;
    __device__ inline bool there(uint64_t e) const
    {
        return row[e] != UINT32_MAX && (e % 2 == 0 || row[e] != row[e - 1]);
    }
    /* Returns the number of the next part (partial sums) from e on if it belongs to row `of`,
     * otherwise n. */
    __device__ inline uint64_t same(uint64_t e, uint32_t of) const
    {
        while (e < n && !there(e))
            e++;
        return e < n && row[e] == of ? e : n;
    }
};

#endif
