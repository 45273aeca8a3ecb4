/* SPDX-License-Identifier: BSD-3-Clause */
/* rowsolve_state.h - struct ts_rowsolve, for the files that update and scale the rows of a factor.
 *
 *   rowsolve.c  solves for rows, and sums their Gram matrix
 *   rowscale.c  multiplies columns
 *
 *   owner    rowsolve.c makes and frees it
 *   units    rows; a block is TS_ROWBLOCK_ROWS of them
 */
#ifndef TS_CPU_ROWSOLVE_STATE_H
#define TS_CPU_ROWSOLVE_STATE_H

#include <stdatomic.h>

#include "cpu/rows/rowblock.h"
#include "cpu/rows/rowsolve.h"

/* Progress of a thread in a group of rows that the next thread continues: number of parts of the
 * group's sums that are complete. The parts are the panels of the Gram matrix, then inner and
 * size. */
struct ts_rowsolve_turn {
    _Alignas(64) atomic_uint parts;
};

struct ts_rowsolve {
    const struct ts_rowblock_ops *ops;
    uint32_t rank, padded, threads;
    uint64_t max_rows;
    uint64_t square; /* number of float64 of a Gram matrix */
    /* number of float64 for a group: a Gram matrix, and 8 partial sums each of inner and of size */
    uint64_t group_size;
    uint64_t room; /* number of rows that a thread has memory for */
    void *memory;  /* the block of all arrays below */
    uint64_t bytes;
    double *w;    /* rank x padded: copy of the matrix w */
    double *part; /* groups x group_size: sums of each group */
    /* threads x 2 x room x padded: rows m (product) and a (result) of each thread */
    double *blocks;
    struct ts_rowsolve_turn *turn; /* progress of each thread */

    /* Memory for updates that read the old rows; NULL: not allocated. */
    void *own;
    uint64_t own_bytes;
    /* threads x TS_ROWBLOCK_PLACES x padded x TS_ROWBLOCK_UNIT: a unit of rows (TS_ROWBLOCK_UNIT)
     * of each thread */
    double *units;
    double *inverse; /* padded x padded: (G + rho I)^-1, for the simplex */
    double *weight;  /* weight of each column of the old rows; `padded` numbers */
    /* numbers for a step of coordinate descent on each column; `padded` elements */
    struct ts_rowstep *step;
};

static inline uint64_t ts_rowsolve_blocks(uint64_t n_rows)
{
    return (n_rows + TS_ROWBLOCK_ROWS - 1) / TS_ROWBLOCK_ROWS;
}

#endif
