/* SPDX-License-Identifier: BSD-3-Clause */
/* edge_kernel.h - adds the partial sums of rows whose nonzeros are in more than one share (one
 * thread block's nonzeros).
 *
 * The MTTKRP stores two edge rows for each share: the partial sums of its first and of its last row
 * (zeros if both are the same row). The edges of a shard are added as soon as the shard is done,
 * which gives two edge rows for each shard. These are added once all shards of the mode are done.
 * The partial sums of a row are in file order, and are always added in the same groups. So a sum
 * does not depend on which shards are in a launch, or on when and where it runs.
 *
 *   owner    the caller owns all memory; pointers are device pointers
 *   units    rows of edges and of `out` are `ld` elements apart
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_EDGE_KERNEL_H
#define TS_GPU_EDGE_KERNEL_H

#include <stdint.h>

#include "gpu/team/gpu_types.h"
#include "gpu/sparse/mttkrp_kernel.h"
#include "stream/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds the edges (partial sums of rows) of the shares (thread blocks' nonzeros), for each shard of
 * an MTTKRP launch (args as for the launch; `edge` and shard_edge have elements of `precision`,
 * float64 for a wide launch). Rows inside a shard go to args->out. The sum of shard s's first row
 * goes to row 2 s of shard_edge, that of its last row to row 2 s + 1 (zeros when both are the same
 * row). shard_edge NULL: the shard is the only one of the mode, and all sums go to args->out, with
 * the bits that ts_edge_fold would give them. */
ts_gpu_error ts_edge_fold_shards(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                 void *shard_edge, ts_gpu_stream stream);

/* Returns the number of rows that `edge` and `edge_row` must have for ts_edge_fold: two for each
 * shard, and more as scratch. */
uint64_t ts_edge_count(uint64_t n_shards);

/* Adds the edges (partial sums of rows) of a mode's shards to rows of `out`. Rows 2 s and 2 s + 1
 * of `edge` are the sums of shard s's first and last row, which are rows edge_row[2 s] and
 * edge_row[2 s + 1] of `out`. */
ts_gpu_error ts_edge_fold(enum ts_precision precision, uint64_t n_shards, void *edge,
                          uint32_t *edge_row, uint32_t ld, void *out, ts_gpu_stream stream);

/* Adds the edges of a mode's shards, like ts_edge_fold, but the edges (partial sums of rows) are
 * float64 and the rows of `out` float32. */
ts_gpu_error ts_edge_fold_to_float(uint64_t n_shards, double *edge, uint32_t *edge_row, uint32_t ld,
                                   float *out, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
