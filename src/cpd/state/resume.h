/* SPDX-License-Identifier: BSD-3-Clause */
/* resume.h - finds the state from which a run is resumed, by the name of the run's result.
 *
 * A run that writes X.cp keeps its states in X.cp.partial until X.cp is complete. X.cp itself has
 * the state of the run's end (cpd/state/checkpoint.h).
 *
 * The directory is opened once, and everything is read through that open directory.
 *
 *   owner    the struct owns the state, the directory and its strings until close
 *   threads  one thread calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_RESUME_H
#define TS_CPD_RESUME_H

#include "base/files/open_dir.h"
#include "cpd/solver/init.h"
#include "cpd/state/state.h"

struct ts_resume {
    char *dir;              /* path of the result X.cp */
    struct ts_open_dir *in; /* the directory of the state: X.cp.partial or X.cp */
    struct ts_state_file *file;
    int of_result; /* 1: the state is that of X.cp: X.cp.partial has none, or is a leftover */
    /* code not 0: a later state exists, but is damaged, as the message says */
    struct ts_err damaged;
};

/* Opens the state to resume from; `name` is X.cp or X.cp.partial. This is the newest whole state of
 * X.cp.partial. It is the state of X.cp instead if X.cp.partial has no state, or if X.cp has
 * already replaced X.cp.partial. Returns TS_EARG if there is no state at all. */
int ts_resume_open(const char *name, struct ts_resume *ret, struct ts_err *err);
void ts_resume_close(struct ts_resume *r); /* r may be all zero */

/* Fails if the directory of the state was replaced since it was opened. To be called after that
 * directory was locked, to resume there or to replace X.cp. */
int ts_resume_check_place(const struct ts_resume *r, struct ts_err *err);

enum ts_resume_start {
    TS_START_KEPT, /* the saved starting factors stay where they are; nothing is written */
    /* conf->model has the saved starting factors; the caller closes it. NULL: they are drawn with
     * conf->seed. */
    TS_START_KNOWN,
    /* starting factors were an input of the run, which did not save them; the caller can pass them
     * again */
    TS_START_GIVEN,
    /* starting factors were computed and not saved; *err says why they cannot be written any
     * more */
    TS_START_LOST,
};

/* Finds the starting factors of the run, which ts_init_save is to write beside the result as
 * TS_MODEL_START. Saved ones are preferred, because an input may have changed since. stays: the
 * output goes to the directory of the state. Returns a value of enum ts_resume_start, or a negative
 * ts_code, also if the saved factors are not all starting factors of this run. conf->tensor and
 * rank must be set. */
int ts_resume_start(const struct ts_resume *r, int stays, struct ts_init_conf *conf,
                    struct ts_err *err);

#endif
