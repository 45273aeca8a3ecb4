/* SPDX-License-Identifier: BSD-3-Clause */
/* api_run.h - a run of ts_cp or of ts_cp_several, which is a listener of engine/run.h.
 *
 *     rc = ts_api_run_begin(&run, err);
 *     if (rc == 0) {
 *         rc = ts_run_alone(&run.run, err);  (or with others by cpd/solver/solver_group.h)
 *         rc = ts_api_run_end(&run, rc, &model, &result, err);
 *     }
 *     ts_api_run_close(&run);
 *
 *   owner    the caller owns the struct, and sets the members of the first part; the run points
 *            into the struct, so it must not move
 *   threads  one, that of the session
 *   errors   0 or a negative ts_code
 */
#ifndef TS_API_API_RUN_H
#define TS_API_API_RUN_H

#include "api/api_record.h"
#include "api/api_session.h"
#include "engine/run.h"
#include "model/kruskal.h"

struct ts_api_run {
    struct ts_session *session; /* session->be is the backend's data of this model */
    ts_cp_conf conf;            /* the caller's settings after ts_api_run_conf */
    const struct ts_api *api;
    /* called after a sweep of one of several models, instead of `sweep` of conf; may be NULL */
    ts_several_sweep_fn *sweep;
    void *ctx;
    uint32_t number; /* number of this model among several models, from 0 */
    /* the model's directory among those of several models; NULL: one model, or none is written */
    const struct ts_run_place *place;
    int timed_out; /* 1: max_seconds have passed */
    int enough;    /* 1: the caller's sweep function wants no more sweeps */

    /* the state to resume from; its member `file` is NULL if the run begins anew */
    struct ts_resume from;
    struct ts_spec spec;
    struct ts_model *start;
    /* options for the record of the run; NULL: no files are written */
    struct ts_api_record *record;
    struct ts_run run;
    /* number of passes over the tensor in a sweep before each mode, and in a whole sweep */
    uint32_t passes[TS_MAX_ORDER + 1];
    /* sweep_start_ns: start of the current sweep; last_sweep_ns: time of the sweep before; 0: there
     * was none */
    _Atomic uint64_t sweep_start_ns, last_sweep_ns;

    /* results of the run, set at its end */
    struct ts_kruskal *model;
    ts_cp_result result;
};

/* Copies the caller's settings of a run on the tensor, and sets defaults for members that are 0.
 * given NULL: all members are 0. */
int ts_api_run_conf(const ts_cp_conf *given, const struct ts_tensor *t, ts_cp_conf *ret,
                    struct ts_err *err);

/* Makes the specification of the run, ret. Returns TS_EARG if the settings allow none. */
int ts_api_run_spec(const ts_cp_conf *conf, const struct ts_tensor *t, struct ts_spec *ret,
                    struct ts_err *err);

/* Sets r->spec, and checks that the session was opened with what the run needs, such as its
 * loss. */
int ts_api_run_allowed(struct ts_api_run *r, struct ts_err *err);

/* Checks whether the run could be resumed from the state in conf.out, if there is one. Uses only
 * the settings of the session, not its engine. */
int ts_api_run_check(struct ts_api_run *r, const struct ts_tensor *t, struct ts_err *err);

/* Reads a written model of this tensor, with the rows and precision that a run's model in memory
 * has. npy: maps its .npy files, which must have these rows and this precision. */
int ts_api_run_load(const struct ts_tensor *t, const char *dir, int npy,
                    enum ts_precision precision, const volatile int *stop, struct ts_kruskal **ret,
                    struct ts_err *err);

/* Does everything before the first product. After a failure no run has begun, and only
 * ts_api_run_close is allowed. */
int ts_api_run_begin(struct ts_api_run *r, struct ts_err *err);

/* Ends a run. rc: 0 or the error of the run so far. If it is 0, *ret gets the model, which is also
 * written to files on request. If rc is an error, or writing fails, the message names the state
 * that is kept, and the session cannot be used any more. */
int ts_api_run_end(struct ts_api_run *r, int rc, struct ts_kruskal **ret, ts_cp_result *result,
                   struct ts_err *err);

void ts_api_run_close(struct ts_api_run *r);

/* ---- the time limit of runs: a thread that sets the stop flag ---- */

struct ts_api_timer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    volatile int *stop;
    uint64_t until_ns;
    /* running: 1 if the thread was started; over: 1 if the runs have ended, so that the thread must
     * not stop them any more */
    int running, over;
    int rang;
};

/* Starts the thread of a time limit, which sets *stop after `seconds` seconds. t must be all
 * zeros. seconds 0: no limit. */
int ts_api_timer_start(struct ts_api_timer *t, double seconds, volatile int *stop,
                       struct ts_err *err);

/* Ends the thread. Returns 1 if the time limit stopped the runs; if rc is TS_ESTOP, the message in
 * *err then says so. May be called again. */
int ts_api_timer_end(struct ts_api_timer *t, int rc, struct ts_err *err);

#endif
