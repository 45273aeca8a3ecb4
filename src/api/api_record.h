/* SPDX-License-Identifier: BSD-3-Clause */
/* api_record.h - what a run of the library leaves beside its factors, as tstream cp does: run.json, and
 * status.json as long as it runs.
 *
 * Options in it have the names that tstream cp has for them, so that one reader is enough.
 *
 *   owner    the object owns copies, and from start to hide a thread that writes status.json once a second
 *   threads  one
 *   errors   0 or a negative ts_code. A status that cannot be written is none
 */
#ifndef TS_API_API_RECORD_H
#define TS_API_API_RECORD_H

#include "api/api_session.h"
#include "cpd/als.h"
#include "cpd/constraint.h"
#include "cpd/state.h"
#include "model/model_write.h"

struct ts_api_record;

/* Which of several models in one directory a run computes. */
struct ts_api_place {
    const char *out;     /* the directory of all, as the caller named it */
    const char *partial; /* where they are until all are done */
    uint32_t number, n;  /* the model, from 1, and how many there are */
};

/* A run as conf says, with the constraint of each mode, that saves states as often. from: the state that it
 * goes on from, or NULL. place: NULL: it is the only model. */
int ts_api_record_new(const ts_session *s, const ts_cp_conf *conf,
                      const struct ts_constraint *constraint, uint64_t every_ns,
                      const struct ts_state *from, const struct ts_api_place *place,
                      struct ts_api_record **ret, struct ts_err *err);
void ts_api_record_free(struct ts_api_record *r); /* after end; NULL is fine */

/* The run begins, or of several at once the one before it is over; `partial` is where the status lies. at_once: so many are under
 * way, 0: this one alone. */
void ts_api_record_start(struct ts_api_record *r, const char *partial, uint32_t at_once);

void ts_api_record_at_once(struct ts_api_record *r, uint32_t n);
void ts_api_record_mode(struct ts_api_record *r, uint32_t mode); /* over, from 0; not the last */
void ts_api_record_sweep(struct ts_api_record *r, const struct ts_als_sweep *s);
void ts_api_record_saved(struct ts_api_record *r);

/* Puts run.json to the factors, or beside the state of a run that was stopped. result: NULL without one. */
int ts_api_record_add(const struct ts_api_record *r, struct ts_model_out *out, const char *ended,
                      const struct ts_als_result *result, struct ts_err *err);

/* No status any more: before the directory gets its name, or is cleared. */
void ts_api_record_hide(struct ts_api_record *r);

/* The run is over; where its directory is still there its status says so. why: NULL: it has a result. */
void ts_api_record_end(struct ts_api_record *r, const struct ts_err *why);

/* What a state or models.run remembers of runs, by the names that `tstream cp` has for it: so that goes on from it. n_ranks: 1, or
 * of several models, which have `restarts` of each rank; restarts 0: of one model. *ret is to be freed. */
int ts_api_options_text(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_constraint *constraint,
                        const uint32_t *ranks, uint32_t n_ranks, uint32_t restarts, char **ret,
                        uint64_t *bytes, struct ts_err *err);

/* Nanoseconds between two states; 0: one when the run ends early. */
uint64_t ts_api_every_ns(const ts_cp_conf *conf);

/* models.json, models.tsv and the links of several models that are done, in `dir`. */
struct ts_atomic_dir;
struct ts_models_table;
int ts_api_models_write(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_constraint *constraint,
                        const struct ts_models_table *table, const struct ts_atomic_dir *dir,
                        int resumed, struct ts_err *err);

#endif
