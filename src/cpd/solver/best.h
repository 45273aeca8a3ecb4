/* SPDX-License-Identifier: BSD-3-Clause */
/* best.h - keeps the model with the least error at held-out cells until the run ends.
 *
 * After each sweep with the least error so far, the factors are copied from the backend. If a later
 * sweep was worse, copy and backend exchange their factors at the end, so that readers of the
 * backend get the best ones. If the state of the run is still to be written, they exchange them
 * once more.
 *
 *   owner    it owns the copy, in host memory, also for GPUs; tensor and backend are the caller's
 *   threads  one thread calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_BEST_H
#define TS_CPD_BEST_H

#include <stdint.h>

#include "cpd/solver/solver.h"
#include "cpd/state/state.h"

struct ts_best;

/* Returns the bytes of the copy of the factors. They are 0 if the specification (may be NULL) does
 * not ask for the best model. */
uint64_t ts_best_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                       const struct ts_spec *spec);

int ts_best_new(const struct ts_init_conf *init, enum ts_precision precision, struct ts_best **ret,
                struct ts_err *err);
void ts_best_free(struct ts_best *b); /* b may be NULL */

/* Keeps this sweep as the best so far: its figures, weights of components, Gram matrices (order x
 * rank x rank), and the factors in the backend. */
int ts_best_take(struct ts_best *b, const struct ts_solver_sweep *s, const double *lambda,
                 const double *gram, struct ts_err *err);

/* Returns the sweep from which the best factors are, from 1, or 0 if there are none yet. */
uint32_t ts_best_sweep(const struct ts_best *b);

/* Writes the figures of the best sweep into the result, except for how the run ended. Also writes
 * the weights (rank) and column norms (order x rank) of the best factors. */
void ts_best_tell(const struct ts_best *b, struct ts_solver_result *ret);
const double *ts_best_lambda(const struct ts_best *b);
const double *ts_best_norm(const struct ts_best *b);

/* Exchanges the factors of the copy and the backend, unless the best ones are where they should be:
 * in the backend if in_backend is 1, in the copy if it is 0. */
int ts_best_swap(struct ts_best *b, int in_backend, struct ts_err *err);

/* Saves the best model in the state of a run, and reads it back. Arrays lent to the state are valid
 * until the next call. */
void ts_best_save(const struct ts_best *b, struct ts_state *s);
int ts_best_restore(struct ts_best *b, const struct ts_state_file *f, struct ts_err *err);

#endif
