/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles the kernels (kernel.h) for AVX2 and FMA. */
#ifdef __x86_64__
#include <math.h>
#include <string.h>

#include "cpu/sparse/kernel.h"
#include "cpu/sparse/kernel_isa.h"
#include "cpu/losses/rounds.h"
#include "stream/loss_functions.h"
#include "base/machine/target_avx2.h"

#include "cpu/sparse/plain_expand.h"

#define TS_UNPACK    ts_unpack_avx2
#define TS_TILE_ROWS 4

#define TS_REAL     float
#define TS_LANES    8
#define TS_SET_NAME ts_kernels_avx2_f32
#include "cpu/sparse/kernel_body.h"

#define TS_REAL     double
#define TS_LANES    4
#define TS_SET_NAME ts_kernels_avx2_f64
#include "cpu/sparse/kernel_body.h"

#define TS_REAL     double
#define TS_STORED   float
#define TS_LANES    4
#define TS_SET_NAME ts_kernels_avx2_wide
#include "cpu/sparse/kernel_body.h"

#include "base/machine/target_pop.h"
#endif
