/* SPDX-License-Identifier: BSD-3-Clause */
/* best.h - the model of the sweep that had the least error at held-out cells, kept until the run
 * ends.
 *
 * After a sweep that is the best so far its factors are copied from the backend. At the end, where
 * a later sweep was worse, they change places with those of the backend, so that whoever reads
 * these has the best ones; when the state of the run is still to be written, they change places
 * again.
 *
 *   owner    it owns the copy, in host memory, also for GPUs; tensor and backend are the caller's
 *   threads  one calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_BEST_H
#define TS_CPD_BEST_H

#include <stdint.h>

#include "cpd/solver/solver.h"
#include "cpd/state/state.h"

struct ts_best;

/* Memory of the copy: 0 where the specification (may be NULL) does not ask for it. */
uint64_t ts_best_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                       const struct ts_spec *spec);

int ts_best_new(const struct ts_init_conf *init, enum ts_precision precision, struct ts_best **ret,
                struct ts_err *err);
void ts_best_free(struct ts_best *b); /* NULL is fine */

/* This sweep is the best so far: its numbers, weights of columns, Gram matrices (order x rank x
 * rank), and the factors in the backend. */
int ts_best_take(struct ts_best *b, const struct ts_solver_sweep *s, const double *lambda,
                 const double *gram, struct ts_err *err);

/* Of which sweep the copy is, from 1; 0: there is none. */
uint32_t ts_best_sweep(const struct ts_best *b);

/* The result becomes that of the copy, but for how the run ended; and weights (rank) and norms
 * (order x rank) of the factors as they were. */
void ts_best_tell(const struct ts_best *b, struct ts_solver_result *ret);
const double *ts_best_lambda(const struct ts_best *b);
const double *ts_best_norm(const struct ts_best *b);

/* The factors of the copy and of the backend change places, unless they have done so, or have
 * not. */
int ts_best_swap(struct ts_best *b, int in_backend, struct ts_err *err);

/* To and from the state of the run. What is lent to it holds until the next call. */
void ts_best_save(const struct ts_best *b, struct ts_state *s);
int ts_best_restore(struct ts_best *b, const struct ts_state_file *f, struct ts_err *err);

#endif
