/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that appear whole or not at all, small files that are replaced, and functions that both
 * share with atomic_dir.c. */
#include "base/files/atomic_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/atomic_steps.h"
#include "base/files/out_name.h"
#include "base/setting.h"
#include "base/files/unfinished.h"
#include "base/files/fd.h"
#include "base/files/written.h"

#define TRIES      100 /* attempts: one fails if another process renames or removes the file */
#define HEAD_BYTES 4096

/* ---- functions that atomic_dir.c uses, too ---- */

char *ts_atomic_join(const char *a, const char *b, const char *c)
{
    const size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
    char *s = malloc(n);
    if (s != NULL)
        snprintf(s, n, "%s%s%s", a, b, c);
    return s;
}

enum ts_atomic_lock ts_atomic_lock(int fd)
{
    int rc;
    do
        rc = flock(fd, LOCK_EX | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    if (rc == 0)
        return TS_LOCK_HELD;
    if (errno == EWOULDBLOCK)
        return TS_LOCK_BUSY;
    return errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP || errno == EINVAL
               ? TS_LOCK_UNKNOWN
               : TS_LOCK_FAILED;
}

int ts_atomic_has_name(int fd, int dir, const char *name)
{
    struct stat file, named;
    return fstat(fd, &file) == 0 && fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           file.st_dev == named.st_dev && file.st_ino == named.st_ino;
}

int ts_atomic_fsync(int fd)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc != 0 && errno == EINVAL ? 0 : rc;
}

/* Returns the directory of a path, malloc'ed. */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
}

void ts_atomic_sync_parent(const char *path, int fd, struct ts_err *warn)
{
    char *parent = parent_of(path);
    const int at = parent == NULL ? -1 : open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* a directory that may be written but not read cannot be opened: then sync its file system */
    const int rc = at >= 0 ? ts_atomic_fsync(at) : syncfs(fd);
    if (rc != 0)
        ts_fail_errno(warn, TS_EIO,
                      "%s: is in place, but its directory cannot be written to the disk; a "
                      "power cut could undo it",
                      path);
    ts_fd_close(at);
    free(parent);
}

int ts_atomic_name(const char *path, char **ret, struct ts_err *err)
{
    size_t n = strlen(path);
    char *name = strdup(path);
    int rc;
    while (name != NULL && n > 1 && name[n - 1] == '/')
        name[--n] = '\0';
    rc = name == NULL ? ts_no_memory(err, path) : ts_out_name(name, ret, err);
    free(name);
    return rc;
}

int ts_atomic_exists(const struct ts_atomic_conf *conf, const char *path, const char *noun,
                     struct ts_err *err)
{
    if (!conf->resumable)
        return ts_fail(err, TS_EBUSY,
                       "%s exists; use " TS_SET_REPLACE " to replace it, or %s to name another %s",
                       path, conf->place, noun);
    return ts_fail(err, TS_EBUSY,
                   "%s exists; use " TS_SET_REPLACE " to replace it, " TS_SET_RESUME
                   " %s to go on from it, or "
                   "%s to name another %s",
                   path, path, conf->place, noun);
}

int ts_atomic_not_ours(const struct ts_atomic_conf *conf, const char *path, struct ts_err *err)
{
    struct stat st;
    char owner[64] = "";
    if (lstat(path, &st) == 0 && st.st_uid != geteuid())
        snprintf(owner, sizeof owner, " and belongs to another user (uid %ld)", (long)st.st_uid);
    return ts_fail(err, TS_EBUSY,
                   "%s exists%s, and this user may not replace or remove it: have it removed, or "
                   "name another place with %s",
                   path, owner, conf->place);
}

int ts_atomic_may_move(const struct ts_atomic_conf *conf, const char *path, struct ts_err *err)
{
    char *parent = parent_of(path);
    const uid_t user = geteuid();
    struct stat st, up;
    int may = 1;
    if (parent == NULL)
        return ts_no_memory(err, path);
    if (lstat(path, &st) == 0 && stat(parent, &up) == 0)
        may = user == 0 || (up.st_mode & S_ISVTX) == 0 || st.st_uid == user || up.st_uid == user;
    free(parent);
    return may ? 0 : ts_atomic_not_ours(conf, path, err);
}

