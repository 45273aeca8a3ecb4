/* SPDX-License-Identifier: BSD-3-Clause */
/* Merges the segments of a tensor before a command reads it. */
#include "tools/common/tool_merge.h"

#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/common/tool.h"
#include "tools/common/tool_ranks.h"
#include "tools/common/tool_signal.h"

static const struct ts_cmd *command;
static uint64_t memory; /* memory that a merge may take; 0: the default of tshard build */
static int is_quiet;

/* Returns the memory for a merge: at least the minimum of a build, even if the command's own limit
 * is lower. */
static uint64_t merge_memory(void)
{
    return memory > 0 && memory < TS_BUILD_MIN_MEMORY ? TS_BUILD_MIN_MEMORY : memory;
}

static void waits(void *arg, const struct ts_err *why)
{
    (void)arg;
    if (!is_quiet && tool_ranks_speaks())
        tool_note(command, "%s", why->text);
}

static int merge(const char *path, struct ts_tensor **outside, struct ts_err *err)
{
    struct ts_append_report report;
    struct ts_build_options o = { 0 };
    char number[TS_NUM_CHARS];
    struct ts_err why;
    int rc = ts_build_budget(merge_memory(), TS_BUILD_SHARD, 0, &o, &why);
    o.tmp = getenv("TMPDIR");
    if (o.tmp != NULL && *o.tmp == '\0')
        o.tmp = NULL;
    tool_catch_signals();
    o.stop = &tool_stop;
    o.shard_bytes = 0;
    o.note = waits;
    if (rc == 0)
        rc = ts_append_merge(path, &o, &report, outside, &why);
    if (rc == TS_ESTOP)
        return ts_fail(err, rc, "%s", why.text);
    if (rc < 0)
        return ts_fail(err, rc, "%s: its segments cannot be merged, which reading needs: %s%s%s%s",
                       path, why.text, rc == TS_EFORMAT ? " (tshard undo " : "",
                       rc == TS_EFORMAT ? path : "",
                       rc == TS_EFORMAT ? " takes the last append back)" : "");
    if (report.outside && !is_quiet && tool_ranks_speaks())
        tool_note(command,
                  "%s: merged its %s segments in %s, for this command alone, as this user may not "
                  "change the tensor: tshard compact, by its owner, makes one tensor of them",
                  path, ts_num_count(number, report.n_segments), o.tmp != NULL ? o.tmp : "/tmp");
    else if (report.n_segments > 0 && !is_quiet && tool_ranks_speaks())
        tool_note(command, "%s: merged its %s segments, as the first to read them together", path,
                  ts_num_count(number, report.n_segments));
    tool_warn(command, &report.warn);
    return 0;
}

void tool_merge_setup(const struct ts_cmd *cmd, const void *args, int quiet)
{
    command = cmd;
    is_quiet = quiet;
    memory = 0;
    for (const struct ts_opt *o = cmd->opts; o->name != NULL; o++)
        if (o->type == TS_OPT_SIZE &&
            (strcmp(o->name, "memory") == 0 || strcmp(o->name, "host-memory") == 0))
            memory = *(const uint64_t *)(const void *)((const char *)args + o->at);
    ts_segments_set_merger(merge, 1);
}
