/* SPDX-License-Identifier: BSD-3-Clause */
/* run_start.h - which start a run writes beside its result, and where the run gets that start from.
 *
 * The start is drawn with the seed, computed by the run, given by the caller, or was saved by the
 * earlier part of a run that is resumed. A given start is read twice: for the run, and for the
 * file. So the caller opens it a second time.
 *
 *   owner    the caller closes the model of the start, also after a failure
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_ENGINE_RUN_START_H
#define TS_ENGINE_RUN_START_H

#include "cpd/solver/init.h"
#include "cpd/state/resume.h"

/* Factors that the caller gives to the run. */
struct ts_run_given {
    int is_given; /* the run starts from them */
    /* Opens them from their beginning: 1. 0: they no longer exist, as *err says. from: the run that
     * is resumed, which did not save them; NULL: the run begins. */
    int (*open)(void *ctx, const struct ts_resume *from, struct ts_model **ret, struct ts_err *err);
    /* The start can no longer be written, as *err says. 0: the run goes on without it. NULL: an
     * error. */
    int (*lost)(void *ctx, struct ts_err *err);
    void *ctx;
};

struct ts_run_start_conf {
    struct ts_init_conf init;     /* of the run, without a model: its backend does not matter */
    const struct ts_resume *from; /* the run that is resumed; NULL: the run begins */
    int stays;                    /* files are written where the state of `from` lies */
    int save;                     /* the start is to be written */
    struct ts_run_given given;
};

/* *ret := what ts_init_save takes. *saves: whether the start is to be written at all. */
int ts_run_start_find(const struct ts_run_start_conf *conf, struct ts_init_conf *ret, int *saves,
                      struct ts_err *err);

#endif
