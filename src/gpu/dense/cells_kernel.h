/* SPDX-License-Identifier: BSD-3-Clause */
/* cells_kernel.h - products of dense tensors on a GPU, without storing Khatri-Rao products of all
 * modes.
 *
 * The array is a matrix X of rows p and columns c, as on CPU cores (cpu/dense/dense_product.h):
 * B(c, :) is the elementwise product of the factor rows of the inner modes at column c, and K(p, :)
 * that of the outer modes at row p. Three products follow:
 *
 *     along    Y = X B serves the MTTKRPs of all outer modes,
 *     across   W = X' K serves those of all inner modes;
 *     gather   M(i, :), a row of the MTTKRP of a mode, += Y(p, :) times the factor rows of the
 *              other outer modes, over all p with index i in the mode; likewise from W for inner
 *              modes.
 *
 * Cells are float32 or float64. They are multiplied and summed in float64, on tensor cores. B is
 * computed first. K(p, :) is the product of a row of U (from the slower outer modes) and a row of V
 * (from the faster ones), and is computed for 16 rows at a time.
 *
 * A cell that is NaN is unknown: the member `as` of struct ts_cells_x says whether it counts as 0,
 * or whether cells count as 1 (known) or 0 (unknown). Held-out cells become NaN in a copy
 * (ts_cells_mark). In a model of observed cells each row has its own Gram matrix S, the sum of w w'
 * over its known cells, where w is the elementwise product of the other factors' rows. Entries of S
 * are MTTKRPs of an array of ones (known) and zeros (unknown), with factors whose columns are
 * products of two columns (ts_cells_pairs).
 *
 * Tables (B, U, V, Y, W) are float64 and row-major, rows `ld` elements apart; ld is a multiple of
 * 8, and columns from the rank on are zero. Factors are as in dense_kernel.h.
 *
 *   owner    the caller owns all memory; pointers are device pointers, tables at multiples of 16
 *            bytes
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 *   bits     the order of each sum follows from cuts, sizes and the rank alone; no atomics
 */
#ifndef TS_GPU_CELLS_KERNEL_H
#define TS_GPU_CELLS_KERNEL_H

#include <stdint.h>

#include "format/arrays/dense.h"
#include "gpu/dense/cells_index.h"
#include "gpu/team/gpu_types.h"
#include "stream/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value that products use for a cell. */
enum ts_cells_kind {
    TS_CELLS_ALL,    /* its value; no cell is NaN */
    TS_CELLS_VALUES, /* its value minus the mean; 0 if it is NaN */
    TS_CELLS_KNOWN   /* 1; 0 if it is NaN */
};

struct ts_cells_as {
    enum ts_cells_kind kind;
    double mean;
};

/* Cells of X on the device: whole rows, or some columns of a row or of several rows. */
struct ts_cells_x {
    const void *cell; /* the first cell, at a multiple of its size */
    struct ts_cells_as as;
    int narrow;     /* 1: cells are float32; 0: float64 */
    uint64_t pitch; /* cells from one row to the next */
    uint64_t row, n_rows;
    uint64_t col, n_cols;
};

/* A grid of n modes, with their factors. The rows of the grid are all combinations of indices of
 * these modes, with the last mode fastest. */
struct ts_cells_grid {
    enum ts_precision precision; /* precision of the factors */
    uint32_t n;
    const void *factor[TS_MAX_ORDER];
    uint64_t dim[TS_MAX_ORDER];
    /* ld: elements between rows of tables (products of factor rows) */
    uint32_t factor_ld, rank, ld;
};

/* Returns the number of columns of Y and W (products of the cells and factors) that a thread block
 * computes at a time. */
uint32_t ts_cells_width(uint32_t rank);

/* out(q, :) := the elementwise product of the factor rows of row q of the grid, that is of one
 * combination of indices of its modes. */
ts_gpu_error ts_cells_products(const struct ts_cells_grid *g, double *out, ts_gpu_stream stream);

/* y(k, p - x->row, :) := row p of Y = X B (X: the cells, B: products of inner factor rows), summed
 * over part k of the columns of X, for all rows p of x. A part has `part_cols` columns, a multiple
 * of 32. y(k + 1, ...) follows `apart` elements after y(k, ...). b: all rows of B, of which rows
 * from x->col on are read. */
