#include "cpu/kernel.h"

#include "cpu/kernel_isa.h"

#ifdef __x86_64__
static int has(enum ts_kernel_isa isa)
{
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                     __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                     __builtin_cpu_supports("popcnt");
    if (isa == TS_ISA_AVX512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vpopcntdq");
    return isa == TS_ISA_AVX2 ? avx2 : 1;
}

ts_kernel_fn *ts_kernel_get(enum ts_kernel_isa isa, enum ts_precision precision, uint32_t stride)
{
    const int f32 = precision == TS_FLOAT32;
    if (!has(isa))
        return NULL;
    if (isa == TS_ISA_AVX512 && stride * (f32 ? 4 : 8) < 64)
        return f32 ? ts_kernel_avx512_narrow_f32 : ts_kernel_avx512_narrow_f64;
    if (isa == TS_ISA_AVX512)
        return f32 ? ts_kernel_avx512_f32 : ts_kernel_avx512_f64;
    if (isa == TS_ISA_AVX2)
        return f32 ? ts_kernel_avx2_f32 : ts_kernel_avx2_f64;
    return f32 ? ts_kernel_portable_f32 : ts_kernel_portable_f64;
}
#else
ts_kernel_fn *ts_kernel_get(enum ts_kernel_isa isa, enum ts_precision precision, uint32_t stride)
{
    (void)stride;
    if (isa != TS_ISA_PORTABLE)
        return NULL;
    return precision == TS_FLOAT32 ? ts_kernel_portable_f32 : ts_kernel_portable_f64;
}
#endif

enum ts_kernel_isa ts_kernel_best(void)
{
    enum ts_kernel_isa isa = TS_ISA_AVX512;
    while (ts_kernel_get(isa, TS_FLOAT32, 16) == NULL)
        isa--;
    return isa;
}
