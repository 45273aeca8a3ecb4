/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts pairs of timing events to time spans of the host's clock, and adds up spans. */
#include "gpu/team/gpu_log.h"

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/trace.h"
#include "gpu/team/gpu_fail.h"

/* Most marks (pairs of timing events) that are checked when ts_gpu_log_room makes room for a shard,
 * which adds one or two marks. A check takes a microsecond or two. Checks are spread over the pass,
 * so that copies never wait for the host. */
#define LOOKS 4

#define NOT_SEEN UINT64_MAX

ts_gpu_error ts_gpu_log_open(struct ts_gpu_log *log)
{
    ts_gpu_error e = cudaEventCreate(&log->base);
    TRY(e, cudaEventCreate(&log->copied));
    for (int i = 0; i < TS_GPU_MARKS && e == cudaSuccess; i++) {
        e = cudaEventCreate(&log->mark[i].start);
        TRY(e, cudaEventCreate(&log->mark[i].end));
        TRY(e, cudaEventCreate(&log->mark[i].began));
    }
    return e;
}

void ts_gpu_log_close(struct ts_gpu_log *log)
{
    for (int i = 0; i < TS_GPU_MARKS; i++) {
        if (log->mark[i].start != NULL)
            cudaEventDestroy(log->mark[i].start);
        if (log->mark[i].end != NULL)
            cudaEventDestroy(log->mark[i].end);
        if (log->mark[i].began != NULL)
            cudaEventDestroy(log->mark[i].began);
    }
    if (log->base != NULL)
        cudaEventDestroy(log->base);
    if (log->copied != NULL)
        cudaEventDestroy(log->copied);
    for (int i = 0; i < TS_GPU_WORKS; i++)
        free(log->spans[i].at);
    memset(log, 0, sizeof *log);
}

ts_gpu_error ts_gpu_log_begin(struct ts_gpu_log *log, ts_gpu_stream stream)
{
    const ts_gpu_error e = cudaEventRecord(log->base, stream);
    log->base_ns = NOT_SEEN;
    log->has_copied = 0;
    log->n_marks = log->next = 0;
    for (int i = 0; i < TS_GPU_MARKS; i++)
        log->mark[i].copy.what = NULL;
    for (int i = 0; i < TS_GPU_WORKS; i++)
        log->spans[i].n = 0;
    return e;
}

static uint64_t ns_of(float ms)
{
    return ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
}

static void add_span(struct ts_gpu_spans *s, const struct ts_gpu_span *span)
{
    if (s->n == s->room) {
        const size_t room = s->room > 0 ? 2 * s->room : 64;
        struct ts_gpu_span *at = realloc(s->at, room * sizeof *at);
        if (at == NULL)
            return;
        s->at = at;
        s->room = room;
    }
    s->at[s->n++] = *span;
}

/* Updates the upper bound of the time of the base event, which was recorded at the start of the
 * pass. To be called when the host sees that work has ended, which did so `ns` after the base. The
 * host cannot observe the base itself, as another process may have used the GPU then. */
static void seen(struct ts_gpu_log *log, uint64_t ns)
{
    const uint64_t base_ns = ts_clock_ns() - ns;
    if (base_ns < log->base_ns)
        log->base_ns = base_ns;
}

/* Converts a mark to a span, in nanoseconds after the base, if the mark and the base (which is on
 * another stream) have ended. Returns 1, 0 if they have not ended, or -1 with the failure in *e. */
static int settle(struct ts_gpu_log *log, struct ts_gpu_mark *mark, ts_gpu_error *e)
{
    const int has_copy = mark->copy.what != NULL, has_work = mark->work != TS_GPU_COPY;
    float start = 0, end = 0, began = 0;
    int rc = ts_gpu_ended(mark->end, e);
    if (rc > 0)
        rc = ts_gpu_ended(log->base, e);
    if (rc <= 0)
        return rc;
    *e = cudaEventElapsedTime(&end, log->base, mark->end);
    if (*e == cudaSuccess)
        seen(log, ns_of(end));
    if (*e == cudaSuccess && has_work)
        *e = cudaEventElapsedTime(&start, log->base, mark->start);
    if (*e == cudaSuccess && has_copy && mark->copy_timed)
        *e = cudaEventElapsedTime(&began, log->base, mark->began);
    if (*e != cudaSuccess)
        return -1;
    if (has_work) {
        mark->span.start_ns = ns_of(start);
        mark->span.end_ns = ns_of(end);
        add_span(&log->spans[mark->work], &mark->span);
    }
    if (has_copy) {
        mark->copy.free_ns = mark->copy_timed ? ns_of(began) : 0;
        mark->copy.end_ns = ns_of(has_work ? start : end);
        add_span(&log->spans[TS_GPU_COPY], &mark->copy);
        mark->copy.what = NULL;
    }
    return 1;
}

/* Checks the next mark (pair of timing events). Returns 1 if it became a span, 0 if its work is
 * running or there is no mark, -1 for a failure. */
