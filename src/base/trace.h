/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.h - a trace of the times of all work, as a file for Perfetto (ui.perfetto.dev) and
 * chrome://tracing.
 *
 * A trace has lanes (rows of the drawn timeline), which are named once, and events on them. Events
 * of one lane must not overlap unless one is inside the other; work that runs at the same time uses
 * several lanes. A thread of the trace writes events to disk, in any order, so that the traced work
 * does not wait. The trace takes one queue of two megabytes, for runs of any length.
 *
 *   owner    the caller that opened it, until ts_trace_close or ts_trace_drop. The file is written
 *            as PATH.partial and gets its name when it is complete (base/files/atomic_out.h)
 *   units    nanoseconds of ts_clock_ns; bytes
 *   threads  group, lane and add from any thread; open, close and drop from one thread, while no
 *            other call runs
 *   errors   0 or TS_EIO, TS_EBUSY, TS_EARG, TS_ENOMEM. Adding an event cannot fail: close reports
 *            a full disk
 *
 * Every function takes a NULL trace and then does nothing.
 */
#ifndef TS_BASE_TRACE_H
#define TS_BASE_TRACE_H

#include <stdint.h>

#include "base/err.h"

struct ts_trace;

#define TS_TRACE_NO_MODE  UINT32_MAX /* for events without a mode */
#define TS_TRACE_NO_SHARD UINT64_MAX

/* The numbers of all lanes, in one place so that they do not collide. A group of lanes is shown as
 * one box: group 0 is the host, and 1 + g the g-th GPU of the run, or the CPU for runs on CPUs. */
#define TS_TRACE_LANES  256u /* lanes of a group */
#define TS_TRACE_GPU(g) ((1u + (uint32_t)(g)) * TS_TRACE_LANES)

enum ts_trace_lane {
    /* lanes of the host */
    TS_TRACE_MODES = 0, /* MTTKRP and row update of each mode, as the backend's caller sees them */
    TS_TRACE_READ = 1,  /* reads from disk; + a number below 127, as several reads overlap */
    TS_TRACE_CHECK = 128, /* checks of shards; + number of the thread, below 128 */
    /* lanes of a GPU; TS_TRACE_GPU is to be added to these numbers */
    TS_TRACE_WAIT = 0, /* a device waits for a shard */
    TS_TRACE_COPY = 1,
    TS_TRACE_SOLVE = 2,
    TS_TRACE_EXCHANGE = 3,
    TS_TRACE_KERNEL = 4, /* kernels; + number of the CUDA stream */
};

/* Opens a trace. force: an existing file of the name may be replaced. */
int ts_trace_open(const char *path, int force, struct ts_trace **ret, struct ts_err *err);

/* Name a group (by its own number, not that of a lane), and a lane. To be called once for each,
 * before or after events. */
void ts_trace_group(struct ts_trace *trace, uint32_t group, const char *name);
void ts_trace_lane(struct ts_trace *trace, uint32_t lane, const char *name);

/* Adds an event from start_ns to end_ns. label: a string that must stay valid until close. mode
 * counts from 0 and is shown from 1. bytes: bytes that were moved; 0: none. */
void ts_trace_add(struct ts_trace *trace, uint32_t lane, const char *label, uint64_t start_ns,
                  uint64_t end_ns, uint32_t mode, uint64_t shard, uint64_t bytes);

/* Completes the file and puts it in place, or removes it and returns a failure. Frees the trace in
 * both cases. warn->code is not 0 if a step failed after the file was in place. */
int ts_trace_close(struct ts_trace *trace, struct ts_err *warn, struct ts_err *err);

/* Frees the trace and removes the unfinished file. An older file of the name stays. trace may be
 * NULL. */
void ts_trace_drop(struct ts_trace *trace);

#endif
