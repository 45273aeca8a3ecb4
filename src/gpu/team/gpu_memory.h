/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_memory.h - reads how much memory of a device is in use, as nvidia-smi shows it.
 *
 * A budget of GPU memory covers all memory that the process takes on a device. That is more than
 * cudaMalloc gives: the context, the code of kernels, streams and NCCL's buffers take some hundred
 * MiB that no call of the runtime reports. NVML reports them for the device as a whole. So the
 * memory in use before the context was made is subtracted from that in use afterwards.
 *
 *   owner    the caller closes the object that it opened; NULL stands for a machine without NVML
 *   units    bytes
 *   threads  one at a time
 *   errors   none: without an answer of NVML the caller assumes TS_GPU_DRIVER_BYTES
 */
#ifndef TS_GPU_GPU_MEMORY_H
#define TS_GPU_GPU_MEMORY_H

#include <stdint.h>

/* The assumed memory of context, kernels, streams and NCCL if it cannot be measured. On an H200
 * with driver 580, a context and its kernels took 520 MiB, and NCCL took as much again. */
#define TS_GPU_DRIVER_BYTES      (UINT64_C(640) << 20)
#define TS_GPU_DRIVER_BYTES_NCCL (UINT64_C(384) << 20)

struct ts_gpu_memory;

struct ts_gpu_memory *ts_gpu_memory_open(void);
void ts_gpu_memory_close(struct ts_gpu_memory *memory);

/* Sets *ret to the bytes that all processes use on a device (its number in this process). Returns
 * 1, or 0 if NVML does not answer. Makes no context. */
int ts_gpu_memory_used(const struct ts_gpu_memory *memory, int device, uint64_t *ret);

/* Sets *ret to the unused bytes of a device. Returns 1, or 0 if NVML does not answer. Makes no
 * context. */
int ts_gpu_memory_free(const struct ts_gpu_memory *memory, int device, uint64_t *ret);

/* Whether this process already has a context on the device, whose memory a measurement that begins
 * now would miss. */
int ts_gpu_memory_has_context(int device);

#endif
