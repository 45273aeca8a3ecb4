/* SPDX-License-Identifier: BSD-3-Clause */
/* score_kernel.h - sums of residuals of a model at the nonzeros of packed shards, on a GPU: over
 * all nonzeros, and over those of each row (struct ts_score_sums of stream/weighted.h).
 *
 * A launch has the arguments of an MTTKRP (mttkrp_kernel.h) with one model, but stores no rows of
 * factors. A share is one thread block's nonzeros. A warp takes a unit, a fourth of a share. The
 * sums of rows inside a unit are complete. The sums of its first and last row are stored as parts
 * (partial sums), which the caller adds in file order.
 *
 *   owner    the caller owns all memory; pointers in the structs are device pointers
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_SCORE_KERNEL_H
#define TS_GPU_SCORE_KERNEL_H

#include "gpu/team/gpu_types.h"
#include "gpu/sparse/mttkrp_kernel.h"
#include "stream/weighted.h"

#ifdef __cplusplus
extern "C" {
#endif

/* number of units (a warp's nonzeros) of a share (a thread block's nonzeros) */
#define TS_SCORE_UNITS 4u

/* The sums of a share (one thread block's nonzeros). */
struct ts_score_share {
    struct ts_score_sums sums;
    double logs; /* sum of x log m, where x is a value and m the model's */
    /* number of nonzeros that are not counts, or at which the model is not positive */
    uint64_t others;
};

struct ts_gpu_scores {
    const void *own;              /* n_rows x ld: the factor of the shards' own mode */
    int logs;                     /* 1: compute `logs` and `others` of each share */
    struct ts_score_share *share; /* sums of each share (one thread block's nonzeros) of the mode */
    struct ts_score_sums *slice;  /* sums of each row; if NULL, `part` is NULL as well */
    /* 2 partial sums for each unit (a warp's nonzeros) of the mode: those of its first and last
     * row. args->edge_row gets their row numbers, or UINT32_MAX for a partial sum that does not
     * exist. */
    struct ts_score_sums *part;
};

ts_gpu_error ts_scores_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              const struct ts_gpu_scores *what, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
