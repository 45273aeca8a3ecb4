/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_fail.h - a CUDA failure as a sentence that names the GPU and says what to do.
 *
 *   threads  any: the GPU named is the current device of the thread that calls
 *   errors   ts_gpu_fail returns TS_ECUDA, or TS_ENOMEM when the device is out of memory
 */
#ifndef TS_GPU_GPU_FAIL_H
#define TS_GPU_GPU_FAIL_H

#include <cuda_runtime.h>

#include "base/err.h"

/* Whether the work before an event has ended: 1, 0, or -1 with the failure in *e. */
int ts_gpu_ended(cudaEvent_t event, cudaError_t *e);

/* `what` is what was being done: "row solves". cuda_error is a cudaError_t and is stored in
 * err->sys. */
int ts_gpu_fail(struct ts_err *err, int cuda_error, const char *what);

#endif
