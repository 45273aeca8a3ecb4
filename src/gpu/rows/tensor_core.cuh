/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_core.cuh - products of float64 matrices on tensor cores.
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

/* d += a b, float64: a is 16 x 8, b 8 x 8, d 16 x 8. At (i, j) = (L / 4, L % 4), lane L holds a(i,
 * j), a(i + 8, j), a(i, j + 4) and a(i + 8, j + 4), b(j, i) and b(j + 4, i), and d(i, 2 j + 0..1)
 * and d(i + 8, 2 j + 0..1). */
static __device__ inline void multiply_add(double (&d)[4], const double (&a)[4], double b0,
                                           double b1)
{
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b0), "d"(b1));
#else
    double top[2] = { d[0], d[1] }, bottom[2] = { d[2], d[3] };
    multiply_add(top, a[0], b0);
    multiply_add(bottom, a[1], b0);
    multiply_add(top, a[2], b1);
    multiply_add(bottom, a[3], b1);
    d[0] = top[0];
    d[1] = top[1];
    d[2] = bottom[0];
    d[3] = bottom[1];
#endif
}

/* d += a b for two left operands of 8 x 8, the first for rows 0 .. 7 of d (d[0..1]) and the second
 * for rows 8 .. 15 (d[2..3]): lane L holds a[h](L / 4, L % 4 + 4 k) as a[h][k], b(L % 4 + 4 k, L /
 * 4) as b[k]. It uses two products of 16 x 4. One product of 16 x 8 would need its operands in
 * adjacent registers, so half of them would have to be copied. */
static __device__ inline void multiply_add_pair(double (&d)[4], const double (&a0)[2],
                                                const double (&a1)[2], const double (&b)[2])
{
#pragma unroll
    for (int k = 0; k < 2; k++) {
#if __CUDA_ARCH__ >= 900
        asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
            "{%0,%1,%2,%3};"
            : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
            : "d"(a0[k]), "d"(a1[k]), "d"(b[k]));
#else
        double top[2] = { d[0], d[1] }, bottom[2] = { d[2], d[3] };
        multiply_add(top, a0[k], b[k]);
        multiply_add(bottom, a1[k], b[k]);
        d[0] = top[0];
        d[1] = top[1];
        d[2] = bottom[0];
        d[3] = bottom[1];
#endif
    }
}

#endif
