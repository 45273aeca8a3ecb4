/* SPDX-License-Identifier: BSD-3-Clause */
/* rowsolve.h - what least squares does to a factor between two MTTKRPs: products with rank x rank
 * matrices.
 *
 * With M the matrix that the factor holds: by least squares A = M * w in its place, gram = A' A and
 * inner = the sum of M .* A, in float64 whatever the factor's precision (A is rounded to it first:
 * gram and inner are those of the A that is kept). Rows are cut into groups by n_rows and rank
 * alone, a group is summed in the order of its rows, and groups are added in order: the bits do not
 * depend on threads. Where there are four groups for each thread, threads take whole ones,
 * whichever is next; else each takes an equal part of the rows, and a group whose rows two or more
 * of them have is summed by one after the other, a panel of its Gram matrix at a time. Either way a
 * thread sums the rows that it has solved, which are in its cache.
 *
 * Updates that read the old rows do so in units of TS_ROWBLOCK_UNIT rows.
 *
 *   owner    the caller owns all matrices (w and gram are rank x rank, row-major); the object owns
 *            the memory between, which is made once, for the largest factor: what a sweep maps and
 *            unmaps costs page faults, and interrupts on all cores
 *   threads  one thread calls; inside, `threads` OpenMP threads where there is work for them
 *   errors   0 or a negative ts_code: TS_ENOMEM of new and own, those of the ranks
 *            (cpu/ranks/share.h) of run
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

/* Allocates memory for updates that read the old rows. Further calls do nothing. TS_ENOMEM. */
int ts_rowsolve_own(struct ts_rowsolve *s, struct ts_err *err);
uint64_t ts_rowsolve_own_bytes(uint32_t rank, uint32_t threads);

/* For ranks that divide the work: the rows of a product that this rank gets in ts_rowsolve_run.
 * They are whole groups, those that begin among the rows that it has. */
struct ts_rowsolve_ranks {
    struct ts_share *share;
    /* n + 1 numbers: rank r updates groups group[r] .. group[r + 1] - 1, which are rows row[r] ..
     * row[r + 1] - 1. */
    uint64_t *group, *row;
    /* All ranks have all rows already, or those that they want: only the sums are divided. */
    int here;
    /* Rows go to the ranks that need them, if it is cheaper (cpu/ranks/needs.h). NULL: rows go to
     * all ranks. */
    struct ts_needs *needs;
    uint32_t mode; /* the mode, for `needs` */
    int some;      /* result: rows did not go to all ranks */
};
void ts_rowsolve_deal(const struct ts_rowsolve *s, uint64_t n_rows,
                      struct ts_rowsolve_ranks *ranks);

/* update NULL: the factor stays as it is (A = M). product: M, if the update reads the old rows;
 * NULL: M is in f. ranks: M is divided this way. In the end all ranks have all rows of f, or those
 * that they need. NULL: this process has all of M. */
int ts_rowsolve_run(struct ts_rowsolve *s, struct ts_fmat *f, const struct ts_fmat *product,
                    const struct ts_row_update *update, const struct ts_row_sums *sums,
                    struct ts_rowsolve_ranks *ranks, struct ts_err *err);

/* Multiplies column r with by[r], for all r < rank: in all rows, or in part `part` of n_parts. */
void ts_rowsolve_scale(struct ts_rowsolve *s, struct ts_fmat *f, const double *by, uint32_t part,
                       uint32_t n_parts);

/* Multiplies columns in rows begin .. end - 1, in those whose bit is set: row i has bit i % 64 of
 * word i / 64. begin must be a multiple of 64. */
void ts_rowsolve_scale_some(struct ts_rowsolve *s, struct ts_fmat *f, const double *by,
                            uint64_t begin, uint64_t end, const uint64_t *bit, uint64_t n_words);

#endif
