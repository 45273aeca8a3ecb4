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

#include "api/tools.h"
#include "tools/cp_report.h"
#include "tools/tstream_cp.h"

/* Computes a model of the tensor at `path`, and writes it as mc says: shape, used_rows and threads of mc are filled
 * here. start: a model that is freshly opened; NULL: the start is drawn. */
int cp_run(struct cp_report *r, struct ts_model_conf *mc, struct ts_model *start, const char *path,
           struct ts_err *err);

/* The same in two parts, for models that are computed at once: begin, then the run to its end, then cp_run_end with
 * what became of it. After a failure of begin nothing is held. */
struct cp_run {
    struct cp_report *report;
    struct ts_model_conf *mc;
    struct ts_model_out *out;
    char *partial;
    struct ts_checkpoint *checkpoint;
    struct ts_als_conf conf;
    struct ts_als *als;
    uint64_t start_ns;
};
int cp_run_begin(struct cp_run *run, struct cp_report *r, struct ts_model_conf *mc,
                 struct ts_model *start, const char *path, struct ts_err *err);
int cp_run_alone(struct cp_run *run, struct ts_err *err); /* the run, by itself */
int cp_run_end(struct cp_run *run, int rc, struct ts_err *err);

/* Of models computed at once progress and status tell of this one from now on. */
void cp_run_lead(struct cp_run *run, const char *path);

/* What is to be written as the start, if anything is: *saves. A model is opened for it, which the caller closes. stays: a run
 * that goes on writes where its state lies. cmd: who tells of a start that is gone; NULL: nobody. */
int cp_run_start(const struct ts_cmd *cmd, const struct cp_args *args, const struct ts_tensor *t,
                 int stays, struct ts_init_conf *ret, int *saves, struct ts_err *err);

/* What is opened and reported for it. */
struct ts_engine_conf cp_run_engine(const struct cp_args *args, const char *path,
                                    struct cp_report *r);
struct ts_run_record cp_run_record(const struct ts_cmd *cmd, const struct cp_args *args,
                                   const struct ts_engine *e);
struct cp_report cp_run_report(const struct ts_cmd *cmd, const struct cp_args *args,
                               const struct ts_engine *e, struct ts_run_record *record,
                               struct status_file *status);
void cp_run_note(const struct ts_cmd *cmd, const struct cp_args *args, const struct ts_engine *e);

/* "SIGINT", ..., "--max-time" */
const char *cp_run_stopped_by(void);

/* For sentences on models of which nothing is left, or components died: why, and what may help. */
#define CP_ADVICE_CHARS 128
const char *cp_run_empty_why(const struct cp_args *args, char *room, size_t size);
const char *cp_run_dead_advice(const struct cp_args *args, char *room, size_t size);

/* Adds to a sentence, once, how to go on with several models; saved: the state of this one lies at sweep and mode. */
void cp_run_hint(struct cp_model *m, int saved, uint32_t sweep, uint32_t mode, struct ts_err *err);

#endif
