/* SPDX-License-Identifier: BSD-3-Clause */
/* target_avx2.h - code after this may use AVX2 and FMA, until target_pop.h; only x86-64 includes
 * it. */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,popcnt"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,popcnt")
#endif
