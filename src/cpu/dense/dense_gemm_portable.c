/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles the tile product of dense tensors (dense_gemm.h) for any machine, in vectors of 16
 * bytes. */
#include "cpu/dense/dense_gemm.h"

#define TS_TILE_ROWS 6

#define TS_REAL      float
#define TS_LANES     4
#define TS_GEMM_NAME ts_gemm_portable_f32
#include "cpu/dense/dense_gemm_body.h"

#define TS_REAL      double
#define TS_LANES     2
#define TS_GEMM_NAME ts_gemm_portable_f64
#include "cpu/dense/dense_gemm_body.h"
