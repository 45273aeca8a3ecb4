/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles the kernels (kernel.h) for any machine, in vectors of 16 bytes. On machines without such
 * vectors, the compiler splits them. */
#include <math.h>
#include <string.h>

#include "cpu/sparse/kernel.h"
#include "cpu/sparse/kernel_isa.h"
#include "cpu/losses/rounds.h"
#include "stream/loss_functions.h"
#include "cpu/sparse/plain_expand.h"

#define TS_UNPACK    ts_unpack_portable
#define TS_TILE_ROWS 4

#define TS_REAL     float
#define TS_LANES    4
#define TS_SET_NAME ts_kernels_portable_f32
#include "cpu/sparse/kernel_body.h"

#define TS_REAL     double
#define TS_LANES    2
#define TS_SET_NAME ts_kernels_portable_f64
#include "cpu/sparse/kernel_body.h"

#define TS_REAL     double
#define TS_STORED   float
#define TS_LANES    2
#define TS_SET_NAME ts_kernels_portable_wide
#include "cpu/sparse/kernel_body.h"
