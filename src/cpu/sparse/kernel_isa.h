/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_isa.h - the kernels of each instruction set, for kernel.c to choose from. */
#ifndef TS_CPU_KERNEL_ISA_H
#define TS_CPU_KERNEL_ISA_H

#include "cpu/sparse/kernel.h"
#include "cpu/losses/rounds.h"

/* The functions that kernel_body.h compiles for one instruction set, type of products and width of
 * vectors. */
struct ts_kernel_set {
    ts_kernel_fn *products;
    /* NULL, like the members below, if rows are stored in another type than products */
    ts_cells_fn *cells;
    const struct ts_gram_ops *gram;
    const struct ts_rounds_ops *rounds;
};

extern const struct ts_kernel_set ts_kernels_portable_f32, ts_kernels_portable_f64,
    ts_kernels_portable_wide;
/* These kernels exist on x86-64 only. */
extern const struct ts_kernel_set ts_kernels_avx2_f32, ts_kernels_avx2_f64, ts_kernels_avx2_wide;
extern const struct ts_kernel_set ts_kernels_avx512_f32, ts_kernels_avx512_f64,
    ts_kernels_avx512_wide;
extern const struct ts_kernel_set ts_kernels_avx512_narrow; /* for rows of 8 floats */

#endif
