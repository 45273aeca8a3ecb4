/* SPDX-License-Identifier: BSD-3-Clause */
/* loss_kernel.h - gradients and sums of a loss (stream/loss_functions.h) over the nonzeros of
 * packed shards, on a GPU.
 *
 * A launch takes what an MTTKRP takes (mttkrp_kernel.h), but one model. For
 * gradients it leaves partial rows as that does, for edge_kernel.h; for sums it stores no rows.
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

/* Sums of each share: count, loss, loss of model 0 and x of cells that are not held out, then the
 * same for held-out cells. */
#define TS_LOSS_SUMS 8u

struct ts_gpu_loss {
    enum ts_loss_kind kind;
    /* The weight of a nonzero that is not held out is the difference to that of a cell of value
     * 0. */
    int zeros;
    double at;                   /* the number that the loss takes */
    const void *own;             /* n_rows x ld: the rows of the mode itself */
    struct ts_hold_out hold_out; /* these nonzeros have no part in gradients */
    uint8_t level[TS_MAX_ORDER]; /* level of each mode in this copy */
    double *sums; /* NULL: gradients; or TS_LOSS_SUMS of each share of the mode copy */
};

/* out(i, r) = sum over the nonzeros of row i of  g(x, m) prod_l factor[l](i_l, r), with g the
 * derivative of the loss by m, less that at value 0 where zeros is set; or the sums. */
ts_gpu_error ts_loss_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                            const struct ts_gpu_loss *loss, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
