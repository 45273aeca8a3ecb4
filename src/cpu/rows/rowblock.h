/* SPDX-License-Identifier: BSD-3-Clause */
/* rowblock.h - the arithmetic of the row solve on blocks of rows, for several instruction sets.
 *
 * All in float64: the block's M is converted, A = M * w computed tile by tile in registers, rounded
 * to the factor's type, stored, and then gram += A' A (upper triangle) and inner += M .* A. Sums
 * run over rows and columns in the same order for every instruction set; with FMA they are rounded
 * less often. An entry of gram does not depend on which panel of rows it was asked for with.
 *
 *   owner    the caller owns all memory
 *   units    float64 matrices have `padded` columns, a multiple of 8, and begin at a multiple of 64
 *            bytes; padding is zero
 *   threads  blocks of different rows, and panels of different rows of gram, may run at once
 *   errors   none
 */
#ifndef TS_CPU_ROWBLOCK_H
#define TS_CPU_ROWBLOCK_H

#include "cpu/fmat.h"
#include "base/machine/isa.h"

#define TS_ROWBLOCK_ROWS 64u /* 16 KiB of float64 at rank 32 */

#define TS_ROWBLOCK_PANEL 8u /* rows of a Gram matrix in a panel */

/* rows that coordinate descent updates at a time, one in each lane */
#define TS_ROWBLOCK_UNIT   32u
#define TS_ROWBLOCK_PLACES 4u /* matrices of a unit: coordinate descent needs 2, ADMM all */

/* The numbers that a step of coordinate descent on column r needs. */
struct ts_rowstep {
    double inverse;   /* 1 / G_rr, or 0 where G_rr is 0 */
    double threshold; /* l1 / G_rr, or infinity */
    double lower, upper;
};

/* The matrices for rows row .. row + n - 1 (n <= TS_ROWBLOCK_ROWS) of f. */
struct ts_rowblock {
    /* W, rank x padded; or G, padded x padded with zeros beyond rank. NULL: A = M, and nothing is
     * stored. */
    const double *w;
    double *m, *a; /* TS_ROWBLOCK_ROWS x padded; one matrix if w is NULL and there is no product */
    uint32_t padded;

    /* for updates that read the old rows */
    const struct ts_fmat *product; /* its rows become m */
    const double *weight;          /* padded: weights of the columns of the old rows */
    const struct ts_rowstep *step; /* padded, with zeros from rank on; NULL: rows are kept */
    int wants_m;                   /* m is wanted; otherwise it may be unset */
    int simple;                    /* all thresholds are 0, and all upper bounds infinite */
    uint32_t rounds;
    double *unit;          /* TS_ROWBLOCK_PLACES x padded x TS_ROWBLOCK_UNIT */
    const double *inverse; /* padded x padded, zeros beyond rank: (G + rho I)^-1, for the simplex */
    double rho;
};

#define TS_ROWBLOCK_SYSTEMS 8u /* rows with a matrix of their own that are solved at once */
#define TS_ROWBLOCK_SIDE    4u

/* Solves S a = m for n rows. If the rest of a diagonal entry of S, after the columns before it, is
 * at most `cut` of the entry, then that entry of a is 0. */
struct ts_rowsystems {
    uint32_t n, rank, stride; /* stride: a multiple of 8 */
    /* Upper triangles, in rows of `stride`, as many as rank in whole TS_ROWBLOCK_SIDE. A row begins
     * at the multiple of 8 before its diagonal. Zeros beyond rank. */
    const double *s[TS_ROWBLOCK_SYSTEMS];
    const double *m[TS_ROWBLOCK_SYSTEMS]; /* stride; for rows beyond n any readable memory */
    /* Blocks of this size at the diagonal are turned, as struct ts_gram_ops explains. 0: none
     * are. */
    uint32_t turned;
    /* s points to the tiles of struct ts_gram_ops instead, with zeros beyond rank; stride is
     * unused. */
    int tiles;
    /* TS_ROWBLOCK_SYSTEMS: one number is added to the diagonal of each row's matrix */
    double *more;
    double cut;
    double *work; /* ts_rowblock_systems_size(rank) */
    double *a;    /* rank x TS_ROWBLOCK_SYSTEMS */
};

/* Number of float64 for U in panels, and one row. */
static inline uint64_t ts_rowblock_systems_size(uint32_t rank)
{
    const uint64_t n = (rank + TS_ROWBLOCK_SIDE - 1) / TS_ROWBLOCK_SIDE, side = TS_ROWBLOCK_SIDE;
    return (side * side * (n * (n + 1) / 2) + n * side + 8) * TS_ROWBLOCK_SYSTEMS;
}

/* Sets m to these rows, a to m * w, rounded, and the rows to a. */
typedef void ts_rowblock_product_fn(struct ts_fmat *f, uint64_t row, uint32_t n,
                                    const struct ts_rowblock *b);

/* Sets m to rows of the product, if wanted. Sets a to rows of f times weights, updates it by
 * coordinate descent, rounds it, and stores it in the rows. `row` must be a multiple of
 * TS_ROWBLOCK_UNIT. */
typedef void ts_rowblock_descend_fn(struct ts_fmat *f, uint64_t row, uint32_t n,
                                    const struct ts_rowblock *b);

/* Like ts_rowblock_descend_fn, with rows on the simplex by ADMM. */
typedef void ts_rowblock_simplex_fn(struct ts_fmat *f, uint64_t row, uint32_t n,
                                    const struct ts_rowblock *b);

/* Panel p of gram: its rows 8 p .. 8 p + 7 from column 8 p on get the sum over the n rows of a.
 * With `more`, the sum is added. */
typedef void ts_rowblock_gram_fn(uint32_t n, uint32_t padded, const double *a, uint32_t panel,
                                 int more, double *gram);

/* inner[c % 8] += m(i, c) * a(i, c) over all entries of n rows, row after row. */
typedef void ts_rowblock_inner_fn(uint32_t n, uint32_t padded, const double *m, const double *a,
                                  double *inner);

/* size[c % 8] += |a(i, c)| over all entries of n rows, row after row. */
typedef void ts_rowblock_size_fn(uint32_t n, uint32_t padded, const double *a, double *size);

/* sum[i] := 0 + x[i] + x[i + step] + ... of n_x terms, for i < n, a multiple of 8. */
typedef void ts_rowblock_add_fn(uint64_t n_x, const double *x, uint64_t step, uint32_t n,
                                double *sum);

/* Multiplies column r of rows row .. row + n - 1 with s[r]. s has width entries. `narrow`: s in
 * float32, if all entries are float32 numbers. */
typedef void ts_rowscale_fn(struct ts_fmat *f, uint64_t row, uint64_t n, const double *s,
                            const float *narrow);

typedef void ts_rowblock_systems_fn(const struct ts_rowsystems *x);

struct ts_rowblock_ops {
    ts_rowblock_product_fn *product;
    ts_rowblock_descend_fn *descend;
    ts_rowblock_simplex_fn *simplex;
    ts_rowblock_gram_fn *gram;
    ts_rowblock_inner_fn *inner;
    ts_rowblock_size_fn *size;
    ts_rowblock_add_fn *add;
    ts_rowscale_fn *scale;
    ts_rowblock_systems_fn *systems;
};

/* The functions for an instruction set; NULL if this machine or build lacks it. */
const struct ts_rowblock_ops *ts_rowblock_get(enum ts_isa isa);

#endif
