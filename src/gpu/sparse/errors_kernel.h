/* SPDX-License-Identifier: BSD-3-Clause */
/* errors_kernel.h - how far a model is off at the nonzeros of packed shards, on a GPU (struct
 * ts_cell_errors of stream/weighted.h).
 *
 * A launch takes what an MTTKRP takes (mttkrp_kernel.h), but one model; it stores no
 * rows.
 *
 *   owner    the caller owns all memory; pointers in the structs are device pointers
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_ERRORS_KERNEL_H
#define TS_GPU_ERRORS_KERNEL_H

#include "format/hold_out.h"
#include "gpu/team/gpu_types.h"
#include "gpu/sparse/mttkrp_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sums of each share: those of cells that are not held out, then those of held-out cells. */
#define TS_ERRORS_SUMS 10u

struct ts_gpu_errors {
    const void *own; /* n_rows x ld: the rows of the mode itself */
    double mean;     /* the value of the model is that of the factors plus this mean */
    struct ts_hold_out hold_out;
    uint8_t level[TS_MAX_ORDER]; /* level of each mode in this copy */
    double *sums; /* TS_ERRORS_SUMS of each share of the mode copy: count, x, x^2, x m, (x - m)^2 */
};

ts_gpu_error ts_errors_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              const struct ts_gpu_errors *what, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
