/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_group_end.h - ends a run of several models.
 *
 *   threads  one
 *   errors   0 or a negative ts_code; the message of a failure also says how to resume the run
 */
#ifndef TS_TOOLS_CP_GROUP_END_H
#define TS_TOOLS_CP_GROUP_END_H

#include "tools/cp/cp_member.h"

/* Finishes a run whose models are all done: writes their table, puts the directory in place, and
 * prints the end. */
int cp_group_finish(struct cp_group *s, struct ts_err *err);

/* Ends a run that had begun, after a failure or a stop with the code rc. */
int cp_group_end_early(struct cp_group *s, int rc, struct ts_err *err);

/* Ends a run in which no model was opened, with the failure rc. The files of a run that was to be
 * resumed stay unchanged. */
int cp_group_end_unopened(struct cp_group *s, int rc, struct ts_err *err);

#endif
