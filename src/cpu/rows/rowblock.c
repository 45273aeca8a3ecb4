/* SPDX-License-Identifier: BSD-3-Clause */
/* Returns the functions that update rows (rowblock.h) for an instruction set. */
#include "cpu/rows/rowblock.h"

#include <stddef.h>

#include "cpu/rows/rowblock_isa.h"

const struct ts_rowblock_ops *ts_rowblock_get(enum ts_isa isa)
{
    if (!ts_isa_here(isa))
        return NULL;
#ifdef __x86_64__
    if (isa == TS_ISA_AVX512)
        return &ts_rowblock_avx512;
    if (isa == TS_ISA_AVX2)
        return &ts_rowblock_avx2;
#endif
    return &ts_rowblock_portable;
}
