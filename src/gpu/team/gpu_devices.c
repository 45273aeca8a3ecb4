/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the GPUs of the machine, with a message for each one that cannot be used. */
#include "gpu/team/gpu_devices.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/sparse/mttkrp_kernel.h"

#define WHY_BYTES 160

/* Writes the reason for cudaErrorInsufficientDriver: no driver, or one that is too old. Returns
 * whether there is a driver. */
static int explain_driver(char *why)
{
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
        snprintf(why, WHY_BYTES, "no NVIDIA driver is installed (libcuda.so.1 is not found)");
        return 0;
    }
    ts_setting_print(
        why, WHY_BYTES,
        "the NVIDIA driver is of CUDA %d.%d, too old for CUDA %d.%d, which this program was "
        "built with; update it, or use " TS_SET_CPU,
        version / 1000, version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return 1;
}

int ts_gpu_count(char *why)
{
    int n = 0;
    ts_gpu_error e;
    e = cudaGetDeviceCount(&n);
    if (e == cudaSuccess && n > 0)
        return n < TS_GPU_MAX_DEVICES ? n : TS_GPU_MAX_DEVICES;
    if (e == cudaErrorInsufficientDriver)
        return explain_driver(why) ? -1 : 0;
    if (e == cudaErrorNoDevice || e == cudaSuccess) {
        snprintf(why, WHY_BYTES, "no NVIDIA GPU is there, or CUDA_VISIBLE_DEVICES hides all");
        return 0;
    }
    if (e == cudaErrorSystemNotReady)
        ts_setting_print(
            why, WHY_BYTES,
            "the GPUs are not set up yet: start nvidia-fabricmanager, or use " TS_SET_CPU);
    else
        ts_setting_print(
            why, WHY_BYTES,
            "the NVIDIA driver does not work: %s; nvidia-smi may say more, or use " TS_SET_CPU,
            cudaGetErrorString(e));
    return -1;
}

static int check_capability(int number, int *major, int *minor, char *why)
{
    int mode = cudaComputeModeDefault;
    ts_gpu_error e = cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, number);
    TRY(e, cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, number));
    TRY(e, cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, number));
    if (e != cudaSuccess)
        snprintf(why, WHY_BYTES, "%s", cudaGetErrorString(e));
    else if (mode == cudaComputeModeProhibited)
        snprintf(why, WHY_BYTES, "its compute mode prohibits programs (nvidia-smi --compute-mode)");
    else if (*major * 100 + *minor * 10 < ts_mttkrp_least_arch())
        snprintf(
            why, WHY_BYTES,
            "its compute capability is %d.%d and this program is built for %d.%d and newer ones "
            "(--with-cuda-arch of configure; 8.0 at least)",
            *major, *minor, ts_mttkrp_least_arch() / 100, ts_mttkrp_least_arch() % 100 / 10);
    else
        return 1;
    return 0;
}

void ts_gpu_name(int number, char *ret, size_t room)
{
    struct cudaDeviceProp prop;
    if (cudaGetDeviceProperties(&prop, number) == cudaSuccess)
        snprintf(ret, room, "%s", prop.name);
    else
        ret[0] = '\0';
}

int ts_gpu_devices(struct ts_gpu_device *ret, char *why)
{
    const int there = ts_gpu_count(why), n = there > 0 ? there : 0;
    for (int i = 0; i < n; i++) {
        struct ts_gpu_device *d = &ret[i];
        size_t free_bytes, total_bytes;
        ts_gpu_error e;
        memset(d, 0, sizeof *d);
        d->number = i;
        ts_gpu_name(i, d->name, sizeof d->name);
        d->usable = check_capability(i, &d->major, &d->minor, d->why);
        if (!d->usable)
            continue;
        e = cudaSetDevice(i);
        TRY(e, cudaMemGetInfo(&free_bytes, &total_bytes));
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
