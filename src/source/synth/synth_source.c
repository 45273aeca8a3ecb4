/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws batches of random nonzeros with several threads, and puts them into the sink in any
 * order. */
#include "source/synth/synth_source.h"
#include "source/source_threads.h"

#include <errno.h>
#include <stdlib.h>

#define PIECE UINT64_C(16384) /* draws in a batch */

struct worker {
    struct ts_source_thread thread;
    struct ts_synth_source *source;
    struct ts_batch batch;
};

struct ts_synth_source {
    struct ts_synth synth;
    struct ts_sink to;
    uint32_t threads;
    uint64_t next; /* number of the next batch; atomic */
    struct worker *worker;
};

uint32_t ts_synth_source_threads(const struct ts_synth *synth, uint32_t threads, uint64_t bytes)
{
    const uint64_t n = bytes / (PIECE * (synth->order + 1) * sizeof(uint64_t));
    return n < 1 ? 1 : n < threads ? (uint32_t)n : threads;
}

int ts_synth_source_new(const struct ts_synth *synth, uint32_t threads, uint64_t table_bytes,
                        struct ts_synth_source **ret, struct ts_err *err)
{
    struct ts_synth_source *s = calloc(1, sizeof *s);
    int rc = 0;
    if (s == NULL || (s->worker = calloc(threads, sizeof *s->worker)) == NULL) {
        free(s);
        return ts_fail(err, TS_ENOMEM, "out of memory for the generator");
    }
    s->synth = *synth;
    s->threads = threads;
    rc = ts_synth_tables_new(&s->synth, table_bytes, threads, err);
    for (uint32_t t = 0; t < threads && rc == 0; t++) {
        s->worker[t].source = s;
        rc = ts_batch_new(synth->order, PIECE, &s->worker[t].batch, err);
    }
    if (rc == 0)
        *ret = s;
    else
        ts_synth_source_free(s);
    return rc;
}

static void *draw_and_put(void *arg)
{
    struct worker *w = arg;
    struct ts_synth_source *s = w->source;
    for (;;) {
        const uint64_t number = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
        const uint64_t first = number * PIECE, left = s->synth.nnz - first;
        if (first >= s->synth.nnz)
            break;
        ts_batch_clear(&w->batch);
        ts_synth_draw(&s->synth, first, left < PIECE ? left : PIECE, &w->batch);
        if (s->to.put(s->to.self, TS_SINK_ANY, &w->batch) < 0)
            break;
    }
    s->to.done(s->to.self);
    return NULL;
}

static int start(void *self, const struct ts_sink *to, struct ts_err *err)
{
    struct ts_synth_source *s = self;
    int n;
    s->to = *to;
    n = ts_source_threads_start(s->worker, sizeof *s->worker, s->threads, draw_and_put, to, err);
    return n < 0 ? n : 0;
}

static void stop(void *self)
{
    struct ts_synth_source *s = self;
    ts_source_threads_stop(s->worker, sizeof *s->worker, s->threads);
}

void ts_synth_source_free(struct ts_synth_source *s)
{
    if (s == NULL)
        return;
    stop(s);
    for (uint32_t t = 0; t < s->threads; t++)
        ts_batch_free(&s->worker[t].batch);
    ts_synth_tables_free(&s->synth);
    free(s->worker);
    free(s);
}

static void progress(const void *self, uint64_t *done, uint64_t *total)
{
    const struct ts_synth_source *s = self;
    const uint64_t drawn = __atomic_load_n(&s->next, __ATOMIC_RELAXED) * PIECE;
    *total = s->synth.nnz;
    *done = drawn < s->synth.nnz ? drawn : s->synth.nnz;
}

struct ts_source ts_synth_source_as_source(struct ts_synth_source *s)
{
    return (struct ts_source){
        .self = s,
        .unit = "nonzeros",
        .threads = s->threads,
        .start = start,
        .stop = stop,
        .progress = progress,
    };
}
