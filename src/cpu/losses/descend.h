/* SPDX-License-Identifier: BSD-3-Clause */
/* descend.h - makes one gradient step of the rows of a mode, for any loss.
 *
 * The caller has computed the part of the gradient that comes from the nonzeros. The functions here
 * add the gradient that all cells would have with value 0, from column sums of the factors and from
 * sampled columns or cells. Then they make Adam's step, or return the gradient
 * (stream/row_update.h, struct ts_descent).
 *
 *   owner    the object owns its memory, the caller the matrices and moments
 *   threads  one thread calls; inside, OpenMP threads
 *   errors   0 or a negative ts_code; only messages between ranks can fail
 *   bits     depend on factors, moments and `descent`, and not on the number of threads
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

/* Makes the step of the rows of `mode`. factor: all factors. apart: the part of the gradient of
 * `mode` that comes from the nonzeros. With several ranks (share not NULL), rank r has rows has[r]
 * .. has[r + 1] - 1 of apart, and makes their step. Then rank 0 gets all moments or, if `descent`
 * asks for the gradient, all ranks get the whole gradient. */
int ts_steps_make(struct ts_steps *s, struct ts_share *share, const uint64_t *has, uint32_t mode,
                  struct ts_fmat *factor, const struct ts_fmat *apart,
                  const struct ts_descent *descent, struct ts_err *err);

/* Estimates the sum of the loss at value 0 over all cells, from sampled columns of the unfolding of
 * `mode`. */
int ts_steps_zeros(struct ts_steps *s, struct ts_share *share, uint32_t mode,
                   const struct ts_fmat *factor, const struct ts_descent *descent, double *ret,
                   struct ts_err *err);

#endif
