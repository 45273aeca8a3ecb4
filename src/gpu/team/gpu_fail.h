/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_fail.h - sequences of CUDA calls that stop at the first failure, and messages for failures.
 *
 *   threads  any; the GPU in the message is the current device of the calling thread
 *   errors   ts_gpu_fail returns TS_ECUDA, or TS_ENOMEM if the device is out of memory
 */
#ifndef TS_GPU_GPU_FAIL_H
#define TS_GPU_GPU_FAIL_H

#include "base/err.h"
#include "gpu/team/gpu_types.h"

/* Makes a call unless an earlier one has failed. e, a ts_gpu_error (gpu_types.h), keeps the first
 * failure. */
#define TRY(e, call)      \
    do {                  \
        if ((e) == 0)     \
            (e) = (call); \
    } while (0)

/* Whether the work before an event has ended: 1, 0, or -1 with the failure in *e. */
int ts_gpu_ended(ts_gpu_event event, ts_gpu_error *e);

/* Writes a message to err and returns a negative ts_code. what: the work that has failed, such as
 * "row solves". e is stored in err->sys. */
int ts_gpu_fail(struct ts_err *err, ts_gpu_error e, const char *what);

#endif
