/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part_find.h - where the engine and the programs get the GPU part, struct ts_gpu_part.
 *
 * It is linked in, or the first call opens a shared object (gpu_part_open.h).
 *
 *   owner    the table is static, or of the shared object, which stays
 *   threads  any
 */
#ifndef TS_ENGINE_GPU_PART_FIND_H
#define TS_ENGINE_GPU_PART_FIND_H

#include "base/err.h"
#include "gpu/team/gpu_part.h"

/* 1, and *ret is the GPU part. 0: it is not installed. -1: it is there, and must not be used. *why
 * says why. */
int ts_gpu_part_find(const struct ts_gpu_part **ret, struct ts_err *why);

#endif
