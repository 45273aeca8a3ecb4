/* SPDX-License-Identifier: BSD-3-Clause */
/* report_models.h - the models that were computed together with a given one, and the rank that
 * their errors, scores or fits recommend.
 *
 *   owner    the caller frees *ret
 *   errors   if the table was replaced during reading; a table that is missing or unreadable is not
 *            shown
 */
#ifndef TS_TOOLS_REPORT_MODELS_H
#define TS_TOOLS_REPORT_MODELS_H

#include "api/tools.h"
#include "tools/common/tool.h"

/* Finds the table of the models that this model belongs to: the one in the directory that contains
 * the model's directory. The table has no rows if there is none. */
int report_models_find(const struct ts_model *model, struct ts_models_table *ret,
                       struct ts_err *err);

/* Writes the member "models": the table, a recommended rank, and the criterion for it. With
 * held-out errors, it is the smallest rank within one standard error of the least error. Otherwise
 * it is the largest rank whose models from several starts agree (mean score of 0.9), else the
 * largest with a core consistency of 50 %, else the smallest with 95 % of the best fit. */
void report_models_put(struct tool_json *j, const struct ts_models_table *m);

/* Returns "dir/X.cp" for "dir/X.cp/best.r8", malloc'ed, if that directory has several models; else
 * NULL. */
char *report_models_of(const char *path);

#endif
