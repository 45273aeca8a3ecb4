#include "gpu/gpu_devices.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#define WHY_BYTES 160

static int count(char *why)
{
    int n = 0;
    const cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaErrorInsufficientDriver)
        snprintf(why, WHY_BYTES, "there is no NVIDIA driver, or it is older than CUDA %d.%d needs",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    else if (e != cudaSuccess)
        snprintf(why, WHY_BYTES, "%s", cudaGetErrorString(e));
    else if (n == 0)
        snprintf(why, WHY_BYTES, "no NVIDIA GPU is there");
    if (e != cudaSuccess)
        n = 0;
    return n > TS_GPU_MAX_DEVICES ? TS_GPU_MAX_DEVICES : n;
}

static int check_capability(int number, int *major, int *minor, char *why)
{
    cudaError_t e = cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, number);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, number);
    if (e != cudaSuccess)
        snprintf(why, WHY_BYTES, "%s", cudaGetErrorString(e));
    else if (*major < 8)
        snprintf(why, WHY_BYTES, "compute capability %d.%d is below 8.0", *major, *minor);
    else
        return 1;
    return 0;
}

int ts_gpu_devices(struct ts_gpu_device *ret, char *why)
{
    const int n = count(why);
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

int ts_gpu_first(char *why)
{
    const int n = count(why);
    int major, minor;
    for (int i = 0; i < n; i++)
        if (check_capability(i, &major, &minor, why))
            return i;
    return -1;
}
