/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a trace: callers put events into a queue, and one thread writes them to the file. */
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files/atomic_out.h"
#include "base/clock.h"
#include "base/files/fd.h"
#include "base/setting.h"
#include "base/machine/thread.h"

#define BUFFER_BYTES (256u << 10) /* buffer of the file: about 2000 events */
#define QUEUE_EVENTS 32768u       /* room for half a second of events of four GPUs */
/* number of waiting events at which the writer is woken; it finds fewer by its regular checks */
#define QUEUE_WAKES 4096u
#define LOOK_NS     50000000L

/* An event that waits in the queue. */
struct event {
    const char *what;
    uint64_t start_ns, end_ns, shard, bytes;
    uint32_t lane, mode;
};

struct ts_trace {
    char *path;
    struct ts_atomic_file *out;
    uint64_t start_ns; /* ts_clock_ns at the time that is 0 in the file */

    pthread_mutex_t file_lock; /* protects the members up to `sys` */
    FILE *file;
    char *buffer;
    /* comma: 1 if a comma is needed before the next event; sys: errno of the first failure */
    int comma, sys;

    pthread_t writer;
    int writes;           /* 1: the writer's thread runs */
    pthread_mutex_t lock; /* protects the fields of the queue */
    pthread_cond_t more, room;
    struct event *event;  /* the queue: a ring of QUEUE_EVENTS events */
    uint64_t added, done; /* number of events so far: put into the queue, written */
    int last;             /* 1: no more events will be added */
};

/* ---- opening and closing the file ---- */

#define BEGINS "{\"displayTimeUnit\":\"ms\",\"traceEvents\":["

static int looks_like_trace(const char *head, size_t n, int sure)
{
    (void)sure;
    return n > strlen(BEGINS) && memcmp(head, BEGINS, strlen(BEGINS)) == 0;
}

static int open_file(struct ts_trace *t, int force, struct ts_err *err)
{
    const struct ts_atomic_conf conf = { .path = t->path,
                                         .suffix = ".partial",
                                         .what = "a trace",
                                         .place = TS_SET_TRACE,
                                         .force = force,
                                         .looks = looks_like_trace };
    int fd, rc = ts_atomic_file_open(&conf, &t->out, err);
    if (rc < 0)
        return rc;
    fd = fcntl(ts_atomic_file_fd(t->out), F_DUPFD_CLOEXEC,
               3); /* a second descriptor, since fclose closes one and the lock needs one */
    t->file = fd < 0 ? NULL : fdopen(fd, "w");
    if (t->file == NULL) {
        rc = ts_fail_errno(err, TS_EIO, "%s: the trace cannot be written", t->path);
        ts_fd_close(fd);
        return rc;
    }
    setvbuf(t->file, t->buffer, _IOFBF, BUFFER_BYTES);
    return 0;
}

/* Waits until the writer's thread has written all added events, and ends it. */
static void end_writer(struct ts_trace *t)
{
    if (!t->writes)
        return;
    pthread_mutex_lock(&t->lock);
    t->last = 1;
    pthread_cond_signal(&t->more);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->writer, NULL);
    t->writes = 0;
}

static void trace_free(struct ts_trace *t)
{
    end_writer(t);
    if (t->file != NULL)
        fclose(t->file);
    ts_atomic_file_close(t->out);
    pthread_cond_destroy(&t->more);
    pthread_cond_destroy(&t->room);
    pthread_mutex_destroy(&t->lock);
    pthread_mutex_destroy(&t->file_lock);
    free(t->event);
    free(t->buffer);
    free(t->path);
    free(t);
}

static void *write_events(void *arg);

static int start_writer(struct ts_trace *t, struct ts_err *err)
{
    errno = ts_thread_new(&t->writer, write_events, t);
    t->writes = errno == 0;
    return t->writes ? 0
                     : ts_fail_errno(err, TS_ENOMEM, "%s: no thread to write the trace", t->path);
}

