/* SPDX-License-Identifier: BSD-3-Clause */
/* run_start.h - finds the starting factors that a run writes with its result.
 *
 * Starting factors are drawn with the seed, computed by the run, given by the caller, or saved by
 * an earlier part of a resumed run. Given factors are read twice: for the run, and for the file
 * beside the result. So the caller opens them a second time.
 *
 *   owner    the caller closes the model with the starting factors, also after a failure
 *   threads  one thread calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_ENGINE_RUN_START_H
#define TS_ENGINE_RUN_START_H

#include "cpd/solver/init.h"
#include "cpd/state/resume.h"

/* Starting factors that the caller gives to the run. */
struct ts_run_given {
    int is_given; /* 1: the run starts from given factors */
    /* Opens the given factors from their beginning, and returns 1. Returns 0 with a message in *err
     * if they no longer exist. from: the run to be resumed, which did not save them; NULL: the run
     * begins anew. */
    int (*open)(void *ctx, const struct ts_resume *from, struct ts_model **ret, struct ts_err *err);
    /* Called if starting factors can no longer be written, for the reason in *err. Returns 0 if the
     * run is to continue without writing them. NULL: this is always an error. */
    int (*lost)(void *ctx, struct ts_err *err);
    void *ctx;
};

struct ts_run_start_conf {
    /* how the run starts, without the member `model`; members about the backend do not matter */
    struct ts_init_conf init;
    const struct ts_resume *from; /* the run to be resumed; NULL: the run begins anew */
    int stays; /* 1: files are written to the directory from which `from` was read */
    int save;  /* 1: starting factors are to be written */
    struct ts_run_given given;
};

/* Sets *ret to the argument of ts_init_save, which describes the starting factors, and *saves to
 * whether they must be written. */
int ts_run_start_find(const struct ts_run_start_conf *conf, struct ts_init_conf *ret, int *saves,
                      struct ts_err *err);

#endif
