/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_backend.h - the backend that computes on one NVIDIA GPU, or on several of one host.
 *
 * Factor matrices live in the memory of each device for the whole run. What is left of the budget
 * (ts_backend_conf.device_bytes, of each) holds as many shards as fit, the same share of every mode,
 * kept from their first delivery on; the others pass through a few slots: copies run on a stream of
 * their own, kernels on several, and a slot is filled again once the event behind its kernel has come.
 * gpu_state.h says how several devices share the work.
 */
#ifndef TS_GPU_GPU_BACKEND_H
#define TS_GPU_GPU_BACKEND_H

#include "stream/backend.h"

extern const struct ts_backend ts_backend_gpu;

#endif
