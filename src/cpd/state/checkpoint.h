/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint.h - saves states of a run: regularly while it computes, and when it ends early.
 *
 * Two files, DIR/state.0 and DIR/state.1, are written in turn. A file is whole and on disk before
 * it gets its name, so a run can always be resumed from one of them. A run that made all its sweeps
 * has DIR/state too.
 *
 * If there is memory for it, the state is copied between two modes, and a thread writes the copy.
 * Otherwise the computation waits while the state is written from the factors. In both cases at
 * most a hundredth of the time is spent on states: the next state is due after `every_ns`, but not
 * before 100 times the time that the last one took from the computation.
 *
 *   owner    the caller owns what the conf points to, until free
 *   units    bytes, nanoseconds
 *   threads  one thread calls
 *   errors   if a regular state cannot be written, `warn` is called, the previous state remains,
 *            and the run continues. Otherwise 0 or a negative ts_code
 */
#ifndef TS_CPD_CHECKPOINT_H
#define TS_CPD_CHECKPOINT_H

#include <stdint.h>

#include "cpd/state/state.h"

#define TS_STATE_NAME   "state"
#define TS_STATE_NAME_0 "state.0"
#define TS_STATE_NAME_1 "state.1"

struct ts_checkpoint_conf {
    int dir;           /* descriptor of the directory where states are written */
    const char *where; /* the path of `dir`, for messages */
    const struct ts_tensor *tensor;
    const struct ts_backend *backend;
    void *be;
    uint32_t rank;
    enum ts_precision precision;
    const struct ts_spec *spec; /* copied; NULL: least squares of all cells */
    int accelerate;             /* 1: the run is accelerated */
    /* time between the saving of two states; 0: a state is written only if the run ends early */
    uint64_t every_ns;
    uint32_t share;      /* states may take 1 / `share` of the run time; 0: 1 / 100 */
    int copy;            /* 1: there are ts_checkpoint_bytes of memory for a copy of the state */
    const char *options; /* options of the run, as in struct ts_state; copied */
    uint64_t options_bytes;
    /* the state that the run was resumed from, for its history; NULL: the run began anew */
    const struct ts_state *from;
    int from_here; /* 1: `from` was read from this directory */
    /* called when a state cannot be written, by the thread that calls checkpoint functions; or
     * NULL */
    void (*warn)(void *ctx, const struct ts_err *err);
    /* called when a state is on disk, by the thread that calls checkpoint functions; or NULL */
    void (*saved)(void *ctx);
    void *ctx;
};

struct ts_checkpoint;

/* ts_checkpoint_bytes: memory for a copy of the state. ts_checkpoint_disk: disk space of one state;
 * up to three states exist at a time. spec may be NULL. method_bytes: memory that the method keeps
 * (`kept` of struct ts_method_bytes). */
uint64_t ts_checkpoint_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             const struct ts_spec *spec, uint64_t method_bytes);
uint64_t ts_checkpoint_disk(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                            const struct ts_spec *spec, int accelerate);

int ts_checkpoint_new(const struct ts_checkpoint_conf *conf, struct ts_checkpoint **ret,
                      struct ts_err *err);
/* Waits until the state that is being written is on disk. c may be NULL. */
void ts_checkpoint_free(struct ts_checkpoint *c);

/* ---- for the solver (solver.c). In the state *s it sets sweep, mode, flags, gram, lambda, part,
 * size and the members of an accelerated run ---- */

/* Records a finished sweep. Its figures are kept if a mode has a constraint. */
int ts_checkpoint_sweep(struct ts_checkpoint *c, double fit, uint64_t total_ns,
                        const struct ts_disk_figures *figures, struct ts_err *err);

/* ts_checkpoint_due returns whether a state is due, and ts_checkpoint_take begins to save it.
 * since_ns: the time (base/clock.h) since which the computation has waited for it. */
int ts_checkpoint_due(struct ts_checkpoint *c);
void ts_checkpoint_take(struct ts_checkpoint *c, struct ts_state *s, uint64_t since_ns);

/* Saves a state at once, because the run ends here. `warn` is called if this fails. */
void ts_checkpoint_save(struct ts_checkpoint *c, struct ts_state *s);

/* Saves the state of a run that made all its sweeps as DIR/state, unless every_ns is 0. */
void ts_checkpoint_end(struct ts_checkpoint *c, struct ts_state *s);

/* Takes over the data of the extrapolation: the checkpoint owns them from now on, because the state
 * at the end refers to them. */
struct ts_accelerate;
void ts_checkpoint_keep(struct ts_checkpoint *c, struct ts_accelerate *a);

/* Takes over the best factors: the checkpoint owns them from now on, because the state at the end
 * refers to them. The caller has put them into the backend. */
struct ts_best;
void ts_checkpoint_keep_best(struct ts_checkpoint *c, struct ts_best *b);

/* Takes over the moments (matrices that a method keeps): the checkpoint owns them from now on,
 * because the state at the end refers to them. memory: the result of ts_bigmem_new. */
void ts_checkpoint_keep_moments(struct ts_checkpoint *c, void *memory, uint64_t bytes);

/* ---- for the caller of the run (engine/run.c) ---- */

/* Saves the state of a run that made all its sweeps, if ts_checkpoint_end did not. To be called
 * when the result could not be written. */
void ts_checkpoint_rescue(struct ts_checkpoint *c);

/* Returns 1 and the sweep (from 1) and mode (from 0) that come next in the last state on disk.
 * Returns 0 if there is none. */
int ts_checkpoint_last(const struct ts_checkpoint *c, uint32_t *sweep, uint32_t *mode);

#endif
