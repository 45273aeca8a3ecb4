/* SPDX-License-Identifier: BSD-3-Clause */
/* status_file.h - X.cp.partial/status.json (engine/run_status.h) of a run of tstream cp: written once a second by
 * the thread that watches (tool_watch.h), with the figures of its progress.
 *
 *   owner    the caller owns the struct, all zero before status_file_start, and fills run.partial and so on
 *   threads  one
 *   errors   none
 */
#ifndef TS_TOOLS_STATUS_FILE_H
#define TS_TOOLS_STATUS_FILE_H

#include "api/tools.h"
#include "tools/tool.h"

struct status_file {
    struct ts_run_status run;
    struct tool_progress *progress; /* of the sweep under way */
};

void status_file_start(struct status_file *s, uint32_t sweep);
void status_file_remove(struct status_file *s);
void status_file_end(struct status_file *s, const char *state, const char *sentence);

#endif
