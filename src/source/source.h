/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - the seam between where nonzeros come from and who takes them.
 *
 * A source has threads of its own, which put batches into a sink; each kind of source (text_source.h,
 * synth_source.h, push_source.h) fills one struct ts_source. The build's sink is collect.h.
 *
 *   owner    neither owns the other; a sink stays until `stop` has returned
 *   threads  put and fail: any thread of the source; the rest of a source: the thread of the taker
 *   errors   0 or a negative ts_code; what goes wrong in a source's thread goes to the sink's `fail`
 */
#ifndef TS_SOURCE_SOURCE_H
#define TS_SOURCE_SOURCE_H

#include <stdint.h>

#include "base/err.h"
#include "source/batch.h"

/* A batch whose place among the others does not matter. */
#define TS_SINK_ANY UINT64_MAX

struct ts_sink {
    void *self;

    /* Takes batch `number` (0, 1, 2, ...: each exactly once, or TS_SINK_ANY), and may wait for its turn.
     * Negative: the taker wants no more; `why` says why. */
    int (*put)(void *self, uint64_t number, const struct ts_batch *b);

    /* A thread of the source has no more batches. */
    void (*done)(void *self);

    /* The source failed in what would have been batch `number`; of several failures that of the lowest
     * number counts. Where `name` is not NULL the sentence gets name and line in front: `line` counts from
     * the start of the batch, in this file. */
    void (*fail)(void *self, uint64_t number, const struct ts_err *why, const char *name,
                 uint32_t file, uint64_t line);

    /* Of the failure that ended all. */
    void (*why)(void *self, struct ts_err *ret);
};

struct ts_source {
    void *self;
    const char *unit; /* what progress counts: "bytes", "nonzeros" */
    uint32_t threads; /* that will call done */

    /* Starts them. On failure none runs; the sink is the source's to copy. */
    int (*start)(void *self, const struct ts_sink *to, struct ts_err *err);

    void (*stop)(void *self); /* waits for the threads; nothing is put afterwards */

    /* After stop: whether all came that was promised. NULL: nothing was. */
    int (*check)(const void *self, struct ts_err *err);

    /* How far it is, in all: 0 while that is not known. */
    void (*progress)(const void *self, uint64_t *done, uint64_t *total);
};

#endif
