/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_report.h - what tstream cp tells of its run: the table or the JSON events on standard output,
 * and progress between two sweeps.
 *
 *   owner    the caller owns the struct and fills its first part; it lives as long as the engine
 *   units    bytes, nanoseconds
 *   threads  cp_report_count and cp_report_figures from any; the others from the one that runs
 */
#ifndef TS_TOOLS_CP_REPORT_H
#define TS_TOOLS_CP_REPORT_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/tools.h"
#include "tools/cp/cp_starts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_term.h"

/* Which of several models a run computes. */
struct cp_model {
    struct ts_run_place place; /* its `out` is X.cp */
    const char *name;          /* "r8.s3" */
    uint32_t rank;
    uint64_t seed;
    int kept;                       /* there is something that --resume goes on with */
    int first;                      /* of this process */
    int hinted;                     /* the sentence of a failure says how to go on */
    struct ts_solver_result result; /* of its run, once it is over; without weights and norms */
};

struct cp_report {
    const struct ts_cmd *cmd;
    const void *args;       /* of cmd, for the record */
    const char *path;       /* of the tensor */
    struct cp_given given;  /* opens the start once more */
    const char *out_dir;    /* where factors are written; NULL: nowhere. By cp_run_begin */
    struct cp_model *model; /* NULL: it is the only one */
    int json, details;
    int descends;           /* rmse and errors are of no use: held-out cells have a mean loss */
    int poisson;            /* sweeps have a likelihood and a violation */
    int penalty;            /* sweeps have an objective, */
    int observed, held_out; /* an error at listed cells, at held-out ones */
    uint32_t iters;         /* sweeps at most */
    uint32_t sweeps_done;   /* before this run's first, and then with those of this run */
    const struct ts_engine *engine; /* open once cp_report_start is called */
    void *be;                       /* the model of its backend */
    int beside;             /* progress and status tell of another model, computed at once: */
    struct cp_report *lead; /* its report when the models begin, or NULL: passes count there */
    struct ts_trace *trace; /* or NULL */
    uint64_t bytes_read;    /* in all sweeps */
    int stopped;            /* it was told that the run was stopped */

    /* the report's own */
    int noted;                     /* what the kernel refused was said */
    int headed;                    /* the columns have their names */
    int *headed_by;                /* of all models computed at once; NULL: headed is meant */
    struct tool_column column[17]; /* of the table */
    uint32_t shown;                /* of them, a bit each */
    uint32_t n_singular;           /* sweeps with a singular mode */
    struct tool_progress progress; /* of the sweep under way */
    _Atomic uint64_t done_nnz;     /* in it, over all modes */
    uint64_t sweep_ns;             /* of the sweep before; 0: none */
};

/* Before the first sweep: the event "start", and progress begins. */
void cp_report_start(struct cp_report *r);

/* Progress tells of this model from now on: of those computed at once the one before is done. */
void cp_report_lead(struct cp_report *r);

/* A mode, or a sweep, is over. */
void cp_report_mode(struct cp_report *r, const struct ts_solver_mode *m);
void cp_report_sweep(struct cp_report *r, const struct ts_solver_sweep *s);

/* Progress as numbers, for the status of the run; from any thread. */
void cp_report_figures(void *ctx, struct ts_run_figures *ret);

/* For struct ts_engine_conf: nonzeros of a shard that was worked through. */
void cp_report_count(void *ctx, uint64_t nnz);

/* After the last sweep, or a failure: progress ends. */
void cp_report_end(struct cp_report *r);

/* The last line, or the event "done"; `out` is where the factors are, NULL: nowhere. */
void cp_report_done(const struct cp_report *r, const struct ts_solver_result *res, const char *out,
                    uint64_t total_ns);

/* The run was stopped by `by`, and goes on from `sweep` (from 1) and `mode` (from 0) with --resume
 * `resume`; NULL: nothing was saved. The event "stopped"; without --json the command's sentence
 * says it. */
void cp_report_stopped(struct cp_report *r, const char *by, const char *resume, uint32_t sweep,
                       uint32_t mode, uint64_t total_ns);

#endif
