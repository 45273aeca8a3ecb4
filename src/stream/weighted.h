/* SPDX-License-Identifier: BSD-3-Clause */
/* weighted.h - the pass CELLS, which computes the model's value at each nonzero, and sums over
 * cells.
 *
 * For a nonzero x of an output row i, p is the elementwise product of the other factors' rows, as
 * in an MTTKRP. With the row a_i of the mode itself, m = <p, a_i> is the model's value at the
 * nonzero, if the factors include the weights. A backend (request CELLS of request.h) computes the
 * m of a block, and passes them to `take` with the values and rows of the nonzeros. `take` computes
 * from them, for example, sums of a loss or the largest residuals.
 *
 *   owner    arrays belong to the backend, and are valid during the call
 *   units    rows are numbered from 0 without empty slices, modes from 0
 *   threads  take is called from any number of threads at once, below the number that the backend
 *            was opened with, each with its own number. One thread gets all blocks of a partition,
 *            in the order of the file; partitions come in any order
 *   errors   a negative code of take ends the pass, which returns it
 *   bits     m depends on the bytes of the block, the factors and the precision alone
 */
#ifndef TS_STREAM_WEIGHTED_H
#define TS_STREAM_WEIGHTED_H

#include <stdint.h>

#include "base/err.h"
#include "format/hold_out.h"
#include "format/layout.h"

/* Nonzeros of a block with the model's value at each, in the order of the file. */
struct ts_cells {
    /* Number of the partition of these nonzeros in the copy for the mode or, for a dense tensor, in
     * the array (cpu/dense/dense_cells.h). */
    uint64_t partition;
    uint32_t first; /* number of nonzeros of the partition before the first one here */
    /* number of nonzeros here, at most TS_BLOCK_NNZ; 0 only in the last call for a partition of a
     * dense tensor */
    uint32_t n;
    int last; /* 1: these are the last nonzeros of the partition */
    const double *value, *model;
    const float *weight; /* weights of the cells; NULL: cells have none */
    /* rows of the nonzeros in each mode; NULL for modes not in `rows` of struct ts_weighted */
    const uint32_t *row[TS_MAX_ORDER];
};

struct ts_weighted {
    int (*take)(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err);
    void *ctx;
    uint32_t rows; /* bit m: `take` gets the rows of the nonzeros in mode m */
    /* Memory in which `take` stores results: part_bytes for each partition, or NULL. If ranks
     * divide the partitions, each of them has all results after the pass. */
    void *part;
    uint64_t part_bytes;
    /* For dense tensors: called by one thread when partitions first .. end - 1 are done and no
     * other partition is being computed; or NULL. */
    void (*settle)(void *ctx, uint64_t first, uint64_t end);
};

/* Sums over cells with value x and model's value m: number of cells, and the sums of x, x^2, x m
 * and (x - m)^2. */
struct ts_cell_errors {
    double n, sum, squares, inner, left;
};

/* Sums over cells with value x and model's value m: number of cells, and the sums of the loss at m,
 * of ts_loss_reference, and of x. */
struct ts_cell_losses {
    double n, loss, reference, x;
};

struct ts_loss;

/* What a pass of LOSSES computes. Without `observed`, cells without a nonzero count as 0. So a
 * nonzero that is not held out counts with f(x, m) - f(0, m), its loss minus that of the value
 * 0. */
struct ts_loss_sums {
    const struct ts_loss *loss;
    double at;
    int observed;
    struct ts_hold_out hold_out;
    struct ts_cell_losses kept, held; /* results of the pass: other cells, held-out cells */
};

/* Sums over cells with value x, model's value m and residual x - m. A cell of weight w counts w
 * times in all sums except n. */
struct ts_score_sums {
    uint64_t n;
    double weight;              /* n, or the sum of weights */
    double value, model;        /* sums of x, of m */
    double squares, magnitudes; /* sums of (x - m)^2, of |x - m| */
};

/* What a pass of SCORES computes. */
struct ts_scores {
    int counts; /* on entry: 1 to compute logs; on return: 1 if x are counts and m positive */
    /* NULL, or sums for each row of the mode, zero before the pass, to which the cells of the row
     * are added. */
    struct ts_score_sums *slice;
    struct ts_score_sums all; /* results of the pass: sums over all cells */
    double logs;              /* result of the pass: the sum of x log m */
};

/* What a pass of ERRORS computes, where m is the model's value plus `mean`. Held-out cells have
 * sums of their own. */
struct ts_error_sums {
    struct ts_hold_out hold_out;
    double mean;
    struct ts_cell_errors kept, held; /* results of the pass: other cells, held-out cells */
};

#endif
