/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles the row updates (rowblock_body.h) for any machine, in vectors of 16 bytes. On a machine
 * without 16-byte vectors, the compiler splits them. */
#include <math.h>
#include <string.h>

#include "cpu/rows/rowblock_isa.h"

#define TS_LANES     2
#define TS_ROOT(x)   ((vec){ sqrt((x)[0]), sqrt((x)[1]) })
#define TS_TILE_ROWS 2
#define TS_TILE_VECS 4
#define TS_OPS_NAME  ts_rowblock_portable
#include "cpu/rows/rowblock_body.h"
