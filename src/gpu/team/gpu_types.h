/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_types.h - the types of a GPU driver for host code. No other header of src/gpu names a type of
 * CUDA. So support for another vendor can be added: its build has other types here, and other .c
 * files that call the driver.
 *
 *   owner    the code that made the object by a call of the driver
 *   errors   a ts_gpu_error is 0 or the driver's code, which ts_gpu_fail (gpu_fail.h) turns into a
 *            message
 */
#ifndef TS_GPU_GPU_TYPES_H
#define TS_GPU_GPU_TYPES_H

typedef struct CUstream_st *ts_gpu_stream;  /* a queue of work that a device executes in order */
typedef struct CUevent_st *ts_gpu_event;    /* a point in a stream */
typedef struct CUgraphExec_st *ts_gpu_exec; /* a CUDA graph: kernels that are launched together */
typedef unsigned int ts_gpu_error;

#endif
