/* SPDX-License-Identifier: BSD-3-Clause */
/* status_file.h - X.cp.partial/status.json: how far a run of tstream cp is, for whoever looks from
 * elsewhere.
 *
 * Written when the run starts, once a second by the thread that watches (tool_watch.h), and when the run
 * ends in a way that leaves the directory: replaced as a whole, so that it can be read at any moment. It
 * is worth no failure: where it cannot be written the run goes on. docs/outputs.md lists the members.
 *
 *   owner    the caller owns the struct, all zero before status_file_start
 *   units    seconds; times of day are local, with the offset from UTC
 *   threads  one calls; the watching thread reads under the lock
 *   errors   none
 */
#ifndef TS_TOOLS_STATUS_FILE_H
#define TS_TOOLS_STATUS_FILE_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "tools/tool.h"

#define STATUS_FILE_NAME   "status.json"
#define STATUS_FILE_SWEEPS 1000u /* the last ones that are told of */

struct status_file {
    const char *partial; /* the directory it is written to; NULL: none is written */
    const struct ts_cmd *cmd;
    const void *args; /* of cmd */
    const char *tensor, *out;
    uint32_t iters, order;
    uint32_t model,
        n_models; /* of several models the one under way, from 1; 0: it is the only one */
    struct tool_progress *progress; /* of the sweep under way */

    /* its own */
    int dir; /* of partial; valid between start and stop */
    pthread_mutex_t lock;
    const char *state;    /* "running", ... */
    int told;             /* the end was written, for whoever looks later */
    const char *sentence; /* why it failed, or NULL */
    char *tensor_path;
    time_t start, saved;  /* saved: when the last state was; 0: none */
    uint32_t sweep, mode; /* under way, from 1 */
    uint32_t n_sweeps;    /* of this run that are over; the last STATUS_FILE_SWEEPS are kept, */
    struct {              /* sweep n at n % STATUS_FILE_SWEEPS */
        uint32_t sweep;
        double fit, seconds;
    } past[STATUS_FILE_SWEEPS];
};

/* The run starts: sweep `sweep` (from 1) comes first. */
void status_file_start(struct status_file *s, uint32_t sweep);

/* Mode `mode` (from 1) of the sweep is under way. */
void status_file_mode(struct status_file *s, uint32_t mode);

/* A sweep is over, and the next one under way. */
void status_file_sweep(struct status_file *s, uint32_t sweep, double fit, double seconds);

/* The state of the run was saved now: it can go on from there. */
void status_file_saved(struct status_file *s);

/* Nothing is written from now on, and the file is removed: before the directory gets its name, or
 * is cleared. */
void status_file_remove(struct status_file *s);

/* The run is over: "stopped", "failed" with a sentence. Where the directory is still there, it says so. */
void status_file_end(struct status_file *s, const char *state, const char *sentence);

/* "2026-11-22T03:30:00+01:00" */
void status_file_time(time_t t, char text[32]);

#endif
