/* SPDX-License-Identifier: BSD-3-Clause */
/* simplex_kernel.h - rows on the simplex by ADMM on a GPU (TS_ROW_SIMPLEX of stream/row_update.h).
 *
 * Every row has the same number of rounds, so rows do not depend on each other. Arithmetic is
 * float64. Rows are rounded when they are stored, and sums are those of the stored rows, in units
 * of TS_DESCEND_UNIT rows. The arguments are those of descend_kernel.h. The bits of a unit depend
 * only on its rows, rank and ld.
 *
 *   owner    the caller owns all memory; pointers are device pointers, to multiples of 16 bytes
 *   units    rows are ld elements apart, ld a multiple of 4, columns from the rank on zero
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_SIMPLEX_KERNEL_H
#define TS_GPU_SIMPLEX_KERNEL_H

#include "gpu/rows/descend_kernel.h"
#include "gpu/team/gpu_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes rows on the simplex. Of d->table, only the weights are read. */
ts_gpu_error ts_simplex_rows(const struct ts_descend *d, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
