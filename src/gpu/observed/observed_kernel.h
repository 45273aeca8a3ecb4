/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_kernel.h - rows of observed cells on a GPU (TS_ROW_OBSERVED of stream/row_update.h),
 * each with its own Gram matrix: S = sum p p' and m = sum x p over the row's nonzeros that are not
 * held out, then (S + l2 I) a = m. p is the elementwise product of the other factors' rows at a
 * nonzero of value x.
 *
 * A share is the nonzeros of one thread block (mttkrp_kernel.h). A warp takes a unit, a fourth of a
 * share; with more than 32 columns a thread block takes a share as one unit. Rows inside a unit are
 * solved for by the warp that sums them. For the first and the last row of a unit, a part is
 * stored: the unit's sums S and m and its number of nonzeros. Parts are added in file order: inside
 * a shard once the shard is done, between shards once all are done. So bits do not depend on the
 * order in which shards arrive, or on devices.
 *
 *   owner    the caller owns all memory; pointers in the structs are device pointers
 *   units    a part is the upper triangle of S row by row, then m, then the count, all in float64
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

/* Number of units (a warp's nonzeros) of a share (a thread block's nonzeros). At more than 32
 * columns, a share is one unit. */
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
    /* level of each mode in the mode copy (the nonzeros sorted for one mode) */
    uint8_t level[TS_MAX_ORDER];
    /* 2 parts (partial sums) for each unit (a warp's nonzeros) of the mode; NULL for long rows
     * (observed_long.h) */
    double *part;
    /* parts (partial sums) of the first and last row of each shard of the mode, or NULL */
    double *ends;
    /* n_places work areas for long rows, of ts_observed_long_bytes bytes and with a lock each */
    double *place;
    uint32_t *lock, n_places;
    double *size; /* for each row: its part of the member `size` of struct ts_row_sums */
};

/* Returns the highest rank for which a thread block can hold a Gram matrix, which is the limit for
 * dense tensors. For shards, the limit is TS_OBSERVED_LONG_MOST: rows above the returned rank are
 * called long. */
uint32_t ts_observed_most(enum ts_precision precision);
#define TS_OBSERVED_LONG_MOST 2048u

static inline int ts_observed_is_long(enum ts_precision precision, uint32_t rank)
{
    return rank > ts_observed_most(precision);
}

/* Returns the number of float64 values in a part (partial sums of a row). */
TS_ANYWHERE static inline uint64_t ts_observed_part(uint32_t rank)
{
    return rank * (rank + UINT64_C(1)) / 2 + rank + 1;
}

/* Solves for the rows of the launch's shards, to args->out, and stores parts (partial sums of
 * rows). args->edge_row (2 for each unit, a warp's nonzeros, of the mode) gets the number of the
 * row that each part belongs to. */
ts_gpu_error ts_observed_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                const struct ts_gpu_observed *o, ts_gpu_stream stream);

/* Adds the parts (partial sums of rows) of each shard of the launch. Rows inside the shard are
 * solved for; the sums of its first and last row go to parts 2 * number and 2 * number + 1 of
 * `ends`. ends NULL: the shard is the only one, and all its rows are solved for. */
ts_gpu_error ts_observed_fold_shards(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                                     const struct ts_gpu_observed *o, double *ends,
                                     ts_gpu_stream stream);

/* Adds parts (partial sums) 2 s and 2 s + 1 of all shards s of the mode, which belong to rows
 * edge_row[2 s] and edge_row[2 s + 1], and solves for these rows. */
ts_gpu_error ts_observed_fold(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              const struct ts_gpu_observed *o, uint64_t n_shards,
                              const double *ends, const uint32_t *edge_row, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
