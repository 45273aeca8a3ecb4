/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_backend.h - the backend that computes on one NVIDIA GPU, or on several of one host.
 *
 * Each device holds all factor matrices for the whole run. The rest of its budget
 * (ts_backend_conf.device_bytes, for each device) holds as many shards as fit, the same fraction of
 * every mode; they stay there after their first copy. The other shards are streamed through a few
 * slots: copies run on one stream, kernels on several, and a slot is filled again after its kernel
 * has ended. gpu_state.h says how several devices share the work.
 */
#ifndef TS_GPU_GPU_BACKEND_H
#define TS_GPU_GPU_BACKEND_H

#include "stream/backend.h"

extern const struct ts_backend ts_backend_gpu;

#endif