int ts_atomic_rename_new(const char *from, const char *to)
{
    struct stat st;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
        return -1;
    /* a check before an ordinary rename, if the system has no rename without replacement */
    if (lstat(to, &st) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

/* ---- a file that appears whole ---- */

struct ts_atomic_file {
    struct ts_atomic_conf conf;
    char *path, *partial; /* partial NULL: path is not a regular file and is written directly */
    int fd;
    int ours; /* 1: `partial` exists and this process holds its lock */
    struct ts_unfinished unfinished;
};

const char *ts_atomic_file_path(const struct ts_atomic_file *f)
{
    return f->path;
}

int ts_atomic_file_fd(const struct ts_atomic_file *f)
{
    return f->fd;
}

/* Whether this program wrote an open file, judged by its extended attribute or its first bytes. */
static int is_ours(const struct ts_atomic_conf *conf, int fd, int unfinished)
{
    const enum ts_written mark = ts_written_is(fd);
    char head[HEAD_BYTES];
    ssize_t n;
    switch (mark) {
    case TS_WRITTEN_PART:
        return unfinished;
    case TS_WRITTEN_WHOLE: /* no unfinished file, but a complete one that somebody renamed */
        return !unfinished;
    case TS_WRITTEN_READY:
    case TS_WRITTEN_EMPTY:
        return 1;
    case TS_WRITTEN_CHANGED:
        return 0;
    case TS_WRITTEN_OTHER:
    case TS_WRITTEN_UNKNOWN:
        break;
    }
    n = conf->looks == NULL ? -1 : pread(fd, head, sizeof head, 0);
    return n > 0 && conf->looks(head, (size_t)n, mark != TS_WRITTEN_UNKNOWN);
}

/* If conf.force is set, checks that tstream wrote the existing file of the name, and that this user
 * can replace it. */
static int check_old(const struct ts_atomic_file *f, struct ts_err *err)
{
    const int fd = open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int ours;
    if (fd < 0)
        return errno == EACCES ? ts_atomic_not_ours(&f->conf, f->path, err)
                               : ts_fail_errno(err, TS_EIO, "%s: cannot be opened", f->path);
    ours = is_ours(&f->conf, fd, 0);
    close(fd);
    if (!ours)
        return ts_fail(err, TS_EBUSY,
                       "%s exists, and nothing shows that it is as this program wrote it (edited "
                       "or touched files, copies and files of 0.2.0 have no valid mark), so it is "
                       "not replaced: move it elsewhere, or name another file with %s",
                       f->path, f->conf.place);
    return ts_atomic_may_move(&f->conf, f->path, err);
}

static int check_file(const struct ts_atomic_file *f, struct ts_err *err)
{
    struct stat st;
    if (lstat(f->path, &st) != 0)
        return 0;
    if (S_ISDIR(st.st_mode))
        return ts_fail(err, TS_EARG, "%s: is a directory, and %s goes to a file", f->path,
                       f->conf.what);
    return f->conf.force ? check_old(f, err) : ts_atomic_exists(&f->conf, f->path, "file", err);
}

/* Opens PATH.partial: a new file, which is marked as ours (written.h), or an existing one. *made: 1
 * for a new file. Returns 1 if another process removed it meanwhile. */
static int open_partial(struct ts_atomic_file *f, int *made, struct ts_err *err)
{
    const int how = O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
    int there;
    f->fd = open(f->partial, how | O_CREAT | O_EXCL, 0666);
    there = f->fd < 0 && errno == EEXIST;
    *made = f->fd >= 0;
    if (*made)
        ts_written_begin(f->fd);
    else if (there)
        f->fd = open(f->partial, how);
    if (f->fd >= 0)
        return 0;
    if (there && errno == ENOENT)
        return 1;
    if (there && errno == EACCES)
        return ts_atomic_not_ours(&f->conf, f->partial, err);
    return ts_fail_errno(err, TS_EIO, "%s: cannot be created", f->partial);
}

/* Checks that PATH.partial is a regular file. */
static int check_partial(const struct ts_atomic_file *f, struct ts_err *err)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be read", f->partial);
    if (!S_ISREG(st.st_mode))
        return ts_fail(err, TS_EBUSY,
                       "%s: is not a file, so it is left alone; name another place with %s",
                       f->partial, f->conf.place);
    return 0;
}

/* Opens PATH.partial and locks it. Returns 1 if another process took its name meanwhile. */
static int take_file(struct ts_atomic_file *f, struct ts_err *err)
{
    enum ts_atomic_lock lock;
    int made, rc = open_partial(f, &made, err);
    if (rc == 0)
        rc = check_partial(f, err);
    if (rc != 0)
        return rc;
    lock = ts_atomic_lock(f->fd);
    if (lock == TS_LOCK_FAILED)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be locked", f->partial);
    if (lock == TS_LOCK_BUSY)
        return ts_fail(err, TS_EBUSY, "%s: another process is writing it", f->partial);
    if (!ts_atomic_has_name(f->fd, AT_FDCWD, f->partial))
        return 1;
    if (!made && !is_ours(&f->conf, f->fd, 1))
        return ts_fail(
            err, TS_EBUSY,
            "%s is needed to write %s, and nothing shows that it is an unfinished file of "
            "this program: move it elsewhere, or name another file with %s",
            f->partial, f->path, f->conf.place);
    if (!made && (rc = ts_atomic_may_move(&f->conf, f->partial, err)) < 0)
        return rc;
    /* the file system has no locks: use a new file; a process that writes the old one will
     * notice */
    if (lock == TS_LOCK_UNKNOWN) {
        close(f->fd);
        unlink(f->partial);
        f->fd = open(f->partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot be created", f->partial);
    }
    f->ours = 1;
    ts_written_begin(f->fd);
    return ftruncate(f->fd, 0) == 0
               ? 0
               : ts_fail_errno(err, TS_EIO, "%s: cannot be written", f->partial);
}

static int open_file(struct ts_atomic_file *f, const char *path, struct ts_err *err)
{
    char *name = NULL;
    int rc = ts_atomic_name(path, &name, err);
    if (rc < 0)
        return rc;
    f->path = name != NULL ? name : strdup(path);
    f->partial = name != NULL ? ts_atomic_join(name, f->conf.suffix, "") : NULL;
    if (f->path == NULL || (name != NULL && f->partial == NULL))
        return ts_no_memory(err, path);
    if (name == NULL) {
        f->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        return f->fd >= 0 ? 0 : ts_fail_errno(err, TS_EIO, "%s: cannot be opened", path);
    }
    rc = check_file(f, err);
    for (int tries = 0; rc == 0 && tries < TRIES; tries++) {
        rc = take_file(f, err);
        if (rc != 1)
            return rc;
        ts_fd_close(f->fd);
        f->fd = -1;
        rc = 0;
    }
    return rc < 0 ? rc : ts_fail(err, TS_EBUSY, "%s: another process is writing it", f->partial);
}

static void undo(void *object)
{
    struct ts_atomic_file *f = object;
    if (f->ours && ts_atomic_has_name(f->fd, AT_FDCWD, f->partial))
        unlink(f->partial); /* while the lock is held */
    f->ours = 0;
}

int ts_atomic_file_open(const struct ts_atomic_conf *conf, struct ts_atomic_file **ret,
                        struct ts_err *err)
{
    struct ts_atomic_file *f = calloc(1, sizeof *f);
    int rc;
    if (f == NULL)
        return ts_no_memory(err, conf->path);
    f->conf = *conf;
    f->conf.resumable = 0;
    f->fd = -1;
    ts_unfinished_add(&f->unfinished, undo, f);
    rc = open_file(f, conf->path, err);
    if (rc == 0)
        *ret = f;
    else
        ts_atomic_file_close(f);
    return rc;
}

void ts_atomic_file_close(struct ts_atomic_file *f)
{
    if (f == NULL)
        return;
    ts_unfinished_drop(&f->unfinished);
    undo(f);
    ts_fd_close(f->fd);
    free(f->partial);
    free(f->path);
    free(f);
}

int ts_atomic_file_commit(struct ts_atomic_file *f, struct ts_err *warn, struct ts_err *err)
{
    struct stat st;
    int rc;
    if (f->partial == NULL) {
        rc = close(f->fd);
        f->fd = -1;
        return rc == 0 ? 0 : ts_fail_errno(err, TS_EIO, "%s: cannot be written", f->path);
    }
    ts_written_ready(f->fd);
    if (ts_atomic_fsync(f->fd) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be written", f->partial);
    if (!ts_atomic_has_name(f->fd, AT_FDCWD, f->partial))
        return ts_fail(err, TS_EBUSY, "%s: another process took its name", f->partial);
    rc = check_file(f, err); /* another process may have made a result meanwhile */
    if (rc < 0)
        return rc;
    rc = f->conf.force ? rename(f->partial, f->path) : ts_atomic_rename_new(f->partial, f->path);
    if (rc != 0 && errno == EEXIST && !f->conf.force && lstat(f->path, &st) == 0)
        return ts_atomic_exists(&f->conf, f->path, "file", err);
    if (rc != 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be put in place of %s", f->partial, f->path);
    f->ours = 0; /* `partial` has become the result */
    ts_written_end(f->fd);
    ts_unfinished_drop(&f->unfinished);
    ts_atomic_sync_parent(f->path, f->fd, warn);
    return 0;
}

/* ---- a file of a directory that is replaced as a whole, many times ---- */

static char *new_name(const char *name, struct ts_err *err)
{
    char *temp = ts_atomic_join(name, ".new", "");
    if (temp == NULL)
        ts_no_memory(err, name);
    return temp;
}

int ts_atomic_put_begin(int dir, const char *where, const char *name, int *fd, struct ts_err *err)
{
    char *temp = new_name(name, err);
    int rc = 0;
    if (temp == NULL)
        return TS_ENOMEM;
    unlinkat(dir, temp, 0); /* a file that another process left when it died */
    *fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*fd < 0)
        rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot be created", where, temp);
    free(temp);
    return rc;
}

int ts_atomic_put_end(int dir, const char *where, const char *name, int fd, int rc,
                      enum ts_atomic_sync sync, struct ts_err *err)
{
    char *temp = new_name(name, rc < 0 ? NULL : err);
    if (rc == 0 && temp == NULL)
        rc = TS_ENOMEM;
    if (rc == 0 && sync == TS_ATOMIC_DURABLE && ts_atomic_fsync(fd) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot be written", where, temp);
    if (close(fd) != 0 && rc == 0)
        rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot be written", where, temp);
    if (rc == 0 && renameat(dir, temp, dir, name) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot be put in place", where, name);
    else if (rc == 0 && sync == TS_ATOMIC_DURABLE && ts_atomic_fsync(dir) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be written", where);
    if (rc < 0 && temp != NULL)
        unlinkat(dir, temp, 0);
    free(temp);
    return rc;
}

int ts_atomic_put(int dir, const char *where, const char *name, const void *data, size_t bytes,
                  enum ts_atomic_sync sync, struct ts_err *err)
{
    int fd, rc = ts_atomic_put_begin(dir, where, name, &fd, err);
    if (rc < 0)
        return rc;
    if (ts_fd_write(fd, data, bytes, TS_FD_NEXT) < 0)
        rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot be written", where, name);
    return ts_atomic_put_end(dir, where, name, fd, rc, sync, err);
}
