/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles the row updates (rowblock_body.h) for AVX2 and FMA. 16 registers hold a tile of 4 x 2
 * vectors, or 12 vectors in all. */
#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#include "cpu/rows/rowblock_isa.h"
#include "base/machine/target_avx2.h"

#define TS_LANES        4
#define TS_ROOT(x)      ((vec)_mm256_sqrt_pd((__m256d)(x)))
#define TS_LARGER(x, y) ((vec)_mm256_max_pd((__m256d)(x), (__m256d)(y)))
#define TS_WIDEN(x)     ((vec)_mm256_cvtps_pd((__m128)(x)))
#define TS_TILE_ROWS    4
#define TS_TILE_VECS    2
#define TS_OPS_NAME     ts_rowblock_avx2
#include "cpu/rows/rowblock_body.h"
#include "base/machine/target_pop.h"
#endif
