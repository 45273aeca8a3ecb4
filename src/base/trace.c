#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/out_name.h"

#define BUFFER_BYTES (256u << 10) /* some 2000 events to a write */

struct ts_trace {
    char *path, *partial; /* partial NULL: path is no regular file and written directly */
    int ours;             /* partial is there and locked by us */
    FILE *file;
    char *buffer;
    pthread_mutex_t lock;
    uint64_t start_ns; /* what the file counts from */
    int comma, sys;    /* an event came before; errno of the first failure */
};

/* ---- the file ---- */

/* Whether the open file still has this name: another process may have put it in place meanwhile. */
static int has_name(int fd, const char *path)
{
    struct stat file, name;
    return fstat(fd, &file) == 0 && stat(path, &name) == 0 && file.st_dev == name.st_dev &&
           file.st_ino == name.st_ino;
}

static int open_whole(struct ts_trace *t, const char *path, int *fd, struct ts_err *err)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (t->partial == NULL ? O_APPEND : 0), 0666);
    if (*fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s: the trace cannot be created", path);
    if (t->partial == NULL)
        return 0;
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0 || !has_name(*fd, path))
        return ts_fail(err, TS_EBUSY, "%s: another process is writing it", path);
    t->ours = 1;
    if (ftruncate(*fd, 0) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: the trace cannot be written", path);
    return 0;
}

static int open_file(struct ts_trace *t, struct ts_err *err)
{
    struct stat st;
    char *name;
    int fd = -1, rc;
    if (stat(t->path, &st) == 0 && S_ISDIR(st.st_mode))
        return ts_fail(err, TS_EARG, "%s: is a directory, and the trace is a file", t->path);
    rc = ts_out_name(t->path, &name, err);
    if (rc < 0)
        return rc;
    if (name != NULL) {
        const size_t n = strlen(name) + sizeof ".partial";
        free(t->path);
        t->path = name;
        t->partial = malloc(n);
        if (t->partial == NULL)
            return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
        snprintf(t->partial, n, "%s.partial", t->path);
    }
    rc = open_whole(t, t->partial != NULL ? t->partial : t->path, &fd, err);
    if (rc == 0 && (t->file = fdopen(fd, "w")) == NULL)
        rc = ts_fail_errno(err, TS_EIO, "%s: the trace cannot be written", t->path);
    if (rc < 0 && fd >= 0)
        close(fd);
    if (rc < 0)
        return rc;
    setvbuf(t->file, t->buffer, _IOFBF, BUFFER_BYTES);
    return 0;
}

static void trace_free(struct ts_trace *t)
{
    if (t->file != NULL)
        fclose(t->file);
    pthread_mutex_destroy(&t->lock);
    free(t->buffer);
    free(t->partial);
    free(t->path);
    free(t);
}

int ts_trace_open(const char *path, struct ts_trace **ret, struct ts_err *err)
{
    struct ts_trace *t = calloc(1, sizeof *t);
    int rc = 0;
    if (t == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    pthread_mutex_init(&t->lock, NULL);
    t->start_ns = ts_clock_ns();
    t->path = strdup(path);
    t->buffer = malloc(BUFFER_BYTES);
    if (t->path == NULL || t->buffer == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    if (rc == 0)
        rc = open_file(t, err);
    if (rc < 0) {
        ts_trace_drop(t);
        return rc;
    }
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", t->file);
    *ret = t;
    return 0;
}

void ts_trace_drop(struct ts_trace *t)
{
    if (t == NULL)
        return;
    if (t->ours)
        unlink(t->partial);
    trace_free(t);
}

int ts_trace_close(struct ts_trace *t, struct ts_err *err)
{
    int rc = 0;
    if (t == NULL)
        return 0;
    fputs("\n]}\n", t->file);
    if ((fflush(t->file) != 0 || ferror(t->file)) && t->sys == 0)
        t->sys = errno;
    if (t->sys != 0) {
        errno = t->sys;
        rc = ts_fail_errno(err, TS_EIO, "%s: the trace cannot be written", t->path);
    } else if (t->partial != NULL && rename(t->partial, t->path) != 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s: the trace cannot be put in place", t->path);
    }
    if (rc == 0)
        t->ours = 0; /* it has its name */
    ts_trace_drop(t);
    return rc;
}

/* ---- events ---- */

/* Viewers take process 0 and thread 0 for the idle loop of a kernel: the file counts from 1. */
static uint32_t pid_of(uint32_t group)
{
    return group + 1;
}

static uint32_t tid_of(uint32_t lane)
{
    return lane + 1;
}

/* Locks, and separates from the event before. */
static void begin(struct ts_trace *t)
{
    pthread_mutex_lock(&t->lock);
    fputs(t->comma ? ",\n" : "\n", t->file);
    t->comma = 1;
}

static void end(struct ts_trace *t)
{
    if (t->sys == 0 && ferror(t->file))
        t->sys = errno != 0 ? errno : EIO;
    pthread_mutex_unlock(&t->lock);
}

/* Names come from this program and from drivers: printable ASCII, the rest becomes '?'. */
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

static void name_what(struct ts_trace *t, const char *what, uint32_t group, uint32_t lane,
                      const char *name)
{
    begin(t);
    fprintf(t->file, "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s_name\",\"args\":{\"name\":",
            pid_of(group), tid_of(lane), what);
    quote(t->file, name);
    /* without an index, viewers sort by name: "read 10" before "read 2" */
    fprintf(t->file,
            "}},\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s_sort_index\",\"args\":"
            "{\"sort_index\":%u}}",
            pid_of(group), tid_of(lane), what, strcmp(what, "thread") == 0 ? lane : group);
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

/* Microseconds, the format's unit, with the nanoseconds behind the point. */
static void print_time(FILE *to, const char *key, uint64_t ns)
{
    fprintf(to, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

void ts_trace_add(struct ts_trace *t, uint32_t lane, const char *what, uint64_t start_ns,
                  uint64_t end_ns, uint32_t mode, uint64_t shard, uint64_t bytes)
{
    const char *comma = "";
    if (t == NULL)
        return;
    if (start_ns < t->start_ns)
        start_ns = t->start_ns;
    if (end_ns < start_ns)
        end_ns = start_ns;
    begin(t);
    fprintf(t->file, "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":",
            pid_of(lane / TS_TRACE_LANES), tid_of(lane));
    quote(t->file, what);
    print_time(t->file, "ts", start_ns - t->start_ns);
    print_time(t->file, "dur", end_ns - start_ns);
    fputs(",\"args\":{", t->file);
    if (mode != TS_TRACE_NO_MODE) {
        fprintf(t->file, "\"mode\":%u", mode + 1);
        comma = ",";
    }
    if (shard != TS_TRACE_NO_SHARD) {
        fprintf(t->file, "%s\"shard\":%" PRIu64, comma, shard);
        comma = ",";
    }
    if (bytes > 0)
        fprintf(t->file, "%s\"bytes\":%" PRIu64, comma, bytes);
    fputs("}}", t->file);
    end(t);
}
