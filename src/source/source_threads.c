/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts the threads of a source, and waits for them. */
#include "source/source_threads.h"

#include <errno.h>

static struct ts_source_thread *thread_of(void *workers, size_t worker_bytes, uint32_t t)
{
    return (struct ts_source_thread *)(void *)((char *)workers + t * worker_bytes);
}

int ts_source_threads_start(void *workers, size_t worker_bytes, uint32_t n, void *(*run)(void *),
                            const struct ts_sink *to, struct ts_err *err)
{
    for (uint32_t t = 0; t < n; t++) {
        struct ts_source_thread *w = thread_of(workers, worker_bytes, t);
        errno = pthread_create(&w->thread, NULL, run, w);
        w->made = errno == 0;
        if (!w->made) {
            const int rc = t > 0 ? (int)t : ts_fail_errno(err, TS_ENOMEM, "cannot start a thread");
            for (uint32_t k = t; k < n; k++)
                to->done(to->self);
            return rc;
        }
    }
    return (int)n;
}

void ts_source_threads_stop(void *workers, size_t worker_bytes, uint32_t n)
{
    for (uint32_t t = 0; t < n; t++) {
        struct ts_source_thread *w = thread_of(workers, worker_bytes, t);
        if (w->made)
            pthread_join(w->thread, NULL);
        w->made = 0;
    }
}
