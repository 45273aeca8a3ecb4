/* SPDX-License-Identifier: BSD-3-Clause */
/* source_threads.h - the threads of a source (source.h), one for each of its workers.
 *
 * A worker begins with a struct ts_source_thread. Workers lie one behind the other.
 *
 *   owner    the source owns its workers
 *   threads  start and stop from the thread that starts the source
 *   errors   TS_ENOMEM where not even one thread starts
 */
#ifndef TS_SOURCE_SOURCE_THREADS_H
#define TS_SOURCE_SOURCE_THREADS_H

#include <pthread.h>
#include <stddef.h>

#include "source/source.h"

struct ts_source_thread {
    pthread_t thread;
    int made;
};

/* Starts run(worker) for n workers of worker_bytes each, and tells the sink of those that cannot be
 * started that they are done: fewer do the work as well. Returns how many run. */
int ts_source_threads_start(void *workers, size_t worker_bytes, uint32_t n, void *(*run)(void *),
                            const struct ts_sink *to, struct ts_err *err);

/* Waits for the threads that were started, if any. */
void ts_source_threads_stop(void *workers, size_t worker_bytes, uint32_t n);

#endif
