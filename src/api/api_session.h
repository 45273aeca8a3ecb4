/* SPDX-License-Identifier: BSD-3-Clause */
/* api_session.h - a session from the inside: api_session.c opens it, api_cp.c and api_several.c run
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
    struct ts_engine own; /* open in a session that was opened; of one of several models never */
    struct ts_engine *engine; /* own, or that of the session of all models */
    void *be;                 /* this model in the backend: the result of ts_engine_model */
    struct ts_trace *trace;   /* NULL: none is wanted */
    volatile int own_stop;    /* used as stop flag if the caller has none */
    volatile int *stop;
    int ended; /* the session has failed, or was stopped */
    _Atomic(struct ts_session *)
        told; /* for one of several models: also gets progress within a sweep */

    /* Progress of the run, for any thread: sweep (from 1; 0: none) and mode under way. */
    atomic_uint_fast32_t sweep, mode; /* under way; sweep from 1, 0 before a run */
    atomic_uint_fast64_t nnz;         /* nonzeros of the mode that are computed */
};

/* n_models: 0, or the number of models that are wanted side by side, with these ranks instead of
 * the rank of conf. engine->n_models says for how many of them, from the first on, memory
 * suffices. */
int ts_api_session_open(const ts_tensor *t, const ts_session_conf *conf, uint32_t n_models,
                        const uint32_t *ranks, const struct ts_api *a, ts_session **ret,
                        struct ts_err *err);

/* What a caller said of a session, checked; an engine as it says; and what that has to say. */
int ts_api_session_conf(const ts_session_conf *given, ts_session_conf *conf, struct ts_err *err);
struct ts_engine_conf ts_api_engine_conf(const ts_tensor *t, const ts_session_conf *c);
void ts_api_engine_note(const struct ts_api *a, const ts_session_conf *c, struct ts_engine *e);

/* A pass over the known cells on CPU cores, for `want` (model, mode, top and slices of it): opens
 * an engine, and calls work with all that it needs. */
struct ts_score_conf;
int ts_api_pass(const ts_tensor *t, const ts_session_conf *conf, const struct ts_score_conf *want,
                enum ts_precision precision, const struct ts_api *a,
                int (*work)(const struct ts_score_conf *c, void *ret, struct ts_err *err),
                void *ret, struct ts_err *err);

#include "stream/loss.h"

/* Whether tstream.h has this TS_LOSS_..., or ts_loss_named returns it. */
static inline int ts_api_is_loss(int loss)
{
    return loss >= TS_LOSS_LEAST_SQUARES &&
           (loss <= TS_LOSS_POISSON || ts_loss_of(loss - TS_LOSS_POISSON) != NULL);
}

/* Whether there are such a loss and such an optimizer. */
int ts_api_check_loss(int loss, int optimizer, struct ts_err *err);

static inline int ts_api_gcp(int loss)
{
    return loss > TS_LOSS_POISSON ? loss - TS_LOSS_POISSON : TS_GCP_NONE;
}

#endif
