/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns a CUDA error into a message that names the GPU and says what to do. */
#include "gpu/team/gpu_fail.h"

#include <cuda_runtime.h>
#include "base/setting.h"

/* Whether this process has lost the GPU: every later call in its context returns the same error. */
static int is_lost(ts_gpu_error e)
{
    static const ts_gpu_error lost[] = {
        cudaErrorECCUncorrectable,
        cudaErrorNvlinkUncorrectable,
        cudaErrorHardwareStackError,
        cudaErrorDeviceUninitialized,
        cudaErrorContextIsDestroyed,
        cudaErrorLaunchFailure,
        cudaErrorLaunchTimeout,
        cudaErrorIllegalAddress,
        cudaErrorIllegalInstruction,
        cudaErrorMisalignedAddress,
        cudaErrorInvalidAddressSpace,
        cudaErrorInvalidPc,
        cudaErrorNoDevice,
        cudaErrorExternalDevice,
#if CUDART_VERSION >= 13000
        cudaErrorContained,
#endif
        cudaErrorUnknown,
    };
    size_t i = 0;
    while (i < sizeof lost / sizeof lost[0] && lost[i] != e)
        i++;
    return i < sizeof lost / sizeof lost[0];
}

static int fail_memory(struct ts_err *err, int gpu, const char *what)
{
    return ts_fail(
        err, TS_ENOMEM,
        "GPU %d: %s: it is out of memory; another program may be using it, or " TS_SET_GPU_MEMORY
        " is more than it has free",
        gpu, what);
}

static int fail_unsupported(struct ts_err *err, ts_gpu_error e, int gpu, const char *what)
{
    if (e == cudaErrorInsufficientDriver)
        return ts_fail(err, TS_ECUDA,
                       "GPU %d: %s: the NVIDIA driver is older than CUDA %d.%d, which this program "
                       "was built with; update it, or use " TS_SET_CPU,
                       gpu, what, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return ts_fail(err, TS_ECUDA,
                   "GPU %d: %s: it is not among those that the program was built for "
                   "(--with-cuda-arch of configure); build for it, or use " TS_SET_CPU,
                   gpu, what);
}

int ts_gpu_ended(ts_gpu_event event, ts_gpu_error *e)
{
    *e = cudaEventQuery(event);
    if (*e == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* clears the error: the next launch would return it */
        *e = cudaSuccess;
        return 0;
    }
    return *e == cudaSuccess ? 1 : -1;
}

int ts_gpu_fail(struct ts_err *err, ts_gpu_error e, const char *what)
{
    const char *text = cudaGetErrorString(e);
    int gpu = 0, rc;
    (void)cudaGetDevice(&gpu); /* the calling thread's device, even if it is lost */
    if (e == cudaErrorMemoryAllocation)
        rc = fail_memory(err, gpu, what);
    else if (e == cudaErrorInsufficientDriver || e == cudaErrorNoKernelImageForDevice ||
             e == cudaErrorUnsupportedPtxVersion)
        rc = fail_unsupported(err, e, gpu, what);
    else if (e == cudaErrorDevicesUnavailable)
        rc =
            ts_fail(err, TS_ECUDA,
                    "GPU %d: %s: it is busy or unavailable; another process may have it for itself "
                    "(nvidia-smi shows compute mode and processes). Leave it out with " TS_SET_GPUS
                    " LIST, or "
                    "use " TS_SET_CPU,
                    gpu, what);
    else if (is_lost(e))
        rc = ts_fail(
            err, TS_ECUDA,
            "GPU %d: %s: the GPU failed (%s); nvidia-smi -q and the kernel's log (Xid) say "
            "more. Run again, without it if it fails again: " TS_SET_GPUS " LIST or " TS_SET_CPU,
            gpu, what, text);
    else
        rc = ts_fail(err, TS_ECUDA, "GPU %d: %s: %s", gpu, what, text);
    if (err != NULL)
        err->sys = (int)e;
    return rc;
}
