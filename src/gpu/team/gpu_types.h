/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_types.h - what host code of GPUs calls the things of a driver by. No other header of src/gpu
 * names a type of CUDA, so that kernels of another vendor can stand beside these: a build with them
 * has other lines here, and other .c files where calls of the driver are made.
 *
 *   owner    whoever made the thing, by a call of the driver
 *   errors   a ts_gpu_error is 0, or the driver's code, which ts_gpu_fail (gpu_fail.h) makes a
 *            sentence of
 */
#ifndef TS_GPU_GPU_TYPES_H
#define TS_GPU_GPU_TYPES_H

typedef struct CUstream_st *ts_gpu_stream;  /* work that a device does in its order */
typedef struct CUevent_st *ts_gpu_event;    /* a point in it */
typedef struct CUgraphExec_st *ts_gpu_exec; /* kernels that are launched together */
typedef unsigned int ts_gpu_error;

#endif
