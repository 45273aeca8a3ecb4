/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_kernel.h - rows that are solved for with a Gram matrix of their own, on a GPU
 * (TS_ROW_OBSERVED of stream/row_update.h): S = sum p p', m = sum x p over a row's nonzeros that
 * are not held out, then (S + l2 I) a = m.
 *
 * A warp takes a unit, a fourth of a share (mttkrp_kernel.h), or a thread block a share. Rows that
 * lie inside a unit are solved where they are summed; of its first and its last row a part is kept:
 * S, m and the number of nonzeros. Parts are added in file order, inside a shard once the shard is
 * done, between shards once all are done. So bits do not depend on the order in which shards
 * arrive, nor on devices.
 *
 *   owner    the caller owns all memory; pointers in the structs are device pointers
 *   units    of a part: the upper triangle of S row after row, m, the count; float64
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_OBSERVED_KERNEL_H
#define TS_GPU_OBSERVED_KERNEL_H

#include "base/anywhere.h"
#include "format/hold_out.h"
#include "gpu/team/gpu_types.h"
#include "gpu/sparse/mttkrp_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Units of a share. Of more than 32 columns, thread blocks have a share as a whole. */
#define TS_OBSERVED_UNITS 4u

static inline uint32_t ts_observed_units(uint32_t ld)
{
    return ld <= 32 ? TS_OBSERVED_UNITS : 1;
}

struct ts_gpu_observed {
    uint32_t rank;
    int by_count;
    double l2, mean, lower, upper;
    struct ts_hold_out hold_out;
    uint8_t level[TS_MAX_ORDER]; /* level of each mode in this copy */
    double *part;                /* 2 of each unit of the mode copy; NULL where rows are long */
    double *ends;  /* sums of row ends: 2 for each shard of the mode, or NULL (observed_long.h) */
    double *place; /* n_places areas of ts_observed_long_bytes, with a lock each */
    uint32_t *lock, n_places;
    double *size; /* for each row: its part of the member `size` of struct ts_row_sums */
};

/* The highest rank of which a thread block holds a Gram matrix, as those of dense tensors must be;
 * and that of rows of shards, which are long where theirs is above the former. */
uint32_t ts_observed_most(enum ts_precision precision);
#define TS_OBSERVED_LONG_MOST 2048u

static inline int ts_observed_is_long(enum ts_precision precision, uint32_t rank)
{
    return rank > ts_observed_most(precision);
}

/* float64 in a part. */
TS_ANYWHERE static inline uint64_t ts_observed_part(uint32_t rank)
{
    return rank * (rank + UINT64_C(1)) / 2 + rank + 1;
}

/* Rows of the launch's shards go to args->out. args->edge_row, 2 for each unit of the mode copy,
 * gets the rows that parts belong to. */
ts_gpu_error ts_observed_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                const struct ts_gpu_observed *o, ts_gpu_stream stream);

/* Adds the parts of each shard of the launch: rows inside the shard are solved, those at its ends
 * go to parts 2 * number and 2 * number + 1 of `ends`. ends NULL: the shard is the only one, and
 * all its rows are solved. */
ts_gpu_error ts_observed_fold_shards(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                     const struct ts_gpu_observed *o, double *ends,
                                     ts_gpu_stream stream);

/* Adds parts 2 s and 2 s + 1 of all shards s of the mode, rows edge_row[2 s] and edge_row[2 s + 1],
 * and solves these rows. */
ts_gpu_error ts_observed_fold(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              const struct ts_gpu_observed *o, uint64_t n_shards,
                              const double *ends, const uint32_t *edge_row, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
