/* SPDX-License-Identifier: BSD-3-Clause */
/* weigh_kernel.h - the weighted product of packed shards on a GPU: each nonzero's factor rows p
 * count by what its value x and the model's value there, m = <p, b> with the row b of the mode
 * itself, say; here x / m, of a Poisson model (stream/loss.h).
 *
 * A launch takes what an MTTKRP takes (mttkrp_kernel.h), but one model, and leaves partial rows as
 * that does, for edge_kernel.h. Rows of more columns than a warp's lanes hold are taken in pieces
 * (wide_rows.cuh).
 *
 *   owner    the caller owns all memory; pointers in the structs are device pointers
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_WEIGH_KERNEL_H
#define TS_GPU_WEIGH_KERNEL_H

#include "format/hold_out.h"
#include "gpu/team/gpu_types.h"
#include "gpu/sparse/mttkrp_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ts_gpu_weigh {
    const void *own;             /* n_rows x ld: the rows b; signs do not count */
    struct ts_hold_out hold_out; /* these nonzeros count as zeros, and are judged apart */
    uint8_t level[TS_MAX_ORDER]; /* the level of each mode in this copy */
    /* NULL, or TS_WEIGH_SUMS of each share of the mode copy, and no rows: sums of x log m and of x
     * m; of nonzeros that are held out how many, and sums of x log m, of m and of x^2. */
    double *judged;
};

#define TS_WEIGH_SUMS 6u

ts_gpu_error ts_weigh_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                             const struct ts_gpu_weigh *weigh, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
