/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_constraint.h - the options of tstream cp that demand something of factors, read into one
 * table.
 *
 *   errors   0 or TS_EARG
 */
#ifndef TS_TOOLS_CP_CONSTRAINT_H
#define TS_TOOLS_CP_CONSTRAINT_H

#include "tools/cp/tstream_cp.h"

/* args->spec and n_named by the strings of the options. */
int cp_constraint_parse(struct cp_args *args, struct ts_err *err);

/* Whether options make up a run, by themselves; they were parsed. */
int cp_constraint_check(const struct cp_args *args, struct ts_err *err);

/* Whether they are those of a state, as its other sections have it. */
int cp_constraint_same(const char *file, const struct cp_args *args, const struct ts_state *s,
                       struct ts_err *err);

/* A sentence on what is asked that may not do what one thinks of this tensor, or "". */
void cp_constraint_note(const struct cp_args *args, const struct ts_tensor *t, char *ret,
                        size_t room);

/* Whether neighbours of a mode are to be alike whose labels are in no order, and a sentence about
 * it. */
int cp_constraint_smooth_note(const struct cp_args *args, const struct ts_tensor *t, uint32_t mode,
                              char *ret, size_t room);

#endif
