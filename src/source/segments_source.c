/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the segments of a tensor in order, in a thread. For each segment it starts a source, which
 * puts the nonzeros of the segment into the sink. */
#include "source/segments_source.h"

#include <stdlib.h>

#include "base/setting.h"
#include "base/stop.h"
#include "source/source_threads.h"
#include "source/tensor_source.h"

struct ts_segments_source {
    struct ts_source_thread thread; /* the first member, as ts_source_threads_start requires */
    struct ts_segments_source_conf conf;
    struct ts_sink to;
    uint64_t done; /* number of nonzeros that were put into the sink; atomic */
    int ended;     /* 1: the sink takes no more nonzeros, or reading a segment failed; atomic */
};

/* ------------------------------------------------------------------ the sink of a segment */

static int put(void *self, uint64_t number, const struct ts_batch *b)
{
    struct ts_segments_source *s = self;
    const int rc = s->to.put(s->to.self, number, b);
    if (rc < 0)
        __atomic_store_n(&s->ended, 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(&s->done, b->n_read, __ATOMIC_RELAXED);
    return rc;
}

static void done(void *self)
{
    (void)self; /* not passed on to the sink, because another segment may follow */
}

static void fail(void *self, uint64_t number, const struct ts_err *why, const char *name,
                 uint32_t file, uint64_t line)
{
    struct ts_segments_source *s = self;
    __atomic_store_n(&s->ended, 1, __ATOMIC_RELAXED);
    s->to.fail(s->to.self, number, why, name, file, line);
}

static void why(void *self, struct ts_err *ret)
{
    struct ts_segments_source *s = self;
    s->to.why(s->to.self, ret);
}

/* ------------------------------------------------------------------ the thread */

/* Reads one segment, with fewer threads if the memory is short. */
static int read_segment(struct ts_segments_source *s, const struct ts_tensor *t, struct ts_err *err)
{
    const struct ts_pick all = { .side = TS_PICK_ALL };
    const struct ts_sink sink = { s, put, done, fail, why };
    struct ts_tensor_source_conf conf = { .tensor = t,
                                          .pick = &all,
                                          .threads = s->conf.threads,
                                          .bytes = s->conf.bytes,
                                          .tmp = s->conf.tmp,
                                          .stop = s->conf.stop };
    struct ts_tensor_source *from = NULL;
    struct ts_source source;
    int rc;
    while (conf.threads > 1 && ts_tensor_source_least(&conf) > conf.bytes)
        conf.threads--;
    if (ts_tensor_source_least(&conf) > conf.bytes)
        return ts_fail(err, TS_EARG, TS_SET_MEMORY " is too little to read %s", t->path);
    if (ts_tensor_source_most(&conf) < conf.bytes)
        conf.bytes = ts_tensor_source_most(&conf);
    rc = ts_tensor_source_new(&conf, &from, err);
    if (rc < 0)
        return rc;
    source = ts_tensor_source_as_source(from);
    rc = source.start(source.self, &sink, err);
    source.stop(source.self);
    ts_tensor_source_free(from);
    return rc;
}

static void *read_segments(void *arg)
{
    struct ts_segments_source *s = arg;
    struct ts_err err = { 0 };
    int rc = 0;
    for (uint32_t i = 0; i < s->conf.segments->n && rc == 0; i++) {
        struct ts_tensor *t = NULL;
        if (__atomic_load_n(&s->ended, __ATOMIC_RELAXED))
            break;
        rc = ts_stop_check(s->conf.stop, &err);
        if (rc == 0)
            rc = ts_segments_tensor(s->conf.segments, i, &t, &err);
        if (rc == 0)
            rc = read_segment(s, t, &err);
        ts_tensor_close(t);
    }
    if (rc < 0)
        s->to.fail(s->to.self, TS_SINK_ANY, &err, NULL, 0, 0);
    s->to.done(s->to.self);
    return NULL;
}

static int start(void *self, const struct ts_sink *to, struct ts_err *err)
{
    struct ts_segments_source *s = self;
    int n;
    s->to = *to;
    n = ts_source_threads_start(s, sizeof *s, 1, read_segments, to, err);
    return n < 0 ? n : 0;
}

static void stop(void *self)
{
    ts_source_threads_stop(self, sizeof(struct ts_segments_source), 1);
}

static void progress(const void *self, uint64_t *so_far, uint64_t *total)
{
    const struct ts_segments_source *s = self;
    *total = s->conf.nnz;
    *so_far = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
}

int ts_segments_source_new(const struct ts_segments_source_conf *conf,
                           struct ts_segments_source **ret, struct ts_err *err)
{
    struct ts_segments_source *s = calloc(1, sizeof *s);
    if (s == NULL)
        return ts_no_memory(err, conf->segments->path);
    s->conf = *conf;
    *ret = s;
    return 0;
}

void ts_segments_source_free(struct ts_segments_source *s)
{
    if (s == NULL)
        return;
    stop(s);
    free(s);
}

struct ts_source ts_segments_source_as_source(struct ts_segments_source *s)
{
    return (struct ts_source){
        .self = s,
        .unit = "nonzeros",
        .threads = 1,
        .start = start,
        .stop = stop,
        .progress = progress,
    };
}
