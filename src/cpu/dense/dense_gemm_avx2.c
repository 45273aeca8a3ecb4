/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles the tile product of dense tensors (dense_gemm.h) for AVX2 and FMA. */
#ifdef __x86_64__
#include "cpu/dense/dense_gemm.h"

#include "base/machine/target_avx2.h"

#define TS_TILE_ROWS 6

#define TS_REAL      float
#define TS_LANES     8
#define TS_GEMM_NAME ts_gemm_avx2_f32
#include "cpu/dense/dense_gemm_body.h"

#define TS_REAL      double
#define TS_LANES     4
#define TS_GEMM_NAME ts_gemm_avx2_f64
#include "cpu/dense/dense_gemm_body.h"

#include "base/machine/target_pop.h"
#endif
