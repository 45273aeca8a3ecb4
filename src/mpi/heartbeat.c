/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that beats and listens, around the ring of ranks. */
#include "mpi/heartbeat.h"

#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define BEAT_NS  UINT64_C(500000000)
#define END_NS   UINT64_C(1000000) /* between looks for the end of the rank before */
#define HOST     64
#define TAG_BEAT 1
#define TAG_END  2

struct ts_heartbeat {
    MPI_Comm comm;
    const char *name;
    int rank, n, before, next;
    uint32_t patience; /* beats of its own without any from the rank before */
    int say;           /* standard error, whatever the program does with its own */
    char *hosts;       /* n x HOST */
    void (*look)(void *ctx);
    void *ctx;
    pthread_t thread;
    atomic_int stops;
    pthread_mutex_t lock;
    pthread_cond_t stop; /* stops was set */
};

/* What the rank before has said since the last time: 1 something, 2 that it ends, 0 nothing. */
static int listen_before(const struct ts_heartbeat *h)
{
    int heard = 0;
    for (;;) {
        MPI_Status status;
        char byte;
        int there = 0;
        MPI_Iprobe(h->before, MPI_ANY_TAG, h->comm, &there, &status);
        if (!there)
            return heard;
        MPI_Recv(&byte, 1, MPI_CHAR, h->before, status.MPI_TAG, h->comm, MPI_STATUS_IGNORE);
        heard = status.MPI_TAG == TAG_END ? 2 : 1;
        if (heard == 2)
            return heard;
    }
}

static void rest(uint64_t ns)
{
    const struct timespec t = { .tv_nsec = (long)ns };
    nanosleep(&t, NULL);
}

/* Until the next look, or until it is to stop, which no rank shall wait for at its end. */
static void rest_unless_stopped(struct ts_heartbeat *h)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(BEAT_NS / 10);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&h->lock);
    while (!atomic_load(&h->stops) && pthread_cond_timedwait(&h->stop, &h->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&h->lock);
}

/* A launcher that hears of an abort may end before it has passed on what is in its pipe: it has a
 * second to read that. */
static void wait_for_reader(int fd)
{
    int left = 0;
    for (int i = 0; i < 20 && ioctl(fd, FIONREAD, &left) == 0 && left > 0; i++)
        rest(BEAT_NS / 10);
    rest(BEAT_NS / 10);
}

/* The words are one write, which those of others do not cut. The name is that of the program that a
 * user knows. */
static void end_all(const struct ts_heartbeat *h)
{
    char text[400];
    const int n = snprintf(
        text, sizeof text,
        "%.*s: rank %d of %d, on %s: has said nothing for %u seconds: it was stopped, or its "
        "machine or the network is gone; all ranks end\n",
        (int)strcspn(h->name, "-"), h->name, h->before, h->n, h->hosts + (size_t)h->before * HOST,
        (unsigned)(h->patience * BEAT_NS / 1000000000));
    if (n > 0 && write(h->say, text, (size_t)n) < 0)
        (void)n; /* nobody listens: the exit status says it */
    wait_for_reader(h->say);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *beat(void *ctx)
{
    struct ts_heartbeat *h = ctx;
    uint64_t last = 0;
    uint32_t silent = 0;
    int listens = 1, said_end = 0;
    while (listens || !said_end) {
        const uint64_t now = ts_clock_ns();
        const int stops = atomic_load(&h->stops), heard = listens ? listen_before(h) : 0;
        char byte = 0;
        h->look(h->ctx);
        if (heard > 0)
            silent = 0;
        if (heard == 2)
            listens = 0;
        if (stops && !said_end) {
            MPI_Send(&byte, 1, MPI_CHAR, h->next, TAG_END, h->comm);
            said_end = 1;
        }
        if (now - last >= BEAT_NS) {
            if (!said_end)
                MPI_Send(&byte, 1, MPI_CHAR, h->next, TAG_BEAT, h->comm);
            if (listens && heard == 0 && last > 0 && now - last < 3 * BEAT_NS)
                silent++;
            last = now;
            if (silent > h->patience)
                end_all(h);
        }
        if (said_end && listens)
            rest(END_NS);
        else if (!said_end)
            rest_unless_stopped(h);
    }
    return NULL;
}

static uint32_t patience(void)
{
    const char *text = getenv("TSTREAM_RANK_TIMEOUT");
    const long seconds = text == NULL ? TS_HEARTBEAT_SECONDS : strtol(text, NULL, 10);
    return seconds <= 0 ? 0 : (uint32_t)((uint64_t)seconds * 1000000000 / BEAT_NS);
}

static void close_all(struct ts_heartbeat *h)
{
    if (h == NULL)
        return;
    if (h->comm != MPI_COMM_NULL)
        MPI_Comm_free(&h->comm);
    if (h->say >= 0)
        close(h->say);
    pthread_cond_destroy(&h->stop);
    pthread_mutex_destroy(&h->lock);
    free(h->hosts);
    free(h);
}

static void init_lock(struct ts_heartbeat *h)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&h->stop, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&h->lock, NULL);
}

/* Signals are for the threads that know what to do with them. */
static int start_thread(struct ts_heartbeat *h)
{
    sigset_t all, before;
    int failed;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&h->thread, NULL, beat, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

struct ts_heartbeat *ts_heartbeat_start(const char *name, int level, void (*look)(void *ctx),
                                        void *ctx)
{
    struct ts_heartbeat *h = calloc(1, sizeof *h);
    char host[HOST] = "?";
    int mine = 0, all;
    if (h != NULL) {
        init_lock(h);
        h->comm = MPI_COMM_NULL;
        MPI_Comm_size(MPI_COMM_WORLD, &h->n);
        MPI_Comm_rank(MPI_COMM_WORLD, &h->rank);
        h->hosts = calloc((size_t)h->n, HOST);
        h->patience = patience();
        h->say = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        mine = level >= MPI_THREAD_MULTIPLE && h->n > 1 && h->patience > 0 && h->hosts != NULL &&
               h->say >= 0;
    }
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all) {
        close_all(h);
        return NULL;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &h->comm);
    h->name = name;
    h->look = look;
    h->ctx = ctx;
    h->before = (h->rank + h->n - 1) % h->n;
    h->next = (h->rank + 1) % h->n;
    (void)gethostname(host, sizeof host - 1);
    MPI_Allgather(host, HOST, MPI_CHAR, h->hosts, HOST, MPI_CHAR, h->comm);
    if (start_thread(h) != 0) {
        fprintf(stderr, "%s: rank %d: a thread cannot be started\n", name, h->rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return h;
}

void ts_heartbeat_stop(struct ts_heartbeat *h)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&h->lock);
    atomic_store(&h->stops, 1);
    pthread_cond_signal(&h->stop);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    close_all(h);
}
