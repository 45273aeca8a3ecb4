/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles the kernels (kernel.h) for AVX-512. */
#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "cpu/sparse/kernel.h"
#include "cpu/sparse/kernel_isa.h"
#include "cpu/losses/rounds.h"
#include "stream/loss_functions.h"
#include "base/machine/target_avx512.h"

#include "cpu/sparse/plain_expand.h"

#define TS_UNPACK    ts_unpack_avx512
#define TS_TILE_ROWS 8

#define TS_REAL       float
#define TS_LANES      16
#define TS_SET_NAME   ts_kernels_avx512_f32
#define TS_TURN(x, n) ((vec_float_16)_mm512_alignr_epi32((__m512i)(x), (__m512i)(x), n))
#include "cpu/sparse/kernel_body.h"

#define TS_REAL     double
#define TS_LANES    8
#define TS_SET_NAME ts_kernels_avx512_f64
#include "cpu/sparse/kernel_body.h"

#define TS_REAL     double
#define TS_STORED   float
#define TS_WIDEN(x) ((vec_double_8)_mm512_cvtps_pd((__m256)(x)))
#define TS_LANES    8
#define TS_SET_NAME ts_kernels_avx512_wide
#include "cpu/sparse/kernel_body.h"

#define TS_REAL     float
#define TS_LANES    8
#define TS_SET_NAME ts_kernels_avx512_narrow
#include "cpu/sparse/kernel_body.h"
#include "base/machine/target_pop.h"
#endif
