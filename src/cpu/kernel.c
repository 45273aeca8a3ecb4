#include "cpu/kernel.h"

#include "cpu/kernel_isa.h"

ts_kernel_fn *ts_kernel_get(enum ts_isa isa, enum ts_precision precision, uint32_t stride)
{
    const int f32 = precision == TS_FLOAT32;
    if (!ts_isa_here(isa))
        return NULL;
#ifdef __x86_64__
    if (isa == TS_ISA_AVX512 && f32)
        return stride < 16 ? ts_kernel_avx512_narrow : ts_kernel_avx512_f32;
    if (isa == TS_ISA_AVX512)
        return ts_kernel_avx512_f64;
    if (isa == TS_ISA_AVX2)
        return f32 ? ts_kernel_avx2_f32 : ts_kernel_avx2_f64;
#endif
    (void)stride;
    return f32 ? ts_kernel_portable_f32 : ts_kernel_portable_f64;
}
