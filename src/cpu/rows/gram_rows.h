/* SPDX-License-Identifier: BSD-3-Clause */
/* gram_rows.h - solves for rows with their own Gram matrices (TS_ROW_OBSERVED), partition by
 * partition.
 *
 * A thread sums a row's Gram matrix and right-hand side over a partition. It solves for the row
 * when the row ends, alone or together with the next few rows. Only the solved row is kept. Rows of
 * few nonzeros need no Gram matrix (short_rows.h). The first and last row of a partition may
 * continue in its neighbours. Their sums are kept as parts (partial sums), and added in the order
 * of the file after all partitions are done. So the bits do not depend on threads.
 *
 *   owner    the object owns its memory, made for the mode with most partitions
 *   units    partitions are those of the mode copy
 *   threads  ts_gram_rows_take: any, each with its own number; other functions: one
 *   errors   0 or TS_ENOMEM; with several ranks those of cpu/ranks/share.h
 */
#ifndef TS_CPU_GRAM_ROWS_H
#define TS_CPU_GRAM_ROWS_H

#include "cpu/fmat.h"
#include "cpu/sparse/kernel.h"

struct ts_share;

struct ts_gram_rows;

int ts_gram_rows_new(uint64_t partitions, uint32_t order, uint32_t rank,
                     enum ts_precision precision, enum ts_isa isa, uint32_t threads,
                     struct ts_gram_rows **ret, struct ts_err *err);
void ts_gram_rows_free(struct ts_gram_rows *g); /* g may be NULL */
uint64_t ts_gram_rows_bytes(uint64_t partitions, uint32_t rank, enum ts_precision precision,
                            uint32_t threads);

/* Begins a pass that stores its rows in out. level: the mode at each level of the mode
 * copy; it must stay valid during the pass. weights: nonzeros have weights, by which they count in
 * all sums. */
void ts_gram_rows_begin(struct ts_gram_rows *g, const struct ts_row_update *update,
                        const uint8_t *level, int weights, struct ts_fmat *out);

/* Sums the rows of a partition, which is number `at` of its mode, and solves for those that end in
 * it. */
void ts_gram_rows_take(struct ts_gram_rows *g, uint32_t thread, const struct ts_kernel_job *job,
                       const struct ts_kernel_input *in, struct ts_kernel_scratch *scratch,
                       uint64_t at);

/* Solves for a row from sums of the caller: the upper triangle of the Gram matrix S by rows, the
 * right side m, and the count. whole: the rank x rank matrix from which S was subtracted, so that
 * entries that are small beside its diagonal are rounding errors. NULL: S is a sum. Returns what
 * the row adds to `size` of struct ts_row_sums, the sum of squares of rows. */
double ts_gram_rows_solve(struct ts_gram_rows *g, uint32_t thread, uint32_t row,
                          const double *packed, const double *whole, uint32_t rank);

/* To be called when all n partitions are done. Solves the rows that have parts in several
 * partitions. *size := the sum of a' a over all rows a, as struct ts_row_sums says. */
void ts_gram_rows_end(struct ts_gram_rows *g, uint64_t n, double *size);

/* Like ts_gram_rows_end, with several ranks. rc: 0 if this rank has done its partitions of the
 * mode, otherwise its failure. Afterwards each rank has the rows of ts_share_rows. *exchange_ns:
 * time spent waiting for other ranks. */
int ts_gram_rows_end_shared(struct ts_gram_rows *g, struct ts_share *share, uint32_t mode, int rc,
                            double *size, uint64_t *exchange_ns, struct ts_err *err);

#endif
