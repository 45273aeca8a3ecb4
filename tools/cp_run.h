/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_run.h - one run of tstream cp: sweeps, states of the run, factors, run.json.
 *
 *   owner    the caller owns the report, its engine, which is open, and the start
 *   threads  one
 *   errors   0 or a negative ts_code; a sentence that says how to go on where a state was saved. A run that
 *            --max-time has ended is none: r->stopped is 1 then
 */
#ifndef TS_TOOLS_CP_RUN_H
#define TS_TOOLS_CP_RUN_H

#include "model/model_write.h"
#include "tools/cp_report.h"

/* Computes a model of the tensor at `path`, and writes it as mc says: shape, used_rows, threads and start_rows of mc
 * are filled here. start: a model that is freshly opened; NULL: the start is drawn. */
int cp_run(struct cp_report *r, struct ts_model_conf *mc, struct ts_model *start, const char *path,
           struct ts_err *err);

#endif
