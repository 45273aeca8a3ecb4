/* SPDX-License-Identifier: BSD-3-Clause */
/* descend.h - rows that go a step against a gradient, once the part of it that nonzeros have is there.
 *
 * Adds what cells that are not listed say, by column sums and at drawn columns, and makes Adam's step
 * (stream/row_update.h, `descend`).
 *
 *   owner    the object owns its memory, the caller the matrices and moments
 *   threads  one thread calls; inside, OpenMP threads
 *   errors   0 or a negative ts_code
 *   bits     of the factors, the moments and `how`: not of threads
 */
#ifndef TS_CPU_DESCEND_H
#define TS_CPU_DESCEND_H

#include "cpu/fmat.h"

struct ts_steps;

int ts_steps_new(const struct ts_tensor *t, uint32_t rank, uint32_t threads, struct ts_steps **ret,
                 struct ts_err *err);
void ts_steps_free(struct ts_steps *s); /* NULL is fine */
uint64_t ts_steps_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads);

/* factor: of all modes, the rows of `mode` make their step; apart: the gradient at its nonzeros. */
void ts_steps_make(struct ts_steps *s, uint32_t mode, struct ts_fmat *factor,
                   const struct ts_fmat *apart, const struct ts_descent *how);

/* The sum of the loss of value 0 over all cells, estimated from columns of `mode`. */
double ts_steps_zeros(struct ts_steps *s, uint32_t mode, const struct ts_fmat *factor,
                      const struct ts_descent *how);

#endif
