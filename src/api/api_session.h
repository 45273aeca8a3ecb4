/* SPDX-License-Identifier: BSD-3-Clause */
/* api_session.h - the inside of a session: api_session.c opens it, api_cp.c and api_several.c run
 * decompositions in it. Exact fits and scores (api_score.c) have an engine of their own. */
#ifndef TS_API_API_SESSION_H
#define TS_API_API_SESSION_H

#include <stdatomic.h>
#include <signal.h>

#include "api/api.h"
#include "base/trace.h"
#include "engine/engine.h"

struct ts_session {
    ts_session_conf conf;
    /* the session's own engine; not used if this is the session of one of several models */
    struct ts_engine own;
    /* the engine that is used: `own`, or that of the session which several models share */
    struct ts_engine *engine;
    void *be; /* the backend's data of this session's model: the result of ts_engine_model */
    struct ts_trace *trace; /* NULL: there is no trace */
    volatile int own_stop;  /* the stop flag if the caller gives no flag */
    volatile int *stop;
    int ended; /* 1: the session has failed, or was stopped */
    /* in the session that several models share: the model's session that reports progress within a
     * sweep */
    _Atomic(struct ts_session *) told;

    /* Progress of the run, for any thread. */
    /* number of the current sweep (from 1; 0 before a run), and of the current mode */
    atomic_uint_fast32_t sweep, mode;
    atomic_uint_fast64_t nnz; /* number of nonzeros of the current mode that are computed */
};

/* Opens a session. n_models: 0, or the number of models to compute side by side, with these ranks
 * instead of the rank of conf. engine->n_models is the number of models, from the first on, for
 * which there is enough memory. */
int ts_api_session_open(const ts_tensor *t, const ts_session_conf *conf, uint32_t n_models,
                        const uint32_t *ranks, const struct ts_api *a, ts_session **ret,
                        struct ts_err *err);

/* The first function checks the caller's configuration, the second makes that of the engine from
 * it, and the third passes the engine's warnings on to the caller. */
int ts_api_session_conf(const ts_session_conf *given, ts_session_conf *conf, struct ts_err *err);
struct ts_engine_conf ts_api_engine_conf(const ts_tensor *t, const ts_session_conf *c);
void ts_api_engine_note(const struct ts_api *a, const ts_session_conf *c, struct ts_engine *e);

/* Opens an engine for a pass over the known cells of the tensor on CPU cores, and calls `work` with
 * a configuration for it. want: its model, mode, and requested residuals and slices. */
struct ts_score_conf;
int ts_api_pass(const ts_tensor *t, const ts_session_conf *conf, const struct ts_score_conf *want,
                enum ts_precision precision, const struct ts_api *a,
                int (*work)(const struct ts_score_conf *c, void *ret, struct ts_err *err),
                void *ret, struct ts_err *err);

#include "stream/loss.h"

/* Whether `loss` is a TS_LOSS_... of tstream.h, or a result of ts_loss_named. */
static inline int ts_api_is_loss(int loss)
{
    return loss >= TS_LOSS_LEAST_SQUARES &&
           (loss <= TS_LOSS_POISSON || ts_loss_of(loss - TS_LOSS_POISSON) != NULL);
}

/* Returns TS_EARG unless the loss and the optimizer exist. */
int ts_api_check_loss(int loss, int optimizer, struct ts_err *err);

static inline int ts_api_gcp(int loss)
{
    return loss > TS_LOSS_POISSON ? loss - TS_LOSS_POISSON : TS_GCP_NONE;
}

#endif
