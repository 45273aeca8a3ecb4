/* SPDX-License-Identifier: BSD-3-Clause */
/* target_avx512.h - code after this may use AVX-512, until target_pop.h; only x86-64 includes
 * it. */
#ifdef __clang__
#pragma clang attribute push(                                                                    \
    __attribute__((                                                                              \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,fma,bmi,bmi2,popcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,fma,bmi,bmi2,popcnt")
#endif
