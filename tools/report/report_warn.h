/* SPDX-License-Identifier: BSD-3-Clause */
/* report_warn.h - writes the member "warnings" of the figures: reasons to doubt a decomposition.
 * Each warning has a kind, for which the template of the page has a sentence, and the numbers in
 * that sentence.
 */
#ifndef TS_TOOLS_REPORT_WARN_H
#define TS_TOOLS_REPORT_WARN_H

#include "tools/report/report_figures.h"
#include "tools/common/tool.h"

void report_warn_put(struct tool_json *j, const struct model_view *v,
                     const struct report_figures *f);

#endif
