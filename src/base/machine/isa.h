/* SPDX-License-Identifier: BSD-3-Clause */
/* isa.h - the instruction sets for which kernels are compiled, and those that this machine
 * supports.
 *
 *   threads  any thread
 *   errors   none
 */
#ifndef TS_BASE_ISA_H
#define TS_BASE_ISA_H

enum ts_isa { TS_ISA_PORTABLE, TS_ISA_AVX2, TS_ISA_AVX512, TS_N_ISA };

/* whether this machine has the instruction set and this build may use it */
int ts_isa_here(enum ts_isa isa);
enum ts_isa ts_isa_best(void);

/* TS_UNROLL before a loop unrolls it. The number of iterations is a constant once the function is
 * inlined. */
#ifdef __clang__
#define TS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TS_UNROLL _Pragma("GCC unroll 16")
#endif

/* An unrolled loop over i, from `first` (or 0) to n - 1. */
#define TS_EACH_FROM(i, first, n) TS_UNROLL for (uint32_t i = (first); i < (n); i++)
#define TS_EACH(i, n)             TS_EACH_FROM(i, 0, n)

#endif
