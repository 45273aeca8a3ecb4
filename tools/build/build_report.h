/* SPDX-License-Identifier: BSD-3-Clause */
/* build_report.h - the report of tshard build, gen, split and select on what they built.
 *
 *   threads  the main thread
 *   errors   0, or a negative ts_code if printing fails; the tensor is in place even then
 */
#ifndef TS_TOOLS_BUILD_REPORT_H
#define TS_TOOLS_BUILD_REPORT_H

#include "api/tools.h"
#include "tools/common/tool.h"

/* Prints the report: text, or with `json` one JSON object on standard output. */
int build_report_print(const struct ts_cmd *cmd, const struct ts_build_options *o,
                       const struct ts_build_report *r, int json, struct ts_err *err);

#endif