static int look(struct ts_gpu_log *log)
{
    const uint32_t i = log->next < log->n_marks ? log->next : 0;
    struct ts_gpu_mark mark;
    ts_gpu_error e;
    int rc;
    if (log->n_marks == 0)
        return 0;
    rc = settle(log, &log->mark[i], &e);
    log->next = rc > 0 ? i : i + 1;
    if (rc <= 0)
        return rc;
    mark = log->mark[i]; /* swaps the mark with the last one in use */
    log->mark[i] = log->mark[--log->n_marks];
    log->mark[log->n_marks] = mark;
    return 1;
}

int ts_gpu_log_look(struct ts_gpu_log *log)
{
    return look(log) > 0; /* a failure is reported by the next wait for the device */
}

int ts_gpu_log_room(struct ts_gpu_log *log)
{
    for (int looks = 0; looks < LOOKS && log->n_marks > 0; looks++)
        if (look(log) < 0)
            return 1; /* the failure is reported by the next wait for the device */
    return log->n_marks + TS_GPU_MARKS_SPARE < TS_GPU_MARKS;
}

ts_gpu_error ts_gpu_log_copy(struct ts_gpu_log *log, ts_gpu_stream stream, int waits,
                             uint64_t shard, uint64_t bytes)
{
    struct ts_gpu_mark *mark;
    if (log->n_marks == TS_GPU_MARKS)
        return cudaSuccess;
    mark = &log->mark[log->n_marks];
    mark->copy = (struct ts_gpu_span){
        .start_ns = ts_clock_ns(),
        .what = "copy",
        .lane = TS_TRACE_COPY,
        .shard = shard,
        .bytes = bytes,
    };
    mark->copy_timed = waits;
    return waits ? cudaEventRecord(mark->began, stream) : cudaSuccess;
}

ts_gpu_error ts_gpu_log_came(struct ts_gpu_log *log, ts_gpu_stream stream)
{
    struct ts_gpu_mark *mark;
    if (log->n_marks == TS_GPU_MARKS || log->mark[log->n_marks].copy.what == NULL)
        return cudaSuccess;
    mark = &log->mark[log->n_marks++];
    mark->work = TS_GPU_COPY;
    return cudaEventRecord(mark->end, stream);
}

void ts_gpu_log_pieces(struct ts_gpu_log *log, uint64_t since_ns, uint64_t bytes)
{
    (void)ts_gpu_log_copy(log, NULL, 0, TS_TRACE_NO_SHARD, bytes); /* records no event */
    if (log->n_marks < TS_GPU_MARKS)
        log->mark[log->n_marks].copy.start_ns = since_ns;
}

ts_gpu_error ts_gpu_log_copied(struct ts_gpu_log *log, ts_gpu_stream stream)
{
    log->has_copied = 1;
    return cudaEventRecord(log->copied, stream);
}

/* *ns := time from the base to the event, negative (in two's complement) if the event was earlier.
 * Waits for both. */
static ts_gpu_error since_base(const struct ts_gpu_log *log, ts_gpu_event event, uint64_t *ns)
{
    float ms = 0;
    ts_gpu_error e = cudaEventSynchronize(log->base);
    TRY(e, cudaEventSynchronize(event));
    TRY(e, cudaEventElapsedTime(&ms, log->base, event));
    *ns = (uint64_t)(int64_t)((double)ms * 1e6);
    return e;
}

ts_gpu_error ts_gpu_log_early(struct ts_gpu_log *log, ts_gpu_event began, ts_gpu_event arrived,
                              uint64_t given_ns, uint64_t shard, uint64_t bytes)
{
    struct ts_gpu_span span = {
        .start_ns = given_ns,
        .what = "copy",
        .lane = TS_TRACE_COPY,
        .shard = shard,
        .bytes = bytes,
    };
    ts_gpu_error e = since_base(log, began, &span.free_ns);
    TRY(e, since_base(log, arrived, &span.end_ns));
    if (e == cudaSuccess)
        add_span(&log->spans[TS_GPU_COPY], &span);
    return e;
}

void ts_gpu_log_pause(struct ts_gpu_log *log, int paused)
{
    log->paused = paused;
}

ts_gpu_error ts_gpu_log_start(struct ts_gpu_log *log, enum ts_gpu_work work, const char *what,
                              uint32_t lane, ts_gpu_stream stream)
{
    struct ts_gpu_mark *mark;
    ts_gpu_error e;
    if (log->paused)
        return cudaSuccess;
    if (log->base_ns == NOT_SEEN && ts_gpu_ended(log->base, &e) > 0)
        seen(log, 0);
    if (log->n_marks == TS_GPU_MARKS)
        /* the log is full: work without a call of ts_gpu_log_room is not measured */
        return cudaSuccess;
    mark = &log->mark[log->n_marks];
    mark->work = work;
    mark->span = (struct ts_gpu_span){ .what = what, .lane = lane };
    return cudaEventRecord(mark->start, stream);
}

