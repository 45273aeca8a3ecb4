/* SPDX-License-Identifier: BSD-3-Clause */
/* resume.h - finds the state that a run goes on from, by the name of what the run is to write.
 *
 * A run that writes X.cp keeps its states in X.cp.partial until X.cp is in place; X.cp itself has
 * the one of the run's end (cpd/state/checkpoint.h).
 *
 * The directory is opened once, and all that the run saved is read through that.
 *
 *   owner    the struct owns the state, the directory and its strings until close
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_RESUME_H
#define TS_CPD_RESUME_H

#include "base/files/open_dir.h"
#include "cpd/solver/init.h"
#include "cpd/state/state.h"

struct ts_resume {
    char *dir;              /* X.cp */
    struct ts_open_dir *in; /* the directory of the state: X.cp.partial or X.cp */
    struct ts_state_file *file;
    int of_result; /* the state is that of X.cp: what X.cp.partial may hold is older */
    /* code not 0: a later state exists, but is damaged, as the message says */
    struct ts_err damaged;
};

/* Opens the state to resume from; `name` is X.cp or X.cp.partial. It is the newest whole state of
 * X.cp.partial. It is the state of X.cp instead if that was saved later, if X.cp.partial has none,
 * or if X.cp.partial is what X.cp has replaced. TS_EARG if there is no state at all. */
int ts_resume_open(const char *name, struct ts_resume *ret, struct ts_err *err);
void ts_resume_close(struct ts_resume *r); /* r may be all zero */

/* Checks that the state was read in X.cp.partial. To be called after that directory was locked, to
 * resume there or to replace X.cp. */
int ts_resume_check_place(const struct ts_resume *r, struct ts_err *err);

enum ts_resume_start {
    TS_START_KEPT, /* the start stays where it is; nothing is written */
    /* conf->model has it, which the caller closes; or, where that is NULL, it is drawn with
     * conf->seed */
    TS_START_KNOWN,
    /* the start was given to the run, which did not save it; it can be given again */
    TS_START_GIVEN,
    /* the start was computed and not saved; it cannot be written any more, as *err says */
    TS_START_LOST,
};

/* The start of the run, which is to lie beside its result as TS_MODEL_START, for ts_init_save. What
 * the run saved counts, as what was given to it may have changed since. stays: what is written goes
 * where the state lies. Returns one of these or a negative ts_code: also where what lies there is
 * not the whole start of this run. conf->tensor and rank are needed. */
int ts_resume_start(const struct ts_resume *r, int stays, struct ts_init_conf *conf,
                    struct ts_err *err);

#endif
