/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint.h - saves where a run is: now and then beside computing, and when it ends early.
 *
 * Two generations, DIR/state.0 and DIR/state.1, are written in turn, each whole or not at all and
 * on disk before it has its name; so whatever happens there is one to go on from. A run that made
 * all its sweeps has DIR/state beside them.
 *
 * Where there is memory for it the state is copied between two modes and a thread writes the copy;
 * else it is written from where the factors lie, and computing waits. Either way at most a
 * hundredth of the time goes into it: the next one is due after `every_ns`, and no sooner than 100
 * times what this one took from those who compute.
 *
 *   owner    the caller owns what the conf points to, until free
 *   units    bytes, nanoseconds
 *   threads  one calls
 *   errors   a state that cannot be written now and then is told to `warn`: the one before it
 *            stays, and the run goes on. 0 or a negative ts_code otherwise
 */
#ifndef TS_CPD_CHECKPOINT_H
#define TS_CPD_CHECKPOINT_H

#include <stdint.h>

#include "cpd/state/state.h"

#define TS_STATE_NAME   "state"
#define TS_STATE_NAME_0 "state.0"
#define TS_STATE_NAME_1 "state.1"

struct ts_checkpoint_conf {
    int dir;           /* an open directory, */
    const char *where; /* and its path for sentences */
    const struct ts_tensor *tensor;
    const struct ts_backend *backend;
    void *be;
    uint32_t rank;
    enum ts_precision precision;
    const struct ts_spec *spec; /* copied; NULL: least squares of all cells */
    int accelerate;             /* the run is accelerated */
    uint64_t every_ns;          /* 0: only when the run ends early */
    uint32_t share;             /* of the time one part in so many may go into states; 0: 100 */
    int copy;                   /* there is memory for ts_checkpoint_bytes */
    const char *options;        /* as in struct ts_state; copied */
    uint64_t options_bytes;
    /* where the run goes on from, for its history; NULL: from its start */
    const struct ts_state *from;
    int from_here; /* and that lies in this directory */
    void (*warn)(void *ctx,
                 const struct ts_err *err); /* from the thread that calls; NULL: nobody asks */
    void (*saved)(void *ctx);               /* a state is on disk; likewise */
    void *ctx;
};

struct ts_checkpoint;

/* What a copy takes of memory, and one state of disk, of which up to three are there at a time.
 * spec may be NULL. method_bytes: what the method keeps (`kept` of struct ts_method_bytes). */
uint64_t ts_checkpoint_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             const struct ts_spec *spec, uint64_t method_bytes);
uint64_t ts_checkpoint_disk(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                            const struct ts_spec *spec, int accelerate);

int ts_checkpoint_new(const struct ts_checkpoint_conf *conf, struct ts_checkpoint **ret,
                      struct ts_err *err);
/* NULL is fine; waits for what is being written */
void ts_checkpoint_free(struct ts_checkpoint *c);

/* ---- for the solver (solver.c); of *s it fills sweep, mode, flags, gram, lambda, part, size and
 * what an accelerated run adds ---- */

/* A sweep is over. The figures are kept where a mode has a constraint. */
int ts_checkpoint_sweep(struct ts_checkpoint *c, double fit, uint64_t total_ns,
                        const struct ts_disk_figures *figures, struct ts_err *err);

/* Whether one is due, and begins to save it; since_ns: from when on (base/clock.h) the run has
 * waited for that. */
int ts_checkpoint_due(struct ts_checkpoint *c);
void ts_checkpoint_take(struct ts_checkpoint *c, struct ts_state *s, uint64_t since_ns);

/* Saves it at once, because the run ends here; a failure is told to `warn`. */
void ts_checkpoint_save(struct ts_checkpoint *c, struct ts_state *s);

/* The run made all its sweeps. Its state is saved as DIR/state, unless every_ns is 0. */
void ts_checkpoint_end(struct ts_checkpoint *c, struct ts_state *s);

/* The state at the end refers to it: it becomes the checkpoint's. */
struct ts_accelerate;
void ts_checkpoint_keep(struct ts_checkpoint *c, struct ts_accelerate *a);

/* The same of the best factors, which the caller has put into the backend. */
struct ts_best;
void ts_checkpoint_keep_best(struct ts_checkpoint *c, struct ts_best *b);

/* The same of moments, the memory of ts_bigmem_new. */
void ts_checkpoint_keep_moments(struct ts_checkpoint *c, void *memory, uint64_t bytes);

/* ---- for whoever runs it ---- */

/* The run made all its sweeps, and its result could not be written: saves what ts_checkpoint_end
 * did not. */
void ts_checkpoint_rescue(struct ts_checkpoint *c);

/* Where the last state on disk is: 1 and the sweep (from 1) and mode (from 0) that come next in it,
 * or 0. */
int ts_checkpoint_last(const struct ts_checkpoint *c, uint32_t *sweep, uint32_t *mode);

#endif
