/* SPDX-License-Identifier: BSD-3-Clause */
/* loss_kernel.h - gradients and sums of a loss (stream/loss_functions.h) over the nonzeros of
 * packed shards, on a GPU.
 *
 * A launch has the arguments of an MTTKRP (mttkrp_kernel.h) with one model. For gradients it stores
 * partial rows like an MTTKRP, for edge_kernel.h. For sums it stores no rows.
 *
 *   owner    the caller owns all memory; pointers in the structs are device pointers
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_LOSS_KERNEL_H
#define TS_GPU_LOSS_KERNEL_H

#include "format/hold_out.h"
#include "gpu/team/gpu_types.h"
#include "gpu/sparse/mttkrp_kernel.h"
#include "stream/loss_functions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of sums for each share (one thread block's nonzeros): count, loss, ts_loss_reference (the
 * smallest possible loss) and value x of cells that are not held out, then the same for held-out
 * cells. */
#define TS_LOSS_SUMS 8u

struct ts_gpu_loss {
    enum ts_loss_kind kind;
    /* 1: unlisted cells count as zeros, so the slope (or loss) of a nonzero that is not held out is
     * reduced by that of the value 0. */
    int zeros;
    double at;                   /* the parameter of the loss, if it takes one */
    const void *own;             /* n_rows x ld: the factor of the shards' own mode */
    struct ts_hold_out hold_out; /* held-out nonzeros, which gradients leave out */
    /* level of each mode in the mode copy (the nonzeros sorted for one mode) */
    uint8_t level[TS_MAX_ORDER];
    /* NULL: compute gradients; otherwise TS_LOSS_SUMS sums for each share (one thread block's
     * nonzeros) of the mode */
    double *sums;
};

/* out(i, r) = sum over the nonzeros of row i of g(x, m) prod_l factor[l](i_l, r), where x is the
 * nonzero's value, m the model's, and g the derivative of the loss by m, minus that at value 0 if
 * zeros is set. With loss->sums, computes the TS_LOSS_SUMS sums of each share (one thread block's
 * nonzeros) instead. */
ts_gpu_error ts_loss_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                            const struct ts_gpu_loss *loss, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
