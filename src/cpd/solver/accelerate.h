/* SPDX-License-Identifier: BSD-3-Clause */
/* accelerate.h - fewer sweeps of least squares: each starts where the last two point to.
 *
 * With A the factor of a mode after the last sweep and B the one that the sweep before it started
 * from, both of columns of one length, the next sweep starts from
 *     A + step (A - B),   step = (k - 1) / (k + 5)  after k sweeps in a row that went well,
 * entries below 0 becoming 0 where the mode is nonnegative. Where lengths of columns matter
 * (spec.h) they are as they are; entries outside of bounds become the bound, and rows on the
 * simplex, without what is below 0, are divided by their sum. The first five sweeps are plain:
 * until then a start has not settled which components it finds, and steps would choose for it. When
 * the fit of a sweep is less than that of the sweep before, it is given up: the next one starts
 * from B, is plain, and k counts from there (Nesterov's extrapolation with restarts; Mitchell, Ye,
 * De Sterck 2020). The fit is that which a sweep yields anyway, so there is no further pass. A run
 * whose last sweep was given up has one more, so that it ends with the better factors. With
 * penalties what counts is 1 - sqrt(2 F) / |X| instead, F being what is minimised: without a
 * penalty that is the fit. The factor that is solved first is replaced before it is an operand, so
 * nothing is kept of it, except where its rows come from the old ones.
 *
 * The run has settled when the fit, or that, of two sweeps in a row, the last of which did not make
 * it fall, differs by less than the tolerance from that before.
 *
 *   owner    it owns B, in host memory, also for GPUs; the rest of `init` is the caller's
 *   threads  one calls; rows are spread over init->threads, and each is computed by itself
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

/* TS_EARG where the specification (may be NULL) does not allow it: what is extrapolated has to meet
 * them, which orthonormal columns would not, and other methods than least squares of all cells have
 * steps of their own. */
int ts_accelerate_check(const struct ts_spec *spec, uint32_t order, struct ts_err *err);

/* Bytes of the factors that are kept. */
uint64_t ts_accelerate_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             const struct ts_spec *spec);

int ts_accelerate_new(const struct ts_init_conf *init, enum ts_precision precision,
                      struct ts_accelerate **ret, struct ts_err *err);
void ts_accelerate_free(struct ts_accelerate *a); /* NULL is fine */

/* A sweep (from 1) is over, with this fit (see above). */
void ts_accelerate_fit(struct ts_accelerate *a, uint32_t sweep, double fit);

/* Before the next: factors of the backend, their Gram matrices (order x rank x rank) and the
 * weights become those that it starts from. Once it is done, calls do nothing until the sweep is
 * over. */
int ts_accelerate_step(struct ts_accelerate *a, double *gram, double *lambda, struct ts_err *err);

/* The last sweep made the fit fall, so that the factors before it are the better ones. a may be
 * NULL. */
int ts_accelerate_fell(const struct ts_accelerate *a);

int ts_accelerate_settled(const struct ts_accelerate *a, double tol);

/* To and from the state of the run. What is lent to it holds until the next step. */
void ts_accelerate_tell(const struct ts_accelerate *a, struct ts_state *s);
int ts_accelerate_restore(struct ts_accelerate *a, const struct ts_state_file *f,
                          struct ts_err *err);

#endif
