/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares what ranks (processes) must have in common, and makes all of them end with the same
 * result. */
#include "tools/common/tstream_ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/tools.h"
#include "tools/common/tool_ranks.h"
#include "tools/common/tool_version.h"

/* Makes all ranks (processes) choose alike before anything is opened, because ranks with GPUs open
 * them together. */
int tstream_ranks_choose(struct ts_processor *p, struct ts_err *err)
{
    if (tool_ranks() == NULL)
        return 0;
    p->cpu |= ts_processor_gpus(p) == 0;
    return tool_ranks_same("processor", p->cpu ? "CPU cores" : "GPUs", err);
}

int tstream_ranks_same(const struct ts_tensor *t, const char *options, int rc, struct ts_err *err)
{
    char text[512];
    if (tool_ranks() == NULL)
        return rc;
    rc = tool_ranks_agree(rc, err);
    if (rc < 0)
        return rc;
    snprintf(text, sizeof text, "%s %s", tool_version(), tool_commit());
    rc = tool_ranks_same("version of tstream", text, err);
    snprintf(text, sizeof text, "%d",
             /* ranks (processes) must use the same instruction set, because sums depend on it */
             (int)ts_isa_best());
    if (rc == 0)
        rc = tool_ranks_same("vector code, that of its processor,", text, err);
    snprintf(text, sizeof text, "%016" PRIx64, t->hash);
    if (rc == 0)
        rc = tool_ranks_same("tensor", text, err);
    return rc == 0 ? tool_ranks_same("options", options, err) : rc;
}

void tstream_ranks_note(const struct ts_cmd *cmd, const struct ts_engine *e)
{
    const char *link = e->backend->link(e->be);
    if (tool_ranks() == NULL)
        return;
    if (e->n_devices == 0)
        tool_note(cmd, "%u processes compute together, this one with %u thread%s%s%s",
                  tool_ranks_count(), e->threads, tool_plural(e->threads),
                  link == NULL ? "" : "; rows travel ", link == NULL ? "" : link);
    else
        tool_note(cmd, "%u processes compute together, this one with %u GPU%s; rows travel %s",
                  tool_ranks_count(), e->n_devices, tool_plural(e->n_devices), link);
}

int tstream_ranks_end(int rc, struct ts_err *err)
{
    if (tool_ranks() == NULL)
        return rc;
    rc = tool_ranks_agree(rc, err);
    if (rc == TS_ESTOP)
        tool_ranks_stopped();
    return rc;
}
