/* SPDX-License-Identifier: BSD-3-Clause */
/* build_progress.c - reports the progress of a build, and checks whether the user wants to stop. */
#include <math.h>

#include "base/stop.h"
#include "build/build_steps.h"

void ts_build_phase_begin(struct ts_build *b, uint32_t phase, uint64_t work)
{
    b->phase = phase;
    b->phase_work = work;
    atomic_store_explicit(b->work, 0, memory_order_relaxed);
}

/* Returns how much of the `total` of a phase is done: `done`, or what the count b->work says if
 * that is more. */
static uint64_t done_of(const struct ts_build *b, uint64_t done, uint64_t total)
{
    const uint64_t work = atomic_load_explicit(b->work, memory_order_relaxed);
    const double counted = b->phase_work == 0 ? 0 : (double)work / (double)b->phase_work;
    const uint64_t reached = (uint64_t)(fmin(counted, 1) * (double)total);
    return done > reached ? done : reached;
}

int ts_build_tell(const struct ts_build *b, const char *step_name, const char *unit, uint64_t done,
                  uint64_t total, struct ts_err *err)
{
    const uint32_t writing = TS_BUILD_PACKING + b->order;
    const struct ts_build_step step = {
        .what = step_name,
        .unit = unit,
        .phase = b->phase,
        .n_phases = writing,
        .done = done_of(b, done, total),
        .total = total,
        .work = b->phase_work,
        .alike = b->phase >= TS_BUILD_PACKING && b->phase < writing ? writing - 1 - b->phase : 0,
    };
    if (b->o->progress != NULL)
        b->o->progress(b->o->progress_arg, &step);
    return ts_build_check_stop(b, err);
}

int ts_build_fail_stopped(const struct ts_build *b, struct ts_err *err)
{
    return ts_fail(err, TS_ESTOP, "%s: stopped; nothing was written", b->o->out);
}

int ts_build_check_stop(const struct ts_build *b, struct ts_err *err)
{
    if (ts_stop_asked(b->o->stop))
        return ts_build_fail_stopped(b, err);
    if (ts_build_comm_many(&b->ranks) && b->ranks.over.code == 0 &&
        b->ranks.comm->ops->poll(b->ranks.comm))
        /* another rank has failed: its message replaces this one when the ranks next agree */
        return ts_build_fail_stopped(b, err);
    return 0;
}
