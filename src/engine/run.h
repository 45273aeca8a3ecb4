/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - one run of a method in an open engine: start, sweeps, states, status, record, files.
 *
 *     rc = ts_run_begin(&run, &conf, err);
 *     if (rc == 0 && ts_run_is_under_way(&run)) {
 *         rc = ts_run_alone(&run, err);          (or with others by cpd/solver/solver_group.h)
 *         rc = ts_run_end(&run, rc, err);
 *     }
 *
 * The programs and the library are listeners: they receive events, and print or call back. The run
 * does the rest: cpd/solver/solver.h computes, cpd/state/checkpoint.h saves states,
 * engine/run_status.h writes status.json, and engine/run_record.h writes run.json.
 *
 *   owner    the caller owns the struct, which must not move, and what the conf points to, which
 *            must stay valid until the end
 *   threads  one thread calls; `figures` is also called from another thread
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
    /* Set if the run did not fail: the factors are still in the backend. weight and norm are freed
     * after the event. */
    struct ts_solver_result *result;
    int saved;            /* 1: a later run can resume from the state at `sweep` and `mode` */
    uint32_t sweep, mode; /* sweep (from 1) and mode (from 0) of that state */
    const char *partial;  /* the directory of the saved state; NULL: the run writes nothing */
    uint64_t total_ns;
    int started; /* 1: TS_RUN_STARTED came before this event */
};

enum ts_run_event_kind {
    TS_RUN_NOTE, /* a warning; the run continues */
    /* the directory of the run, if any, is open; starting factors are not written yet */
    TS_RUN_OPENED,
    TS_RUN_STARTED,  /* all files are open; computing begins */
    TS_RUN_COMPUTED, /* the starting factors were computed, in passes before the first sweep */
    TS_RUN_MODE,
    TS_RUN_SWEEP,
    TS_RUN_OVER, /* all sweeps are done */
    /* The files of the result are in place, or the run has failed after TS_RUN_OPENED. Only notes
     * may follow. ts_run_end returns what the listener returns. So does ts_run_begin, if the start
     * cannot be written or the method cannot start. The listener may extend the message in *err. */
    TS_RUN_ENDED
};

struct ts_run_event {
    enum ts_run_event_kind kind;
    const struct ts_err *warn;            /* TS_RUN_NOTE: the warning */
    const struct ts_solver_mode *mode;    /* TS_RUN_MODE: figures of the mode */
    const struct ts_solver_sweep *sweep;  /* TS_RUN_SWEEP: figures of the sweep */
    int rc;                               /* TS_RUN_OVER, TS_RUN_ENDED: the error; 0: none */
    const struct ts_run_outcome *outcome; /* TS_RUN_ENDED: how the run ended */
};

struct ts_run_listener {
    /* Receives the events. Its result matters for TS_RUN_ENDED alone. */
    int (*hear)(void *ctx, const struct ts_run_event *e, struct ts_err *err);
    /* returns what stopped the run, for the record of a run that was stopped */
    const char *(*stopped_by)(void *ctx);
    /* reports the progress for status.json; called from any thread */
    void (*figures)(void *ctx, struct ts_run_figures *ret);
    void *ctx;
};

/* What one model of a run of several models must know about the others. They share a directory. */
struct ts_run_place {
    const char *out; /* the directory of all models, as the user named it */
    /* the directory where all models are until they are done, with status.json */
    const char *partial;
    const struct ts_open_dir *in; /* `partial` as an open directory; NULL: nothing is written */
    uint32_t number, n;           /* number of this model, from 1, and number of models */
    /* number of models that are computed at the same time when this one begins; 0: it is computed
     * alone */
    uint32_t at_once;
    int beside; /* 1: status.json describes another model until ts_run_lead is called */
};

struct ts_run_conf {
    const struct ts_engine *engine;
    /* this model in the backend, with its factors: the result of ts_engine_model */
    void *be;
    const char *tensor; /* path of the tensor, as the user named it */
    /* The specification and settings of the solver. init.model has given starting factors.
     * whole_start: starting factors are written, too. ts_run_begin fills in tensor, backend, feed,
     * threads, callbacks, checkpoint and `from`. */
    struct ts_solver_conf method;
    const struct ts_resume *from; /* the state to resume from; NULL: the run begins anew */
    /* 1: the output replaces the directory from which `from` was read */
    int from_here;
    struct ts_run_given given; /* opens the given starting factors a second time */

    /* The files of the result. dir NULL: none. ts_run_begin sets shape, rank and threads. */
    struct ts_model_conf out;
    /* time between the saving of two states; 0: only one state, if the run ends early */
    uint64_t every_ns;
    const char *options; /* options that states record; lent for the call of ts_run_begin */
    uint64_t options_bytes;
    struct ts_run_who who;
    const struct ts_run_place *place; /* NULL: this is the only model */
    struct ts_run_listener listener;
};

struct ts_run {
    struct ts_run_conf conf;
    struct ts_solver *solver; /* NULL: no run is under way */
    struct ts_model_out *out;
    /* names of modes and labels of rows that are written with the result */
    struct ts_model_names *names;
    struct ts_checkpoint *checkpoint;
    struct ts_run_record record;
    struct ts_run_status status;
    char *partial;                  /* the directory of status.json */
    int has_status;                 /* 1: status.json describes this model */
    int saves_start;                /* 1: starting factors are written once they are computed */
    int started;                    /* 1: the listener got TS_RUN_STARTED */
    uint32_t next_sweep, next_mode; /* the sweep (from 1) and mode (from 0) that come next */
    uint64_t start_ns, sweeps_ns;   /* sweeps_ns: time of the sweeps so far */
};

/* Begins a run: does everything before the first product. After a failure the run holds nothing. If
 * the method cannot start and the listener returns 0, the result is 0, and no run is under way. */
int ts_run_begin(struct ts_run *run, const struct ts_run_conf *conf, struct ts_err *err);

static inline int ts_run_is_under_way(const struct ts_run *run)
{
    return run->solver != NULL;
}

/* Computes all sweeps of a run that shares no pass with others. */
int ts_run_alone(struct ts_run *run, struct ts_err *err);

/* Ends the run. rc: 0 or the error of the run so far; if it is 0, the files of the result are
 * written. The run holds nothing afterwards. */
int ts_run_end(struct ts_run *run, int rc, struct ts_err *err);

/* Whether the run has a state on disk. */
int ts_run_has_saved(const struct ts_run *run);

/* Makes status.json describe this model. at_once: number of models that are computed at the same
 * time; 0: this one is computed alone. */
void ts_run_lead(struct ts_run *run, uint32_t at_once);

/* Returns why a run that was not stopped ended, as its record says it. */
const char *ts_run_why(const struct ts_solver_result *result);

#endif
