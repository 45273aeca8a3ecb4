/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_gemm.h - the innermost product of dense tensors: a tile of a few rows of A times a panel of
 * a few columns of B.
 *
 * s(i, j) = sum over p < k of a(i, p) b(p, j), i < rows, j < columns, summed over p in order, in
 * the precision named. Of A there are two forms: `along`, the numbers of whose rows lie next to
 * each other, the rows `stride` apart; and `across`, the numbers of whose columns do. Panels have
 * one vector of columns or two: along[0] and across[0], and those of 1. b is k rows of a panel's
 * columns.
 *
 * While a product is computed, what is wanted next is fetched into the second cache: with the p of
 * a block of TS_GEMM_BLOCK what lies at ahead + block * hop + p * step, and `beside` behind that.
 *
 *   owner    the caller; `ahead` is any address, and nobody need have a right to it
 *   units    strides in numbers; hop, step and beside in bytes
 *   threads  pure
 *   errors   none
 */
#ifndef TS_CPU_DENSE_GEMM_H
#define TS_CPU_DENSE_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/machine/isa.h"

#define TS_GEMM_DEPTH  256u /* the largest k: a panel of B stays in the first cache */
#define TS_GEMM_STRIDE (TS_GEMM_DEPTH + 8u) /* a power of 2 would put all rows into one set of it */
#define TS_GEMM_MOST   512u                 /* the most rows times columns of a tile */
#define TS_GEMM_BLOCK  32u

struct ts_gemm_ahead {
    uintptr_t at;
    size_t hop, step, beside;
};

/* along: out(i, j) = s(i, j), or += if `add`, in the precision of the product. across: the same in
 * float64. */
typedef void ts_gemm_fn(uint32_t k, const void *a, size_t stride, const void *b, void *out,
                        size_t out_stride, int add, const struct ts_gemm_ahead *ahead);

/* out(j) = s(j), for the columns of n panels of two vectors. The panels lie one behind the other
 * and have k rows each; a is one row; k is arbitrary. */
typedef void ts_gemm_row_fn(uint32_t k, const void *a, const void *b, uint32_t n, void *out);

struct ts_gemm {
    uint32_t rows, lanes; /* rows of a tile; numbers of a vector */
    ts_gemm_fn *along[2], *across[2];
    ts_gemm_row_fn *row;
};

extern const struct ts_gemm ts_gemm_portable_f32, ts_gemm_portable_f64;
extern const struct ts_gemm ts_gemm_avx2_f32, ts_gemm_avx2_f64; /* on x86-64 alone */
extern const struct ts_gemm ts_gemm_avx512_f32, ts_gemm_avx512_f64;

const struct ts_gemm *ts_gemm_of(enum ts_isa isa, int wide); /* wide: float64, otherwise float32 */

#endif
