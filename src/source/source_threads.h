/* SPDX-License-Identifier: BSD-3-Clause */
/* source_threads.h - starts and stops the threads of a source (source.h), one for each of its
 * workers.
 *
 * Workers are an array of structs that begin with a struct ts_source_thread.
 *
 *   owner    the source owns its workers
 *   threads  start and stop from the thread that starts the source
 *   errors   TS_ENOMEM if no thread can be started
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

/* Calls run(worker) in a thread for each of n workers of worker_bytes bytes. If some threads cannot
 * be started, calls `done` of the sink for them, and the others do all the work. Returns how many
 * run. */
int ts_source_threads_start(void *workers, size_t worker_bytes, uint32_t n, void *(*run)(void *),
                            const struct ts_sink *to, struct ts_err *err);

/* Waits for the threads that were started, if any. */
void ts_source_threads_stop(void *workers, size_t worker_bytes, uint32_t n);

#endif
