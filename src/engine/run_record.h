/* SPDX-License-Identifier: BSD-3-Clause */
/* run_record.h - the record of a run, X.cp/run.json: tensor, program, options, place and time, the
 * figures of each sweep, and the reason for the end. docs/outputs.md lists the members.
 *
 *   owner    the caller owns the struct, which is all zero before ts_run_record_start. What its
 *            members before the private ones point to must stay valid
 *   units    seconds of a sweep; times of day are local, with the offset from UTC
 *   threads  the thread of the run
 *   errors   0 or a negative ts_code; if memory for a sweep is lacking, ts_run_record_end fails
 */
#ifndef TS_ENGINE_RUN_RECORD_H
#define TS_ENGINE_RUN_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "base/opt.h"
#include "cpd/solver/solver.h"
#include "cpd/state/state.h"
#include "engine/engine.h"

#define TS_RUN_RECORD_NAME "run.json"

struct ts_run_sweep {
    double fit, seconds;
    /* 1: the sweep was made before the run was resumed, so its times and bytes are not known */
    int past;
    /* 1: although `past` is 1, the objective and the members below are known, except n_singular */
    int figured;
    double wait_seconds, copy_seconds, kernel_seconds, solve_seconds;
    uint64_t bytes_read;
    double objective;           /* the objective with penalties; NaN if there are none */
    double log_likelihood, kkt; /* figures of a Poisson model; otherwise NaN */
    double held_out_loss;       /* mean loss at held-out cells; NaN if there are none */
    /* error at observed cells and at held-out cells; NaN if there are none */
    double rmse, held_out;
    uint32_t n_dead;     /* number of components that are zero in some mode */
    uint32_t n_singular; /* number of modes whose equations were singular up to rounding */
};

/* The program and the settings of a run. */
struct ts_run_who {
    const char *version, *commit, *interface; /* interface: "program" or "library" */
    const struct ts_opt *opts; /* the options of the run, with the names of tstream cp */
    const void *args;          /* the struct that opts refer to */
};

struct ts_run_record {
    struct ts_run_who who;
    const struct ts_engine *engine; /* an open engine */

    /* private members of run_record.c follow */
    char *tensor; /* absolute path of the tensor */
    time_t start;
    /* n: number of sweeps in the record; n_past: number of those that were made before the run was
     * resumed */
    uint32_t n, room, n_past;
    struct ts_run_sweep *sweep;
    int out_of_memory;
    double mean; /* the mean that is subtracted from observed cells; NaN: no mean is subtracted */
};

/* Begins the record of a run that starts now, on the tensor at `path`. */
int ts_run_record_start(struct ts_run_record *r, const char *path, struct ts_err *err);

/* Adds the sweeps that were made before the run was resumed. They come first in the record. */
void ts_run_record_recall(struct ts_run_record *r, const struct ts_state *from);

void ts_run_record_sweep(struct ts_run_record *r, const struct ts_solver_sweep *s);

/* Ends the record of a run that ends now. *ret is its text, malloc'ed. ended: "converged", "exact",
 * "iterations", "stopped by SIGINT" and so on. result: NULL if the run was stopped. */
int ts_run_record_end(const struct ts_run_record *r, const char *ended,
                      const struct ts_solver_result *result, char **ret, size_t *bytes,
                      struct ts_err *err);

void ts_run_record_free(struct ts_run_record *r);

#endif
