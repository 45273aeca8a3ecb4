/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_backend.h - the backend that computes on CPU cores (OpenMP, SIMD chosen at run time). */
#ifndef TS_CPU_CPU_BACKEND_H
#define TS_CPU_CPU_BACKEND_H

#include "stream/backend.h"

/* Returns the number of conf's models, counted from the first one, that are computed fastest in one
 * pass, if the pass does not wait for shards: at least two. More models are added while the largest
 * factor of all models together fits into own_bytes, the cache of a core. Otherwise the models fill
 * the 256 bytes of a row that kernels sum together. An exception is a factor that is then larger
 * than a quarter of shared_bytes, the cache that cores share, while that of two models is not. With
 * more models, each nonzero would fetch rows from slower memory. */
uint32_t ts_cpu_together(const struct ts_backend_conf *conf, uint64_t own_bytes,
                         uint64_t shared_bytes);

extern const struct ts_backend ts_backend_cpu;

#endif
