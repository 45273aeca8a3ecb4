/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread sends beats (bytes) to the next rank of a ring and receives those of the rank before.
 * A second thread asks the kernel whether other machines answer, since a call of MPI may block the
 * first one. */
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
#include "mpi/launcher.h"
#include "mpi/wire.h"

#define BEAT_NS  UINT64_C(500000000)
#define END_NS   UINT64_C(1000000) /* time between checks whether the rank before has ended */
#define HOST     64
#define TAG_BEAT 1
#define TAG_END  2
#define TAG_GONE 3 /* sent to all ranks when a rank gets no more beats from the rank before */

struct ts_heartbeat {
    MPI_Comm comm;
    const char *name;
    int rank, n, before, next;
    /* the rank before counts as gone after this rank has sent this many beats and received none */
    uint32_t patience;
    int say;          /* duplicate of standard error, in case the program redirects its own */
    char *hosts;      /* names of hosts: n x HOST characters */
    MPI_Request sent; /* the last beat, valid if `sends` is set */
    int sends;
    MPI_Request *request; /* n requests: the messages that tell all ranks of a lost one */
    void (*look)(void *ctx);
    void *ctx;
    pthread_t thread, watcher;
    /* set by the thread that reports a lost rank first; the other thread stays silent */
    atomic_flag ends;
    atomic_int stops;
    pthread_mutex_t lock;
    pthread_cond_t stop; /* signalled when `stops` was set */
};

/* The wait until all ranks have started: a thread reports a failure if it takes longer than
 * `seconds`. */
static struct {
    const char *name;
    uint32_t seconds;
    int watched, done;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond; /* signalled when `done` was set */
} starts = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Ends all ranks after another rank has reported a lost rank. */
static void end_as_told(void)
{
    ts_launcher_end_soon();
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Receives the messages that the rank before has sent since the last call. Returns 0 if there were
 * none, 1 for beats, and 2 for its last message (TAG_END). */
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
        if (status.MPI_TAG == TAG_GONE)
            end_as_told();
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

/* Sleeps for ns nanoseconds, or until `stops` is set, so that the program's end is not delayed. */
static void rest_unless_stopped(struct ts_heartbeat *h, uint64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&h->lock);
    while (!atomic_load(&h->stops) && pthread_cond_timedwait(&h->stop, &h->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&h->lock);
}

static uint32_t seconds_of(const struct ts_heartbeat *h)
{
    return (uint32_t)(h->patience * BEAT_NS / 1000000000);
}

/* Waits up to a second until the launcher has read the message from the pipe fd. After MPI_Abort, a
 * launcher may end before it has passed on the contents of its pipes. */
static void wait_for_reader(int fd)
{
    int left = 0;
    for (int i = 0; i < 20 && ioctl(fd, FIONREAD, &left) == 0 && left > 0; i++)
        rest(BEAT_NS / 10);
    rest(BEAT_NS / 10);
}

/* Tells all other ranks that the rank before is gone, since the launcher of another machine may not
 * learn of MPI_Abort. It waits 100 ms at most: messages that MPI cannot send by then are lost when
 * the process ends. */
static void tell_gone(const struct ts_heartbeat *h)
{
    static const char byte = 0;
    int n = 0;
    for (int r = 0; r < h->n; r++)
        if (r != h->rank && r != h->before)
            MPI_Isend(&byte, 1, MPI_CHAR, r, TAG_GONE, h->comm, &h->request[n++]);
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < n; i++) {
            MPI_Status status;
            int done;
            MPI_Test(&h->request[i], &done, &status);
        }
        rest(BEAT_NS / 25);
    }
}

/* Prints the message in one write, so that output of other ranks does not split it. The program's
 * name is cut at its first '-', to the name that the user knows. */
static void say(const struct ts_heartbeat *h, int rank, const char *what)
{
    char text[500];
    const int n =
        snprintf(text, sizeof text, "%.*s: rank %d of %d, on %s: %s\n", (int)strcspn(h->name, "-"),
                 h->name, rank, h->n, h->hosts + (size_t)rank * HOST, what);
    if (n > 0 && write(h->say, text, (size_t)n) < 0)
        (void)n; /* standard error is closed: the exit status reports the failure */
}

