/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_report.h - reports on a run of tstream cp: the table or the JSON events on standard output,
 * and progress during a sweep.
 *
 *   owner    the caller owns the struct and fills its first part; it lives as long as the engine
 *   units    bytes, nanoseconds
 *   threads  any thread may call cp_report_count and cp_report_figures; the thread of the run calls
 *            the others
 */
#ifndef TS_TOOLS_CP_REPORT_H
#define TS_TOOLS_CP_REPORT_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/tools.h"
#include "tools/cp/cp_starts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_term.h"

/* Data of one model in a run of several models. */
struct cp_model {
    struct ts_run_place place; /* its member `out` is X.cp */
    const char *name;          /* name of the model: "r8.s3" */
    uint32_t rank;
    uint64_t seed;
    int kept;                       /* 1: the run can be resumed */
    int first;                      /* 1: it is the first model of this process */
    int hinted;                     /* 1: the message of a failure says already how to resume */
    struct ts_solver_result result; /* result of the finished run, without weights and norms */
};

struct cp_report {
    const struct ts_cmd *cmd;
    const void *args;      /* arguments of cmd, for the record */
    const char *path;      /* path of the tensor */
    struct cp_given given; /* opens the given starting factors a second time */
    const char *out_dir; /* directory of the factors; NULL: none are written. Set by cp_run_begin */
    struct cp_model *model; /* NULL: the run has one model */
    int json, details;
    /* 1: sweeps have a mean loss at held-out cells in place of an RMSE */
    int descends;
    int poisson;            /* 1: sweeps have a likelihood and a violation of the KKT conditions */
    int penalty;            /* 1: sweeps have an objective */
    int observed, held_out; /* 1: sweeps have an error at observed cells; at held-out cells */
    uint32_t iters;         /* most sweeps (--iters) */
    uint32_t sweeps_done;   /* sweeps done, including those of earlier processes */
    const struct ts_engine *engine; /* must be open when cp_report_start is called */
    void *be;                       /* the backend's model, which holds the factors */
    /* 1: progress and status report on another model that is computed at the same time */
    int beside;
    /* the report that counts the nonzeros of passes that several models share: that of the model on
     * which progress reports when this one begins; or NULL */
    struct cp_report *lead;
    struct ts_trace *trace; /* trace of the run, or NULL */
    uint64_t bytes_read;    /* bytes read in all sweeps */
    int stopped;            /* 1: the stop of the run was reported */

    /* The members below belong to cp_report.c. */
    int noted;  /* 1: the note that the kernel refused io_uring or O_DIRECT was printed */
    int headed; /* 1: the column names of the table of sweeps were printed */
    /* used in place of `headed` by models that are computed at the same time and print one table;
     * else NULL */
    int *headed_by;
    struct tool_column column[17]; /* columns of the table */
    uint32_t shown;                /* bit i: column i is shown */
    uint32_t n_singular;           /* number of sweeps with a singular mode */
    struct tool_progress progress; /* progress of the current sweep */
    struct tool_progress ending;   /* progress of what follows the last sweep */
    _Atomic uint64_t done_nnz;     /* nonzeros processed in the current sweep, over all modes */
    uint64_t sweep_ns;             /* time of the sweep before the current one; 0: none */
};

/* Prints the event "start" and begins progress, before the first sweep. */
void cp_report_start(struct cp_report *r);

/* Makes progress report on this model, after another model on which it reported has ended. */
void cp_report_lead(struct cp_report *r);

/* Report the end of a mode, or of a sweep. */
void cp_report_mode(struct cp_report *r, const struct ts_solver_mode *m);
void cp_report_sweep(struct cp_report *r, const struct ts_solver_sweep *s);

/* Sets *ret to the progress, for the status of the run. Any thread may call it. */
void cp_report_figures(void *ctx, struct ts_run_figures *ret);

/* Callback of struct ts_engine_conf: adds the nonzeros of a processed shard. */
void cp_report_count(void *ctx, uint64_t nnz);

/* Ends progress, after the last sweep or a failure. */
void cp_report_end(struct cp_report *r);

/* Begin and end the progress "writing factors", before and after the factors of a run of one model
 * are written. */
void cp_report_write(struct cp_report *r);
void cp_report_written(struct cp_report *r);

/* Prints the last line, or the event "done". out: directory of the factors; NULL: none are
 * written. */
void cp_report_done(const struct cp_report *r, const struct ts_solver_result *res, const char *out,
                    uint64_t total_ns);

/* Prints the event "stopped" if --json is given; otherwise the command's message reports the stop.
 * The run was stopped by `by`; --resume `resume` continues it at `sweep` (from 1) and `mode` (from
 * 0). resume NULL: nothing was saved. */
void cp_report_stopped(struct cp_report *r, const char *by, const char *resume, uint32_t sweep,
                       uint32_t mode, uint64_t total_ns);

#endif
