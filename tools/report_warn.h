/* SPDX-License-Identifier: BSD-3-Clause */
/* report_warn.h - what a reader of a decomposition should know before believing it, as a list in a page.
 *
 *   errors   those of the file, which is asked at its end
 */
#ifndef TS_TOOLS_REPORT_WARN_H
#define TS_TOOLS_REPORT_WARN_H

#include <stdio.h>

#include "tools/report_figures.h"

/* Nothing where there is nothing to say. */
void report_warn_put(FILE *to, const struct model_view *v, const struct report_figures *f);

#endif
