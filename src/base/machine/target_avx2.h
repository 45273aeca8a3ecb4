/* SPDX-License-Identifier: BSD-3-Clause */
/* target_avx2.h - functions after this header may use AVX2 and FMA, until target_pop.h is included.
 * For x86-64 only. */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,popcnt"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,popcnt")
#endif
