/* SPDX-License-Identifier: BSD-3-Clause */
/* row_pairs.cuh - access to rows of float32 or float64 in pairs of columns, converted to float64.
 *
 *   owner    the caller owns the rows; everything else is in registers
 *   units    columns; a pair is an even column and the next one
 *   threads  all 32 lanes of a warp take part in sums
 */
#ifndef TS_GPU_ROW_PAIRS_CUH
#define TS_GPU_ROW_PAIRS_CUH

#include <cuda_runtime.h>
#include <stdint.h>

static __device__ inline double2 widen(float2 x)
{
    return make_double2(x.x, x.y);
}
static __device__ inline double2 load2(const float *p)
{
    return widen(*(const float2 *)p);
}
static __device__ inline double2 load2(const double *p)
{
    return *(const double2 *)p;
}

/* Stores x rounded to the precision of the row, and sets x to the stored values. */
static __device__ inline void store2(float *p, double2 &x)
{
    const float2 rounded = make_float2((float)x.x, (float)x.y);
    *(float2 *)p = rounded;
    x = widen(rounded);
}
static __device__ inline void store2(double *p, double2 &x)
{
    *(double2 *)p = x;
}

/* Returns a(row, column) and a(row, column + 1), for an even column; zeros outside. The address is
 * clamped instead of making the load conditional, so that many loads are in flight. */
template <class T>
static __device__ inline double2 load_pair(const T *a, uint32_t row, uint32_t n_rows,
                                           uint32_t column, uint32_t ld)
{
    const double2 x = load2(a + min(row, n_rows - 1) * ld + min(column, ld - 2));
    const bool inside = row < n_rows && column < ld;
    return make_double2(inside ? x.x : 0, inside ? x.y : 0);
}

/* Returns to all lanes the sum of x over the warp, which is added in a fixed order. */
static __device__ inline double warp_sum(double x)
{
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_xor_sync(0xffffffff, x, d);
    return x;
}

#endif
