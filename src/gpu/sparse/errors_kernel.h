/* SPDX-License-Identifier: BSD-3-Clause */
/* errors_kernel.h - errors of a model at the nonzeros of packed shards, on a GPU (struct
 * ts_cell_errors of stream/weighted.h).
 *
 * A launch has the arguments of an MTTKRP (mttkrp_kernel.h) with one model. It stores no rows.
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

/* Number of sums for each share (one thread block's nonzeros): five for cells that are not held
 * out, then five for held-out cells. */
#define TS_ERRORS_SUMS 10u

struct ts_gpu_errors {
    const void *own; /* n_rows x ld: the factor of the shards' own mode */
    double mean;     /* the value of the model is that of the factors plus this mean */
    struct ts_hold_out hold_out;
    /* level of each mode in the mode copy (the nonzeros sorted for one mode) */
    uint8_t level[TS_MAX_ORDER];
    /* TS_ERRORS_SUMS sums for each share (one thread block's nonzeros) of the mode: of 1, x, x^2, x
     * m and (x - m)^2, where x is a cell's value and m the model's */
    double *sums;
};

ts_gpu_error ts_errors_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              const struct ts_gpu_errors *what, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
