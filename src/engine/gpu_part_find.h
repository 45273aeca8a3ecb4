/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part_find.h - where the engine and the programs get the GPU part, struct ts_gpu_part.
 *
 * It is linked in, or there is none.
 *
 *   owner    the table is static
 *   threads  any
 */
#ifndef TS_ENGINE_GPU_PART_FIND_H
#define TS_ENGINE_GPU_PART_FIND_H

#include "base/err.h"
#include "gpu/team/gpu_part.h"

/* 1, and *ret is the GPU part. 0: there is none, and *why says so. */
int ts_gpu_part_find(const struct ts_gpu_part **ret, struct ts_err *why);

#endif
