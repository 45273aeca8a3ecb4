/* SPDX-License-Identifier: BSD-3-Clause */
/* report_models.h - of a model that was computed with others, their table on its page.
 *
 *   owner    *ret is to be freed
 *   errors   where the table was replaced; without one, or where it cannot be read, nothing is shown
 */
#ifndef TS_TOOLS_REPORT_MODELS_H
#define TS_TOOLS_REPORT_MODELS_H

#include <stdio.h>

#include "api/tools.h"

/* The table of the models that this one is of: that of the directory which its own lies in, by
 * whatever name. No rows: there is none. */
int report_models_find(const struct ts_model *model, struct ts_models_table *ret,
                       struct ts_err *err);

void report_models_put(FILE *to, const struct ts_models_table *m);

/* "dir/X.cp" of "dir/X.cp/best.r8", where that holds several models, else NULL. */
char *report_models_of(const char *path);

#endif
