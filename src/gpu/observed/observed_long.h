/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_long.h - rows with Gram matrices of their own (observed_kernel.h) that are larger than
 * the shared memory of a thread block: they lie in device memory.
 *
 * A thread block takes one of the places that there are, and gives it back when it is done: kernels
 * that run at once share them, and wait for each other. It sums a row from where it begins in a
 * shard to where it ends there, so that there are no parts but of the first and the last row of
 * each shard. A row of fewer nonzeros than columns, and up to TS_OBSERVED_LONG_BATCH, is solved for
 * by these (l2 above 0, no bounds). Bits depend neither on the number of places nor on who has
 * which.
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

#define TS_OBSERVED_LONG_BATCH 256u /* nonzeros whose products are in memory at the same time */

/* The bytes of a place (struct long_memory). */
uint64_t ts_observed_long_bytes(uint32_t ld);

/* Like ts_observed_launch and ts_observed_fold, but shares leave no parts. Parts of shards go to
 * o->ends, unless that is NULL. */
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
