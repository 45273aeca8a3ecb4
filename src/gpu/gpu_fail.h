/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_fail.h - CUDA calls that end with the first failure, and the failure as a sentence that names
 * the GPU and says what to do.
 *
 *   threads  any: the GPU named is the current device of the thread that calls
 *   errors   ts_gpu_fail returns TS_ECUDA, or TS_ENOMEM when the device is out of memory
 */
#ifndef TS_GPU_GPU_FAIL_H
#define TS_GPU_GPU_FAIL_H

#include <cuda_runtime.h>

#include "base/err.h"

/* The next of several steps: makes the call unless a step before it failed. e, a cudaError_t, keeps
 * the first failure. */
#define TRY(e, call)            \
    do {                        \
        if ((e) == cudaSuccess) \
            (e) = (call);       \
    } while (0)

/* Whether the work before an event has ended: 1, 0, or -1 with the failure in *e. */
int ts_gpu_ended(cudaEvent_t event, cudaError_t *e);

/* `what` is what was being done: "row solves". e is stored in err->sys. */
int ts_gpu_fail(struct ts_err *err, cudaError_t e, const char *what);

#endif
