/* SPDX-License-Identifier: BSD-3-Clause */
/* cells_kernel.h - products of dense tensors on a GPU, without a matrix of Khatri-Rao products.
 *
 * The array is a matrix X of rows p and columns c, as on CPU cores (cpu/dense/dense_product.h):
 * with the products B(c, :) and K(p, :) of the rows of the factors of the inner and of the outer
 * modes,
 *
 *     along    Y = X B     is what the products of all outer modes need of the cells,
 *     across   W = X' K    what those of all inner modes need;
 *     gather   M(i, :) += Y(p, :) times the rows of the other modes, over all p of index i; and of
 *              W.
 *
 * Cells are float32 or float64. They are multiplied and summed in float64, on tensor cores. B is
 * made before; K(p, :) is the product of a row of U and one of V, which stand for the slower and
 * the faster outer modes, and is made for 16 or 32 rows at a time.
 *
 * A cell that is NaN is unknown: it counts 0, as `as` says, or only whether cells are known counts.
 * Cells that are held out become NaN in a copy (mark). Of a model of observed cells a row has a
 * Gram matrix S of its own, the sum of w w' over its known cells, w being the product of the other
 * factors' rows there; so S is what products are of the array of zeros and ones that says which
 * cells are known, and of factors whose columns are products of two (pairs).
 *
 * Tables (B, U, V, Y, W) are float64 and row-major, rows `ld` elements apart; ld is a multiple of
 * 8, and columns from the rank on are zero. Factors are as in dense_kernel.h.
 *
 *   owner    the caller owns all memory; pointers are device pointers, tables at multiples of 16
 *            bytes
 *   threads  launches are asynchronous, in the order of the stream
 *   errors   a ts_gpu_error (gpu_types.h)
 *   bits     an element is summed in an order that follows from cuts, sizes and the rank alone: no
 *            atomics
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

/* The value with which a cell is counted. */
enum ts_cells_kind {
    TS_CELLS_ALL,    /* its number; none is NaN */
    TS_CELLS_VALUES, /* its number less the mean; 0 where it is NaN */
    TS_CELLS_KNOWN   /* 1; 0 where it is NaN */
};

struct ts_cells_as {
    enum ts_cells_kind kind;
    double mean;
};

/* Some rows of X, or a part of the columns of one. */
struct ts_cells_x {
    const void *cell; /* the first one, at a multiple of its size */
    struct ts_cells_as as;
    int narrow;     /* float32 */
    uint64_t pitch; /* cells from one row to the next */
    uint64_t row, n_rows;
    uint64_t col, n_cols;
};

/* Modes whose sizes count rows, the last one fastest, and the rows of their factors. */
struct ts_cells_grid {
    enum ts_precision precision; /* precision of the factors */
    uint32_t n;
    const void *factor[TS_MAX_ORDER];
    uint64_t dim[TS_MAX_ORDER];
    uint32_t factor_ld, rank, ld; /* ld: of tables */
};

/* Columns of B, W and Y that a thread block computes at a time. */
uint32_t ts_cells_width(uint32_t rank);

/* out(q, :) := the product of the rows that stand for row q of the grid. */
ts_gpu_error ts_cells_products(const struct ts_cells_grid *g, double *out, ts_gpu_stream stream);

/* y(k, p - x->row, :) := X(p, part k of the columns) B, parts having `part_cols` columns, a
 * multiple of 32; y(k + 1, ...) is `apart` elements behind y(k, ...). b: all rows of B, row x->col
 * being the first that is needed. */
ts_gpu_error ts_cells_along(const struct ts_cells_x *x, const double *b, uint32_t rank, uint32_t ld,
                            uint64_t part_cols, double *y, uint64_t apart, ts_gpu_stream stream);

/* w(s - first_step, c - x->col, :) := sum over the rows p of step s of X(p, c) U(p / n_v, :) V(p %
 * n_v, :), for the steps that the rows of x are, which are whole ones. */
ts_gpu_error ts_cells_across(const struct ts_cells_x *x, const struct ts_cells_cut *cut,
                             const double *u, const double *v, uint64_t n_v, uint32_t rank,
                             uint32_t ld, double *w, ts_gpu_stream stream);

/* to[i] := from[i] + from[i + apart] + ... (n terms), one after another. Added to to[i] unless
 * `fresh`. n may be 0. */
ts_gpu_error ts_cells_add(double *to, const double *from, uint64_t elements, uint64_t apart,
                          uint64_t n, int fresh, ts_gpu_stream stream);

/* Steps of a share, counted from the first one that there is. */
struct ts_cells_part {
    uint64_t first, end;
    /* the first of these steps is the first of the share; the last one is the last of the share */
    int begins, ends;
};

/* Of each share the steps there are, one after another, added to sum + k * sum_apart, or to 0 where
 * the share begins. With to: a sum that is complete goes there instead: added to what is there, or
 * to 0 with `fresh`, which is that of the first share. */
struct ts_cells_shares {
    uint32_t n;
    struct ts_cells_part part[16];
    double *sum, *to;
    uint64_t sum_apart;
    int fresh;
};

ts_gpu_error ts_cells_add_shares(const struct ts_cells_shares *s, const double *from,
                                 uint64_t elements, uint64_t apart, ts_gpu_stream stream);

