/* rowsolve.h - what ALS does to a factor between two MTTKRPs: products with rank x rank matrices.
 *
 * With M the matrix that the factor holds: A = M * w in its place, gram = A' A and inner = the sum
 * of M .* A, in one pass over blocks of rows, in float64 whatever the factor's precision (A is
 * rounded to it first: gram and inner are those of the A that is kept). Rows are cut into groups by
 * n_rows and rank alone, a group is summed in order by one thread, and groups are added in order:
 * the bits do not depend on threads.
 *
 *   owner    the caller owns all matrices; w and gram are rank x rank, row-major
 *   threads  one thread calls; inside, `threads` OpenMP threads
 *   errors   0 or TS_ENOMEM
 */
#ifndef TS_CPU_ROWSOLVE_H
#define TS_CPU_ROWSOLVE_H

#include "cpu/fmat.h"
#include "cpu/isa.h"

/* w == NULL leaves the factor as it is (A = M): gram alone. inner may be NULL. */
int ts_rowsolve_run(struct ts_fmat *f, const double *w, enum ts_isa isa, uint32_t threads,
                    double *gram, double *inner, struct ts_err *err);

/* Column r times s[r], for all r < rank. */
void ts_rowsolve_scale(struct ts_fmat *f, const double *s, enum ts_isa isa, uint32_t threads);

/* Memory that a run takes for a while. */
uint64_t ts_rowsolve_bytes(uint64_t max_rows, uint32_t rank, uint32_t threads);

#endif
