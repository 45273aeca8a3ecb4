/* SPDX-License-Identifier: BSD-3-Clause */
/* status.json of tstream cp, written by the thread that watches. */
#include "tools/status_file.h"

#include "tools/tool_watch.h"

static void figures(void *ctx, struct ts_run_figures *ret)
{
    const struct status_file *s = ctx;
    struct tool_progress_figures f;
    tool_progress_get(s->progress, &f);
    *ret = (struct ts_run_figures){ .done = f.done,
                                    .total = f.total,
                                    .per_s = f.per_s,
                                    .known = f.known,
                                    .left_ns = f.left_ns,
                                    .run_left_ns = f.whole_ns };
}

static void tick(void *ctx)
{
    struct status_file *s = ctx;
    ts_run_status_tick(&s->run);
}

void status_file_start(struct status_file *s, uint32_t sweep)
{
    s->run.figures = figures;
    s->run.ctx = s;
    ts_run_status_start(&s->run, sweep);
    if (s->run.dir >= 0)
        tool_watch_call(tick, s);
}

void status_file_remove(struct status_file *s)
{
    if (s->run.state != NULL && s->run.dir >= 0)
        tool_watch_call(NULL, NULL);
    ts_run_status_remove(&s->run);
}

void status_file_end(struct status_file *s, const char *state, const char *sentence)
{
    if (s->run.state != NULL && s->run.dir >= 0)
        tool_watch_call(NULL, NULL);
    ts_run_status_end(&s->run, state, sentence);
}
