/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_resume.h - takes the options of a resumed run from its state (cpd/state/resume.h), and
 * adds to messages how to resume a run.
 *
 *   owner    options may point into the state, which must stay open
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_TSTREAM_RESUME_H
#define TS_TOOLS_TSTREAM_RESUME_H

#include "api/tools.h"

/* Sets all options as the state s has them, as if they had been typed. Only the options of s are
 * read. file: the name of the state's file, for messages. */
int tstream_resume_all(const char *file, const struct ts_state *s, const struct ts_cmd *cmd,
                       void *args, struct ts_err *err);

/* Sets the options that were not typed to those of the state of the run in `dir`. Bit i of
 * `given`: option i was typed. If a resumed run cannot change a typed option, it must equal that
 * of the state. several: the run has several models. */
int tstream_resume_options(const char *file, const char *dir, const struct ts_state *s, int several,
                           const struct ts_cmd *cmd, uint64_t given, void *args,
                           struct ts_err *err);

/* Returns the path of the tensor when the run began. */
const char *tstream_resume_tensor(const struct ts_state *s);

/* Writes the options that a state records, as text for struct ts_checkpoint_conf. The caller frees
 * *ret. */
int tstream_resume_record(const struct ts_cmd *cmd, const void *args, int several,
                          const char *tensor, char **ret, uint64_t *bytes, struct ts_err *err);

/* The quotation mark that a shell needs on both sides of the name of a directory: "" or "'". */
const char *tstream_resume_quote(const char *dir);

/* Adds to a message how to resume the run from what it saved in dir. */
void tstream_resume_hint(const struct ts_run_outcome *o, const char *dir, struct ts_err *err);

#endif
