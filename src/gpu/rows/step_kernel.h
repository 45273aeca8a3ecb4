/* SPDX-License-Identifier: BSD-3-Clause */
/* step_kernel.h - steps of rows against a gradient on a GPU (DESCEND of stream/row_update.h): after
 * the nonzeros' part of the gradient was computed, adds the part of unlisted cells, by column sums
 * and at drawn columns or cells, and makes the step by Adam.
 *
 * The drawn columns and cells are the same as on CPU cores (stream/draws.h). Arithmetic is float64;
 * gradients are rounded to the precision of the factors. The bits of a row's gradient and step
 * depend on the factors alone, so rows may be computed on any device, in any launch.
 *
 *   owner    the caller owns all memory; pointers are device pointers
 *   units    rows of factors, gradients and drawn columns are ld elements apart, columns from the
 *            rank on are zero; rows of moments have rank elements
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_STEP_KERNEL_H
#define TS_GPU_STEP_KERNEL_H

#include <stdint.h>

#include "gpu/team/gpu_types.h"
#include "stream/adam.h"
#include "stream/backend.h"
#include "stream/draws.h"
#include "stream/loss_functions.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TS_STEP_GROUP 512u /* rows of a group, which are summed by one thread */
/* the drawn cells of a mode are divided into at least this many parts */
#define TS_STEP_PARTS 4096u

static inline uint64_t ts_step_groups(uint64_t n_rows)
{
    return (n_rows + TS_STEP_GROUP - 1) / TS_STEP_GROUP;
}

/* Returns the number of parts of each row's drawn cells. */
static inline uint32_t ts_step_row_parts(uint64_t n_rows)
{
    return n_rows == 0 || n_rows >= TS_STEP_PARTS
               ? 1
               : (uint32_t)((TS_STEP_PARTS + n_rows - 1) / n_rows);
}

struct ts_gpu_steps {
    enum ts_precision precision;
    uint32_t order, mode, rank, ld;
    void *factor[TS_MAX_ORDER];
    uint64_t n_rows[TS_MAX_ORDER];
    /* n_rows x ld: gradient of the mode; before ts_step_gradient, the part from nonzeros */
    void *gradient;

    enum ts_loss_kind kind;
    /* at: the parameter of the loss; linear: the constant part of the loss's slope at value 0
     * (stream/loss.h); l2: the weight of the penalty */
    double at, linear, l2;
    int sums; /* 1: compute column sums of the factors */
    /* groups x ld: column sums over each group of rows and all groups before it */
    double *sum[TS_MAX_ORDER];
    /* ld numbers each. closed[c]: product of the sums of column c of all other modes; upto[c]: sum
     * over columns up to c of that product times the mode's own column sum; upto[ld]: the total */
    double *closed, *upto;

    /* the members below are for drawn columns */
    uint32_t n_columns; /* number of drawn columns, or 0 */
    int from_model;     /* 1: columns are drawn with probabilities from the model; 0: uniformly */
    int all_columns;    /* 1: no columns are drawn, because all columns of the unfolding are used */
    double each;        /* number of columns that each uniformly drawn column stands for */
    uint64_t seed, draw;
    double *column, *weight; /* the drawn columns (n_columns x ld), and their weights */

    /* the members below are for drawn cells */
    int at_cells;
    struct ts_drawn_cells cells;
    double *part; /* 2 TS_STEP_PARTS x ld: gradients, each summed over a part of a row's cells */

    /* n_rows: for each row, the sum over its drawn columns or cells, for ts_step_values */
    double *row_value;
};

/* Computes column sums of the factors, and draws the columns. */
ts_gpu_error ts_step_prepare(const struct ts_gpu_steps *s, ts_gpu_stream stream);

/* Adds l2 a, where a is the row, and the part of unlisted cells to the gradient of rows first ..
 * end - 1. */
ts_gpu_error ts_step_gradient(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                              ts_gpu_stream stream);

/* of_group[g] := sum over the rows of group g of the loss of value 0, minus `linear` times the
 * model's value, at drawn columns or cells, for the groups first .. end - 1. */
ts_gpu_error ts_step_values(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                            double *of_group, ts_gpu_stream stream);

/* Makes the step of rows first .. first + n - 1 by Adam. u, v: the first and second moments of
 * their gradients, n x rank. */
ts_gpu_error ts_step_make(const struct ts_gpu_steps *s, const struct ts_adam *adam, uint64_t first,
                          uint64_t n, void *u, void *v, ts_gpu_stream stream);

/* to (n x rank) := the gradient of rows first .. first + n - 1. */
ts_gpu_error ts_step_get(const struct ts_gpu_steps *s, uint64_t first, uint64_t n, void *to,
                         ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
