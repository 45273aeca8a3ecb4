/* SPDX-License-Identifier: BSD-3-Clause */
/* descend.h - rows that go a step against a gradient, once the part of it that nonzeros have is
 * there.
 *
 * Adds what cells that are not listed say, by column sums and at drawn columns or cells, and makes
 * Adam's step or hands the gradient out (stream/row_update.h, struct ts_descent).
 *
 *   owner    the object owns its memory, the caller the matrices and moments
 *   threads  one thread calls; inside, OpenMP threads
 *   errors   0 or a negative ts_code; of the calls that have a share only those of what travels
 *   bits     of the factors, the moments and `descent`: not of threads
 */
#ifndef TS_CPU_DESCEND_H
#define TS_CPU_DESCEND_H

#include "cpu/fmat.h"

struct ts_steps;
struct ts_share;

int ts_steps_new(const struct ts_tensor *t, uint32_t rank, uint32_t threads, struct ts_steps **ret,
                 struct ts_err *err);
void ts_steps_free(struct ts_steps *s); /* NULL is fine */
uint64_t ts_steps_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads);

/* factor: of all modes, the rows of `mode` make their step; apart: the gradient at its nonzeros. Of
 * several ranks, for which share is not NULL, rank r has rows has[r] .. has[r + 1] - 1 of apart,
 * and these make their step there; rank 0 gets all moments, or all get all of the gradient. */
int ts_steps_make(struct ts_steps *s, struct ts_share *share, const uint64_t *has, uint32_t mode,
                  struct ts_fmat *factor, const struct ts_fmat *apart,
                  const struct ts_descent *descent, struct ts_err *err);

/* The sum of the loss of value 0 over all cells, estimated from columns of `mode`. */
int ts_steps_zeros(struct ts_steps *s, struct ts_share *share, uint32_t mode,
                   const struct ts_fmat *factor, const struct ts_descent *descent, double *ret,
                   struct ts_err *err);

#endif
