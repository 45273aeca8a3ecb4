/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part_find.h - finds the GPU part (struct ts_gpu_part: all code for CUDA devices), for the
 * engine and the programs.
 *
 * It is linked in, or the first call opens a shared object (gpu_part_open.h).
 *
 *   owner    the table is static, or part of the shared object, which stays loaded
 *   threads  any thread
 */
#ifndef TS_ENGINE_GPU_PART_FIND_H
#define TS_ENGINE_GPU_PART_FIND_H

#include "base/err.h"
#include "gpu/team/gpu_part.h"

/* Returns 1 and the GPU part in *ret. Returns 0 if it is not installed, or -1 if it exists and must
 * not be used. *why has the reason. */
int ts_gpu_part_find(const struct ts_gpu_part **ret, struct ts_err *why);

#endif
