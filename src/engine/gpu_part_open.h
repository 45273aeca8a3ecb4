/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part_open.h - opens the GPU part (all code for CUDA devices) if it is a shared object,
 * libtstream-cuda.so.
 *
 * It is searched for in the directory of the file that contains this code, a program or libtstream.
 * For the Python package, that is also the directory of the package tstream-cuda13. The last place
 * is libdir/tstream, as set by configure. Environment variables and the current directory have no
 * influence. So a caller cannot make a program with more rights load its code. For the same reason,
 * only the owner of the first file, whose code is running already, may be able to write in these
 * places (base/files/trusted.h).
 *
 * Before its code is loaded, the file is checked: it must be complete, and its ELF note must have
 * the version that this code expects (engine/gpu_part_file.h).
 *
 *   owner    an open shared object stays loaded until the process ends
 *   threads  one thread calls
 */
#ifndef TS_ENGINE_GPU_PART_OPEN_H
#define TS_ENGINE_GPU_PART_OPEN_H

#include "base/err.h"
#include "gpu/team/gpu_part.h"

/* Returns 1 and the GPU part in *ret. Returns 0 if it is not installed, or -1 if it exists and must
 * not be used. *why has the reason. */
int ts_gpu_part_open(const struct ts_gpu_part **ret, struct ts_err *why);

#endif
