/* SPDX-License-Identifier: BSD-3-Clause */
/* isa.h - the instruction sets that kernels come in, and which of them this machine has.
 *
 *   threads  any thread
 *   errors   none
 */
#ifndef TS_BASE_ISA_H
#define TS_BASE_ISA_H

enum ts_isa { TS_ISA_PORTABLE, TS_ISA_AVX2, TS_ISA_AVX512, TS_N_ISA };

int ts_isa_here(enum ts_isa isa); /* does this machine have it, and this build use it */
enum ts_isa ts_isa_best(void);

/* A loop whose count is a constant after inlining becomes straight code. */
#ifdef __clang__
#define TS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TS_UNROLL _Pragma("GCC unroll 16")
#endif

/* Such a loop, over i from `first`, or from 0, to n - 1. */
#define TS_EACH_FROM(i, first, n) TS_UNROLL for (uint32_t i = (first); i < (n); i++)
#define TS_EACH(i, n)             TS_EACH_FROM(i, 0, n)

#endif
