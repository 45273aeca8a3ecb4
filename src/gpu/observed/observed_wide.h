/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_wide.h - the functions of observed_kernel.h for rows of more than 32 columns, where a
 * thread block takes a share (its range of nonzeros) as one unit.
 *
 *   owner, units, threads, errors as in observed_kernel.h
 */
#ifndef TS_GPU_OBSERVED_WIDE_H
#define TS_GPU_OBSERVED_WIDE_H

#include "gpu/team/gpu_types.h"
#include "gpu/observed/observed_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the highest rank for which the Gram matrix of a row fits in shared memory. */
uint32_t ts_observed_wide_most(enum ts_precision precision);

ts_gpu_error ts_observed_wide_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                     const struct ts_gpu_observed *o, ts_gpu_stream stream);
ts_gpu_error ts_observed_wide_fold_shards(enum ts_precision precision,
                                          const struct ts_gpu_mttkrp *args,
                                          const struct ts_gpu_observed *o, double *ends,
                                          ts_gpu_stream stream);
ts_gpu_error ts_observed_wide_fold(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                   const struct ts_gpu_observed *o, uint64_t n_shards,
                                   const double *ends, const uint32_t *edge_row,
                                   ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
