/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part_open.h - opens the GPU part where it is a shared object, libtstream-cuda.so.
 *
 * It is looked for beside the file that this code is in, a program or libtstream. For the package
 * of Python, that is in the folder of tstream-cuda13 beside the package. The last place is
 * libdir/tstream, which configure has set. No variable of the environment, and not the current
 * folder, leads to another file, so a caller cannot make a program with more rights load its code.
 * For the same reason nobody else may be able to write there but the owner of that first file,
 * whose code runs already (base/files/trusted.h).
 *
 * Before any of its code is loaded, the file is checked: it is whole, and its note says that it
 * fits (engine/gpu_part_file.h).
 *
 *   owner    an open shared object stays until the process ends
 *   threads  one
 */
#ifndef TS_ENGINE_GPU_PART_OPEN_H
#define TS_ENGINE_GPU_PART_OPEN_H

#include "base/err.h"
#include "gpu/team/gpu_part.h"

/* 1, and *ret is the GPU part. 0: it is not installed. -1: it is there, and must not be used. *why
 * says why. */
int ts_gpu_part_open(const struct ts_gpu_part **ret, struct ts_err *why);

#endif
