/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles the row updates (rowblock_body.h) for AVX-512. 32 registers hold a tile of 8 x 2
 * vectors. */
#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#include "cpu/rows/rowblock_isa.h"
#include "base/machine/target_avx512.h"

#define TS_LANES        8
#define TS_ROOT(x)      ((vec)_mm512_sqrt_pd((__m512d)(x)))
#define TS_LARGER(x, y) ((vec)_mm512_max_pd((__m512d)(x), (__m512d)(y)))
#define TS_WIDEN(x)     ((vec)_mm512_cvtps_pd((__m256)(x)))
#define TS_ADD_ABOVE(sum, x, y, t)                                                       \
    ((vec)_mm512_mask_add_pd((__m512d)(sum),                                             \
                             _mm512_cmp_pd_mask((__m512d)(y), (__m512d)(t), _CMP_GT_OQ), \
                             (__m512d)(sum), (__m512d)(x)))
#define TS_TILE_ROWS 8
#define TS_TILE_VECS 2
#define TS_OPS_NAME  ts_rowblock_avx512
#include "cpu/rows/rowblock_body.h"
#include "base/machine/target_pop.h"
#endif
