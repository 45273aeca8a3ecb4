/* edge_kernel.h - rows that reach over partitions: their pieces added in file order.
 *
 * `edge` holds two rows for each partition of a mode copy: what it has of its first and of its last
 * row (zeros when that is the same row), and `edge_row` says which rows these are. Pieces of a row
 * follow each other, so groups of them are added level by level, always the same groups.
 *
 *   owner    the caller owns all memory; pointers are device pointers
 *   units    rows of `edge` and `out` are `ld` elements apart
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   0 or a cudaError_t
 */
#ifndef TS_GPU_EDGE_KERNEL_H
#define TS_GPU_EDGE_KERNEL_H

#include <stdint.h>

#include "stream/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows that `edge` and `edge_row` have room for, those of the fold itself behind the partitions'. */
uint64_t ts_edge_count(uint64_t n_partitions);

/* Adds the edges of a mode copy of n_partitions up into rows of `out`. */
int ts_edge_fold(enum ts_precision precision, uint64_t n_partitions, void *edge,
                 uint32_t *edge_row, uint32_t ld, void *out, void *stream);

#ifdef __cplusplus
}
#endif

#endif
