/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_constraint.h - parses the options of tstream cp that constrain factors into one table.
 *
 *   errors   0 or TS_EARG
 */
#ifndef TS_TOOLS_CP_CONSTRAINT_H
#define TS_TOOLS_CP_CONSTRAINT_H

#include "tools/cp/tstream_cp.h"

/* Sets args->spec and args->n_named from the texts of the options. */
int cp_constraint_parse(struct cp_args *args, struct ts_err *err);

/* Checks the parsed options of a run against each other, without a tensor. */
int cp_constraint_check(const struct cp_args *args, struct ts_err *err);

/* Checks that the constraints equal those of the state `s`, which are stored in sections other than
 * its options. file: name of the state for messages. */
int cp_constraint_same(const char *file, const struct cp_args *args, const struct ts_state *s,
                       struct ts_err *err);

/* Writes a sentence on settings that may not do what is expected with this tensor, or "". */
void cp_constraint_note(const struct cp_args *args, const struct ts_tensor *t, char *ret,
                        size_t room);

/* Whether --smooth is given for a mode whose labels are in no order. If so, writes a sentence about
 * it. */
int cp_constraint_smooth_note(const struct cp_args *args, const struct ts_tensor *t, uint32_t mode,
                              char *ret, size_t room);

#endif
