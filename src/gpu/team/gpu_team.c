/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the members' threads: jobs on all of them, barriers, and waits that end when another member
 * (GPU) fails. */
#include <cuda_runtime.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/team/gpu_team.h"

/* A check whether work has ended takes a microsecond or two; a sleep of 20 microseconds lasts 70.
 * So a wait spends its first tens of milliseconds checking, and yields the core between checks.
 * Most passes end within that time; waits for a disk do not, and sleep. */
#define LOOKS    20000
#define SLEEP_NS 20000
#define POLL_NS  1000000 /* time between polls for failures of other processes */
/* a wait asks NCCL for failures once in this many checks, as asking takes a lock */
#define LOOKS_PER_CHECK 64

void ts_gpu_team_pause(uint32_t *n)
{
    static const struct timespec sleep = { 0, SLEEP_NS };
    if ((*n)++ < LOOKS)
        sched_yield();
    else
        nanosleep(&sleep, NULL);
}

static void fail_all(struct ts_gpu *g, int rc, const struct ts_err *err);

/* Fails all members (GPUs) if another process has failed. In jobs without a feed, no process waits
 * for others, and each continues to the next collective call. */
static void look_around(struct ts_gpu *g)
{
    struct ts_gpu_team *t = &g->team;
    const uint64_t now = ts_clock_ns();
    struct ts_err err;
    if (t->feed == NULL || now - t->polled_ns < POLL_NS)
        return;
    t->polled_ns = now;
    if (g->comm->ops->poll(g->comm))
        fail_all(g, ts_fail(&err, TS_ESTOP, "another rank has stopped"), &err);
}

int ts_gpu_team_failed(struct ts_gpu *g, struct ts_err *err)
{
    struct ts_gpu_team *t = &g->team;
    int rc;
    if (g->comm != NULL && atomic_load(&t->failed) == 0 && pthread_equal(pthread_self(), t->caller))
        look_around(g);
    rc = atomic_load(&t->failed);
    if (rc != 0 && err != NULL) {
        pthread_mutex_lock(&t->lock);
        *err = t->err;
        pthread_mutex_unlock(&t->lock);
    }
    return rc;
}

/* Records the first failure and wakes every thread that waits: for the feed, for rows of other
 * members, at a barrier, or for a device. */
static void fail_all(struct ts_gpu *g, int rc, const struct ts_err *err)
{
    struct ts_gpu_team *t = &g->team;
    int first;
    pthread_mutex_lock(&t->lock);
    first = atomic_load(&t->failed) == 0;
    if (first) {
        t->err = *err;
        atomic_store(&t->failed, rc);
    }
    pthread_mutex_unlock(&t->lock);
    if (!first)
        return;
    if (t->feed != NULL)
        ts_feed_fail_with(t->feed, rc, err);
    if (g->exchange != NULL)
        ts_exchange_abort(g->exchange);
}

static void do_job(struct ts_gpu *g, struct ts_gpu_member *me)
{
    struct ts_err err = { 0 };
    const ts_gpu_error e = cudaSetDevice(me->device);
    const int rc = e == cudaSuccess ? g->team.job(g, me, g->team.arg, &err)
                                    : ts_gpu_fail(&err, e, "taking up work on the GPU");
    if (rc < 0)
        fail_all(g, rc, &err);
}

static void *work(void *arg)
{
    struct ts_gpu_member *me = arg;
    struct ts_gpu *g = me->gpu;
    struct ts_gpu_team *t = &g->team;
    uint64_t turn = 0;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->turn == turn && !t->quit)
            pthread_cond_wait(&t->go, &t->lock);
        if (t->quit)
            break;
        turn = t->turn;
        pthread_mutex_unlock(&t->lock);
        do_job(g, me);
        pthread_mutex_lock(&t->lock);
        if (--t->n_busy == 0)
            pthread_cond_signal(&t->done);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int ts_gpu_team_open(struct ts_gpu *g, struct ts_err *err)
{
    struct ts_gpu_team *t = &g->team;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->go, NULL);
    pthread_cond_init(&t->done, NULL);
    t->up = 1;
    for (uint32_t i = g->first_here + 1; i < g->first_here + g->n_here; i++) {
        const int e = pthread_create(&g->member[i].thread, NULL, work, &g->member[i]);
        if (e != 0)
            return ts_fail(err, TS_ENOMEM, "a thread for GPU %d cannot be started: %s",
                           g->member[i].device, strerror(e));
        t->n_threads++;
    }
    return 0;
}

void ts_gpu_team_close(struct ts_gpu *g)
{
    struct ts_gpu_team *t = &g->team;
    if (!t->up)
        return;
    pthread_mutex_lock(&t->lock);
    t->quit = 1;
    pthread_cond_broadcast(&t->go);
    pthread_mutex_unlock(&t->lock);
    for (uint32_t i = 1; i <= t->n_threads; i++)
        pthread_join(g->member[g->first_here + i].thread, NULL);
    pthread_cond_destroy(&t->done);
    pthread_cond_destroy(&t->go);
    pthread_mutex_destroy(&t->lock);
    t->up = 0;
}

int ts_gpu_team_run(struct ts_gpu *g, ts_gpu_job job, void *arg, struct ts_feed *feed,
                    struct ts_err *err)
{
    struct ts_gpu_team *t = &g->team;
    pthread_mutex_lock(&t->lock);
    t->job = job;
    t->arg = arg;
    t->feed = feed;
    t->caller = pthread_self();
    t->n_busy = t->n_threads;
    t->turn++;
    atomic_store(&t->n_waiting, 0);
    pthread_cond_broadcast(&t->go);
    pthread_mutex_unlock(&t->lock);
    do_job(g, ts_gpu_first(g));
    pthread_mutex_lock(&t->lock);
    while (t->n_busy > 0)
        pthread_cond_wait(&t->done, &t->lock);
    t->feed = NULL;
    pthread_mutex_unlock(&t->lock);
    return ts_gpu_team_failed(g, err);
}

int ts_gpu_team_barrier(struct ts_gpu *g, struct ts_err *err)
{
    struct ts_gpu_team *t = &g->team;
    const uint32_t before = atomic_load(&t->barrier);
    uint32_t n = 0;
    int rc = 0;
    if (atomic_fetch_add(&t->n_waiting, 1) + 1 == g->n_here) {
        atomic_store(&t->n_waiting, 0);
        atomic_fetch_add(&t->barrier, 1);
        return ts_gpu_team_failed(g, err);
    }
    while (rc == 0 && atomic_load(&t->barrier) == before) {
        ts_gpu_team_pause(&n);
        rc = ts_gpu_team_failed(g, err);
    }
    return rc;
}

int ts_gpu_team_wait(struct ts_gpu *g, struct ts_gpu_member *me, ts_gpu_event event,
                     struct ts_err *err)
{
    uint32_t n = 0;
    for (;;) {
        ts_gpu_error e;
        int rc = ts_gpu_ended(event, &e);
        if (rc > 0)
            return 0;
        if (rc < 0)
            return ts_gpu_fail(err, e, "computing");
        if (!ts_gpu_log_look(&me->log))
            ts_gpu_team_pause(&n);
        rc = ts_gpu_team_failed(g, err);
        if (rc == 0 && g->exchange != NULL && n % LOOKS_PER_CHECK == 0)
            rc = ts_exchange_check(g->exchange, me->number, err);
        if (rc < 0)
            return rc;
    }
}
