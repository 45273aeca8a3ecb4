/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the instruction sets of this processor. */
#include "base/machine/isa.h"

int ts_isa_here(enum ts_isa isa)
{
#ifdef __x86_64__
    /* the same instruction sets as in target_avx2.h and target_avx512.h */
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                     __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                     __builtin_cpu_supports("popcnt");
    if (isa == TS_ISA_AVX512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vpopcntdq");
    if (isa == TS_ISA_AVX2)
        return avx2;
#endif
    return isa == TS_ISA_PORTABLE;
}

enum ts_isa ts_isa_best(void)
{
    enum ts_isa isa = TS_ISA_AVX512;
    while (!ts_isa_here(isa))
        isa--;
    return isa;
}
