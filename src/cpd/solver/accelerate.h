/* SPDX-License-Identifier: BSD-3-Clause */
/* accelerate.h - speeds up least squares by extrapolation: each sweep starts further along the
 * change that the last sweep made.
 *
 * Let A be the factor of a mode after the last sweep, and B the factor that this sweep started
 * from, with columns of equal length. The next sweep starts from
 *     A + step (A - B),   step = (k - 1) / (k + 5)  after k good sweeps in a row.
 * In a nonnegative mode, negative entries become 0. If constraints depend on the lengths of columns
 * (spec.h), columns keep their lengths. Entries out of bounds become the bound. Rows on the simplex
 * lose their negative entries, and are divided by their sum. The first five sweeps start without
 * extrapolation: until then it is not settled which components the run finds, and such steps would
 * decide it.
 *
 * If the fit falls in a sweep, the sweep's factors are dropped. The next sweep starts from B
 * itself, without extrapolation, and k counts anew (Nesterov's extrapolation with restarts;
 * Mitchell, Ye, De Sterck 2020). The fit is known after each sweep anyway, so no further pass is
 * needed. If the factors of the last sweep were dropped, one more sweep follows, so that the run
 * ends with the better factors.
 *
 * With penalties, sweeps are judged by 1 - sqrt(2 F) / |X| instead of the fit, with the objective F
 * and the tensor X. Without penalties both are equal. The factor that is solved first is replaced
 * before any product (MTTKRP) reads it. So no copy of it is kept, unless its new rows depend on the
 * old ones.
 *
 * The run has converged when the fit, or 1 - sqrt(2 F) / |X| with penalties, changes by less than
 * the tolerance in two sweeps in a row, and the second of them did not lower it.
 *
 *   owner    it owns B, in host memory, also for GPUs; the rest of `init` is the caller's
 *   threads  one thread calls; init->threads threads compute rows, each row by one thread
 *   errors   0 or a negative ts_code
 *   bits     those of the backend's rows
 */
#ifndef TS_CPD_ACCELERATE_H
#define TS_CPD_ACCELERATE_H

#include <stdint.h>

#include "cpd/spec/spec.h"
#include "cpd/solver/init.h"
#include "cpd/state/state.h"
#include "stream/backend.h"

struct ts_accelerate;

/* Returns TS_EARG if the specification (may be NULL) cannot be accelerated. Extrapolated factors
 * must meet the constraints, and orthonormal columns would not. Methods other than least squares of
 * all cells choose their steps themselves. */
int ts_accelerate_check(const struct ts_spec *spec, uint32_t order, struct ts_err *err);

/* Returns the bytes of the factors B (see the head of this file). */
uint64_t ts_accelerate_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             const struct ts_spec *spec);

int ts_accelerate_new(const struct ts_init_conf *init, enum ts_precision precision,
                      struct ts_accelerate **ret, struct ts_err *err);
void ts_accelerate_free(struct ts_accelerate *a); /* a may be NULL */

/* To be called after each sweep (from 1) with its fit or, with penalties, 1 - sqrt(2 F) / |X| with
 * the objective F. */
void ts_accelerate_fit(struct ts_accelerate *a, uint32_t sweep, double fit);

/* To be called before the next sweep. Changes the factors of the backend, their Gram matrices
 * (order x rank x rank) and the weights to those from which the sweep starts. Further calls do
 * nothing until that sweep is over. */
int ts_accelerate_step(struct ts_accelerate *a, double *gram, double *lambda, struct ts_err *err);

/* Whether the last sweep lowered the fit, so that the factors before it are better. a may be
 * NULL. */
int ts_accelerate_fell(const struct ts_accelerate *a);

int ts_accelerate_settled(const struct ts_accelerate *a, double tol);

/* Write the data of the extrapolation to the state of the run, and read them from it. Pointers in
 * the state are valid until the next step. */
void ts_accelerate_tell(const struct ts_accelerate *a, struct ts_state *s);
int ts_accelerate_restore(struct ts_accelerate *a, const struct ts_state_file *f,
                          struct ts_err *err);

#endif
