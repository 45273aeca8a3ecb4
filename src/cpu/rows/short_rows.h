/* SPDX-License-Identifier: BSD-3-Clause */
/* short_rows.h - solves for rows of few nonzeros by systems with an unknown for each nonzero
 * (TS_ROW_OBSERVED with a penalty and without bounds).
 *
 * With P the n row products at a row's nonzeros (struct ts_gram), and x their values, (P' P + l2 I)
 * a = P' x has the solution
 *
 *     a = P' y,   (P P' + l2 I) y = x.
 *
 * The second system has n unknowns instead of rank, and needs no Gram matrix. Rows wait until there
 * are enough to solve for together, one in each lane. The result of a row does not depend on the
 * others.
 *
 * A row is short under three conditions. Its number of nonzeros is at most TS_GRAM_SHORT, and at
 * most half the number of columns. l2 is far above the rounding errors of P P', and therefore every
 * pivot is. All its nonzeros are in one block: row products are those of the block, so short rows
 * are solved for before the next block. These conditions depend on the file and the factors, not on
 * threads, budgets or ranks.
 *
 *   owner    the caller has the memory
 *   units    float64
 *   threads  one for each struct
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
    uint32_t most; /* most nonzeros of a short row; 0: no row is short */
    double l2, cut;
    int by_count;
    struct ts_fmat *out;
    /* for each waiting row: K = P P' in tiles, and the values of its nonzeros. A row of P is the
     * product of the other factors' rows at a nonzero. */
    double *k, *m;
    uint64_t k_size, m_size;
    uint32_t waiting;
    struct ts_short_row {
        const uint16_t *at; /* positions of the row's nonzeros in the block */
        uint32_t row, n;
        double count;
    } wait[TS_ROWBLOCK_SYSTEMS];
};

/* Returns the number of float64 of memory that a struct ts_short_rows needs. */
uint64_t ts_short_rows_size(uint32_t rank);

void ts_short_rows_init(struct ts_short_rows *s, uint32_t rank, const struct ts_gram_ops *ops,
                        enum ts_isa isa, double *memory);

/* Begins a pass that stores its rows in out. cut: remainders of a diagonal entry below this
 * fraction of it are rounding errors. */
void ts_short_rows_begin(struct ts_short_rows *s, const struct ts_row_update *update, double cut,
                         struct ts_fmat *out);

/* Adds a row whose only nonzeros are at n positions `at` of a block. count: their number, or the
 * sum of their weights. Returns 0 if the row is not short. Otherwise the row waits, and `at` must
 * stay valid until ts_short_rows_solve. */
int ts_short_rows_add(struct ts_short_rows *s, const void *product, const struct ts_unpacked *b,
                      const uint16_t *at, uint32_t n, double count, uint32_t row);

/* Solves and stores the waiting rows. Returns their contribution to the size (struct
 * ts_row_sums). */
double ts_short_rows_solve(struct ts_short_rows *s, const void *product);

static inline int ts_short_rows_full(const struct ts_short_rows *s)
{
    return s->waiting == TS_ROWBLOCK_SYSTEMS;
}

#endif
