/* SPDX-License-Identifier: BSD-3-Clause */
/* rowblock_isa.h - the row blocks of each instruction set, for rowblock.c to choose from. */
#ifndef TS_CPU_ROWBLOCK_ISA_H
#define TS_CPU_ROWBLOCK_ISA_H

#include "cpu/rows/rowblock.h"

extern const struct ts_rowblock_ops ts_rowblock_portable;
extern const struct ts_rowblock_ops ts_rowblock_avx2, ts_rowblock_avx512; /* only on x86-64 */

#endif
