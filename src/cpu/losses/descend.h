/* SPDX-License-Identifier: BSD-3-Clause */
/* descend.h - one step of rows against a gradient, when the part of the gradient from nonzeros is
 * computed.
 *
 * Adds the part of the unlisted cells, from column sums and at drawn columns or cells. Then it
 * makes Adam's step, or returns the gradient (stream/row_update.h, struct ts_descent).
 *
 *   owner    the object owns its memory, the caller the matrices and moments
 *   threads  one thread calls; inside, OpenMP threads
 *   errors   0 or a negative ts_code; calls with a share fail only where messages do
 *   bits     of the factors, the moments and `descent`: not of threads
 */
#ifndef TS_CPU_DESCEND_H
#define TS_CPU_DESCEND_H

#include "cpu/fmat.h"

struct ts_steps;
struct ts_share;

int ts_steps_new(const struct ts_tensor *t, uint32_t rank, uint32_t threads, struct ts_steps **ret,
                 struct ts_err *err);
void ts_steps_free(struct ts_steps *s); /* s may be NULL */
uint64_t ts_steps_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads);

/* Makes the step of the rows of `mode`. factor: all factors. apart: the gradient at the nonzeros of
 * `mode`. With several ranks (share not NULL), rank r has rows has[r] .. has[r + 1] - 1 of apart,
 * and makes their step. Then rank 0 gets all moments, or all ranks get the whole gradient. */
int ts_steps_make(struct ts_steps *s, struct ts_share *share, const uint64_t *has, uint32_t mode,
                  struct ts_fmat *factor, const struct ts_fmat *apart,
                  const struct ts_descent *descent, struct ts_err *err);

/* Estimates the sum of the loss of the value 0 over all cells, from columns of `mode`. */
int ts_steps_zeros(struct ts_steps *s, struct ts_share *share, uint32_t mode,
                   const struct ts_fmat *factor, const struct ts_descent *descent, double *ret,
                   struct ts_err *err);

#endif
