/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_log.h - when a device copied, computed, solved and exchanged, in one pass.
 *
 * A piece of work has a timing event before and after it, a microsecond each. Their distance
 * from an event at the start of the pass gives times of the host's clock. Work of one kind may
 * run on several streams at once, so a time is the length of a union of spans. An event between
 * two copies would cost the link about two microseconds, so the end of a copy is taken from the
 * start of the kernel that waits for it or, where that is enqueued later, from an event in the
 * kernel's stream. Only the last copy of a pass has an event, and prefetched copies have two
 * each.
 *
 *   owner    the log owns its events and spans
 *   units    nanoseconds of ts_clock_ns; in spans, once the log has ended
 *   threads  the member's; other threads read it after the member's job has ended
 *   errors   a ts_gpu_error (gpu_types.h)
 * */
#ifndef TS_GPU_GPU_LOG_H
#define TS_GPU_GPU_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/team/gpu_types.h"

enum ts_gpu_work { TS_GPU_COPY, TS_GPU_KERNEL, TS_GPU_SOLVE, TS_GPU_EXCHANGE, TS_GPU_WORKS };

enum {
    TS_GPU_MARKS = 384, /* pieces of work that run and that a log can hold */
    /* of these, for work other than shards: six of each of 32 models at the end of a pass */
    TS_GPU_MARKS_SPARE = 192,
};

struct ts_gpu_span {
    uint64_t start_ns, end_ns;
    const char *what;      /* lives longer than the log */
    uint32_t lane;         /* lane of the trace, within those of the GPU */
    uint64_t free_ns;      /* of a copy: when its slot was free; 0: before start_ns */
    uint64_t shard, bytes; /* TS_TRACE_NO_SHARD, 0: none. Of an exchange, shard is its number */
};

struct ts_gpu_spans {
    struct ts_gpu_span *at;
    size_t n, room;
};

struct ts_gpu_mark {
    ts_gpu_event start, end, began;
    enum ts_gpu_work work;   /* TS_GPU_COPY: `copy` alone, and `start` is not recorded */
    struct ts_gpu_span span; /* its times are set when it has ended */
    struct ts_gpu_span copy; /* the copy that `start`, or `end`, waits for; `what` is NULL: none */
    int copy_timed;          /* `began` tells when its slot was free */
};

struct ts_gpu_log {
    ts_gpu_event base;
    ts_gpu_event copied; /* the last copy has ended */
    int has_copied;
    uint64_t base_ns; /* upper bound, from everything that was seen to end */
    struct ts_gpu_mark mark[TS_GPU_MARKS];
    uint32_t n_marks; /* in use: the first ones */
    uint32_t next;    /* index of the next mark to check */
    int paused;
    struct ts_gpu_spans spans[TS_GPU_WORKS];
};

ts_gpu_error ts_gpu_log_open(struct ts_gpu_log *log);
void ts_gpu_log_close(struct ts_gpu_log *log);

/* Clears the log. The streams of the device are idle, except for prefetch copies. */
ts_gpu_error ts_gpu_log_begin(struct ts_gpu_log *log, ts_gpu_stream stream);

/* Whether there is room for the marks of a shard: 1, or 0 while too much marked work is running;
 * then ask again. At 0 the device is hundreds of shards behind the host. */
int ts_gpu_log_room(struct ts_gpu_log *log);

/* Looks at one mark: 1 when its work has ended, else 0. For whoever waits: what is looked at then
 * need not be looked at in ts_gpu_log_end. Not to be called between a start and its stop. */
int ts_gpu_log_look(struct ts_gpu_log *log);

/* To be called before the copy of a shard is enqueued: the next mark is that of the kernel that
 * waits for it, or is made by ts_gpu_log_came. Copies run one after another. `waits`: the stream
 * may have to wait before it copies. */
ts_gpu_error ts_gpu_log_copy(struct ts_gpu_log *log, ts_gpu_stream stream, int waits,
                             uint64_t shard, uint64_t bytes);

/* To be called when a stream waits for that copy, and the kernel is enqueued there later,
 * perhaps after other marks: the copy has a mark of its own. Does nothing where no copy is to be
 * marked. */
ts_gpu_error ts_gpu_log_came(struct ts_gpu_log *log, ts_gpu_stream stream);

/* The same of a copy that was enqueued in pieces from since_ns on, before the mark that waits
 * for it is started. */
void ts_gpu_log_pieces(struct ts_gpu_log *log, uint64_t since_ns, uint64_t bytes);

/* To be called after the last copy was enqueued, if there was one. */
ts_gpu_error ts_gpu_log_copied(struct ts_gpu_log *log, ts_gpu_stream stream);

/* Adds a prefetch copy that was enqueued at given_ns, between two events. Waits for both. */
ts_gpu_error ts_gpu_log_early(struct ts_gpu_log *log, ts_gpu_event began, ts_gpu_event arrived,
                              uint64_t given_ns, uint64_t shard, uint64_t bytes);

/* Marks the beginning and the end of a piece of work on a stream. No other mark may begin in
 * between. */
ts_gpu_error ts_gpu_log_start(struct ts_gpu_log *log, enum ts_gpu_work work, const char *what,
                              uint32_t lane, ts_gpu_stream stream);
ts_gpu_error ts_gpu_log_stop(struct ts_gpu_log *log, ts_gpu_stream stream, uint64_t shard,
                             uint64_t bytes);

/* Between two calls, with 1 and 0, no marks are made: what is enqueued meanwhile is part of
 * another's work. */
void ts_gpu_log_pause(struct ts_gpu_log *log, int paused);

/* To be called when everything has ended: turns all marks into spans, each kind sorted by start.
 * Spans may be lost when memory is short. */
ts_gpu_error ts_gpu_log_end(struct ts_gpu_log *log);

void ts_gpu_spans_sort(struct ts_gpu_spans *s);

/* Sorts copies and makes them run one after another. Each copy comes with the time of its
 * enqueueing as its start. After the call a copy ends before the next one ends, even if its kernel
 * started later, and starts no earlier than its slot was free and the copy before it had ended. */
void ts_gpu_spans_line_up(struct ts_gpu_spans *s);

/* Cuts off the part of each copy before from_ns. To be called after ts_gpu_log_end. */
void ts_gpu_log_clip(struct ts_gpu_log *log, uint64_t from_ns);

/* busy: length of the union of some kinds of work (sum of 1 << work). alone: length of that part of
 * `work` in which no work of `besides` ran. The spans must be sorted. */
uint64_t ts_gpu_log_busy(const struct ts_gpu_log *log, unsigned works);
uint64_t ts_gpu_log_alone(const struct ts_gpu_log *log, enum ts_gpu_work work, unsigned besides);

#endif
