/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_log.h - when a device copied, computed, solved and exchanged, in one pass.
 *
 * Two timing events around a piece of work, a microsecond each, are turned into times of the host's
 * clock by their distance from an event at the start of the pass. Work of one kind may run side by
 * side on several streams, so times are lengths of unions. Between copies each timing event would
 * cost the link about two microseconds, so a copy's end is the start of the kernel that waits for it.
 * Only the last one has an event, and those that are sent ahead of a pass have two each.
 *
 *   owner    the log owns its events and spans
 *   units    nanoseconds of ts_clock_ns; in spans, once the log has ended
 *   threads  the member's; read by others once its job is over
 *   errors   a cudaError_t
 * */
#ifndef TS_GPU_GPU_LOG_H
#define TS_GPU_GPU_LOG_H

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

enum ts_gpu_work { TS_GPU_COPY, TS_GPU_KERNEL, TS_GPU_SOLVE, TS_GPU_EXCHANGE, TS_GPU_WORKS };

enum {
    TS_GPU_MARKS = 256,      /* pieces of work under way that a log knows of */
    TS_GPU_MARKS_SPARE = 64, /* of them for those that do not ask for room: all but shards */
};

struct ts_gpu_span {
    uint64_t start_ns, end_ns;
    const char *what; /* lives longer than the log */
    uint32_t lane;    /* of a trace, within the GPU's */
    uint64_t free_ns; /* of a copy: when its place on the device was, 0 if it was before start_ns */
    uint64_t shard, bytes; /* TS_TRACE_NO_SHARD, 0: none. Of an exchange, shard is its number */
};

struct ts_gpu_spans {
    struct ts_gpu_span *at;
    size_t n, room;
};

struct ts_gpu_mark {
    cudaEvent_t start, end, began;
    enum ts_gpu_work work;
    struct ts_gpu_span span; /* times to be filled in */
    struct ts_gpu_span copy; /* `start` waits for it; `what` NULL: for none */
    int copy_timed;          /* `began` says when its place was free */
};

struct ts_gpu_log {
    cudaEvent_t base;
    cudaEvent_t copied; /* the last copy has ended */
    int has_copied;
    uint64_t base_ns; /* at the latest, by all that was seen to end */
    struct ts_gpu_mark mark[TS_GPU_MARKS];
    uint32_t n_marks; /* in use: the first ones */
    uint32_t next;    /* to be looked at */
    struct ts_gpu_spans spans[TS_GPU_WORKS];
};

cudaError_t ts_gpu_log_open(struct ts_gpu_log *log);
void ts_gpu_log_close(struct ts_gpu_log *log);

/* Forgets all; the streams of the device are idle, but for copies sent ahead. */
cudaError_t ts_gpu_log_begin(struct ts_gpu_log *log, cudaStream_t stream);

/* There is room for a shard's marks: 1, or 0 while too much of what was marked is under way (ask
 * again: it is behind the host by hundreds of shards). */
int ts_gpu_log_room(struct ts_gpu_log *log);

/* Before the copy of a shard is given to its stream: the next mark is of the kernel that waits for
 * it. Copies run one after another. `waits`: the stream may have to wait before it copies. */
cudaError_t ts_gpu_log_copy(struct ts_gpu_log *log, cudaStream_t stream, int waits, uint64_t shard,
                            uint64_t bytes);

/* After the last copy was given to its stream, if there was one. */
cudaError_t ts_gpu_log_copied(struct ts_gpu_log *log, cudaStream_t stream);

/* A copy that was sent ahead, given to its stream at given_ns, between two events that have come to
 * pass, or are about to. */
cudaError_t ts_gpu_log_early(struct ts_gpu_log *log, cudaEvent_t began, cudaEvent_t arrived,
                             uint64_t given_ns, uint64_t shard, uint64_t bytes);

/* Begins and ends a piece of work on a stream. No other mark may begin in between. */
cudaError_t ts_gpu_log_start(struct ts_gpu_log *log, enum ts_gpu_work work, const char *what,
                             uint32_t lane, cudaStream_t stream);
cudaError_t ts_gpu_log_stop(struct ts_gpu_log *log, cudaStream_t stream, uint64_t shard,
                            uint64_t bytes);

/* Everything has ended: makes all marks spans, each kind sorted by start. Lost where memory is
 * short. */
cudaError_t ts_gpu_log_end(struct ts_gpu_log *log);

void ts_gpu_spans_sort(struct ts_gpu_spans *s);

/* Sorts copies, each with the time when the host gave it to their stream as its start, and makes them
 * run one after another: each ends before the next does, though its kernel may have started later, and
 * none starts before its place was free and the one before had ended. */
void ts_gpu_spans_line_up(struct ts_gpu_spans *s);

/* Cuts off of copies what was before from_ns: of a log that has ended. */
void ts_gpu_log_clip(struct ts_gpu_log *log, uint64_t from_ns);

/* Length of the union of some kinds (sum of 1 << work), and of that part of `work` during which
 * none of `besides` was under way. Spans sorted. */
uint64_t ts_gpu_log_busy(const struct ts_gpu_log *log, unsigned works);
uint64_t ts_gpu_log_alone(const struct ts_gpu_log *log, enum ts_gpu_work work, unsigned besides);

#endif
