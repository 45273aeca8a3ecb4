/* SPDX-License-Identifier: BSD-3-Clause */
/* held_kernel.h - the MTTKRP of packed shards in which held-out nonzeros (format/hold_out.h) count
 * as zeros.
 *
 * A launch has the arguments of an MTTKRP (mttkrp_kernel.h) with one model, and stores partial rows
 * in the same way.
 *
 *   owner    the caller owns all memory; pointers in the structs are device pointers
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_HELD_KERNEL_H
#define TS_GPU_HELD_KERNEL_H

#include "format/hold_out.h"
#include "gpu/team/gpu_types.h"
#include "gpu/sparse/mttkrp_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ts_gpu_held {
    struct ts_hold_out hold_out;
    /* level of each mode in the mode copy (the nonzeros sorted for one mode) */
    uint8_t level[TS_MAX_ORDER];
};

ts_gpu_error ts_held_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                            const struct ts_gpu_held *held, ts_gpu_stream stream);

/* Launches the same MTTKRP as ts_held_launch, but products and sums are double. Factors are
 * float. */
ts_gpu_error ts_held_launch_wide(const struct ts_gpu_mttkrp *args, const struct ts_gpu_held *held,
                                 ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
