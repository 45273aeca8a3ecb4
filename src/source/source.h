/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - defines the interface between a source of nonzeros and the sink that takes them.
 *
 * A source has threads of its own, which put batches into a sink; each kind of source
 * (text_source.h, synth_source.h, push_source.h) fills one struct ts_source. The build's sink is
 * collect.h.
 *
 *   owner    source and sink do not own each other; a sink must stay until `stop` has returned
 *   threads  put and fail: any thread of the source; functions of the source: the thread that owns
 *            the sink
 *   errors   0 or a negative ts_code; failures in a source's thread are reported by the sink's
 *            `fail`
 */
#ifndef TS_SOURCE_SOURCE_H
#define TS_SOURCE_SOURCE_H

#include <stdint.h>

#include "base/err.h"
#include "source/batch.h"

/* Number of a batch that may be put before or after any other batch. */
#define TS_SINK_ANY UINT64_MAX

/* The taker of batches. `self` is the first argument of its functions. */
struct ts_sink {
    void *self;

    /* Takes batch `number` (0, 1, 2, ..., each exactly once; or TS_SINK_ANY). It may wait until
     * lower numbers were taken. A negative result: the sink takes no more batches; `why` returns
     * the reason. */
    int (*put)(void *self, uint64_t number, const struct ts_batch *b);

    /* Says that a thread of the source has no more batches. */
    void (*done)(void *self);

    /* Reports that the source failed in batch `number`; of several failures the one with the lowest
     * number counts. If `name` is not NULL, the message begins with name and line. `line` counts
     * from the start of the batch, in file number `file`. */
    void (*fail)(void *self, uint64_t number, const struct ts_err *why, const char *name,
                 uint32_t file, uint64_t line);

    /* Sets *ret to the failure for which the sink takes no more batches. */
    void (*why)(void *self, struct ts_err *ret);
};

/* The giver of batches. `self` is the first argument of its functions. */
struct ts_source {
    void *self;
    const char *unit; /* what progress counts: "bytes", "nonzeros" */
    uint32_t threads; /* number of threads, each of which will call done */

    /* Starts the threads. On failure none runs. The source copies the sink. */
    int (*start)(void *self, const struct ts_sink *to, struct ts_err *err);

    /* Waits for the threads of the source; nothing is put into the sink afterwards. May be called
     * without a start, and again. */
    void (*stop)(void *self);

    /* To be called after stop: fails if the number of nonzeros read is not the one in the header of
     * a file. NULL: there is nothing to check. */
    int (*check)(const void *self, struct ts_err *err);

    /* Sets *done to the number of units read so far, and *total to the number of all units; 0: not
     * known. */
    void (*progress)(const void *self, uint64_t *done, uint64_t *total);
};

#endif
