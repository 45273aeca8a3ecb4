/* SPDX-License-Identifier: BSD-3-Clause */
/* canonical.h - the form in which a decomposition leaves the engine, the same for equal models.
 *
 * Columns have norm 1, or are zeros. They are sorted by weight, largest first; equal weights keep
 * the order in which they were computed. The entry of largest magnitude of each column (the first
 * of equals) is made positive. Signs are changed in pairs of modes, as in Tensor Toolbox's
 * fixsigns; with an odd number of negative ones the last stays negative. Numbers are rounded to the
 * precision of the factors; there are no negative zeros. Modes whose entries must stay as they are
 * keep lengths and signs.
 *
 *   owner    the caller owns the factors, and frees what new made
 *   units    rows are those of used slices, n x rank, row-major
 *   threads  one calls
 *   errors   0 or a negative ts_code: what get_rows finds, TS_ENOMEM
 */
#ifndef TS_MODEL_CANONICAL_H
#define TS_MODEL_CANONICAL_H

#include "stream/backend.h"

/* Rows row .. row+n-1 of a factor, n x rank; get_rows of a backend is one. */
typedef int ts_get_rows_fn(void *from, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                           struct ts_err *err);

/* Factors as they were computed, in a backend or in memory. */
struct ts_factors {
    uint32_t order, rank;
    uint64_t n_rows[TS_MAX_ORDER];
    ts_get_rows_fn *get_rows;
    void *from;
};

#define TS_AS_IT_IS -1.0 /* the norm of columns of a mode whose lengths and signs stay */

struct ts_canonical {
    uint32_t rank;
    uint32_t *from; /* rank: column c is column from[c] of the factors */
    double *weight; /* rank, sorted */
    double *scale;  /* order x rank: what entries of column c are multiplied with */
};

/* Factors of a tensor in a backend. */
struct ts_factors ts_factors_of(const struct ts_tensor *t, uint32_t rank,
                                const struct ts_backend *backend, void *be);

/* weight: `rank` weights, for columns of norm 1; norm: order x rank, the norms of the factors'
 * columns, or TS_AS_IT_IS for all of a mode, which then is none that weights count. norm NULL:
 * columns, weights and signs stay as they are. */
int ts_canonical_new(const struct ts_factors *f, const double *weight, const double *norm,
                     struct ts_canonical *ret, struct ts_err *err);
void ts_canonical_free(struct ts_canonical *c); /* one of zeros is fine */

/* rows := n rows of a mode in canonical form; raw: as get_rows gave them. */
void ts_canonical_rows(const struct ts_canonical *c, uint32_t mode, uint64_t n, const double *raw,
                       enum ts_precision precision, double *rows);

#endif
