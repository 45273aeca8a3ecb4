/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints notes about the engine (processor and reading) that a command uses. */
#include "tools/common/engine_note.h"

#include "tools/common/tool.h"

void engine_note_processor(const struct ts_cmd *cmd, const struct ts_engine *e)
{
    if (e->no_gpu.code != 0)
        tool_note(cmd, "%s", e->no_gpu.text);
}

void engine_note_feed(const struct ts_cmd *cmd, const struct ts_feed_stats *stats)
{
    if (stats->fallback != NULL)
        tool_note(cmd, "%s", stats->fallback);
}
