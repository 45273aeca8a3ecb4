/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_isa.h - the kernels of each instruction set, for kernel.c to choose from. */
#ifndef TS_CPU_KERNEL_ISA_H
#define TS_CPU_KERNEL_ISA_H

#include "cpu/kernel.h"
#include "cpu/rounds.h"

ts_kernel_fn ts_kernel_portable_f32, ts_kernel_portable_f64, ts_kernel_portable_wide;
ts_kernel_fn ts_kernel_avx2_f32, ts_kernel_avx2_f64, ts_kernel_avx2_wide; /* these only on x86-64 */
ts_kernel_fn ts_kernel_avx512_f32, ts_kernel_avx512_f64, ts_kernel_avx512_wide;
ts_kernel_fn ts_kernel_avx512_narrow; /* rows of 8 floats */

ts_cells_fn ts_cells_portable_f32, ts_cells_portable_f64;
ts_cells_fn ts_cells_avx2_f32, ts_cells_avx2_f64;
ts_cells_fn ts_cells_avx512_f32, ts_cells_avx512_f64, ts_cells_avx512_narrow;

extern const struct ts_gram_ops ts_gram_portable_f32, ts_gram_portable_f64;
extern const struct ts_gram_ops ts_gram_avx2_f32, ts_gram_avx2_f64;
extern const struct ts_gram_ops ts_gram_avx512_f32, ts_gram_avx512_f64, ts_gram_avx512_narrow;
extern const struct ts_rounds_ops ts_rounds_portable_f32, ts_rounds_portable_f64;
extern const struct ts_rounds_ops ts_rounds_avx2_f32, ts_rounds_avx2_f64;
extern const struct ts_rounds_ops ts_rounds_avx512_f32, ts_rounds_avx512_f64,
    ts_rounds_avx512_narrow;

#endif
