/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_calls.h - the functions that the GPU part calls when it is a shared object.
 *
 * The shared object has no copies of these functions, so their state exists once in a process.
 * engine/gpu_part_open.c fills the table of their addresses.
 */
#ifndef TS_GPU_GPU_CALLS_H
#define TS_GPU_GPU_CALLS_H

#include <stdarg.h>

#include "base/err.h"
#include "base/setting.h"
#include "base/trace.h"
#include "format/arrays/dense.h"
#include "format/shard.h"
#include "stream/backend.h"
#include "stream/balance.h"
#include "stream/feed/slabs.h"
#include "stream/loss.h"

struct ts_gpu_calls {
#define GIVE(type, name, params, args) type(*name) params;
#define DO(name, params, args)         void(*name) params;
#include "gpu/module/gpu_calls.def"
#undef GIVE
#undef DO
    /* path of libnccl.so.2 from the package nvidia-nccl-cu13, found beside the shared object; or
     * NULL */
    const char *nccl;
};

#endif
