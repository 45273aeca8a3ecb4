/* SPDX-License-Identifier: BSD-3-Clause */
/* run_status.h - X.cp.partial/status.json: the progress of a run, for other programs.
 *
 * The file is written when the run starts, once a second by a thread of its own, and at the end, if
 * the directory still exists. It is replaced as a whole, so it can be read at any time. If it
 * cannot be written, the run continues. docs/outputs.md lists the members.
 *
 *   owner    the caller owns the struct, which is all zero before ts_run_status_start. What its
 *            members before the private ones point to must stay valid
 *   units    seconds; times of day are local, with the offset from UTC
 *   threads  one thread calls. Without a second thread the file is written only at the start
 *   errors   none
 */
#ifndef TS_ENGINE_RUN_STATUS_H
#define TS_ENGINE_RUN_STATUS_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "base/files/open_dir.h"
#include "base/opt.h"

#define TS_RUN_STATUS_NAME   "status.json"
#define TS_RUN_STATUS_SWEEPS 1000u /* the file lists at most this many sweeps, the last ones */

/* The progress of the current sweep. */
struct ts_run_figures {
    uint64_t done, total; /* nonzeros computed so far, and in the whole sweep */
    double per_s;         /* nonzeros per second */
    int known;            /* 1: left_ns and run_left_ns are known */
    uint64_t left_ns;     /* estimated time to the end of the sweep */
    uint64_t run_left_ns; /* estimated time to the end of the run, if it makes all sweeps */
};

struct ts_run_status {
    const char *partial;       /* the directory of the file; NULL: no file is written */
    int in;                    /* the caller's descriptor of this directory; not closed here */
    const struct ts_opt *opts; /* the options of the run, with the names of tstream cp */
    const void *args;          /* the struct that opts refer to */
    const char *tensor, *out;
    uint32_t iters, order;
    /* number of the current model, from 1, and number of models; 0: there is only one */
    uint32_t model, n_models;
    /* number of models that are computed at the same time, this one being the first; 0: it is
     * computed alone */
    uint32_t at_once;
    /* fills in the progress; called from any thread */
    void (*figures)(void *ctx, struct ts_run_figures *ret);
    void *ctx;

    /* private members of run_status.c follow */
    int dir; /* descriptor of the directory `partial`; valid between start and end */
    /* identity of the directory `partial`: at the end, another directory may have its name */
    struct ts_file_id own;
    pthread_mutex_t lock;
    pthread_t thread; /* the thread that writes the file once a second */
    pthread_cond_t wake;
    int writes, ends;  /* writes: 1 if the thread was started; ends: 1 if the thread must end */
    const char *state; /* state of the run as the file shows it: "running", ... */
    /* 1: the file was written for the last time, and says how the run ended */
    int told;
    const char *sentence; /* the message of the failure, or NULL */
    char *tensor_path;
    /* start: time of the start; saved: time of the last state; 0: there is none */
    time_t start, saved;
    uint32_t sweep, mode; /* the current sweep and mode, from 1 */
    uint32_t n_sweeps;    /* number of finished sweeps of this run */
    /* the last TS_RUN_STATUS_SWEEPS sweeps: sweep number n is at n % TS_RUN_STATUS_SWEEPS */
    struct {
        uint32_t sweep;
        double fit, log_likelihood, seconds;
    } past[TS_RUN_STATUS_SWEEPS];
};

/* Begins the status of a run, whose first sweep has the number `sweep`, from 1. */
void ts_run_status_start(struct ts_run_status *s, uint32_t sweep);

/* Reports that mode `mode` (from 1) of the sweep begins. */
void ts_run_status_mode(struct ts_run_status *s, uint32_t mode);

/* Reports that a sweep has ended and the next one begins. log_likelihood: that of a Poisson model,
 * otherwise NaN. */
void ts_run_status_sweep(struct ts_run_status *s, uint32_t sweep, double fit, double log_likelihood,
                         double seconds);

/* Reports that from now on n models are computed at the same time. */
void ts_run_status_at_once(struct ts_run_status *s, uint32_t n);

/* Reports that a state of the run was saved now. */
void ts_run_status_saved(struct ts_run_status *s);

/* Removes status.json. To be called before its directory gets the name of the result, or is
 * cleared. */
void ts_run_status_remove(struct ts_run_status *s);

/* Ends the status of a run. state: "stopped", "failed" (with a message), or NULL if the run is
 * done. With a state, writes the file a last time, if the directory still exists. */
void ts_run_status_end(struct ts_run_status *s, const char *state, const char *sentence);

#endif
