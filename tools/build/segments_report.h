/* SPDX-License-Identifier: BSD-3-Clause */
/* segments_report.h - what tshard info prints about a tensor of several segments (one for each
 * append).
 *
 *   threads  the main thread
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_SEGMENTS_REPORT_H
#define TS_TOOLS_SEGMENTS_REPORT_H

#include "api/tools.h"
#include "tools/common/tool.h"

/* Writes a time as a date and time of UTC in ISO 8601, or "" for 0. Returns ret. */
#define SEGMENT_TIME_CHARS 32u
const char *segment_time(uint64_t seconds, char ret[SEGMENT_TIME_CHARS]);

int segments_info(const char *path, int json, struct ts_err *err);

#endif
