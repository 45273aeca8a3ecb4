/* SPDX-License-Identifier: BSD-3-Clause */
/* weighted.h - a pass that knows the model's value at each nonzero.
 *
 * For a nonzero x of an output row i, p is the elementwise product of the other factors' rows, as
 * in an MTTKRP, and m = <p, a_i> with the row a_i of the mode itself: the model's value there, with
 * weights inside the factors. A backend (request CELLS of request.h) computes the m of a block and
 * lends them with what belongs to them; what becomes of them is the taker's: sums of a loss,
 * residuals, the largest ones.
 *
 *   owner    arrays belong to the backend, and are valid during the call
 *   units    rows are compact ones, modes from 0
 *   threads  take is called from any number of threads at once, below the number that the backend
 *            was opened with, each with its own number. A partition is one thread's, its blocks in
 *            the order of the file; partitions come in any order
 *   errors   a negative code ends the pass, and is what it returns
 *   bits     m depends on the bytes of the block, the factors and the precision alone
 */
#ifndef TS_STREAM_WEIGHTED_H
#define TS_STREAM_WEIGHTED_H

#include <stdint.h>

#include "base/err.h"
#include "format/hold_out.h"
#include "format/layout.h"

/* Nonzeros of a block, in the order of the file. */
struct ts_cells {
    /* of the mode copy; of a dense tensor, of the array (cpu/dense/dense_cells.h) */
    uint64_t partition;
    uint32_t first; /* nonzeros of the partition before these */
    uint32_t n;     /* at most TS_BLOCK_NNZ; 0 in the last of a dense tensor's alone */
    int last;       /* the partition ends with them */
    const double *value, *model;
    const float *weight;               /* of the cells, where they have weights; else NULL */
    const uint32_t *row[TS_MAX_ORDER]; /* by mode; NULL where they are not wanted */
};

struct ts_weighted {
    int (*take)(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err);
    void *ctx;
    uint32_t rows; /* bit m: rows of mode m are wanted */
    /* What take keeps of each partition, part_bytes each; NULL: nothing. Where ranks divide the
     * partitions, all of them have all of it when the pass is over. */
    void *part;
    uint64_t part_bytes;
    /* Of a dense tensor: partitions first .. end - 1 were taken, and no other one is under way; by
     * one thread. NULL: nothing. */
    void (*settle)(void *ctx, uint64_t first, uint64_t end);
};

/* Sums over cells of value x and model m: how many, of x, x^2, x m and (x - m)^2. */
struct ts_cell_errors {
    double n, sum, squares, inner, left;
};

/* Sums over cells of value x and model m: how many, of the loss at m, of ts_loss_reference, and of
 * x. */
struct ts_cell_losses {
    double n, loss, reference, x;
};

struct ts_loss;

/* Of the pass that gives them (LOSSES): without `observed` the loss of a cell that is not held out
 * is that beyond a value of 0 there. */
struct ts_loss_sums {
    const struct ts_loss *loss;
    double at;
    int observed;
    struct ts_hold_out hold_out;
    struct ts_cell_losses kept, held; /* what it gives */
};

/* Sums over cells of value x, model m and residual x - m. A cell with a weight counts so many times
 * in all but n. */
struct ts_score_sums {
    uint64_t n;
    double weight;              /* n, or the sum of weights */
    double value, model;        /* sums of x, of m */
    double squares, magnitudes; /* of x - m */
};

/* Of the pass that gives them (SCORES). */
struct ts_scores {
    int counts; /* logs is wanted, and then whether all x are counts and all m above 0 */
    /* NULL, or zeros for each row of the mode, which get the sums of its cells */
    struct ts_score_sums *slice;
    struct ts_score_sums all; /* what it gives, and */
    double logs;              /* the sum of x log m */
};

/* Of the pass that gives them (ERRORS): m is the model's value and the mean, and cells that are
 * held out have sums of their own. */
struct ts_error_sums {
    struct ts_hold_out hold_out;
    double mean;
    struct ts_cell_errors kept, held; /* what it gives */
};

#endif
