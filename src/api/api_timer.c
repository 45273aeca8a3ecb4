/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits the time that runs of the library may take. */
#include <math.h>
#include <pthread.h>

#include "api/api_run.h"
#include "base/clock.h"
#include "base/stop.h"
#include "base/machine/thread.h"

#define SECOND_NS    1e9
#define MOST_SECONDS 1e9 /* longest time limit in seconds: some thirty years */

static void *wait_until(void *arg)
{
    struct ts_api_timer *t = arg;
    const struct timespec until = { .tv_sec = (time_t)(t->until_ns / 1000000000u),
                                    .tv_nsec = (long)(t->until_ns % 1000000000u) };
    int rc = 0;
    pthread_mutex_lock(&t->lock);
    while (!t->over && rc == 0)
        rc = pthread_cond_timedwait(&t->ended, &t->lock, &until);
    if (!t->over) {
        t->rang = 1;
        ts_stop_ask(t->stop, 1);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int ts_api_timer_start(struct ts_api_timer *t, double seconds, volatile int *stop,
                       struct ts_err *err)
{
    pthread_condattr_t attr;
    if (seconds == 0)
        return 0;
    t->stop = stop;
    t->until_ns = ts_clock_ns() + (uint64_t)(SECOND_NS * fmin(seconds, MOST_SECONDS));
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&attr);
    /* CLOCK_MONOTONIC is the clock of ts_clock_ns */
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->ended, &attr);
    pthread_condattr_destroy(&attr);
    t->running = ts_thread_new(&t->thread, wait_until, t) == 0;
    return t->running ? 0 : ts_fail(err, TS_ENOMEM, "cannot start a thread");
}

int ts_api_timer_end(struct ts_api_timer *t, int rc, struct ts_err *err)
{
    if (!t->running)
        return 0;
    t->running = 0;
    pthread_mutex_lock(&t->lock);
    t->over = 1;
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->ended);
    pthread_mutex_destroy(&t->lock);
    if (t->rang && rc == TS_ESTOP) {
        const struct ts_err why = *err;
        ts_fail(err, TS_ESTOP, "the time is over: %s", why.text);
    }
    return t->rang;
}
