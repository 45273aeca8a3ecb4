/* SPDX-License-Identifier: BSD-3-Clause */
/* rowsolve.h - updates a factor between two MTTKRPs by products with rank x rank matrices.
 *
 * Let M be the MTTKRP, which is stored in the factor's memory. Least squares replaces it by A = M *
 * w, with the matrix w of the update, and computes gram = A' A and inner = the sum of M .* A. All
 * are in float64, whatever the factor's precision: A is rounded to it first, and gram and inner are
 * those of the stored A. Rows are divided into groups by n_rows and rank alone. A group is summed
 * in the order of its rows, and groups are added in order, so the bits do not depend on threads. If
 * there are four groups for each thread, threads take whole groups, whichever is next. Otherwise
 * each thread takes an equal part of the rows. Then a group may have rows of several threads, which
 * add to its sums in turn, one panel of the Gram matrix at a time. In both cases a thread sums the
 * rows that it has solved, which are in its cache.
 *
 * Updates that read the old rows (coordinate descent, simplex) update TS_ROWBLOCK_UNIT rows
 * together.
 *
 *   owner    the caller owns all matrices (w and gram are rank x rank, row-major). The object owns
 *            intermediate memory, allocated once for the largest factor: mapping memory in each
 *            sweep would cost page faults, and interrupts on all cores
 *   threads  one thread calls; inside, `threads` OpenMP threads if there is enough work
 *   errors   0 or a negative ts_code: TS_ENOMEM from new and own, those of cpu/ranks/share.h from
 *            run
 */
#ifndef TS_CPU_ROWSOLVE_H
#define TS_CPU_ROWSOLVE_H

#include "cpu/fmat.h"
#include "base/machine/isa.h"

struct ts_rowsolve;

int ts_rowsolve_new(uint64_t max_rows, uint32_t rank, enum ts_isa isa, uint32_t threads,
                    struct ts_rowsolve **ret, struct ts_err *err);
void ts_rowsolve_free(struct ts_rowsolve *s); /* s may be NULL */
uint64_t ts_rowsolve_bytes(uint64_t max_rows, uint32_t rank, uint32_t threads);

/* Allocates memory for updates that read the old rows. Further calls do nothing. Returns TS_ENOMEM
 * if there is not enough. */
int ts_rowsolve_own(struct ts_rowsolve *s, struct ts_err *err);
uint64_t ts_rowsolve_own_bytes(uint32_t rank, uint32_t threads);

/* For ranks that divide the work: the rows of a product that each rank updates in ts_rowsolve_run.
 * They are the whole groups that begin among the rows that the rank has. */
struct ts_rowsolve_ranks {
    struct ts_share *share;
    /* n + 1 numbers: rank r updates groups group[r] .. group[r + 1] - 1, which are rows row[r] ..
     * row[r + 1] - 1. */
    uint64_t *group, *row;
    /* 1: all ranks have all rows already, or those that they need, and only the sums are divided */
    int here;
    /* decides which rows go only to the ranks that need them (cpu/ranks/needs.h). NULL: rows go to
     * all ranks */
    struct ts_needs *needs;
    uint32_t mode; /* mode of the rows, for `needs` */
    int some;      /* result: 1 if rows did not go to all ranks */
};
void ts_rowsolve_deal(const struct ts_rowsolve *s, uint64_t n_rows,
                      struct ts_rowsolve_ranks *ranks);

/* Updates f, and sums its Gram matrix. update NULL: the factor stays as it is (A = M). product: M,
 * for an update that reads the old rows; NULL: M is in f. ranks: how ranks divide the rows. In the
 * end each rank has all rows of f, or those that it needs. ranks NULL: this process has all
 * rows. */
int ts_rowsolve_run(struct ts_rowsolve *s, struct ts_fmat *f, const struct ts_fmat *product,
                    const struct ts_row_update *update, const struct ts_row_sums *sums,
                    struct ts_rowsolve_ranks *ranks, struct ts_err *err);

/* Multiplies column r by by[r], for all r < rank: in all rows, or in part `part` of n_parts of the
 * rows. */
void ts_rowsolve_scale(struct ts_rowsolve *s, struct ts_fmat *f, const double *by, uint32_t part,
                       uint32_t n_parts);

/* Multiplies columns in those of the rows begin .. end - 1 whose bit is set: row i has bit i % 64
 * of word i / 64. begin must be a multiple of 64. */
void ts_rowsolve_scale_some(struct ts_rowsolve *s, struct ts_fmat *f, const double *by,
                            uint64_t begin, uint64_t end, const uint64_t *bit, uint64_t n_words);

#endif
