/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_folds.h - tstream cp --folds K: how well models of some ranks tell cells that nothing was learnt from.
 *
 * The hash of a nonzero's cell and the seed (format/hold_out.h) says in which of K folds it is. Of each rank K models are
 * computed, one after another, each without the nonzeros of one fold; what is told is their error there, its mean over
 * the folds and the standard error of that. Nothing is written.
 *
 *   threads  one
 *   errors   0 or a negative ts_code; a run that was stopped leaves nothing
 */
#ifndef TS_TOOLS_CP_FOLDS_H
#define TS_TOOLS_CP_FOLDS_H

#include "tools/tstream_cp.h"

int cp_folds(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
             struct ts_err *err);

#endif
