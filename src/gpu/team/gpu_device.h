/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_device.h - a member's device: memory, streams, a first launch of all kernels, and the data
 * for updates of rows.
 *
 *   owner    ts_gpu_device_close frees everything that the other functions allocate
 *   threads  the member's thread, whose current device is set to the member's
 *   errors   0 or a negative ts_code, or a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_GPU_DEVICE_H
#define TS_GPU_GPU_DEVICE_H

#include "gpu/team/gpu_state.h"

/* ---- defined in gpu_layout.c */
/* Divides an allocation that begins at base among all arrays of the member (GPU) except its shards,
 * and returns its size. base NULL: only computes the size. */
uint64_t ts_gpu_layout(const struct ts_gpu *g, struct ts_gpu_member *me, char *base);
/* Returns the bytes of the allocation that ts_gpu_layout divides, including the factors. */
uint64_t ts_gpu_device_work_bytes(const struct ts_gpu *g);

/* ---- defined in gpu_device.c */
int ts_gpu_device_open(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err);
int ts_gpu_device_store(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err);
void ts_gpu_device_close(struct ts_gpu_member *me);

/* ---- defined in gpu_warm.c */
/* Launches every kernel once on dummy data, so that its code is loaded and its memory can be
 * measured. A ts_gpu_job. */
int ts_gpu_device_warm(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err);

/* ---- defined in gpu_update.c */
/* Sends the data of a row update to the model's device memory `w`: the matrix and, if the update
 * reads the old rows, the table of columns (descend_kernel.h). For TS_ROW_SIMPLEX, also sends the
 * inverse that ADMM multiplies by. */
ts_gpu_error ts_gpu_device_send_update(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                       const struct ts_row_update *update);

/* Returns the arguments of a model's MTTKRPs that are the same in all passes: values and weights of
 * the tensor, the stride of rows, and the memory for edge rows (partial sums, edge_kernel.h). */
struct ts_gpu_mttkrp ts_gpu_device_args(const struct ts_gpu_model *of,
                                        const struct ts_gpu_member *me);

#endif
