/* SPDX-License-Identifier: BSD-3-Clause */
/* score_kernel.h - how far a model is off at the nonzeros of packed shards, on a GPU: sums over all
 * of them, and over those of each row (struct ts_score_sums of stream/weighted.h).
 *
 * A launch takes what an MTTKRP takes (mttkrp_kernel.h), but one model; it stores no rows of
 * factors. A warp takes a unit, a fourth of a share. Sums of rows that lie inside a unit are stored
 * as they are; of its first and its last row a part is kept, which the caller adds in file order.
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

#define TS_SCORE_UNITS 4u /* of a share */

/* Of a share. */
struct ts_score_share {
    struct ts_score_sums sums;
    double logs;     /* of x log m */
    uint64_t others; /* nonzeros that are no counts, or whose model is not above 0 */
};

struct ts_gpu_scores {
    const void *own;              /* n_rows x ld: the rows of the mode itself */
    int logs;                     /* logs and others are wanted */
    struct ts_score_share *share; /* of the mode copy */
    struct ts_score_sums *slice;  /* sums of each row; if NULL, part is NULL as well */
    /* 2 of each unit of the mode copy; rows that they are of go to args->edge_row, UINT32_MAX:
     * none */
    struct ts_score_sums *part;
};

ts_gpu_error ts_scores_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              const struct ts_gpu_scores *what, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
