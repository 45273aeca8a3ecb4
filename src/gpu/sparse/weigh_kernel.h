/* SPDX-License-Identifier: BSD-3-Clause */
/* weigh_kernel.h - the weighted product of packed shards on a GPU: sums of g(x, m) p over the
 * nonzeros of each row. p is the elementwise product of the other factors' rows, x the nonzero's
 * value, m = <p, b> the model's value with the row b of the mode itself, and g = x / m for the
 * Poisson model (stream/loss.h).
 *
 * A launch has the arguments of an MTTKRP (mttkrp_kernel.h) with one model, and stores partial rows
 * in the same way, for edge_kernel.h. Rows of more columns than a warp holds are split into pieces
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
    const void *own;             /* n_rows x ld: rows b of the mode; their signs are ignored */
    struct ts_hold_out hold_out; /* held-out nonzeros: zeros in products, summed separately */
    /* level of each mode in the mode copy (the nonzeros sorted for one mode) */
    uint8_t level[TS_MAX_ORDER];
    /* NULL: compute rows. Otherwise, instead of rows, TS_WEIGH_SUMS for each share (one thread
     * block's nonzeros): sums of x log m and of x m over nonzeros that are not held out (x: value,
     * m: the model's); the number of held-out nonzeros, and their sums of x log m, of m and of
     * x^2. */
    double *judged;
};

#define TS_WEIGH_SUMS 6u

ts_gpu_error ts_weigh_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                             const struct ts_gpu_weigh *weigh, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
