/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_gemm.h - the innermost product of dense tensors: a tile of a few rows of A times a panel of a few columns of B.
 *
 * out(i, j) = sum over p < k of a(i, p) b(p, j), i < rows, j < cols, summed over p in order, in the precision named. Of A there
 * are two forms: `along`, whose rows lie TS_GEMM_STRIDE apart, the numbers of one next to each other; and `across`, whose
 * columns lie `stride` apart, the numbers of one next to each other. b is k rows of `cols`, out `rows` rows of `cols`. All of
 * them lie in scratch of the caller.
 *
 *   threads  pure
 *   errors   none
 */
#ifndef TS_CPU_DENSE_GEMM_H
#define TS_CPU_DENSE_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "cpu/isa.h"

#define TS_GEMM_DEPTH  256u /* the largest k: a panel of B stays in the first cache */
#define TS_GEMM_STRIDE (TS_GEMM_DEPTH + 8u) /* a power of 2 would put all rows into one set of it */
#define TS_GEMM_MOST   512u                 /* rows times cols of any */

/* ahead: an address to which nobody need have a right: while the product is computed, what lies at ahead + p * step is fetched
 * into the cache. */
typedef void ts_gemm_fn(uint32_t k, const void *a, size_t stride, const void *b, void *out,
                        uintptr_t ahead, size_t step);

struct ts_gemm {
    uint32_t rows, cols;
    ts_gemm_fn *along, *across;
};

extern const struct ts_gemm ts_gemm_portable_f32, ts_gemm_portable_f64;
extern const struct ts_gemm ts_gemm_avx2_f32, ts_gemm_avx2_f64; /* these only on x86-64 */
extern const struct ts_gemm ts_gemm_avx512_f32, ts_gemm_avx512_f64;

const struct ts_gemm *ts_gemm_of(enum ts_isa isa, int wide); /* wide: float64 */

#endif
