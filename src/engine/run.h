/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - one run of a method in an open engine: start, sweeps, states, status, record, files.
 *
 *     rc = ts_run_begin(&run, &conf, err);
 *     if (rc == 0 && ts_run_is_under_way(&run)) {
 *         rc = ts_run_alone(&run, err);          (or with others by cpd/solver/solver_group.h)
 *         rc = ts_run_end(&run, rc, err);
 *     }
 *
 * The programs and the library are listeners: they hear events, and print or call back. The run
 * does the rest. cpd/solver/solver.h computes; cpd/state/checkpoint.h saves states;
 * engine/run_status.h writes status.json, and engine/run_record.h run.json.
 *
 *   owner    the caller owns the struct, which must not move, and what the conf points to, which
 *            must stay until the end
 *   threads  one; `figures` is also called from another one
 *   errors   0 or a negative ts_code. A state that cannot be saved is a note
 *   bits     those of cpd/solver/solver.h
 */
#ifndef TS_ENGINE_RUN_H
#define TS_ENGINE_RUN_H

#include "cpd/solver/solver.h"
#include "cpd/state/resume.h"
#include "engine/engine.h"
#include "engine/run_record.h"
#include "engine/run_start.h"
#include "engine/run_status.h"
#include "model/model_write.h"

/* How a run ended. */
struct ts_run_outcome {
    /* Without a failure: the factors are still in the backend. weight and norm are freed behind. */
    struct ts_solver_result *result;
    int saved;            /* a later run can resume, from: */
    uint32_t sweep, mode; /* from 1, from 0 */
    const char *partial;  /* the directory of that state; NULL: the run writes nothing */
    uint64_t total_ns;
    int started; /* TS_RUN_STARTED came before */
};

enum ts_run_event_kind {
    TS_RUN_NOTE,     /* a warning: the run goes on */
    TS_RUN_OPENED,   /* its directory is open, if it has one; the start is not written yet */
    TS_RUN_STARTED,  /* all files are open; computing begins */
    TS_RUN_COMPUTED, /* the start was computed, in passes of its own */
    TS_RUN_MODE,
    TS_RUN_SWEEP,
    TS_RUN_OVER, /* no sweep follows */
    /* The files are in place, or the run has failed after TS_RUN_OPENED. Notes may follow, and
     * nothing else. ts_run_end returns what the listener returns; so does ts_run_begin, where the
     * start cannot be written or the method cannot start. The listener may add to the sentence of
     * *err. */
    TS_RUN_ENDED
};

struct ts_run_event {
    enum ts_run_event_kind kind;
    const struct ts_err *warn;           /* of a note */
    const struct ts_solver_mode *mode;   /* of a mode */
    const struct ts_solver_sweep *sweep; /* of a sweep */
    int rc; /* of what is over or has ended: why; 0: without a failure */
    const struct ts_run_outcome *outcome; /* of what has ended */
};

struct ts_run_listener {
    /* What it returns counts for TS_RUN_ENDED alone. */
    int (*hear)(void *ctx, const struct ts_run_event *e, struct ts_err *err);
    const char *(*stopped_by)(void *ctx); /* for the record of a run that was stopped */
    void (*figures)(void *ctx, struct ts_run_figures *ret); /* for the status; from any thread */
    void *ctx;
};

/* Which of several models in one directory a run computes. */
struct ts_run_place {
    const char *out;              /* the directory of all, as it was named */
    const char *partial;          /* where they are until all are done: the status lies there */
    const struct ts_open_dir *in; /* the same, open; NULL where nothing is written */
    uint32_t number, n;           /* the model, from 1, and how many there are */
    uint32_t at_once; /* so many are under way side by side when it begins; 0: this one alone */
    int beside;       /* the status is that of another model until ts_run_lead */
};

struct ts_run_conf {
    const struct ts_engine *engine;
    void *be;           /* the model of its backend: ts_engine_model */
    const char *tensor; /* its path, as it was named */
    /* What is computed. init.model is a given start; whole_start: the start is written, too.
     * ts_run_begin fills in tensor, backend, feed, threads, callbacks, checkpoint and `from`. */
    struct ts_solver_conf method;
    const struct ts_resume *from; /* resumes there; NULL: begins */
    int from_here;                /* what is written replaces what `from` is part of */
    struct ts_run_given given;    /* opens init.model a second time */

    /* dir NULL: nothing is written. Shape, rank and threads are filled in */
    struct ts_model_conf out;
    uint64_t every_ns;   /* between two states; 0: one when the run ends early */
    const char *options; /* that states remember; lent for the call of begin */
    uint64_t options_bytes;
    struct ts_run_who who;
    const struct ts_run_place *place; /* NULL: it is the only model */
    struct ts_run_listener listener;
};

struct ts_run {
    struct ts_run_conf conf;
    struct ts_solver *solver; /* NULL: not under way */
    struct ts_model_out *out;
    struct ts_checkpoint *checkpoint;
    struct ts_run_record record;
    struct ts_run_status status;
    char *partial;                  /* the directory of the status */
    int has_status;                 /* the status is that of this model */
    int saves_start;                /* once it was computed */
    int started;                    /* TS_RUN_STARTED was told */
    uint32_t next_sweep, next_mode; /* where it is: from 1, from 0 */
    uint64_t start_ns, sweeps_ns;   /* sweeps_ns: of its sweeps so far */
};

/* Everything before the first product. After a failure nothing is held. Where the method cannot
 * start and the listener returns 0, the answer is 0 and no run is under way. */
int ts_run_begin(struct ts_run *run, const struct ts_run_conf *conf, struct ts_err *err);

static inline int ts_run_is_under_way(const struct ts_run *run)
{
    return run->solver != NULL;
}

/* To its last sweep, without others beside it. */
int ts_run_alone(struct ts_run *run, struct ts_err *err);

/* rc: what the run came to. With 0 its files are written. Nothing is held afterwards. */
int ts_run_end(struct ts_run *run, int rc, struct ts_err *err);

/* Whether a state of it is on disk. */
int ts_run_has_saved(const struct ts_run *run);

/* From now on status.json describes this one of several models. at_once: how many are under way;
 * 0: this one alone. */
void ts_run_lead(struct ts_run *run, uint32_t at_once);

/* How a run ended that made all its sweeps, as its record has it. */
const char *ts_run_why(const struct ts_solver_result *result);

#endif
