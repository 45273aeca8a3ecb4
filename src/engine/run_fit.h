/* SPDX-License-Identifier: BSD-3-Clause */
/* run_fit.h - the fit of a finished run, if rounding has made it inexact.
 *
 * Some methods sum products in float32, or compute rows from squares of products. Near a fit of 1,
 * the rounding errors exceed what is left of |X - model|. Then the fit of the finished model is
 * computed once more, in float64, from the nonzeros and the factors as they are written
 * (cpd/judge/exact_fit.h). This takes a pass on CPU cores within the part of the budget that the
 * run has left free.
 *
 *   owner    the engine opened here is closed before the return
 *   threads  one thread calls
 *   errors   none: if the fit cannot be computed, it stays, and *warn says by how much it is off
 *   bits     as in cpd/judge/exact_fit.h; factors are not changed
 */
#ifndef TS_ENGINE_RUN_FIT_H
#define TS_ENGINE_RUN_FIT_H

#include "cpd/solver/solver.h"
#include "engine/engine.h"

/* Computes result->fit again if result->fit_error is not 0, and then sets fit_error to 0. conf: the
 * configuration of the run. warn->code is not 0 if the fit could not be computed. */
void ts_run_fit(const struct ts_engine *e, const struct ts_solver_conf *conf,
                struct ts_solver_result *result, struct ts_err *warn);

#endif