ts_gpu_error ts_cells_along(const struct ts_cells_x *x, const double *b, uint32_t rank, uint32_t ld,
                            uint64_t part_cols, double *y, uint64_t apart, ts_gpu_stream stream);

/* w(s - first_step, c - x->col, :) := sum over the rows p of step s (a range of rows, by `cut`) of
 * X(p, c) U(p / n_v, :) V(p % n_v, :), for columns c of x. The rows of x must be whole steps, whose
 * sums are computed. X: the cells; U, V: products of outer factor rows; n_v: number of rows of
 * V. */
ts_gpu_error ts_cells_across(const struct ts_cells_x *x, const struct ts_cells_cut *cut,
                             const double *u, const double *v, uint64_t n_v, uint32_t rank,
                             uint32_t ld, double *w, ts_gpu_stream stream);

/* to[i] := from[i] + from[i + apart] + ... (n terms, in this order), plus the old to[i] unless
 * `fresh`. n may be 0. */
ts_gpu_error ts_cells_add(double *to, const double *from, uint64_t elements, uint64_t apart,
                          uint64_t n, int fresh, ts_gpu_stream stream);

/* The steps (ranges of rows) whose sums in `from` of ts_cells_add_shares belong to one share (a
 * group of chunks): first .. end - 1, numbered from the first step in `from`. */
struct ts_cells_part {
    uint64_t first, end;
    /* begins: these steps include the first one of the share (group of chunks); ends: the last
     * one */
    int begins, ends;
};

/* Adds the sums of the steps of each share k (a group of chunks) in order to sum + k * sum_apart,
 * which starts from 0 if the share begins. With `to`, the sum of a share that ends is added to `to`
 * instead. `fresh`: `to` starts from 0, as for the first share. */
struct ts_cells_shares {
    uint32_t n;
    struct ts_cells_part part[16];
    double *sum, *to;
    uint64_t sum_apart;
    int fresh;
};

ts_gpu_error ts_cells_add_shares(const struct ts_cells_shares *s, const double *from,
                                 uint64_t elements, uint64_t apart, ts_gpu_stream stream);

/* A mode of a grid, whose MTTKRP is gathered from Y or W (the cells times the factors of the inner
 * or of the outer modes). */
struct ts_cells_target {
    struct ts_cells_grid others; /* the other modes of the grid */
    uint64_t dim, after;         /* size of the mode; product of the sizes of the faster modes */
    /* division of the rows of Y or W into steps (ranges that are summed together) */
    struct ts_cells_cut cut;
    /* the most slots (sums, one for each index) of a step: ts_cells_slots */
    uint32_t slots;
    uint64_t share_slots; /* the most slots (sums, one for each index) of a share */
    uint32_t n_shares;
    /* share k, of whole chunks, has the steps share[k] .. share[k + 1] - 1 */
    uint64_t share[17];
};

/* part(s - step, slot, :) := the sum of z(p - z_row, :), a row of Y or W, times the factor rows of
 * the other modes, over the rows p of step s with the slot's index, for the steps s = step .. step
 * + n - 1. */
ts_gpu_error ts_cells_gather(const struct ts_cells_target *t, const double *z, uint64_t z_row,
                             uint64_t step, uint64_t n, double *part, ts_gpu_stream stream);

/* Adds the MTTKRP's sums over steps (ranges of rows) to those over their shares (groups of chunks):
 * acc(share, slot, :) += part(s - step, ...), for s = step .. step + n - 1 in order. */
ts_gpu_error ts_cells_fold(const struct ts_cells_target *t, const double *part, uint64_t step,
                           uint64_t n, double *acc, ts_gpu_stream stream);

/* out(i, :) := row i of the MTTKRP, the sum of acc over the shares (groups of chunks) in order, in
 * the given precision. Columns from the rank on become zero. */
ts_gpu_error ts_cells_finish(const struct ts_cells_target *t, const double *acc,
                             enum ts_precision precision, uint32_t out_ld, void *out,
                             ts_gpu_stream stream);

/* part(i, first + r) := column r of row i of the MTTKRP (the sum of acc over all groups of chunks)
 * in float64, for r < rank. Rows of part have `size` elements. */
