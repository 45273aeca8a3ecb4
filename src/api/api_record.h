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

/* A run as conf says, with the constraint of each mode, that saves states as often. from: the state that it
 * goes on from, or NULL. */
int ts_api_record_new(const ts_session *s, const ts_cp_conf *conf,
                      const struct ts_constraint *constraint, uint64_t every_ns,
                      const struct ts_state *from, struct ts_api_record **ret, struct ts_err *err);
void ts_api_record_free(struct ts_api_record *r); /* after end; NULL is fine */

/* The run begins; `partial` is where the status lies. */
void ts_api_record_start(struct ts_api_record *r, const char *partial);

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

/* What is asked of the modes in one way, as an option says it; kind: an index of ts_api_constraints. */
#define TS_API_CONSTRAINTS      8
#define TS_API_CONSTRAINT_CHARS (TS_MAX_ORDER * 64)
extern const char *const ts_api_constraints[TS_API_CONSTRAINTS];
void ts_api_constraint_text(const struct ts_constraint *constraint, uint32_t order, int kind,
                            char ret[TS_API_CONSTRAINT_CHARS]);

#endif
