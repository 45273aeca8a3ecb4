/* SPDX-License-Identifier: BSD-3-Clause */
/* api_record.h - the options of a library run, with the names of tstream cp, so that all programs
 * can read them: in run.json, status.json, states, and the table of several models.
 *
 *   owner    the caller owns the results, which point into the confs
 *   threads  any
 *   errors   0 or a negative ts_code
 */
#ifndef TS_API_API_RECORD_H
#define TS_API_API_RECORD_H

#include "api/api_session.h"
#include "base/opt.h"
#include "cpd/spec/spec.h"
#include "cpd/state/state.h"
#include "engine/run_record.h"

/* The options of a run, as the library writes them to files. out: the directory of the result;
 * resumed: 1 if the run continues from a state in this directory. */
struct ts_api_record;
int ts_api_record_new(const struct ts_tensor *t, const ts_session_conf *session,
                      const ts_cp_conf *conf, const struct ts_spec *spec, const char *out,
                      int resumed, struct ts_api_record **ret, struct ts_err *err);
struct ts_run_who ts_api_record_who(const struct ts_api_record *r); /* r NULL: without options */
void ts_api_record_free(struct ts_api_record *r);                   /* NULL is fine */

/* Makes the text of the options in a state or in models.run, with the names of `tstream cp`, so
 * that tstream can resume the run. n_ranks: 1, or the number of ranks of several models, with
 * `restarts` models each; restarts 0: one model. The caller frees *ret. */
int ts_api_options_text(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_spec *spec, const uint32_t *ranks,
                        uint32_t n_ranks, uint32_t restarts, char **ret, uint64_t *bytes,
                        struct ts_err *err);

/* Returns TS_EARG if a state that tstream cp saved has a setting that the library lacks, with a
 * value other than the default. */
int ts_api_record_lacks(const struct ts_state *s, const char *dir, struct ts_err *err);

/* Returns the nanoseconds between the saving of two states; 0: a state is saved only if the run
 * ends early. */
uint64_t ts_api_every_ns(const ts_cp_conf *conf);

/* Writes models.json, models.tsv and the links to best models into `dir`, after all models are
 * done. */
struct ts_atomic_dir;
struct ts_models_table;
int ts_api_models_write(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_spec *spec,
                        const struct ts_models_table *table, const struct ts_atomic_dir *dir,
                        int resumed, struct ts_err *err);

#endif
