/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_fail.h - CUDA calls that end with the first failure, and the failure as a sentence that names
 * the GPU and says what to do.
 *
 *   threads  any: the GPU named is the current device of the thread that calls
 *   errors   ts_gpu_fail returns TS_ECUDA, or TS_ENOMEM when the device is out of memory
 */
#ifndef TS_GPU_GPU_FAIL_H
#define TS_GPU_GPU_FAIL_H

#include "base/err.h"
#include "gpu/team/gpu_types.h"

/* The next of several steps: makes the call unless a step before it failed. e, a ts_gpu_error
 * (gpu_types.h), keeps the first failure. */
#define TRY(e, call)      \
    do {                  \
        if ((e) == 0)     \
            (e) = (call); \
    } while (0)

/* Whether the work before an event has ended: 1, 0, or -1 with the failure in *e. */
int ts_gpu_ended(ts_gpu_event event, ts_gpu_error *e);

/* `what` is what was being done: "row solves". e is stored in err->sys. */
int ts_gpu_fail(struct ts_err *err, ts_gpu_error e, const char *what);

#endif
