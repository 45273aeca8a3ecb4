/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_resume.h - the options of a run that goes on (cpd/state/resume.h), and the words that say
 * how to.
 *
 *   owner    options may point into the state, which must stay
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_TSTREAM_RESUME_H
#define TS_TOOLS_TSTREAM_RESUME_H

#include "api/tools.h"

/* All options of the state s, of which nothing but its options counts, as if they had been typed.
 * file: where they are, for sentences. */
int tstream_resume_all(const char *file, const struct ts_state *s, const struct ts_cmd *cmd,
                       void *args, struct ts_err *err);

/* Those that make up the run of `dir` and were not given (bit i of `given`: option i) become those
 * of the state; one that was given and that a run cannot change must be the state's. several: the
 * run is of several models. */
int tstream_resume_options(const char *file, const char *dir, const struct ts_state *s, int several,
                           const struct ts_cmd *cmd, uint64_t given, void *args,
                           struct ts_err *err);

/* The tensor of the run: where it was. */
const char *tstream_resume_tensor(const struct ts_state *s);

/* What a state remembers of the command line, for struct ts_checkpoint_conf; *ret is to be
 * freed. */
int tstream_resume_record(const struct ts_cmd *cmd, const void *args, int several,
                          const char *tensor, char **ret, uint64_t *bytes, struct ts_err *err);

/* What a name stands between in a command line: "" or "'". */
const char *tstream_resume_quote(const char *dir);

/* Adds to a sentence how to go on from what a run has saved in dir. */
void tstream_resume_hint(const struct ts_run_outcome *o, const char *dir, struct ts_err *err);

#endif
