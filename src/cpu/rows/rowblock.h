/* SPDX-License-Identifier: BSD-3-Clause */
/* rowblock.h - updates blocks of rows of a factor and sums the Gram matrix of the updated rows, for
 * several instruction sets.
 *
 * Everything is in float64. The MTTKRP M of a block is converted. A = M * w, with the matrix w of
 * the update, is computed tile by tile in registers, rounded to the factor's type, and stored. Then
 * gram += A' A (upper triangle) and inner += M .* A. Sums run over rows and columns in the same
 * order for every instruction set; with FMA they are rounded less often. An entry of gram does not
 * depend on the panel of rows in which it was computed.
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

#define TS_ROWBLOCK_ROWS 64u /* rows of a block: 16 KiB of float64 at rank 32 */

#define TS_ROWBLOCK_PANEL 8u /* rows of a Gram matrix in a panel */

/* rows of a unit: those that coordinate descent updates at a time, one in each lane */
#define TS_ROWBLOCK_UNIT 32u
/* matrices in the memory for a unit of rows: coordinate descent needs 2, ADMM all 4 */
#define TS_ROWBLOCK_PLACES 4u

/* The numbers that a step of coordinate descent on column r needs. G is the elementwise product of
 * the other modes' Gram matrices. */
struct ts_rowstep {
    double inverse;   /* 1 / G_rr, or 0 if G_rr is 0 */
    double threshold; /* l1 / G_rr, or infinity */
    double lower, upper;
};

/* The matrices for rows row .. row + n - 1 of f, with n <= TS_ROWBLOCK_ROWS. */
struct ts_rowblock {
    /* the matrix of the update: W, rank x padded; or G, padded x padded with zeros beyond rank.
     * NULL: A = M, and no rows are stored. */
    const double *w;
    double *m, *a; /* TS_ROWBLOCK_ROWS x padded; the same matrix if both w and product are NULL */
    uint32_t padded;

    /* these members are for updates that read the old rows */
    const struct ts_fmat *product; /* MTTKRP, whose rows become m */
    const double *weight;          /* weights of the columns of the old rows; `padded` numbers */
    /* the step on each column, `padded` of them, zeros from rank on; NULL: rows stay as they are */
    const struct ts_rowstep *step;
    int wants_m; /* 1: m is to be set; 0: it may stay unset */
    int simple;  /* 1: all thresholds are 0, and all upper bounds infinite */
    uint32_t rounds;
    double *unit; /* TS_ROWBLOCK_PLACES x padded x TS_ROWBLOCK_UNIT: memory for a unit of rows */
    /* for the simplex: (G + rho I)^-1, padded x padded with zeros beyond rank */
    const double *inverse;
    double rho;
};

#define TS_ROWBLOCK_SYSTEMS 8u /* rows with their own Gram matrices that are solved at once */
#define TS_ROWBLOCK_SIDE    4u

/* Systems S a = m of n rows, which are solved together. If what remains of a diagonal entry of S,
 * after the columns before it, is at most `cut` of the entry, then this entry of a is 0. */
struct ts_rowsystems {
    uint32_t n, rank, stride; /* stride: elements between rows of S, a multiple of 8 */
    /* For each row: the upper triangle of S, in rows of `stride`; the number of rows is rank
     * rounded up to TS_ROWBLOCK_SIDE. Each row begins at the multiple of 8 before its diagonal.
     * Zeros beyond rank. */
    const double *s[TS_ROWBLOCK_SYSTEMS];
    /* for each row: the right side m, `stride` numbers; beyond n rows any readable memory */
    const double *m[TS_ROWBLOCK_SYSTEMS];
    /* Diagonal blocks of this size are in rotated order (struct ts_gram_ops). 0: no blocks are. */
    uint32_t turned;
    /* 1: s points to tiles as in struct ts_gram_ops, with zeros beyond rank; stride is not used */
    int tiles;
    /* TS_ROWBLOCK_SYSTEMS numbers: for each system, a number that is added to the diagonal of S */
    double *more;
    double cut;
    double *work; /* memory for ts_rowblock_systems_size(rank) numbers */
    double *a;    /* result, rank x TS_ROWBLOCK_SYSTEMS */
};

/* Returns the number of float64 for the Cholesky factor U in panels (ranges of columns), and for
 * one right side. */
static inline uint64_t ts_rowblock_systems_size(uint32_t rank)
{
    const uint64_t n = (rank + TS_ROWBLOCK_SIDE - 1) / TS_ROWBLOCK_SIDE, side = TS_ROWBLOCK_SIDE;
    return (side * side * (n * (n + 1) / 2) + n * side + 8) * TS_ROWBLOCK_SYSTEMS;
}

/* Sets m to rows row .. row + n - 1 of f, sets a to m * w, rounds a to the precision of f, and
 * stores a in the rows. */
typedef void ts_rowblock_product_fn(struct ts_fmat *f, uint64_t row, uint32_t n,
                                    const struct ts_rowblock *b);

/* Sets m to rows row .. row + n - 1 of the product, if wants_m. Sets a to rows of f times weights,
 * updates it by coordinate descent, rounds it, and stores it in the rows. `row` must be a multiple
 * of TS_ROWBLOCK_UNIT. */
typedef void ts_rowblock_descend_fn(struct ts_fmat *f, uint64_t row, uint32_t n,
                                    const struct ts_rowblock *b);

/* Like ts_rowblock_descend_fn, but updates rows on the simplex, by ADMM. */
typedef void ts_rowblock_simplex_fn(struct ts_fmat *f, uint64_t row, uint32_t n,
                                    const struct ts_rowblock *b);

/* Computes panel p of gram: rows 8 p .. 8 p + 7, from column 8 p on, are set to sums over the n
 * rows of a. With `more`, the sums are added. */
typedef void ts_rowblock_gram_fn(uint32_t n, uint32_t padded, const double *a, uint32_t panel,
                                 int more, double *gram);

/* inner[c % 8] += m(i, c) * a(i, c) over all entries of n rows, row after row. */
typedef void ts_rowblock_inner_fn(uint32_t n, uint32_t padded, const double *m, const double *a,
                                  double *inner);

/* size[c % 8] += |a(i, c)| over all entries of n rows, row after row. */
typedef void ts_rowblock_size_fn(uint32_t n, uint32_t padded, const double *a, double *size);

/* sum[i] := x[i] + x[i + step] + ... of n_x terms, starting from 0, for i < n; n is a multiple of
 * 8. */
typedef void ts_rowblock_add_fn(uint64_t n_x, const double *x, uint64_t step, uint32_t n,
                                double *sum);

/* Multiplies column r of rows row .. row + n - 1 by s[r]. s has width entries. narrow: s in
 * float32, if all entries are exact in it; otherwise NULL. */
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

/* Returns the functions for an instruction set, or NULL if this machine or build lacks it. */
const struct ts_rowblock_ops *ts_rowblock_get(enum ts_isa isa);

#endif
