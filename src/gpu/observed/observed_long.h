/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_long.h - rows of observed cells (observed_kernel.h) whose Gram matrices do not fit in
 * the shared memory of a thread block, and are in device memory.
 *
 * A thread block takes a place (work area) and frees it when it is done. Kernels that run at the
 * same time share the places, and wait for a free one. A thread block sums all nonzeros that a row
 * has in a shard, so only the first and the last row of each shard have parts (partial sums). If l2
 * is positive and there are no bounds, a row with fewer nonzeros than columns, at most
 * TS_OBSERVED_LONG_BATCH, is solved for by a system in its nonzeros. Bits do not depend on the
 * number of places, or on which thread block takes which place.
 *
 *   owner    the caller owns all memory; locks are 0 before the first launch
 *   units    bytes
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_OBSERVED_LONG_H
#define TS_GPU_OBSERVED_LONG_H

#include "gpu/team/gpu_types.h"
#include "gpu/observed/observed_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* most nonzeros whose products are in a place (work area of a row) at the same time */
#define TS_OBSERVED_LONG_BATCH 256u

/* Returns the bytes of a place (struct long_memory). */
uint64_t ts_observed_long_bytes(uint32_t ld);

/* Solve for long rows: those of the launch's shards, like ts_observed_launch, or those that shards
 * share, like ts_observed_fold. Only the first and last rows of shards have parts (partial sums),
 * which go to o->ends unless that is NULL. */
ts_gpu_error ts_observed_long_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                     const struct ts_gpu_observed *o, ts_gpu_stream stream);
ts_gpu_error ts_observed_long_fold(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                   const struct ts_gpu_observed *o, uint64_t n_shards,
                                   const double *ends, const uint32_t *edge_row,
                                   ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
