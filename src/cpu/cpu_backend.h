/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_backend.h - the backend that computes on CPU cores (OpenMP, SIMD chosen at run time). */
#ifndef TS_CPU_CPU_BACKEND_H
#define TS_CPU_CPU_BACKEND_H

#include "stream/backend.h"

/* How many of conf's models, from the first on, go well together where no shard is read while they are computed: two, or as
 * many more as leave the largest factor of all together within cache_bytes. Beyond that a row of all models
 * comes from farther away than those of two, for each nonzero. */
uint32_t ts_cpu_together(const struct ts_backend_conf *conf, uint64_t cache_bytes);

extern const struct ts_backend ts_backend_cpu;

#endif
