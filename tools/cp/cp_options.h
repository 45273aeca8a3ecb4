/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_options.h - checks the options of tstream cp against each other, and sets members that follow
 * from them.
 *
 * Argument given: bit k is 1 if option k of the command's table was typed.
 *
 *   threads  one
 *   errors   0 or TS_EARG
 */
#ifndef TS_TOOLS_CP_OPTIONS_H
#define TS_TOOLS_CP_OPTIONS_H

#include "tools/cp/tstream_cp.h"

/* Checks that the value of --init is one of the option's words, or names a file. */
int cp_options_check_init(const struct cp_args *args, struct ts_err *err);

/* Sets the rank to that of the model with the starting factors, unless --rank was given. */
int cp_options_take_rank(const struct ts_cmd *cmd, uint64_t given, struct cp_args *args,
                         struct ts_err *err);

/* Checks the options of a run of the tensor `name`, typed or from a file. */
int cp_options_check(const struct ts_cmd *cmd, uint64_t given, struct cp_args *args,
                     const char *name, struct ts_err *err);

/* Whether no option excludes --observed, so that it can be added to the options. */
int cp_options_may_observe(const struct cp_args *args);

#endif
