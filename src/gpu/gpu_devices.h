/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_devices.h - which GPUs there are, and whether they can be used.
 *
 * CUDA_VISIBLE_DEVICES counts: what it hides is not there, and numbers are those after it.
 *
 *   owner    the caller owns the array
 *   units    bytes
 *   errors   none: without a driver, or without a device, there are 0, and *why says so
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
    char why[160]; /* when it is not usable */
};

/* Settings that the CUDA runtime takes from the environment: before the process's first call of it. */
void ts_gpu_prepare(void);

/* Returns how many there are; `ret` has room for TS_GPU_MAX_DEVICES, `why` for 160 bytes. Makes a
 * context on each for its free memory. */
int ts_gpu_devices(struct ts_gpu_device *ret, char *why);

/* The name of one, "" when the driver does not say. As cheap as ts_gpu_count. */
void ts_gpu_name(int number, char *ret, size_t room);

/* How many there are; 0 with *why where none is, or no driver, and -1 where the driver that is there is
 * of no use. Cheap: no context is made. */
int ts_gpu_count(char *why);

/* Whether one can be used: 1, or 0 with *why. As cheap. */
int ts_gpu_usable(int number, char *why);

#endif
