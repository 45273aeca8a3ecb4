/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_backend.h - the backend that computes on CPU cores (OpenMP, SIMD chosen at run time). */
#ifndef TS_CPU_CPU_BACKEND_H
#define TS_CPU_CPU_BACKEND_H

#include "stream/backend.h"

/* Returns how many of conf's models, from the first one on, are computed fastest in one pass that
 * does not wait for shards: at least two. It is the largest number that meets one of two
 * conditions. Either the largest factor of these models together fits into own_bytes, the cache of
 * a core. Or a row of all of them has at most the 256 bytes that kernels sum together, and this
 * factor fits into a quarter of shared_bytes, the cache that cores share. The second limit does not
 * count if two models exceed it already. With more models, each nonzero would fetch rows from
 * slower memory. */
uint32_t ts_cpu_together(const struct ts_backend_conf *conf, uint64_t own_bytes,
                         uint64_t shared_bytes);

extern const struct ts_backend ts_backend_cpu;

#endif
