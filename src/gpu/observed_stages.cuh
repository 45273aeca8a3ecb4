/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_stages.cuh - what kernels over observed cells are made of: factor rows by neighbouring columns, which nonzeros of a block
 * begin rows and which are held out, and which parts of rows belong together.
 *
 *   owner    shared memory is the caller's
 *   threads  all lanes of a warp call together
 *   errors   none: blocks were checked
 */
#ifndef TS_GPU_OBSERVED_STAGES_CUH
#define TS_GPU_OBSERVED_STAGES_CUH

#include <cfloat>
#include <cuda_runtime.h>

#include "gpu/held_cells.cuh"
#include "gpu/mttkrp_stages.cuh"
#include "gpu/observed_kernel.h"

enum { LANES = 8 }; /* of the groups in which positions of a block are spread */

/* Loads C neighbouring columns. In assembly, or the compiler would move loads behind the branches of others. */
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

/* Stores C neighbouring columns of a row from `column` on, of which it has ld. */
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

/* x[k] := the product of the rows of all factors at the nonzero in place[k], from byte[k] of the rows on. */
template <class T, int C, int NL, int K>
static __device__ inline void
multiply_rows(const ts_gpu_mttkrp &p, const warp_memory<T, LANES, NL> &mem,
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
}

/* 32 bits of a list of 256, from bit `at` on. */
static __device__ inline uint32_t bits_from(const uint32_t *word, uint32_t at)
{
    return __funnelshift_r(word[at / 32], word[at / 32 + 1], at % 32);
}

static __host__ __device__ inline bool is_bounded(const ts_gpu_observed &o)
{
    return o.lower > -INFINITY || o.upper < INFINITY;
}

/* S + l2 I is positive definite, and its solution the row. */
static __host__ __device__ inline bool is_plain(const ts_gpu_observed &o)
{
    return o.l2 > 0 && !is_bounded(o);
}

/* What is less of a diagonal entry is rounding, as on CPU cores. */
template <class T> static __device__ inline double cut_of(const ts_gpu_observed &o)
{
    return 8.0 * (sizeof(T) == sizeof(float) ? (double)FLT_EPSILON : DBL_EPSILON * o.rank);
}

/* Which nonzeros of the block begin rows, and which are kept; values less the mean. closed: a row ends with the block. */
template <class T, int NL>
static __device__ inline void prepare_block(const ts_gpu_mttkrp &p, const ts_gpu_observed &o,
                                            const warp_memory<T, LANES, NL> &mem, uint32_t *begins,
                                            uint32_t *kept, const decoded &d, uint32_t first_row,
                                            bool closed, uint32_t lane)
{
    uint32_t held = 0;
    if (o.hold_out.share > 0)
        held =
            held_cells<T, LANES, NL>(o.hold_out, o.level, p.n_levels + 1, mem, lane, first_row, d);
    ((unsigned char *)begins)[lane] = (unsigned char)d.row_flags;
    ((unsigned char *)kept)[lane] = (unsigned char)~held;
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
    __syncwarp();
}

/* The rows of parts. A second part of one row is none, nor are those of a unit without blocks. */
struct part_rows {
    const uint32_t *row;
    uint64_t n;
    __device__ inline bool there(uint64_t e) const
    {
        return row[e] != UINT32_MAX && (e % 2 == 0 || row[e] != row[e - 1]);
    }
    /* The next one at or after e of this row; n where there is none. */
    __device__ inline uint64_t same(uint64_t e, uint32_t of) const
    {
        while (e < n && !there(e))
            e++;
        return e < n && row[e] == of ? e : n;
    }
};

#endif