ts_gpu_error ts_cells_part(const struct ts_cells_target *t, const double *acc, uint64_t first,
                           uint64_t size, double *part, ts_gpu_stream stream);

/* ---- dense tensors with unknown cells ---- */

/* out(i, k) := the product of the two entries of row i of a factor that pair first + k selects
 * (ts_cells_pair), for k < n, and 0 for k from n to ld - 1. The pair after the last one gives 1, so
 * that its sum is the number of cells. */
ts_gpu_error ts_cells_pairs(enum ts_precision precision, const void *factor, uint64_t n_rows,
                            uint32_t factor_ld, uint32_t rank, uint32_t first, uint32_t n,
                            double *out, uint32_t ld, ts_gpu_stream stream);

/* Sets the number of the row that sum e (a part of observed_kernel.h) belongs to: row[e] := e for e
 * < n_rows, and UINT32_MAX (no row) for e from n_rows to n - 1. */
ts_gpu_error ts_cells_number(uint32_t *row, uint64_t n_rows, uint64_t n, ts_gpu_stream stream);

/* The outer and inner modes, from which the indices of a cell are computed. */
struct ts_cells_places {
    uint32_t order, n_outer;
    uint32_t layout[TS_DENSE_MAX_ORDER]; /* the modes from the slowest on, as in struct ts_dense */
    uint64_t dim[TS_DENSE_MAX_ORDER];    /* sizes of the modes in the order of the layout */
};

static inline uint64_t ts_cells_ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

#define TS_CELLS_GROUP 256u /* threads of a thread block that works element by element */

/* Returns the number of thread blocks of TS_CELLS_GROUP threads for n elements: at most 2^20, whose
 * threads then take several elements each. */
static inline uint32_t ts_cells_blocks(uint64_t n)
{
    const uint64_t blocks = ts_cells_ceil_div(n, TS_CELLS_GROUP);
    return blocks == 0 ? 1 : blocks < (1u << 20) ? (uint32_t)blocks : 1u << 20;
}

/* Returns the cells between the starts of neighbouring rows in a copy by ts_cells_mark. */
static inline uint64_t ts_cells_mark_pitch(uint64_t n_cols)
{
    return (n_cols + 3) / 4 * 4;
}

/* out(p - x->row, c - x->col) := X(p, c), the cell in row p and column c, or NaN if it is held out.
 * out has the type of x, and rows ts_cells_mark_pitch apart. */
ts_gpu_error ts_cells_mark(const struct ts_cells_x *x, const struct ts_cells_places *places,
                           const struct ts_hold_out *hold_out, void *out, ts_gpu_stream stream);

/* Number of error sums: over the cells that are not held out, their number, x, x^2, x m and (x -
 * m)^2, where x is the value of a cell and m that of the model; then the same five over the
 * held-out cells. */
#define TS_CELLS_ERRORS 10u
/* Units (blocks of cells whose errors are summed by one thread block) have multiples of this many
 * rows and columns, if the array has as many. */
#define TS_CELLS_ERROR_TILE 64u

/* Sums the errors of a model over the known cells of each unit: sums(unit, :). The model of a cell
 * is its value m plus the mean. A unit (a block of cells) has the rows of a step and unit_cols
 * columns of x; x has all columns of a chunk. The last unit of a step has the remaining columns. */
struct ts_cells_errors {
    /* b: all rows of B (products of inner factor rows); u, v: the tables whose rows multiply to
     * rows of K (products of outer factor rows) */
    const double *b, *u, *v;
    uint64_t n_v;
    uint32_t ld;
    double mean;
    struct ts_hold_out hold_out;
    struct ts_cells_places places;
    struct ts_cells_cut cut; /* division of the rows of the array into steps */
    uint64_t unit_cols;
    /* number of the first unit (block of cells) of x among those in the columns of a step */
    uint64_t first_part;
    uint64_t n_parts;
    /* TS_CELLS_ERRORS sums for each of the n_parts units (blocks of cells) of each step */
    double *sums;
};

ts_gpu_error ts_cells_judge(const struct ts_cells_x *x, const struct ts_cells_errors *what,
                            ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
