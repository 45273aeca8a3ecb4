/* SPDX-License-Identifier: BSD-3-Clause */
/* run_record.h - the record of a run, X.cp/run.json: what was decomposed by which program, with
 * which options, where and when, what each sweep came to, and why the run ended. docs/outputs.md
 * lists the members.
 *
 *   owner    the caller owns the struct, all zero before ts_run_record_start; what its first part
 *            point to must stay
 *   units    seconds of a sweep; times of day are local, with the offset from UTC
 *   threads  the one that runs
 *   errors   0 or a negative ts_code; a sweep that there was no memory for is said when the text is
 *            made
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
    int past;    /* of an earlier part of the run: no times and bytes of its parts are known */
    int figured; /* but the objective, and all below it but n_singular, are */
    double wait_seconds, copy_seconds, kernel_seconds, solve_seconds;
    uint64_t bytes_read;
    double objective;           /* with penalties; NaN where there are none */
    double log_likelihood, kkt; /* of a Poisson model; else NaN */
    double held_out_loss;       /* mean loss of those held out; NaN likewise */
    double rmse, held_out;      /* of observed cells; NaN likewise */
    uint32_t n_dead;            /* components of zeros */
    uint32_t n_singular;        /* modes whose equations were singular to rounding */
};

/* Whose run it is, and what was asked of it. */
struct ts_run_who {
    const char *version, *commit, *interface; /* "program", "library" */
    const struct ts_opt *opts;                /* of the run, by the names of tstream cp */
    const void *args;                         /* of opts */
};

struct ts_run_record {
    struct ts_run_who who;
    const struct ts_engine *engine; /* open */

    /* the record's own */
    char *tensor; /* absolute path */
    time_t start;
    uint32_t n, room, n_past; /* sweeps; n_past: those of an earlier part of the run */
    struct ts_run_sweep *sweep;
    int out_of_memory;
    double mean; /* that is subtracted from observed cells; NaN: none is */
};

/* Now the run starts, on the tensor at `path`. */
int ts_run_record_start(struct ts_run_record *r, const char *path, struct ts_err *err);

/* Sweeps of the earlier part of a run that goes on from a state, before those of this part. */
void ts_run_record_recall(struct ts_run_record *r, const struct ts_state *from);

void ts_run_record_sweep(struct ts_run_record *r, const struct ts_solver_sweep *s);

/* The run ends now: the text of the record, malloc'ed. ended: "converged", "exact", "iterations",
 * "stopped by SIGINT" and so on. result: NULL where it was stopped. */
int ts_run_record_end(const struct ts_run_record *r, const char *ended,
                      const struct ts_solver_result *result, char **ret, size_t *bytes,
                      struct ts_err *err);

void ts_run_record_free(struct ts_run_record *r);

#endif