static void end_all(struct ts_heartbeat *h)
{
    char what[200];
    if (atomic_flag_test_and_set(&h->ends))
        return;
    ts_launcher_end_soon();
    (void)snprintf(what, sizeof what,
                   "has said nothing for %u seconds: it was stopped, or its machine or the network "
                   "is gone; all ranks end",
                   seconds_of(h));
    say(h, h->before, what);
    tell_gone(h);
    wait_for_reader(h->say);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Ends all ranks because the machine `peer` has not answered for ms milliseconds. Called by the
 * second thread, which must not call MPI before MPI_Abort. */
static void end_without(struct ts_heartbeat *h, const char *peer, uint32_t ms)
{
    char what[200];
    if (atomic_flag_test_and_set(&h->ends))
        return;
    ts_launcher_end_soon();
    (void)snprintf(what, sizeof what,
                   "%s has not answered for %u seconds: its machine or the network is gone; all "
                   "ranks end",
                   peer, (ms + 500) / 1000);
    say(h, h->rank, what);
    wait_for_reader(h->say);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The second thread. It ends all ranks only if a machine is silent in two checks in a row, because
 * a machine that was suspended needs time to answer. The limit is one second less than `patience`,
 * which leaves that second for the messages about the lost machine. */
static void *watch(void *ctx)
{
    struct ts_heartbeat *h = ctx;
    const uint32_t s = seconds_of(h), ms = 1000 * (s > 2 ? s - 1 : s);
    int times = 0;
    while (!atomic_load(&h->stops)) {
        char peer[64];
        uint32_t silent;
        rest_unless_stopped(h, BEAT_NS);
        silent = atomic_load(&h->stops) ? 0 : ts_wire_silent_ms(ms, peer, sizeof peer);
        times = silent > 0 ? times + 1 : 0;
        if (times > 1)
            end_without(h, peer, silent);
    }
    return NULL;
}

static void end_if_told(const struct ts_heartbeat *h)
{
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_GONE, h->comm, &there, MPI_STATUS_IGNORE);
    if (there)
        end_as_told();
}

/* Whether MPI has sent the last beat. If the network is gone, some MPIs block in another send, and
 * this thread must not be blocked. */
static int was_sent(struct ts_heartbeat *h)
{
    MPI_Status status;
    int done = 1;
    if (h->sends)
        MPI_Test(&h->sent, &done, &status);
    h->sends = !done;
    return done;
}

static void send_next(struct ts_heartbeat *h, int tag)
{
    static const char byte = 0;
    MPI_Isend(&byte, 1, MPI_CHAR, h->next, tag, h->comm, &h->sent);
    h->sends = 1;
}

static void *beat(void *ctx)
{
    struct ts_heartbeat *h = ctx;
    uint64_t last = 0;
    uint32_t silent = 0;
    int listens = 1, said_end = 0;
    while (listens || !said_end || !was_sent(h)) {
        const uint64_t now = ts_clock_ns();
        const int stops = atomic_load(&h->stops), heard = listens ? listen_before(h) : 0;
        h->look(h->ctx);
        end_if_told(h);
        if (heard > 0)
            silent = 0;
        if (heard == 2)
            listens = 0;
        if (stops && !said_end && was_sent(h)) {
            send_next(h, TAG_END);
            said_end = 1;
        }
        if (now - last >= BEAT_NS) {
            if (!said_end && was_sent(h))
                send_next(h, TAG_BEAT);
            if (listens && heard == 0 && last > 0 && now - last < 3 * BEAT_NS)
                silent++;
            last = now;
            if (silent >= h->patience)
                end_all(h);
        }
        if (stops)
            rest(END_NS);
        else
            rest_unless_stopped(h, BEAT_NS / 10);
    }
    return NULL;
}

static uint32_t patience(void)
{
    const char *text = getenv("TSTREAM_RANK_TIMEOUT");
    char *end = NULL;
    const long said = text == NULL ? 0 : strtol(text, &end, 10);
    /* At most 86400 seconds (a day). A value that is not a number counts as not set. */
    const long seconds = end == NULL || end == text || *end != '\0' || said < 0 || said > 86400
                             ? TS_HEARTBEAT_SECONDS
                             : said;
    return (uint32_t)((uint64_t)seconds * 1000000000 / BEAT_NS);
}

/* ---- the wait until all ranks have started ---- */

/* Ends this process and its launcher. MPI_Abort cannot be called, as MPI_Init may still be
 * running. */
static void end_at_start(void)
{
    char text[400], host[HOST] = "?";
    int n;
    (void)gethostname(host, sizeof host - 1);
    n = snprintf(text, sizeof text,
                 "%.*s: on %s: not all ranks have started for %u seconds: one was stopped, or its "
                 "machine or the network is gone; all ranks end\n",
                 (int)strcspn(starts.name, "-"), starts.name, host, starts.seconds);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
        (void)n; /* standard error is closed */
    ts_launcher_end_soon();
}

static void *watch_starts(void *ctx)
{
    struct timespec until;
    int late = 0;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += starts.seconds;
    pthread_mutex_lock(&starts.lock);
    while (!starts.done && !late)
        late = pthread_cond_timedwait(&starts.cond, &starts.lock, &until) != 0;
    late = !starts.done;
    pthread_mutex_unlock(&starts.lock);
    if (late)
        end_at_start();
    return NULL;
}

static void stop_watching_starts(void)
{
    if (!starts.watched)
        return;
    pthread_mutex_lock(&starts.lock);
    starts.done = 1;
    pthread_cond_broadcast(&starts.cond);
    pthread_mutex_unlock(&starts.lock);
    pthread_join(starts.thread, NULL);
    pthread_cond_destroy(&starts.cond);
    starts.watched = 0;
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
    free(h->request);
    free(h);
}

static void init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/* Starts a thread with all signals blocked, so that signals go to threads that handle them. */
static int start_thread(pthread_t *thread, void *(*run)(void *ctx), void *ctx)
{
    sigset_t all, before;
    int failed;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(thread, NULL, run, ctx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

void ts_heartbeat_before(const char *name)
{
    starts.name = name;
    starts.seconds = (uint32_t)(TS_HEARTBEAT_STARTS * (patience() * BEAT_NS / 1000000000));
    if (starts.seconds == 0)
        return;
    init_cond(&starts.cond);
    starts.watched = start_thread(&starts.thread, watch_starts, NULL) == 0;
}

struct ts_heartbeat *ts_heartbeat_start(const char *name, int level, void (*look)(void *ctx),
                                        void *ctx)
{
    struct ts_heartbeat *h = calloc(1, sizeof *h);
    char host[HOST] = "?";
    int mine = 0, all;
    if (h != NULL) {
        init_cond(&h->stop);
        pthread_mutex_init(&h->lock, NULL);
        atomic_flag_clear(&h->ends);
        h->comm = MPI_COMM_NULL;
        MPI_Comm_size(MPI_COMM_WORLD, &h->n);
        MPI_Comm_rank(MPI_COMM_WORLD, &h->rank);
        h->hosts = calloc((size_t)h->n, HOST);
        h->request = calloc((size_t)h->n, sizeof *h->request);
        h->patience = patience();
        h->say = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        mine = level >= MPI_THREAD_MULTIPLE && h->n > 1 && h->patience > 0 && h->hosts != NULL &&
               h->request != NULL && h->say >= 0;
    }
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all) {
        stop_watching_starts();
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
    stop_watching_starts();
    if (start_thread(&h->thread, beat, h) != 0 || start_thread(&h->watcher, watch, h) != 0) {
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
    pthread_cond_broadcast(&h->stop);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->watcher, NULL);
    pthread_join(h->thread, NULL);
    close_all(h);
}