ts_gpu_error ts_gpu_log_stop(struct ts_gpu_log *log, ts_gpu_stream stream, uint64_t shard,
                             uint64_t bytes)
{
    struct ts_gpu_mark *mark;
    if (log->paused || log->n_marks == TS_GPU_MARKS)
        return cudaSuccess;
    mark = &log->mark[log->n_marks++];
    mark->span.shard = shard;
    mark->span.bytes = bytes;
    return cudaEventRecord(mark->end, stream);
}

static int by_start(const void *a, const void *b)
{
    const struct ts_gpu_span *x = a, *y = b;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

void ts_gpu_spans_sort(struct ts_gpu_spans *s)
{
    if (s->n > 1)
        qsort(s->at, s->n, sizeof *s->at, by_start);
}

void ts_gpu_spans_line_up(struct ts_gpu_spans *s)
{
    ts_gpu_spans_sort(s);
    for (size_t i = s->n; i-- > 1;)
        if (s->at[i - 1].end_ns > s->at[i].end_ns)
            s->at[i - 1].end_ns = s->at[i].end_ns;
    for (size_t i = 0; i < s->n; i++) {
        struct ts_gpu_span *span = &s->at[i];
        if (span->start_ns < span->free_ns)
            span->start_ns = span->free_ns;
        if (i > 0 && span->start_ns < span[-1].end_ns)
            span->start_ns = span[-1].end_ns;
        if (span->start_ns > span->end_ns) /* start and end were measured by different clocks */
            span->start_ns = span->end_ns;
    }
}

/* Converts spans to the host's clock. The starts of copies are in that clock already. */
static void shift(struct ts_gpu_log *log)
{
    for (int i = 0; i < TS_GPU_WORKS; i++)
        for (size_t k = 0; k < log->spans[i].n; k++) {
            struct ts_gpu_span *span = &log->spans[i].at[k];
            span->end_ns += log->base_ns;
            if (i != TS_GPU_COPY)
                span->start_ns += log->base_ns;
            else if (span->free_ns > 0)
                span->free_ns += log->base_ns;
        }
}

/* Limits the ends of copies to the end of the last copy. The end of a copy is taken from the start
 * of its kernel, which may be later. */
static ts_gpu_error end_copies(struct ts_gpu_log *log)
{
    struct ts_gpu_spans *s = &log->spans[TS_GPU_COPY];
    uint64_t last;
    const ts_gpu_error e = since_base(log, log->copied, &last);
    for (size_t i = 0; i < s->n && e == cudaSuccess; i++)
        if ((int64_t)s->at[i].end_ns > (int64_t)last)
            s->at[i].end_ns = last;
    return e;
}

ts_gpu_error ts_gpu_log_end(struct ts_gpu_log *log)
{
    ts_gpu_error e = cudaSuccess;
    for (uint32_t i = 0; i < log->n_marks && e == cudaSuccess; i++)
        (void)settle(log, &log->mark[i], &e);
    log->n_marks = 0;
    if (log->has_copied)
        TRY(e, end_copies(log));
    shift(log);
    for (int i = 0; i < TS_GPU_WORKS; i++)
        ts_gpu_spans_sort(&log->spans[i]);
    ts_gpu_spans_line_up(&log->spans[TS_GPU_COPY]);
    return e;
}

void ts_gpu_log_clip(struct ts_gpu_log *log, uint64_t from_ns)
{
    struct ts_gpu_spans *s = &log->spans[TS_GPU_COPY];
    for (size_t i = 0; i < s->n && s->at[i].start_ns < from_ns; i++) {
        s->at[i].start_ns = from_ns;
        if (s->at[i].end_ns < from_ns)
            s->at[i].end_ns = from_ns;
    }
}

uint64_t ts_gpu_log_busy(const struct ts_gpu_log *log, unsigned works)
{
    size_t next[TS_GPU_WORKS] = { 0 };
    uint64_t until = 0, sum = 0;
    for (;;) { /* takes the spans of all kinds in the order of their starts */
        const struct ts_gpu_span *first = NULL;
        int kind = -1;
        for (int i = 0; i < TS_GPU_WORKS; i++) {
            const struct ts_gpu_spans *s = &log->spans[i];
            if ((works & 1u << i) == 0 || next[i] == s->n)
                continue;
            if (first == NULL || s->at[next[i]].start_ns < first->start_ns) {
                first = &s->at[next[i]];
                kind = i;
            }
        }
        if (first == NULL)
            return sum;
        next[kind]++;
        if (first->end_ns <= until)
            continue;
        sum += first->end_ns - (first->start_ns > until ? first->start_ns : until);
        until = first->end_ns;
    }
}

uint64_t ts_gpu_log_alone(const struct ts_gpu_log *log, enum ts_gpu_work work, unsigned besides)
{
    return ts_gpu_log_busy(log, besides | 1u << work) - ts_gpu_log_busy(log, besides);
}
