/* SPDX-License-Identifier: BSD-3-Clause */
/* short_rows.h - rows of few nonzeros, solved for by as many unknowns (TS_ROW_OBSERVED with a
 * penalty and without bounds).
 *
 * With P the n products of a row's nonzeros (struct ts_gram) and x their values, (P' P + l2 I) a =
 * P' x has the solution
 *
 *     a = P' y,   (P P' + l2 I) y = x,
 *
 * a system of n unknowns in place of rank, and no Gram matrix. Rows wait until there are enough to
 * solve for together, each in a lane: what a row becomes does not depend on the others.
 *
 * A row counts as short when it has no more than half as many nonzeros as columns, nor than
 * TS_GRAM_SHORT, when l2 is so far above what is rounding in P P' that every pivot is, and when all
 * of it is in one block: products are those of the block, so that rows are solved for before the
 * next one comes. All this is in the file and the factors, so that it does not depend on threads,
 * budgets or ranks.
 *
 *   owner    the caller has the memory
 *   units    float64
 *   threads  one a struct
 *   errors   none
 */
#ifndef TS_CPU_SHORT_ROWS_H
#define TS_CPU_SHORT_ROWS_H

#include "cpu/fmat.h"
#include "cpu/sparse/kernel.h"
#include "cpu/rows/rowblock.h"
#include "stream/row_update.h"

struct ts_short_rows {
    const struct ts_gram_ops *ops;
    struct ts_rowsystems systems;
    ts_rowblock_systems_fn *solve;
    uint32_t most; /* the most nonzeros of a short row; 0: no row is short */
    double l2, cut;
    int by_count;
    struct ts_fmat *out;
    double *k, *m; /* for each waiting row: K in tiles, and values */
    uint64_t k_size, m_size;
    uint32_t waiting;
    struct ts_short_row {
        const uint16_t *at; /* positions of its nonzeros in the block */
        uint32_t row, n;
        double count;
    } wait[TS_ROWBLOCK_SYSTEMS];
};

/* Number of float64 that a struct needs. */
uint64_t ts_short_rows_size(uint32_t rank);

void ts_short_rows_init(struct ts_short_rows *s, uint32_t rank, const struct ts_gram_ops *ops,
                        enum ts_isa isa, double *memory);

/* Begins a pass that stores its rows in out. cut: the share of a diagonal entry that counts as
 * rounding. */
void ts_short_rows_begin(struct ts_short_rows *s, const struct ts_row_update *update, double cut,
                         struct ts_fmat *out);

/* Adds a row whose only nonzeros are at n positions of a block. They count as `count`. Returns 0 if
 * the row is not short. Otherwise the row waits, and `at` must stay valid until
 * ts_short_rows_solve. */
int ts_short_rows_add(struct ts_short_rows *s, const void *product, const struct ts_unpacked *b,
                      const uint16_t *at, uint32_t n, double count, uint32_t row);

/* Solves and stores the rows that wait. Returns their part of the size (struct ts_row_sums). */
double ts_short_rows_solve(struct ts_short_rows *s, const void *product);

static inline int ts_short_rows_full(const struct ts_short_rows *s)
{
    return s->waiting == TS_ROWBLOCK_SYSTEMS;
}

#endif
