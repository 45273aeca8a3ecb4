/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_resume.h - the state that tstream cp goes on from, and the words that say how to.
 *
 *   owner    the struct owns the state and its strings, which options may point into, until close
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_TSTREAM_RESUME_H
#define TS_TOOLS_TSTREAM_RESUME_H

#include "base/opt.h"
#include "cpd/checkpoint.h"

struct tstream_resume {
    char *dir; /* X.cp */
    struct ts_state_file *file;
    int of_result;         /* the state is that of X.cp: what X.cp.partial may hold is older */
    struct ts_err damaged; /* code not 0: what is wrong with a later state than this one */
};

/* `name` is X.cp or X.cp.partial: the newest whole state of X.cp.partial, or that of X.cp when it was
 * saved later, or there is none in X.cp.partial. */
int tstream_resume_open(const char *name, struct tstream_resume *ret, struct ts_err *err);
void tstream_resume_close(struct tstream_resume *r);

/* Options that make up the run and were not given (bit i of `given`: option i) become those of the state;
 * one that was given and that a run cannot change must be the state's. */
int tstream_resume_options(const struct tstream_resume *r, const struct ts_cmd *cmd, uint64_t given,
                           void *args, struct ts_err *err);

/* The tensor of the run: where it was. */
const char *tstream_resume_tensor(const struct tstream_resume *r);

/* What a state remembers of the command line, for struct ts_checkpoint_conf; *ret is to be freed. */
int tstream_resume_record(const struct ts_cmd *cmd, const void *args, const char *tensor,
                          char **ret, uint64_t *bytes, struct ts_err *err);

/* Adds to a sentence how to go on from what is saved in dir; c may be NULL. */
void tstream_resume_hint(const struct ts_checkpoint *c, const char *dir, struct ts_err *err);

#endif
