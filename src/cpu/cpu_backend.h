/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_backend.h - the backend that computes on CPU cores (OpenMP, SIMD chosen at run time). */
#ifndef TS_CPU_CPU_BACKEND_H
#define TS_CPU_CPU_BACKEND_H

#include "stream/backend.h"

/* How many of conf's models, from the first on, go well together where no shard is read while they
 * are computed: two; or as many more as leave the largest factor of all together within own_bytes,
 * the cache of a core; or as many as kernels sum together, 256 bytes of a row, unless just that
 * factor is too large then for a quarter of shared_bytes, the cache that cores share, and not with
 * two. Beyond that a row of all models comes from farther away than those of fewer, for each
 * nonzero. */
uint32_t ts_cpu_together(const struct ts_backend_conf *conf, uint64_t own_bytes,
                         uint64_t shared_bytes);

extern const struct ts_backend ts_backend_cpu;

#endif
