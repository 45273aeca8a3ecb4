#include "gpu/gpu_devices.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHY_BYTES 160

/* cudaErrorInsufficientDriver is both: no driver, and one that is too old. */
static void explain_driver(char *why)
{
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0)
        snprintf(why, WHY_BYTES, "no NVIDIA driver is installed (libcuda.so.1 is not found)");
    else
        snprintf(why, WHY_BYTES,
                 "the NVIDIA driver is of CUDA %d.%d, too old for CUDA %d.%d, which this program was "
                 "built with; update the driver",
                 version / 1000, version % 1000 / 10, CUDART_VERSION / 1000,
                 CUDART_VERSION % 1000 / 10);
}

void ts_gpu_prepare(void)
{
    /* By default streams share 8 queues, and one waits for what another has in the same queue. */
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int ts_gpu_count(char *why)
{
    int n = 0;
    cudaError_t e;
    ts_gpu_prepare();
    e = cudaGetDeviceCount(&n);
    if (e == cudaErrorInsufficientDriver)
        explain_driver(why);
    else if (e == cudaErrorNoDevice || (e == cudaSuccess && n == 0))
        snprintf(why, WHY_BYTES, "no NVIDIA GPU is there, or CUDA_VISIBLE_DEVICES hides all");
    else if (e == cudaErrorSystemNotReady)
        snprintf(why, WHY_BYTES, "the GPUs are not set up yet: start nvidia-fabricmanager");
    else if (e != cudaSuccess)
        snprintf(why, WHY_BYTES, "the NVIDIA driver does not work: %s", cudaGetErrorString(e));
    if (e != cudaSuccess)
        n = 0;
    return n > TS_GPU_MAX_DEVICES ? TS_GPU_MAX_DEVICES : n;
}

static int check_capability(int number, int *major, int *minor, char *why)
{
    int mode = cudaComputeModeDefault;
    cudaError_t e = cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, number);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, number);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, number);
    if (e != cudaSuccess)
        snprintf(why, WHY_BYTES, "%s", cudaGetErrorString(e));
    else if (mode == cudaComputeModeProhibited)
        snprintf(why, WHY_BYTES, "its compute mode prohibits programs (nvidia-smi --compute-mode)");
    else if (*major < 8)
        snprintf(why, WHY_BYTES, "compute capability %d.%d is below 8.0", *major, *minor);
    else
        return 1;
    return 0;
}

int ts_gpu_devices(struct ts_gpu_device *ret, char *why)
{
    const int n = ts_gpu_count(why);
    for (int i = 0; i < n; i++) {
        struct ts_gpu_device *d = &ret[i];
        struct cudaDeviceProp prop;
        size_t free_bytes, total_bytes;
        cudaError_t e;
        memset(d, 0, sizeof *d);
        d->number = i;
        if (cudaGetDeviceProperties(&prop, i) == cudaSuccess)
            snprintf(d->name, sizeof d->name, "%s", prop.name);
        d->usable = check_capability(i, &d->major, &d->minor, d->why);
        if (!d->usable)
            continue;
        e = cudaSetDevice(i);
        if (e == cudaSuccess)
            e = cudaMemGetInfo(&free_bytes, &total_bytes);
        if (e != cudaSuccess) {
            d->usable = 0;
            snprintf(d->why, sizeof d->why, "%s", cudaGetErrorString(e));
            continue;
        }
        d->free_bytes = free_bytes;
        d->total_bytes = total_bytes;
    }
    return n;
}

int ts_gpu_usable(int number, char *why)
{
    int major, minor;
    return check_capability(number, &major, &minor, why);
}