int ts_trace_open(const char *path, int force, struct ts_trace **ret, struct ts_err *err)
{
    struct ts_trace *t = calloc(1, sizeof *t);
    int rc = 0;
    if (t == NULL)
        return ts_no_memory(err, path);
    pthread_mutex_init(&t->lock, NULL);
    pthread_mutex_init(&t->file_lock, NULL);
    pthread_cond_init(&t->more, NULL);
    pthread_cond_init(&t->room, NULL);
    t->start_ns = ts_clock_ns();
    t->path = strdup(path);
    t->buffer = malloc(BUFFER_BYTES);
    t->event = malloc(QUEUE_EVENTS * sizeof *t->event);
    if (t->path == NULL || t->buffer == NULL || t->event == NULL)
        rc = ts_no_memory(err, path);
    if (rc == 0)
        rc = open_file(t, force, err);
    if (rc == 0) {
        fputs(BEGINS, t->file);
        rc = start_writer(t, err);
    }
    if (rc < 0) {
        ts_trace_drop(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void ts_trace_drop(struct ts_trace *t)
{
    if (t != NULL)
        trace_free(t);
}

int ts_trace_close(struct ts_trace *t, struct ts_err *warn, struct ts_err *err)
{
    int rc = 0;
    if (t == NULL)
        return 0;
    end_writer(t);
    fputs("\n]}\n", t->file);
    if ((fflush(t->file) != 0 || ferror(t->file)) && t->sys == 0)
        t->sys = errno;
    if (t->sys != 0) {
        errno = t->sys;
        rc = ts_fail_errno(err, TS_EIO, "%s: the trace cannot be written", t->path);
    } else {
        rc = ts_atomic_file_commit(t->out, warn, err);
    }
    ts_trace_drop(t);
    return rc;
}

/* ---- adding and writing events ---- */

/* Returns the process number of a group in the file. Viewers use process 0 and thread 0 for the
 * idle loop of a kernel, so numbers start at 1. */
static uint32_t pid_of(uint32_t group)
{
    return group + 1;
}

static uint32_t tid_of(uint32_t lane)
{
    return lane + 1;
}

/* Locks the file, and writes the comma after the last event. */
static void begin(struct ts_trace *t)
{
    pthread_mutex_lock(&t->file_lock);
    fputs(t->comma ? ",\n" : "\n", t->file);
    t->comma = 1;
}

static void end(struct ts_trace *t)
{
    if (t->sys == 0 && ferror(t->file))
        t->sys = errno != 0 ? errno : EIO;
    pthread_mutex_unlock(&t->file_lock);
}

/* Writes a name in quotes. Names come from this program and from drivers. Bytes other than
 * printable ASCII become '?'. */
static void quote(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        fputc(*text >= ' ' && *text <= '~' ? *text : '?', to);
    }
    fputc('"', to);
}

static void name_what(struct ts_trace *t, const char *label, uint32_t group, uint32_t lane,
                      const char *name)
{
    begin(t);
    fprintf(t->file, "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s_name\",\"args\":{\"name\":",
            pid_of(group), tid_of(lane), label);
    quote(t->file, name);
    /* without an index viewers sort by name: "read 10" before "read 2" */
    fprintf(t->file,
            "}},\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s_sort_index\",\"args\":"
            "{\"sort_index\":%u}}",
            pid_of(group), tid_of(lane), label, strcmp(label, "thread") == 0 ? lane : group);
    end(t);
}

void ts_trace_group(struct ts_trace *t, uint32_t group, const char *name)
{
    if (t != NULL)
        name_what(t, "process", group, group * TS_TRACE_LANES, name);
}

void ts_trace_lane(struct ts_trace *t, uint32_t lane, const char *name)
{
    if (t != NULL)
        name_what(t, "thread", lane / TS_TRACE_LANES, lane, name);
}

/* Writes a time in microseconds, the unit of the format, with three decimals. */
static void print_time(FILE *to, const char *key, uint64_t ns)
{
    fprintf(to, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void write_event(struct ts_trace *t, const struct event *x)
{
    const char *comma = "";
    begin(t);
    fprintf(t->file,
            "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":", pid_of(x->lane / TS_TRACE_LANES),
            tid_of(x->lane));
    quote(t->file, x->what);
    print_time(t->file, "ts", x->start_ns - t->start_ns);
    print_time(t->file, "dur", x->end_ns - x->start_ns);
    fputs(",\"args\":{", t->file);
    if (x->mode != TS_TRACE_NO_MODE) {
        fprintf(t->file, "\"mode\":%u", x->mode + 1);
        comma = ",";
    }
    if (x->shard != TS_TRACE_NO_SHARD) {
        fprintf(t->file, "%s\"shard\":%" PRIu64, comma, x->shard);
        comma = ",";
    }
    if (x->bytes > 0)
        fprintf(t->file, "%s\"bytes\":%" PRIu64, comma, x->bytes);
    fputs("}}", t->file);
    end(t);
}

/* Waits until there are events, or no more will come. Returns the number of waiting events. */
static uint64_t wait_for_events(struct ts_trace *t)
{
    uint64_t n;
    pthread_mutex_lock(&t->lock);
    while (t->added == t->done && !t->last) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&t->more, &t->lock, &until);
    }
    n = t->added - t->done;
    pthread_mutex_unlock(&t->lock);
    return n;
}

static void *write_events(void *arg)
{
    struct ts_trace *t = arg;
    uint64_t n;
    while ((n = wait_for_events(t)) > 0) {
        n = n < QUEUE_WAKES ? n : QUEUE_WAKES; /* a part, so that callers get room */
        /* no thread overwrites these events before `done` includes them */
        for (uint64_t i = 0; i < n; i++)
            write_event(t, &t->event[(t->done + i) % QUEUE_EVENTS]);
        pthread_mutex_lock(&t->lock);
        t->done += n;
        pthread_cond_broadcast(&t->room);
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

void ts_trace_add(struct ts_trace *t, uint32_t lane, const char *label, uint64_t start_ns,
                  uint64_t end_ns, uint32_t mode, uint64_t shard, uint64_t bytes)
{
    struct event x = { .what = label, .shard = shard, .bytes = bytes, .lane = lane, .mode = mode };
    if (t == NULL)
        return;
    x.start_ns = start_ns > t->start_ns ? start_ns : t->start_ns;
    x.end_ns = end_ns > x.start_ns ? end_ns : x.start_ns;
    pthread_mutex_lock(&t->lock);
    while (t->added - t->done == QUEUE_EVENTS)
        pthread_cond_wait(&t->room, &t->lock);
    t->event[t->added++ % QUEUE_EVENTS] = x;
    if (t->added - t->done == QUEUE_WAKES || t->added - t->done == QUEUE_EVENTS)
        pthread_cond_signal(&t->more);
    pthread_mutex_unlock(&t->lock);
}
