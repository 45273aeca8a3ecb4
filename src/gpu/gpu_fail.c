#include "gpu/gpu_fail.h"

#include <cuda_runtime.h>

int ts_gpu_fail(struct ts_err *err, int cuda_error, const char *what)
{
    const cudaError_t e = (cudaError_t)cuda_error;
    int rc;
    if (e == cudaErrorMemoryAllocation)
        rc = ts_fail(err, TS_ENOMEM,
                     "%s: the GPU is out of memory; another program may be using it, or "
                     "--gpu-memory is more than it has free",
                     what);
    else if (e == cudaErrorInsufficientDriver)
        rc = ts_fail(err, TS_ECUDA,
                     "%s: the NVIDIA driver is older than CUDA %d.%d, which this program was built "
                     "with; update it, or use --cpu",
                     what, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    else if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorUnsupportedPtxVersion)
        rc = ts_fail(err, TS_ECUDA,
                     "%s: this GPU is not among those that the program was built for "
                     "(--with-cuda-arch of configure); use --cpu",
                     what);
    else
        rc = ts_fail(err, TS_ECUDA, "%s: %s", what, cudaGetErrorString(e));
    if (err != NULL)
        err->sys = cuda_error;
    return rc;
}
