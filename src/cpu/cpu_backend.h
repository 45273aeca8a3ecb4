/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_backend.h - the backend that computes on CPU cores (OpenMP, SIMD chosen at run time). */
#ifndef TS_CPU_CPU_BACKEND_H
#define TS_CPU_CPU_BACKEND_H

#include "stream/backend.h"

/* How many of conf's models, counted from the first one, are computed fastest together, if shards
 * are not read meanwhile: at least two. There may be more as long as the largest factor of all
 * models together fits own_bytes, the cache of a core. There may also be as many as kernels sum
 * together, 256 bytes of a row, unless that makes the factor too large for a quarter of
 * shared_bytes, the cache that cores share, and two models do not. With more models, each nonzero
 * would fetch a row from a slower memory. */
uint32_t ts_cpu_together(const struct ts_backend_conf *conf, uint64_t own_bytes,
                         uint64_t shared_bytes);

extern const struct ts_backend ts_backend_cpu;

#endif
