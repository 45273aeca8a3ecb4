/* SPDX-License-Identifier: BSD-3-Clause */
/* descend_kernel.h - updates on a GPU that read the old rows: COORDINATE, and KEEP, which only
 * computes sums (stream/row_update.h).
 *
 * As on CPU cores, rows form units of TS_DESCEND_UNIT, from row 0 on. A unit ends when a round (one
 * step on each column) changes it by less than TS_ROW_TOL(rounds). Arithmetic is float64; rows are
 * rounded to the factor's precision when they are stored, and sums are those of the stored rows.
 * The bits of a unit's rows and sums depend only on its rows and ld. So units may be computed on
 * any device, in any launch.
 *
 *   owner    the caller owns all memory; pointers are device pointers, to multiples of 16 bytes
 *   units    rows are ld elements apart, ld a multiple of 4, columns from the rank on zero
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_DESCEND_KERNEL_H
#define TS_GPU_DESCEND_KERNEL_H

#include <stdint.h>

#include "gpu/team/gpu_types.h"
#include "stream/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TS_DESCEND_UNIT 32u

/* Rows of the table of columns (parameters of the steps on each column). A row has ld elements,
 * zeros from the rank on. */
enum {
    TS_DESCEND_INVERSE,   /* 1 / G_rr, or 0 if G_rr is 0 */
    TS_DESCEND_THRESHOLD, /* l1 / G_rr, or infinity if G_rr is 0 and l1 is not */
    TS_DESCEND_LOWER,
    TS_DESCEND_UPPER,
    TS_DESCEND_WEIGHT, /* multiplier of the column in old rows */
    TS_DESCEND_TABLE
};

struct ts_descend {
    enum ts_precision precision; /* precision of the factor a */
    int wide;      /* 1: m is float64 and a float32; 0: both have the same precision */
    const void *m; /* n_rows x ld: the product (MTTKRP) */
    void *a;       /* n_rows x ld: the factor */
    uint64_t n_rows;
    uint32_t ld;
    uint64_t first_unit, n_units; /* units (32 rows each) to be computed */
    /* the matrix G of the least-squares problems: ld x ld, symmetric, zeros from the rank on */
    const double *g;
    const double *table; /* TS_DESCEND_TABLE x ld: the parameters of each column */
    int simple;          /* 1: all thresholds are 0, all upper bounds infinite */
    uint32_t rounds;
    /* rank, inverse and rho are read only by the kernels of simplex_kernel.h */
    uint32_t rank;
    const double *inverse; /* ld x ld: (G + rho I)^-1, zeros from the rank on */
    double rho;
    double *inner; /* for each unit of rows: sum of m .* a over its rows; or NULL */
    double *size;  /* for each unit of rows: sum of |a|; or NULL */
    /* memory of ts_dense_scratch(ld) elements, for rows that do not fit in shared memory */
    double *scratch;
};

static inline uint64_t ts_descend_units(uint64_t n_rows)
{
    return (n_rows + TS_DESCEND_UNIT - 1) / TS_DESCEND_UNIT;
}

/* Updates the rows of the units (32 rows each) by coordinate descent. */
ts_gpu_error ts_descend_rows(const struct ts_descend *d, ts_gpu_stream stream);

/* Computes the sums `inner` and `size` of the rows times the column weights. The rows do not
 * change. g and scratch are not read. */
ts_gpu_error ts_descend_keep(const struct ts_descend *d, ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