/* A mode of a grid, whose product is made of Y or W. */
struct ts_cells_target {
    struct ts_cells_grid others; /* all modes of the grid but this */
    uint64_t dim, after;         /* size of the mode; product of the sizes of the modes behind it */
    struct ts_cells_cut cut;     /* division of the rows of Y or W */
    uint32_t slots;              /* slots of a step: ts_cells_slots */
    uint64_t share_slots;        /* slots of the share with most rows */
    uint32_t n_shares;
    /* n_shares + 1: steps of share k are share[k] .. share[k + 1] - 1; whole chunks */
    uint64_t share[17];
};

/* part(s - step, slot, :) := sum over the rows p of step s and the slot's index of z(p - z_row, :)
 * times the rows of the others: steps step .. step + n - 1. */
ts_gpu_error ts_cells_gather(const struct ts_cells_target *t, const double *z, uint64_t z_row,
                             uint64_t step, uint64_t n, double *part, ts_gpu_stream stream);

/* acc(share, slot, :) += part(s - step, ...), for s = step .. step + n - 1, one after another. */
ts_gpu_error ts_cells_fold(const struct ts_cells_target *t, const double *part, uint64_t step,
                           uint64_t n, double *acc, ts_gpu_stream stream);

/* out(i, :) := sum over the shares, one after another: in float64, or in the precision given.
 * Columns from the rank on are zero. */
ts_gpu_error ts_cells_finish(const struct ts_cells_target *t, const double *acc,
                             enum ts_precision precision, uint32_t out_ld, void *out,
                             ts_gpu_stream stream);

/* part(i, first + r) := the same in float64, for the columns r < rank; rows of part are `size`
 * elements. */
ts_gpu_error ts_cells_part(const struct ts_cells_target *t, const double *acc, uint64_t first,
                           uint64_t size, double *part, ts_gpu_stream stream);

/* ---- unknown cells ---- */

/* out(i, k) := of row i of a factor the product of the columns of pair first + k (ts_cells_pair),
 * or 1 of the one behind the last pair; k < n, and 0 from there to ld. */
ts_gpu_error ts_cells_pairs(enum ts_precision precision, const void *factor, uint64_t n_rows,
                            uint32_t factor_ld, uint32_t rank, uint32_t first, uint32_t n,
                            double *out, uint32_t ld, ts_gpu_stream stream);

/* row[e] := e for e < n_rows, and no row for the others. */
ts_gpu_error ts_cells_number(uint32_t *row, uint64_t n_rows, uint64_t n, ts_gpu_stream stream);

/* Modes that count rows, and those that count columns: where the indices of a cell come from. */
struct ts_cells_places {
    uint32_t order, n_outer;
    uint32_t layout[TS_DENSE_MAX_ORDER]; /* as in struct ts_dense */
    uint64_t dim[TS_DENSE_MAX_ORDER];    /* sizes of the modes in the order of the layout */
};

static inline uint64_t ts_cells_ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

#define TS_CELLS_GROUP 256u /* threads of a thread block that works element by element */

/* The number of these thread blocks for n elements: at most 2^20, whose threads then take several
 * elements each. */
static inline uint32_t ts_cells_blocks(uint64_t n)
{
    const uint64_t blocks = ts_cells_ceil_div(n, TS_CELLS_GROUP);
    return blocks == 0 ? 1 : blocks < (1u << 20) ? (uint32_t)blocks : 1u << 20;
}

/* The number of cells from one row to the next in a copy with marks. */
static inline uint64_t ts_cells_mark_pitch(uint64_t n_cols)
{
    return (n_cols + 3) / 4 * 4;
}

/* out(p - x->row, c - x->col) := X(p, c), or NaN where the cell is held out; of the type of x, rows
 * ts_cells_mark_pitch apart. */
ts_gpu_error ts_cells_mark(const struct ts_cells_x *x, const struct ts_cells_places *places,
                           const struct ts_hold_out *hold_out, void *out, ts_gpu_stream stream);

/* Sums for cells that are not held out: count, x, x^2, x m, (x - m)^2. Then the same for held-out
 * cells. */
#define TS_CELLS_ERRORS 10u
/* rows, and columns, that units have a multiple of where there are as many */
#define TS_CELLS_ERROR_TILE 64u

/* Sums the errors of a model over the known cells of each unit: sums(unit, :). The model of a cell
 * is its value m plus the mean. A unit is a step of the rows times unit_cols columns of x; x has
 * all columns of a chunk. The last unit has the remaining columns. */
struct ts_cells_errors {
    const double *b, *u, *v; /* tables as for products, with all rows of B */
    uint64_t n_v;
    uint32_t ld;
    double mean;
    struct ts_hold_out hold_out;
    struct ts_cells_places places;
    struct ts_cells_cut cut; /* division of the rows */
    uint64_t unit_cols;
    uint64_t first_part; /* of the columns: number of the first unit of x, of so many of a step */
    uint64_t n_parts;
    double *sums; /* n_parts units of each step: TS_CELLS_ERRORS each */
};

ts_gpu_error ts_cells_judge(const struct ts_cells_x *x, const struct ts_cells_errors *what,
                            ts_gpu_stream stream);

#ifdef __cplusplus
}
#endif

#endif
