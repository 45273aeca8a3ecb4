/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_devices.h - lists the GPUs of the machine, and tests whether they can be used.
 *
 * Devices hidden by CUDA_VISIBLE_DEVICES are not listed. The others have the numbers that it gives
 * them.
 *
 *   owner    the caller owns the array
 *   units    bytes
 *   errors   none: without a driver or a device the count is 0, and why has the reason
 */
#ifndef TS_GPU_GPU_DEVICES_H
#define TS_GPU_GPU_DEVICES_H

#include <stddef.h>
#include <stdint.h>

#define TS_GPU_MAX_DEVICES 64

struct ts_gpu_device {
    int number;
    char name[256];
    int major, minor; /* compute capability */
    uint64_t total_bytes, free_bytes;
    int usable;
    char why[160]; /* the reason if the device is not usable */
};

/* Lists the devices and returns their number; `ret` has room for TS_GPU_MAX_DEVICES, `why` for 160
 * bytes. Makes a context on each device to read its free memory. */
int ts_gpu_devices(struct ts_gpu_device *ret, char *why);

/* Writes the name of a device, or "" if the driver has none. Makes no context, so it is cheap. */
void ts_gpu_name(int number, char *ret, size_t room);

/* Returns the number of devices: 0 without a device or a driver, with the reason in why, or -1 if
 * the driver cannot be used. The call is cheap, because it makes no context. */
int ts_gpu_count(char *why);

/* Whether a device can be used: 1, or 0 with the reason in why. Makes no context, so it is
 * cheap. */
int ts_gpu_usable(int number, char *why);

#endif
