/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_core.cuh - products of float64 on tensor cores.
 *
 *   owner    all in registers
 *   threads  all 32 lanes of a warp take part
 */
#ifndef TS_GPU_TENSOR_CORE_CUH
#define TS_GPU_TENSOR_CORE_CUH

/* d += a b, float64: a is 8 x 4, b 4 x 8, d 8 x 8. Lane L holds a(L / 4, L % 4), b(L % 4, L / 4)
 * and d(L / 4, 2 (L % 4) + 0..1). */
static __device__ inline void multiply_add(double (&d)[2], double a, double b)
{
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(d[0]), "+d"(d[1])
        : "d"(a), "d"(b));
}

#endif
