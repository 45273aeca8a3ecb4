/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_device.h - a member's device: memory, streams, a first run of all kernels, and what an update
 * of rows takes.
 *
 *   owner    ts_gpu_device_close frees what the others made
 *   threads  the member's; its device becomes that of the calling thread
 *   errors   0 or a negative ts_code, or a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_GPU_DEVICE_H
#define TS_GPU_GPU_DEVICE_H

#include "gpu/team/gpu_state.h"

/* ---- gpu_layout.c */
/* Divides one allocation, which begins at base, among everything but the shards. Returns its size.
 * base NULL: only computes the size. */
uint64_t ts_gpu_layout(const struct ts_gpu *g, struct ts_gpu_member *me, char *base);
uint64_t ts_gpu_device_work_bytes(const struct ts_gpu *g); /* factors included */

/* ---- gpu_device.c */
int ts_gpu_device_open(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err);
int ts_gpu_device_store(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err);
void ts_gpu_device_close(struct ts_gpu_member *me);

/* ---- gpu_warm.c */
/* Runs every kernel once on no data, so that its code is loaded and its memory counted. A
 * ts_gpu_job. */
int ts_gpu_device_warm(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err);

/* ---- gpu_update.c */
/* Sends what a row update of a model needs to its device memory `w`: the matrix and, if the update
 * reads the old rows, a table of columns after the matrix. The simplex also needs the inverse. */
ts_gpu_error ts_gpu_device_send_update(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                       const struct ts_row_update *update);

/* The arguments of MTTKRPs of a model that all passes share: values and weights of the tensor, the
 * stride of rows, and the memory for edges. */
struct ts_gpu_mttkrp ts_gpu_device_args(const struct ts_gpu_model *of,
                                        const struct ts_gpu_member *me);

#endif
