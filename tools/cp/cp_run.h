/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_run.h - one run of tstream cp: prints the events of a run of engine/run.h.
 *
 *   owner    the caller owns the report, its open engine, and the start
 *   threads  one
 *   errors   0 or a negative ts_code; if a state was saved, the message says how to resume. The end
 *            of --max-time is not a failure: it sets r->stopped
 */
#ifndef TS_TOOLS_CP_RUN_H
#define TS_TOOLS_CP_RUN_H

#include "api/tools.h"
#include "tools/cp/cp_report.h"
#include "tools/cp/tstream_cp.h"

/* Computes a model of the tensor r->path, and writes it as mc says; shape, used_rows and threads of
 * mc are filled in. start: a freshly opened model; NULL: the starting factors are drawn. */
int cp_run(struct cp_report *r, const struct ts_model_conf *mc, struct ts_model *start,
           struct ts_err *err);

/* Begins a run like that of cp_run, for models that are computed at the same time: calls
 * ts_run_begin. */
int cp_run_begin(struct ts_run *run, struct cp_report *r, const struct ts_model_conf *mc,
                 struct ts_model *start, struct ts_err *err);

/* Ends a run that could not begin, because opening its tensor or its processor failed with rc. If
 * that was a stop, adds to the message how to resume from the state `from` in dir, which is
 * unchanged. from NULL: there is no state. */
int cp_run_unopened(struct cp_report *r, const struct ts_state_file *from, const char *dir,
                    uint64_t start_ns, int rc, struct ts_err *err);

/* Return the configuration of the engine from the options, and a report for a run; print notes on
 * the engine. */
struct ts_engine_conf cp_run_engine(const struct cp_args *args, const char *path,
                                    struct cp_report *r);
struct cp_report cp_run_report(const struct ts_cmd *cmd, const struct cp_args *args,
                               const struct ts_engine *e, const char *path);
void cp_run_note(const struct ts_cmd *cmd, const struct cp_args *args, const struct ts_engine *e);

/* Returns "SIGINT", ..., or "--max-time": what stopped the run. */
const char *cp_run_stopped_by(void);

/* Writes why a model became empty, or why components died, and what may help. */
#define CP_ADVICE_CHARS 128
const char *cp_run_empty_why(const struct cp_args *args, char *room, size_t size);
const char *cp_run_dead_advice(const struct cp_args *args, char *room, size_t size);

/* Adds to a message, once, how to resume a run of several models. saved: 1 if a state of this model
 * was saved, from which it continues at this sweep and mode. */
void cp_run_hint(struct cp_model *m, int saved, uint32_t sweep, uint32_t mode, struct ts_err *err);

#endif
