/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - the seam between where nonzeros come from and who takes them.
 *
 * A source has threads of its own, which put batches into a sink; each kind of source
 * (text_source.h, synth_source.h, push_source.h) fills one struct ts_source. The build's sink is
 * collect.h.
 *
 *   owner    neither owns the other; a sink stays until `stop` has returned
 *   threads  put and fail: any thread of the source; the rest of a source: the thread of the taker
 *   errors   0 or a negative ts_code; what goes wrong in a source's thread goes to the sink's
 *            `fail`
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

    /* Takes batch `number` (0, 1, 2, ...: each exactly once; or TS_SINK_ANY), and may wait for its
     * turn. Negative: the sink takes no more; `why` tells the reason. */
    int (*put)(void *self, uint64_t number, const struct ts_batch *b);

    /* A thread of the source has no more batches. */
    void (*done)(void *self);

    /* The source failed in batch `number`; of several failures the one with the lowest number
     * counts. If `name` is not NULL, the sentence gets name and line in front; `line` counts from
     * the start of the batch, in this file. */
    void (*fail)(void *self, uint64_t number, const struct ts_err *why, const char *name,
                 uint32_t file, uint64_t line);

    /* The failure that ended everything. */
    void (*why)(void *self, struct ts_err *ret);
};

struct ts_source {
    void *self;
    const char *unit; /* what progress counts: "bytes", "nonzeros" */
    uint32_t threads; /* number of threads, each of which will call done */

    /* Starts the threads. On failure none runs. The source copies the sink. */
    int (*start)(void *self, const struct ts_sink *to, struct ts_err *err);

    /* Waits for the threads; nothing is put afterwards. Also called where start was not, and after
     * a stop. */
    void (*stop)(void *self);

    /* After stop: whether everything promised has come (by a header). NULL: nothing was
     * promised. */
    int (*check)(const void *self, struct ts_err *err);

    /* Progress: done, and total, which is 0 while unknown. */
    void (*progress)(const void *self, uint64_t *done, uint64_t *total);
};

#endif
