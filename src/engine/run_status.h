/* SPDX-License-Identifier: BSD-3-Clause */
/* run_status.h - X.cp.partial/status.json: how far a run is, for whoever looks from elsewhere.
 *
 * Written when the run starts, once a second by a thread of its own, and when the run ends in a way
 * that leaves the directory: replaced as a whole, so that it can be read at any moment. It is worth
 * no failure: where it cannot be written the run goes on. docs/outputs.md lists the members.
 *
 *   owner    the caller owns the struct, all zero before ts_run_status_start; what its first part
 *            points to must stay
 *   units    seconds; times of day are local, with the offset from UTC
 *   threads  one calls. Without a second thread the file stays as it was when the run started
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
#define TS_RUN_STATUS_SWEEPS 1000u /* the last ones that are told of */

/* How far the sweep under way is. */
struct ts_run_figures {
    uint64_t done, total; /* nonzeros */
    double per_s;
    int known;            /* what follows is */
    uint64_t left_ns;     /* of the sweep */
    uint64_t run_left_ns; /* of the run, the sweep included, if it makes all sweeps */
};

struct ts_run_status {
    const char *partial;       /* the directory it is written to; NULL: none is written */
    int in;                    /* the same as whoever writes it has it open; not closed here */
    const struct ts_opt *opts; /* of the run, by the names of tstream cp */
    const void *args;          /* of opts */
    const char *tensor, *out;
    uint32_t iters, order;
    /* of several models the one under way, from 1; 0: it is the only one */
    uint32_t model, n_models;
    /* so many are under way side by side, of which it is the first; 0: it alone */
    uint32_t at_once;
    void (*figures)(void *ctx, struct ts_run_figures *ret); /* from any thread */
    void *ctx;

    /* its own */
    int dir;               /* of partial; valid between start and stop */
    struct ts_file_id own; /* which directory that was, as another may have the name at the end */
    pthread_mutex_t lock;
    pthread_t thread; /* that writes the file, */
    pthread_cond_t wake;
    int writes, ends;     /* it was started; it is to end */
    const char *state;    /* "running", ... */
    int told;             /* the end was written, for whoever looks later */
    const char *sentence; /* why it failed, or NULL */
    char *tensor_path;
    time_t start, saved;  /* saved: when the last state was; 0: none */
    uint32_t sweep, mode; /* under way, from 1 */
    uint32_t n_sweeps;    /* of this run that are over; the last TS_RUN_STATUS_SWEEPS are kept, */
    struct {              /* sweep n at n % TS_RUN_STATUS_SWEEPS */
        uint32_t sweep;
        double fit, log_likelihood, seconds;
    } past[TS_RUN_STATUS_SWEEPS];
};

/* The run starts: sweep `sweep` (from 1) comes first. */
void ts_run_status_start(struct ts_run_status *s, uint32_t sweep);

/* Mode `mode` (from 1) of the sweep is under way. */
void ts_run_status_mode(struct ts_run_status *s, uint32_t mode);

/* A sweep is over, and the next one under way. log_likelihood: of a Poisson model, else NaN. */
void ts_run_status_sweep(struct ts_run_status *s, uint32_t sweep, double fit, double log_likelihood,
                         double seconds);

/* So many models are under way now. */
void ts_run_status_at_once(struct ts_run_status *s, uint32_t n);

/* The state of the run was saved now: it can go on from there. */
void ts_run_status_saved(struct ts_run_status *s);

/* The file is removed: before the directory gets its name, or is cleared. */
void ts_run_status_remove(struct ts_run_status *s);

/* The run is over: "stopped", "failed" with a sentence; NULL: done. Where the directory is still
 * there, the file says so. */
void ts_run_status_end(struct ts_run_status *s, const char *state, const char *sentence);

#endif
