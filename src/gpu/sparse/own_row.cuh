/* SPDX-License-Identifier: BSD-3-Clause */
/* own_row.cuh - computes the model's value at nonzeros of a decoded block: the dot product of the
 * nonzero's term (the product of the other factors' rows) and the row of the shards' own mode.
 *
 *   owner    all in registers
 *   threads  groups of LPR lanes, as in mttkrp_stages.cuh; all lanes of a warp call together
 *   errors   none
 */
#ifndef TS_GPU_OWN_ROW_CUH
#define TS_GPU_OWN_ROW_CUH

#include "gpu/sparse/mttkrp_stages.cuh"

/* The row of the shards' own mode that a group of lanes has reached. */
template <class T> struct own_row {
    piece<T> now;
    const char *at;
    uint32_t step;

    /* base: the address of the lane's columns in row 0. A lane without columns has zeros. */
    __device__ own_row(const char *base, bool active, uint32_t row, uint32_t bytes)
    {
        step = active ? bytes : 0;
        at = base + (uint64_t)row * step;
        now = piece<T>::load(at);
        if (!active)
            now = {};
    }

    /* Loads the rows of the shards' own mode for U nonzeros. Bit u of f: a row begins with nonzero
     * u. The loads are independent of each other. */
    template <int U> __device__ inline void follow(uint32_t f, piece<T> (&row)[U])
    {
#pragma unroll
        for (int u = 0; u < U; u++) {
            at += f >> u & 1 ? step : 0;
            row[u] = piece<T>::load(at);
        }
        if (step == 0)
#pragma unroll
            for (int u = 0; u < U; u++)
                row[u] = {};
        now = row[U - 1];
    }
};

/* Returns, to all lanes of a group, the sum of their x. */
template <int LPR, class T> static __device__ inline T group_sum(T x)
{
#pragma unroll
    for (int d = LPR / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}

/* m[u] := the part of the lane's columns in the model's value at U nonzeros with these terms
 * (products of the other factors' rows). `own` moves on when a row begins. With SIGNS, entries of
 * `own` keep their signs; otherwise their magnitudes are used. */
template <class T, int U, bool FLAGS, bool SIGNS>
static __device__ inline void parts_of_models(const piece<T> (&term)[U], uint32_t f,
                                              own_row<T> &own, T (&m)[U])
{
    piece<T> row[U];
    if (FLAGS)
        own.follow(f, row);
#pragma unroll
    for (int u = 0; u < U; u++) {
        const piece<T> &here = FLAGS ? row[u] : own.now;
        m[u] = 0;
#pragma unroll
        for (int k = 0; k < piece<T>::N; k++)
            m[u] += term[u].v[k] * (SIGNS ? here.v[k] : fabs(here.v[k]));
    }
}

/* Computes the model's values at U nonzeros. */
template <class T, int LPR, int U, bool FLAGS, bool SIGNS>
static __device__ inline void models(const piece<T> (&term)[U], uint32_t f, own_row<T> &own,
                                     T (&m)[U])
{
    parts_of_models<T, U, FLAGS, SIGNS>(term, f, own, m);
#pragma unroll
    for (int u = 0; u < U; u++)
        m[u] = group_sum<LPR>(m[u]);
}

/* Adds g times a nonzero's term (the product of the other factors' rows) to its row. begins: the
 * row before has ended, and is stored first. */
template <class T, bool FLAGS>
static __device__ inline void add_term(run_rows<T> &rows, bool begins, T g, const piece<T> &term)
{
    if (FLAGS) {
        rows.sum.store_if(begins, rows.to);
        rows.to = begins ? rows.next : rows.to;
        rows.next += begins ? rows.step : 0;
#pragma unroll
        for (int k = 0; k < piece<T>::N; k++)
            rows.sum.v[k] = begins ? 0 : rows.sum.v[k];
    }
#pragma unroll
    for (int k = 0; k < piece<T>::N; k++)
        rows.sum.v[k] += g * term.v[k];
}

#endif
