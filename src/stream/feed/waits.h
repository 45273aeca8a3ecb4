/* SPDX-License-Identifier: BSD-3-Clause */
/* waits.h - waits for another thread, and checks regularly whether the user wants to stop.
 *
 *   threads  as for pthread_cond_timedwait: the caller of ts_wait_some holds the lock
 */
#ifndef TS_STREAM_WAITS_H
#define TS_STREAM_WAITS_H

#include <pthread.h>
#include <time.h>

/* nanoseconds between two checks whether the user wants to stop */
#define TS_STOP_LOOK_NS 100000000L

/* Initializes a condition variable for ts_wait_some. */
static inline void ts_wait_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

/* Waits until the condition is signalled, or until it is time to check again whether the user wants
 * to stop. */
static inline void ts_wait_some(pthread_cond_t *c, pthread_mutex_t *lock)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TS_STOP_LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(c, lock, &until);
}

#endif
