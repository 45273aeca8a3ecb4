/* SPDX-License-Identifier: BSD-3-Clause */
/* solver_group.h - several runs of ALS on a tensor that share their passes over it.
 *
 * The backend holds their models side by side (stream/backend.h). Each run goes on by itself from
 * pass to pass; when all wait for one, that over a mode is made once for all that want the same of
 * it (struct ts_request). Of the modes that are wanted it is the one that comes first after that of
 * the pass before, in the order in which the feed reads ahead. So a run that has fallen out of
 * step, because its last mode was summed once more or it goes on from a state, waits at most one
 * round and costs no pass of its own.
 *
 *   owner    the caller owns the runs, made with one tensor, backend and feed; struct ts_backend's
 *            `model` gave the `be` of each
 *   threads  one calls
 *   errors   0 or a negative ts_code: the first that came. Then all runs that were not over have
 *            saved their states where there is a place for them and the tensor could be read, and
 *            only free is allowed
 *   bits     those of each run alone
 */
#ifndef TS_CPD_SOLVER_GROUP_H
#define TS_CPD_SOLVER_GROUP_H

#include "cpd/solver/solver.h"

/* ended: run k is over, between two passes, and may be freed. A failure of it ends the group.
 * failed: the run whose failure ended it, or n: that of a pass. */
int ts_solver_group_run(struct ts_solver *const run[], uint32_t n,
                        int (*ended)(void *ctx, uint32_t k, struct ts_err *err), void *ctx,
                        uint32_t *failed, struct ts_err *err);

#endif
