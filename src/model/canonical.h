/* SPDX-License-Identifier: BSD-3-Clause */
/* canonical.h - the form in which the engine returns a decomposition, the same for equal models.
 *
 * Columns have norm 1, or are zeros. They are sorted by weight in descending order; equal weights
 * keep the order in which they were computed. The entry of largest magnitude of each column (the
 * first of equal ones) is made positive. Signs are changed in pairs of modes, as in Tensor
 * Toolbox's fixsigns; if an odd number of these entries is negative, the last one stays negative.
 * Numbers are rounded to the precision of the factors, and there are no negative zeros. The columns
 * of modes whose entries must not change keep lengths and signs.
 *
 *   owner    the caller owns the factors, and frees the result by ts_canonical_free
 *   units    rows are those of used slices, n x rank, row-major
 *   threads  one thread calls
 *   errors   0 or a negative ts_code: that of get_rows, or TS_ENOMEM
 */
#ifndef TS_MODEL_CANONICAL_H
#define TS_MODEL_CANONICAL_H

#include "stream/backend.h"

/* A function that copies rows row .. row + n - 1 of a factor, n x rank. get_rows of a backend is
 * one. */
typedef int ts_get_rows_fn(void *from, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                           struct ts_err *err);

/* Factors as they were computed, in a backend or in memory. get_rows copies rows of them, with
 * `from` as its first argument. */
struct ts_factors {
    uint32_t order, rank;
    uint64_t n_rows[TS_MAX_ORDER];
    ts_get_rows_fn *get_rows;
    void *from;
};

#define TS_AS_IT_IS -1.0 /* in place of a norm: the column keeps its length and sign */

struct ts_canonical {
    uint32_t rank;
    uint32_t *from; /* rank: column c of the canonical form is column from[c] of the factors */
    double *weight; /* rank weights, in descending order */
    double *scale;  /* order x rank: number by which the entries of column c are multiplied */
};

/* Describes the factors in `be`, the backend's model of tensor t. */
struct ts_factors ts_factors_of(const struct ts_tensor *t, uint32_t rank,
                                const struct ts_backend *backend, void *be);

/* Computes the canonical form of factors. weight: `rank` weights, for columns of norm 1. norm:
 * order x rank column norms of the factors, or TS_AS_IT_IS for all columns of a mode that must not
 * change; weights then exclude their lengths. norm NULL: columns, weights and signs stay as they
 * are. */
int ts_canonical_new(const struct ts_factors *f, const double *weight, const double *norm,
                     struct ts_canonical *ret, struct ts_err *err);
void ts_canonical_free(struct ts_canonical *c); /* a struct of zeros is fine */

/* rows := n rows of a mode in canonical form. raw: the same rows as get_rows returns them. */
void ts_canonical_rows(const struct ts_canonical *c, uint32_t mode, uint64_t n, const double *raw,
                       enum ts_precision precision, double *rows);

#endif
