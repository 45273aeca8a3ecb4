/* SPDX-License-Identifier: BSD-3-Clause */
/* edge_kernel.h - rows that reach over partitions: their pieces added in file order.
 *
 * The MTTKRP leaves two rows for each partition: what it has of its first and of its last row (zeros
 * when that is the same row). Inside a shard they are added as soon as it is done, which leaves two
 * rows for each shard; these are added once all shards of the mode are done. Pieces of a row follow
 * each other, so groups of them are added, always the same groups: the sum does not depend on which
 * shards a launch took, nor on when or where it ran.
 *
 *   owner    the caller owns all memory; pointers are device pointers
 *   units    rows of edges and of `out` are `ld` elements apart
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   0 or a cudaError_t
 */
#ifndef TS_GPU_EDGE_KERNEL_H
#define TS_GPU_EDGE_KERNEL_H

#include <stdint.h>

#include "gpu/mttkrp_kernel.h"
#include "stream/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds the partitions' edges of the shards that an MTTKRP launch took (args as for the launch, edges
 * and shard_edge of the precision: float64 for those of a wide launch). Rows
 * inside a shard go to args->out, the shard's first row to row 2 * number of shard_edge and its last
 * one to the row behind (zeros when that is the same row). */
int ts_edge_fold_shards(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                        void *shard_edge, void *stream);

/* Rows that `edge` and `edge_row` have room for in ts_edge_fold, those of the fold itself behind the
 * shards'. */
uint64_t ts_edge_count(uint64_t n_shards);

/* Adds the edges of a mode copy up into rows of `out`: rows 2 s and 2 s + 1 of `edge` are what shard s
 * has of its first and its last row, which are rows edge_row[2 s] and edge_row[2 s + 1] of `out`. */
int ts_edge_fold(enum ts_precision precision, uint64_t n_shards, void *edge, uint32_t *edge_row,
                 uint32_t ld, void *out, void *stream);

/* The same of edges in float64 to rows in float32. */
int ts_edge_fold_to_float(uint64_t n_shards, double *edge, uint32_t *edge_row, uint32_t ld,
                          float *out, void *stream);

#ifdef __cplusplus
}
#endif

#endif
