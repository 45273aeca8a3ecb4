/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON of the programs: a line on standard output arrives at once. */
#include "tools/tool.h"

void tool_json_close(struct tool_json *j)
{
    ts_json_close(j);
    if (j->depth > 0)
        return;
    if (j->to == stdout)
        tool_flush();
    else
        fflush(j->to);
}

void tool_json_options(struct tool_json *j, const struct ts_cmd *cmd, const void *args)
{
    ts_json_options(j, cmd->opts, args);
}
