/* SPDX-License-Identifier: BSD-3-Clause */
/* solver_group.h - several runs on one tensor that share their passes over it.
 *
 * The backend holds their models side by side (stream/backend.h). Each run continues by itself
 * until it needs a pass. When all wait for a pass, the pass over one mode is made for all runs that
 * need this mode and whose requests are of one kind (struct ts_request). Modes are chosen in the
 * order in which the feed reads ahead: the next needed mode after the mode of the last pass. A run
 * may wait for another mode than the others, because it made one more pass over its last mode for
 * the fit, or because it was resumed. It waits at most one round over the modes, and costs no pass
 * of its own.
 *
 *   owner    the caller owns the runs. All have the same tensor, backend and feed. Each has its own
 *            `be`, a result of `model` of struct ts_backend
 *   threads  one thread calls
 *   errors   0 or the first negative ts_code. After an error, all runs that were not over have
 *            saved their states, if they have a place for them and the tensor could be read. Then
 *            only ts_solver_free is allowed
 *   bits     those of each run alone
 */
#ifndef TS_CPD_SOLVER_GROUP_H
#define TS_CPD_SOLVER_GROUP_H

#include "cpd/solver/solver.h"

/* Advances all runs until they are over. ended: called when run k is over, between two passes; it
 * may free the run. If it fails, the group ends. *failed: the run whose failure ended the group, or
 * n if a pass failed. */
int ts_solver_group_run(struct ts_solver *const run[], uint32_t n,
                        int (*ended)(void *ctx, uint32_t k, struct ts_err *err), void *ctx,
                        uint32_t *failed, struct ts_err *err);

#endif
