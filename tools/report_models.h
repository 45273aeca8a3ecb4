/* SPDX-License-Identifier: BSD-3-Clause */
/* report_models.h - of a model that was computed with others, their table on its page.
 *
 *   owner    *ret is to be freed
 *   errors   none: without a table, or where it cannot be read, nothing is shown
 */
#ifndef TS_TOOLS_REPORT_MODELS_H
#define TS_TOOLS_REPORT_MODELS_H

#include <stdio.h>

/* The model in the directory `path` is one of those beside it. */
void report_models_put(FILE *to, const char *path);

/* "dir/X.cp" of "dir/X.cp/best.r8", where that holds several models, else NULL. */
char *report_models_of(const char *path);

#endif
