/* SPDX-License-Identifier: BSD-3-Clause */
/* step_kernel.h - rows that go a step against a gradient, once the part of it that nonzeros have is
 * there, on a GPU (`descend` of stream/row_update.h): what cells that are not listed say, by column
 * sums and at drawn columns or cells, and Adam's step.
 *
 * What is drawn are the columns and cells of CPU cores (stream/draws.h). Arithmetic is float64;
 * gradients are rounded to the precision of the factors. The bits of a row, of its gradient and of
 * its step, depend on the factors alone: rows may be computed on any device, in any launch.
 *
 *   owner    the caller owns all memory; pointers are device pointers
 *   units    rows of factors, gradients and columns are ld elements apart, columns from the rank on
 *            zero; those of moments, rank
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

#define TS_STEP_GROUP 512u  /* rows that are summed together */
#define TS_STEP_PARTS 4096u /* parts that the cells of a mode are divided into, at least */

static inline uint64_t ts_step_groups(uint64_t n_rows)
{
    return (n_rows + TS_STEP_GROUP - 1) / TS_STEP_GROUP;
}

/* Parts of each row's cells. */
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
    /* n_rows x ld: gradient of the mode, before ts_step_gradient its part from nonzeros */
    void *gradient;

    enum ts_loss_kind kind;
    double at, linear, l2;     /* number of the loss, its linear part, and the penalty */
    int sums;                  /* column sums of the factors are wanted */
    double *sum[TS_MAX_ORDER]; /* groups x ld: rank columns of each group and those before it */
    /* ld each: as in cpu/losses/descend.c; upto has one element more, their sum */
    double *closed, *upto;

    /* drawn columns */
    uint32_t n_columns; /* how many; or 0 */
    int from_model;     /* columns are drawn from the model; 0: uniformly */
    int all_columns;    /* all columns are used */
    double each;        /* columns that each stands for, drawn uniformly */
    uint64_t seed, draw;
    double *column, *weight; /* n_columns x ld; n_columns */

    /* drawn cells */
    int at_cells;
    struct ts_drawn_cells cells;
    double *part; /* 2 TS_STEP_PARTS x ld */

    double *row_value; /* n_rows: what ts_step_values sums */
};

/* Column sums, and the columns that are drawn. */
ts_gpu_error ts_step_prepare(const struct ts_gpu_steps *s, ts_gpu_stream stream);

/* gradient of rows first .. end - 1 += l2 a and what cells that are not listed say. */
ts_gpu_error ts_step_gradient(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                              ts_gpu_stream stream);

/* of_group[g] := sum over the rows of group g of the loss of value 0 less its linear part, at what
 * is drawn; groups first .. end - 1. */
ts_gpu_error ts_step_values(const struct ts_gpu_steps *s, uint64_t first, uint64_t end,
                            double *of_group, ts_gpu_stream stream);

/* Rows first .. first + n - 1 make their step; u, v: their moments. */
ts_gpu_error ts_step_make(const struct ts_gpu_steps *s, const struct ts_adam *adam, uint64_t first,
                          uint64_t n, void *u, void *v, ts_gpu_stream stream);

/* to (n x rank) := their gradient. */
ts_gpu_error ts_step_get(const struct ts_gpu_steps *s, uint64_t first, uint64_t n, void *to,
                         ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
