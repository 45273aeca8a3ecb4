/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_log.h - the times at which a device copied, computed, solved and exchanged in one pass.
 *
 * A piece of work has timing events before and after it, which cost a microsecond each. Their time
 * after an event at the start of the pass (the base) is converted to the host's clock. Work of one
 * kind may run on several streams at once, so its total time is the length of a union of spans. An
 * event between two copies would delay the link by about two microseconds. So the end of a copy is
 * taken from the start of the kernel that waits for it or, if that is enqueued later, from an event
 * on the kernel's stream. Only the last copy of a pass has its own event, and each prefetched copy
 * has two.
 *
 *   owner    the log owns its events and spans
 *   units    nanoseconds of ts_clock_ns, in spans after ts_gpu_log_end
 *   threads  the member's thread; other threads read the log after the member's job has ended
 *   errors   a ts_gpu_error (gpu_types.h)
 * */
#ifndef TS_GPU_GPU_LOG_H
#define TS_GPU_GPU_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/team/gpu_types.h"

enum ts_gpu_work { TS_GPU_COPY, TS_GPU_KERNEL, TS_GPU_SOLVE, TS_GPU_EXCHANGE, TS_GPU_WORKS };

enum {
    TS_GPU_MARKS = 384, /* marks in a log: the most pieces of work that are timed at once */
    /* marks reserved for work other than shards: six for each of 32 models at the end of a pass */
    TS_GPU_MARKS_SPARE = 192,
};

struct ts_gpu_span {
    uint64_t start_ns, end_ns;
    const char *what; /* name of the work, a text that stays valid longer than the log */
    /* lane (line) of the trace's timeline, counted from the first lane of the GPU */
    uint32_t lane;
    uint64_t free_ns;      /* for a copy: time at which its slot was free; 0: before start_ns */
    uint64_t shard, bytes; /* shard or exchange number, and bytes; TS_TRACE_NO_SHARD, 0: none */
};

struct ts_gpu_spans {
    struct ts_gpu_span *at;
    size_t n, room;
};

struct ts_gpu_mark {
    ts_gpu_event start, end, began;
    enum ts_gpu_work work; /* TS_GPU_COPY: the mark has only `copy`, and `start` is not recorded */
    struct ts_gpu_span span; /* the timed work; start and end are set after it has ended */
    /* a copy that ended before the event `start` or, for TS_GPU_COPY, before `end`; `what` NULL:
     * there is none */
    struct ts_gpu_span copy;
    int copy_timed; /* 1: `began` was recorded when the copy's slot was free */
};

struct ts_gpu_log {
    ts_gpu_event base;
    ts_gpu_event copied; /* recorded after the last copy */
    int has_copied;
    uint64_t base_ns; /* upper bound of the time of `base`, from all work that was seen to end */
    struct ts_gpu_mark mark[TS_GPU_MARKS];
    uint32_t n_marks; /* marks in use, at the start of the array */
    uint32_t next;    /* index of the next mark to check */
    int paused;
    struct ts_gpu_spans spans[TS_GPU_WORKS];
};

ts_gpu_error ts_gpu_log_open(struct ts_gpu_log *log);
void ts_gpu_log_close(struct ts_gpu_log *log);

/* Clears the log. To be called when the device's streams are idle, except for prefetch copies. */
ts_gpu_error ts_gpu_log_begin(struct ts_gpu_log *log, ts_gpu_stream stream);

/* Whether there is room for the marks (timings) of a shard's work: 1, or 0 while too much timed
 * work is running. At 0 the caller must try again. The device is then hundreds of shards behind the
 * host. */
int ts_gpu_log_room(struct ts_gpu_log *log);

/* Checks one mark (timed piece of work), and returns 1 if its work has ended, otherwise 0. A thread
 * that waits anyway may call it, to save work in ts_gpu_log_end. Not to be called between a start
 * and its stop. */
int ts_gpu_log_look(struct ts_gpu_log *log);

/* Notes the copy of a shard, so that it is timed. To be called before the copy is enqueued. The
 * next mark must be that of the kernel that waits for the copy, or of ts_gpu_log_came. Copies run
 * one after another. waits: the stream may have to wait before it copies. */
ts_gpu_error ts_gpu_log_copy(struct ts_gpu_log *log, ts_gpu_stream stream, int waits,
                             uint64_t shard, uint64_t bytes);

/* Gives the copy that ts_gpu_log_copy has noted its own mark. To be called when a stream waits for
 * the copy, but its kernel is enqueued later, perhaps after other marks. Does nothing if there is
 * no copy without a mark. */
ts_gpu_error ts_gpu_log_came(struct ts_gpu_log *log, ts_gpu_stream stream);

/* Notes, as ts_gpu_log_copy does, a copy that was enqueued in pieces from since_ns on. To be called
 * before the mark that waits for the copy is started. */
void ts_gpu_log_pieces(struct ts_gpu_log *log, uint64_t since_ns, uint64_t bytes);

/* Records the event that ends the last copy. To be called after that copy was enqueued, if there
 * were copies. */
ts_gpu_error ts_gpu_log_copied(struct ts_gpu_log *log, ts_gpu_stream stream);

/* Adds a prefetch copy that was enqueued at given_ns, between two events. Waits for both events. */
ts_gpu_error ts_gpu_log_early(struct ts_gpu_log *log, ts_gpu_event began, ts_gpu_event arrived,
                              uint64_t given_ns, uint64_t shard, uint64_t bytes);

/* Marks the beginning and the end of a piece of work on a stream. No other mark (timed piece of
 * work) may begin in between. */
ts_gpu_error ts_gpu_log_start(struct ts_gpu_log *log, enum ts_gpu_work work, const char *what,
                              uint32_t lane, ts_gpu_stream stream);
ts_gpu_error ts_gpu_log_stop(struct ts_gpu_log *log, ts_gpu_stream stream, uint64_t shard,
                             uint64_t bytes);

/* paused 1: no marks (timings of work) are made until the call with 0, because the work between is
 * part of other marked work. */
void ts_gpu_log_pause(struct ts_gpu_log *log, int paused);

/* To be called when all work has ended: converts all marks to spans, and sorts each kind by start.
 * Spans may be lost if memory is short. */
ts_gpu_error ts_gpu_log_end(struct ts_gpu_log *log);

void ts_gpu_spans_sort(struct ts_gpu_spans *s);

/* Sorts the spans of copies, and changes their times so that copies run one after another. On
 * entry, the start of each copy is the time at which it was enqueued. After the call, a copy ends
 * before the next one ends, even if its kernel started later. It starts after its slot was free and
 * the copy before it has ended. */
void ts_gpu_spans_line_up(struct ts_gpu_spans *s);

/* Cuts off the part of each copy before from_ns. To be called after ts_gpu_log_end. */
void ts_gpu_log_clip(struct ts_gpu_log *log, uint64_t from_ns);

/* ts_gpu_log_busy returns the length of the union of all spans of some kinds of work (`works`: the
 * sum of 1 << kind). ts_gpu_log_alone returns the length of the part of `work` in which no work of
 * the kinds `besides` ran. The spans must be sorted. */
uint64_t ts_gpu_log_busy(const struct ts_gpu_log *log, unsigned works);
uint64_t ts_gpu_log_alone(const struct ts_gpu_log *log, enum ts_gpu_work work, unsigned besides);

#endif
