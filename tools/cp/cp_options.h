/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_options.h - the options of tstream cp: whether they are possible together, and what follows
 * from them.
 *
 * given: bit k is option k of the table of the command, if it was typed.
 *
 *   threads  one
 *   errors   0 or TS_EARG
 */
#ifndef TS_TOOLS_CP_OPTIONS_H
#define TS_TOOLS_CP_OPTIONS_H

#include "tools/cp/tstream_cp.h"

/* --init is a word that it knows, or names a file. */
int cp_options_check_init(const struct cp_args *args, struct ts_err *err);

/* The rank of a model to start from, if no other is asked for. */
int cp_options_take_rank(const struct ts_cmd *cmd, uint64_t given, struct cp_args *args,
                         struct ts_err *err);

/* Options that were typed or come from a file, of a run of the tensor `name`. */
int cp_options_check(const struct ts_cmd *cmd, uint64_t given, struct cp_args *args,
                     const char *name, struct ts_err *err);

/* Whether --observed could be added to the options. */
int cp_options_may_observe(const struct cp_args *args);

#endif
