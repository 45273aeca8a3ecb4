/* SPDX-License-Identifier: BSD-3-Clause */
/* api_run.h - a run of ts_cp or of ts_cp_several: a listener of engine/run.h.
 *
 *     rc = ts_api_run_begin(&run, err);
 *     if (rc == 0) {
 *         rc = ts_run_alone(&run.run, err);  (or with others by cpd/solver/solver_group.h)
 *         rc = ts_api_run_end(&run, rc, &model, &result, err);
 *     }
 *     ts_api_run_close(&run);
 *
 *   owner    the caller owns the struct, and sets the members of the first part; the run points
 *            into it, so that it stays where it is
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
    struct ts_session *session; /* its engine's `be` is that of this model */
    ts_cp_conf conf;            /* the result of ts_api_run_conf */
    const struct ts_api *api;
    /* for one of several models, instead of `sweep` of conf; may be NULL */
    ts_several_sweep_fn *sweep;
    void *ctx;
    uint32_t number; /* number of this model */
    /* for one of several models that are written; otherwise NULL */
    const struct ts_run_place *place;
    int timed_out; /* max_seconds were over */
    int enough;    /* the function of sweeps wants no more of them */

    struct ts_resume from; /* file NULL: the run starts anew */
    struct ts_spec spec;
    struct ts_model *start;
    struct ts_api_record *record; /* NULL: nothing is written */
    struct ts_run run;
    /* passes of a sweep before each mode, and of a whole sweep */
    uint32_t passes[TS_MAX_ORDER + 1];
    _Atomic uint64_t sweep_start_ns, last_sweep_ns; /* last: 0: there was none */

    /* results, when the run is over */
    struct ts_kruskal *model;
    ts_cp_result result;
};

/* The caller's conf of a run on the tensor, with defaults for members that are not set. given NULL:
 * none is set. */
int ts_api_run_conf(const ts_cp_conf *given, const struct ts_tensor *t, ts_cp_conf *ret,
                    struct ts_err *err);

/* The specification of the run and of each mode. TS_EARG if it is not possible. */
int ts_api_run_spec(const ts_cp_conf *conf, const struct ts_tensor *t, struct ts_spec *ret,
                    struct ts_err *err);

/* Sets r->spec. Whether the session was opened for what the run takes. */
int ts_api_run_allowed(struct ts_api_run *r, struct ts_err *err);

/* Checks whether the run could be resumed from the state in conf.out, if there is one. Uses the
 * conf of the session alone. */
int ts_api_run_check(struct ts_api_run *r, const struct ts_tensor *t, struct ts_err *err);

/* A model of this tensor that was written, with the rows and the precision that one in memory has.
 * npy: of its .npy files, which become its memory, and have both. */
int ts_api_run_load(const struct ts_tensor *t, const char *dir, int npy,
                    enum ts_precision precision, const volatile int *stop, struct ts_kruskal **ret,
                    struct ts_err *err);

/* Everything before the first product. On failure nothing is under way, and only close is
 * allowed. */
int ts_api_run_begin(struct ts_api_run *r, struct ts_err *err);

/* Ends a run. rc: its result so far. With 0 its model is taken, and written if asked for.
 * Otherwise, or if that fails, the message says which state is kept. After such a
 * failure the session is of no use. */
int ts_api_run_end(struct ts_api_run *r, int rc, struct ts_kruskal **ret, ts_cp_result *result,
                   struct ts_err *err);

void ts_api_run_close(struct ts_api_run *r);

/* ---- the time that runs may take: a thread that sets the stop flag ---- */

struct ts_api_timer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    volatile int *stop;
    uint64_t until_ns;
    int running, over; /* over: there is nothing to stop any more */
    int rang;
};

/* t is all zeros. seconds: 0: no limit. */
int ts_api_timer_start(struct ts_api_timer *t, double seconds, volatile int *stop,
                       struct ts_err *err);

/* Whether the time was over: then the sentence of a stop says so. May be called again. */
int ts_api_timer_end(struct ts_api_timer *t, int rc, struct ts_err *err);

#endif
