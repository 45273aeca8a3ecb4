/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock file in a directory that is being written: its text, and the process that holds it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/atomic_steps.h"

#define TEXT_BYTES 160
#define REPLACES   "replaces\n" /* optional second line of the text of a lock */

int ts_lock_parse(const char *text, struct ts_lock_text *ret)
{
    char *end;
    memset(ret, 0, sizeof *ret);
    if (*text < '0' || *text > '9')
        return 0;
    ret->pid = strtol(text, &end, 10);
    if (*end != '\n' && sscanf(end, " %64s", ret->host) != 1)
        return 0;
    end += ret->host[0] != '\0' ? 1 + strlen(ret->host) : 0;
    if (*end++ != '\n')
        return 0;
    ret->replaces = strcmp(end, REPLACES) == 0;
    return ret->replaces || *end == '\0';
}

long ts_atomic_head(int dir, const char *name, void *buf, size_t room)
{
    const int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    long n = -1;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        n = (long)pread(fd, buf, room, 0);
    close(fd);
    return n;
}

/* Reads the start of a file. Returns 1 for text, 0 for an empty file, -1 if it is not a file or
 * cannot be read. */
static int head(int dir, const char *name, char text[TEXT_BYTES])
{
    const long n = ts_atomic_head(dir, name, text, TEXT_BYTES - 1);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? 1 : (int)n;
}

int ts_lock_is(int dir, const char *name)
{
    char text[TEXT_BYTES];
    struct ts_lock_text lock;
    const int n = head(dir, name, text);
    return n == 0 || (n > 0 && ts_lock_parse(text, &lock));
}

int ts_lock_replaces(int dir)
{
    char text[TEXT_BYTES];
    struct ts_lock_text lock;
    return head(dir, TS_ATOMIC_LOCK, text) > 0 && ts_lock_parse(text, &lock) && lock.replaces;
}

static void own_host(char host[TS_LOCK_HOST_CHARS])
{
    if (gethostname(host, TS_LOCK_HOST_CHARS) != 0)
        host[0] = '\0';
    host[TS_LOCK_HOST_CHARS - 1] = '\0';
}

int ts_lock_names_living(const char *text, long *pid)
{
    char here[TS_LOCK_HOST_CHARS];
    struct ts_lock_text lock;
    const int is_lock = ts_lock_parse(text, &lock);
    own_host(here);
    *pid = lock.pid;
    return is_lock && *pid != (long)getpid() &&
           (lock.host[0] == '\0' || strcmp(lock.host, here) == 0) && *pid > 0 &&
           (kill((pid_t)*pid, 0) == 0 || errno == EPERM);
}

int ts_lock_fail_busy(const char *partial, const char *text, struct ts_err *err)
{
    char here[TS_LOCK_HOST_CHARS];
    struct ts_lock_text lock = { 0 };
    const int known = text != NULL && ts_lock_parse(text, &lock);
    int own;
    own_host(here);
    own = known && lock.pid == (long)getpid() && strcmp(lock.host, here) == 0;
    if (own)
        ts_fail(err, TS_EBUSY, "%s: this process is writing it already", partial);
    else if (known)
        ts_fail(err, TS_EBUSY, "%s: another process is writing it (pid %ld%s%s)", partial, lock.pid,
                lock.host[0] != '\0' ? " on " : "", lock.host);
    else
        ts_fail(err, TS_EBUSY, "%s: another process is writing it", partial);
    if (err != NULL)
        err->sys = own ? EDEADLK : EBUSY;
    return TS_EBUSY;
}

void ts_lock_read(int fd, char *text, size_t room)
{
    const ssize_t n = pread(fd, text, room - 1, 0);
    text[n > 0 ? n : 0] = '\0';
}

int ts_lock_write(int fd, int replaces)
{
    char host[TS_LOCK_HOST_CHARS], text[TEXT_BYTES];
    int n;
    own_host(host);
    n = snprintf(text, sizeof text, "%ld%s%s\n%s", (long)getpid(), host[0] != '\0' ? " " : "", host,
                 replaces ? REPLACES : "");
    return ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n ? 0 : -1;
}
