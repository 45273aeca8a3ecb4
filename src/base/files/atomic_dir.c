/* SPDX-License-Identifier: BSD-3-Clause */
/* Directories that appear whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/atomic_names.h"
#include "base/files/atomic_steps.h"
#include "base/files/atomic_out.h"
#include "base/files/disk_free.h"
#include "base/files/fd.h"
#include "base/setting.h"
#include "base/files/unfinished.h"
#include "base/files/written.h"

#define TRIES 100 /* attempts: one fails if another process renames or removes the directory */

struct ts_atomic_dir {
    struct ts_atomic_conf conf;
    char *path, *partial;
    int fd, lock_fd; /* descriptors of `partial` and of the lock file in it; -1: none */
    int made_lock;   /* 1: this process made the lock, and no other process has locked it */
    int committed;
    uint64_t free_bytes;
    struct ts_unfinished unfinished;
};

const char *ts_atomic_dir_partial(const struct ts_atomic_dir *d)
{
    return d->partial;
}

int ts_atomic_dir_fd(const struct ts_atomic_dir *d)
{
    return d->fd;
}

uint64_t ts_atomic_dir_free(const struct ts_atomic_dir *d)
{
    return d->free_bytes;
}

/* ---- the lock of a directory ---- */

static void let_go(struct ts_atomic_dir *d)
{
    ts_fd_close(d->lock_fd);
    ts_fd_close(d->fd);
    d->lock_fd = d->fd = -1;
}

static int holds_names(const struct ts_atomic_dir *d)
{
    return ts_atomic_has_name(d->lock_fd, d->fd, TS_ATOMIC_LOCK) &&
           ts_atomic_has_name(d->fd, AT_FDCWD, d->partial);
}

/* Takes a directory on a file system without locks, by writing our own lock file. A process that
 * still writes in the directory finds this file, and fails at its end. */
static int take_without_lock(struct ts_atomic_dir *d, const char *text, struct ts_err *err)
{
    long pid;
    if (ts_lock_names_living(text, &pid))
        return ts_fail(err, TS_EBUSY,
                       "%s: process %ld is writing it; where it does not, remove %s/%s", d->partial,
                       pid, d->partial, TS_ATOMIC_LOCK);
    close(d->lock_fd);
    unlinkat(d->fd, TS_ATOMIC_LOCK, 0);
    d->lock_fd = openat(d->fd, TS_ATOMIC_LOCK, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return d->lock_fd >= 0
               ? 0
               : ts_fail_errno(err, TS_EIO, "%s/%s: cannot be created", d->partial, TS_ATOMIC_LOCK);
}

static void open_lock(struct ts_atomic_dir *d)
{
    const int how = O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
    d->lock_fd = openat(d->fd, TS_ATOMIC_LOCK, how | O_CREAT | O_EXCL, 0666);
    d->made_lock = d->lock_fd >= 0;
    if (d->lock_fd < 0 && errno == EEXIST)
        d->lock_fd = openat(d->fd, TS_ATOMIC_LOCK, how);
}

static int try_lock(struct ts_atomic_dir *d, struct ts_err *err)
{
    char text[128];
    enum ts_atomic_lock lock;
    struct stat st;
    d->fd = open(d->partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (d->fd < 0 && errno == EACCES)
        return ts_atomic_not_ours(&d->conf, d->partial, err);
    if (d->fd < 0)
        return errno == ENOENT ? 1 : ts_fail_errno(err, TS_EIO, "%s: cannot be opened", d->partial);
    open_lock(d);
    if (d->lock_fd < 0 && errno == EACCES)
        return ts_atomic_not_ours(&d->conf, d->partial, err);
    if (d->lock_fd < 0)
        return errno == ENOENT ? 1
                               : ts_fail_errno(err, TS_EIO, "%s/%s: cannot be created", d->partial,
                                               TS_ATOMIC_LOCK);
    if (fstat(d->lock_fd, &st) != 0)
        return ts_fail_errno(err, TS_EIO, "%s/%s: cannot be read", d->partial, TS_ATOMIC_LOCK);
    if (!S_ISREG(st.st_mode))
        return ts_fail(err, TS_EBUSY, "%s/%s: is not a file", d->partial, TS_ATOMIC_LOCK);
    lock = ts_atomic_lock(d->lock_fd);
    if (lock == TS_LOCK_FAILED)
        return ts_fail_errno(err, TS_EIO, "%s/%s: cannot be locked", d->partial, TS_ATOMIC_LOCK);
    ts_lock_read(d->lock_fd, text, sizeof text);
    if (lock == TS_LOCK_BUSY) {
        d->made_lock = 0; /* another process was faster, and has the directory now */
        return ts_lock_fail_busy(d->partial, text, err);
    }
    if (!holds_names(d))
        return 1;
    return lock == TS_LOCK_UNKNOWN ? take_without_lock(d, text, err) : 0;
}

/* Opens and locks `partial`. Returns 1 if another process renamed or removed it between two steps.
 * On failure our lock is removed, even if the directory has become the result by then. */
static int lock_dir(struct ts_atomic_dir *d, struct ts_err *err)
{
    const int rc = try_lock(d, err);
    if (rc == 0)
        return 0;
    if (d->lock_fd >= 0 && d->made_lock && ts_atomic_has_name(d->lock_fd, d->fd, TS_ATOMIC_LOCK))
        unlinkat(d->fd, TS_ATOMIC_LOCK, 0);
    let_go(d);
    return rc;
}

/* Removes the directory if only its lock is left in it, and closes it. Returns 1 if other files are
 * left, or if that is not known. Then the directory and its lock stay. */
static int leave(struct ts_atomic_dir *d)
{
    int stays = 0;
    errno = 0;
    if (d->lock_fd >= 0 && d->fd >= 0 && holds_names(d)) {
        stays = !ts_lock_is(d->fd, TS_ATOMIC_LOCK) || unlinkat(d->fd, TS_ATOMIC_LOCK, 0) != 0;
        rmdir(d->partial); /* fails if another process uses it by now */
    } else {               /* if the directory cannot be read, it may have other files */
        stays = errno != 0 && errno != ENOENT;
    }
    let_go(d);
    return stays;
}

/* Checks an unfinished directory without a lock, as a process that died may have left. Fails unless
 * all its files have the contents that their names promise, or one of them is the state of a run.
 * Otherwise the directory may be the user's own. */
static int look_without_lock(const struct ts_atomic_dir *d, struct ts_err *err)
{
    struct ts_atomic_names whole, part;
    const int rc = ts_atomic_look(&d->conf, d->partial, d->fd, 1, &whole, err);
    if (rc != TS_EBUSY || ts_atomic_look(&d->conf, d->partial, d->fd, 0, &part, NULL) != 0)
        return rc;
    if (part.has_state)
        return 0;
    return ts_fail(err, TS_EBUSY,
                   "%s holds %s, as an unfinished %s would, but no file named " TS_ATOMIC_LOCK
                   ", so it may be something else: remove it if it is not needed, or name another "
                   "directory with %s",
                   d->partial, whole.foreign, d->conf.what, d->conf.place);
}

/* Checks an unfinished directory before it is cleared. replaced: it is an old result that was
 * replaced, so no run will resume from a state in it. */
static int check_unfinished(const struct ts_atomic_dir *d, int replaced, struct ts_err *err)
{
    struct ts_atomic_names s;
    int rc = d->made_lock && !replaced ? look_without_lock(d, err) : 0;
    if (rc == 0)
        rc = ts_atomic_look(&d->conf, d->partial, d->fd, 0, &s, err);
    if (rc < 0 || !s.has_state || replaced || d->conf.force || d->conf.resume)
        return rc;
    return ts_fail(err, TS_EBUSY,
                   "%s holds the state of a run that did not end; use " TS_SET_RESUME
                   " %s to go on "
                   "from it, " TS_SET_REPLACE " to drop it, or %s to name another directory",
                   d->partial, d->path, d->conf.place);
}

static int write_lock(const struct ts_atomic_dir *d, int replaces, struct ts_err *err)
{
    return ts_lock_write(d->lock_fd, replaces) == 0
               ? 0
               : ts_fail_errno(err, TS_EIO, "%s/%s: cannot be written", d->partial, TS_ATOMIC_LOCK);
}

/* Removes from a result its lock, which says what PATH.partial is, before PATH.partial changes. */
static int unmark(const char *path, struct ts_err *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = 0;
    if (fd < 0 || (unlinkat(fd, TS_ATOMIC_LOCK, 0) != 0 && errno != ENOENT) ||
        ts_atomic_fsync(fd) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot be removed", path, TS_ATOMIC_LOCK);
    ts_fd_close(fd);
    return rc;
}

static int take_dir(struct ts_atomic_dir *d, struct ts_err *err)
{
    int rc = 1, made = 0, replaced;
    for (int tries = 0; rc == 1 && tries < TRIES; tries++) {
        made = mkdir(d->partial, 0777) == 0;
        if (!made && errno != EEXIST)
            return ts_fail_errno(err, TS_EIO, "%s: cannot be created", d->partial);
        rc = lock_dir(d, err);
    }
    if (rc == 1)
        rc = ts_lock_fail_busy(d->partial, NULL, err);
    if (rc < 0 && made)
        rmdir(d->partial); /* fails if another process has begun to write in it */
    if (rc < 0)
        return rc;
    replaced = ts_atomic_dir_replaced(d->path);
    rc = made ? 0 : ts_atomic_may_move(&d->conf, d->partial, err);
    if (rc == 0)
        rc = check_unfinished(d, replaced, err);
    if (rc == 0) {
        ts_atomic_clear(&d->conf, d->fd, replaced || (d->conf.force && !d->conf.resume));
        rc = write_lock(d, 0, err);
    }
    if (rc == 0 && replaced)
        rc = unmark(d->path, err);
    if (rc < 0)
        leave(d);
    return rc;
}

int ts_atomic_dir_replaced(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int ret = fd >= 0 && ts_lock_replaces(fd);
    ts_fd_close(fd);
    return ret;
}

int ts_atomic_dir_replaces(int dir)
{
    return ts_lock_replaces(dir);
}

int ts_atomic_dir_held(int partial, long *pid)
{
    char text[128];
    int held = 0;
    const int fd = openat(partial, TS_ATOMIC_LOCK, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    *pid = 0;
    if (fd >= 0) {
        const enum ts_atomic_lock lock = ts_atomic_lock(fd);
        struct ts_lock_text said;
        ts_lock_read(fd, text, sizeof text);
        held = lock == TS_LOCK_BUSY || (lock == TS_LOCK_UNKNOWN && ts_lock_names_living(text, pid));
        *pid = held && ts_lock_parse(text, &said) ? said.pid : 0;
        close(fd);
    }
    return held;
}

/* ---- opening and closing an unfinished directory ---- */

/* Fails before the work begins if what has the result's name cannot be replaced at the end, such as
 * a mount point. A path such as `.` is replaced by one with a parent directory. */
static int check_place(char **path, const char *noun, struct ts_err *err)
{
    const char *last = strrchr(*path, '/');
    struct statx st;
    char *real;
    last = last == NULL ? *path : last + 1;
    if (statx(AT_FDCWD, *path, 0, STATX_TYPE, &st) != 0)
        return 0; /* it does not exist yet and will be made */
    if ((st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 &&
        (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
        return ts_fail(err, TS_EARG,
                       "%s: a file system is mounted there, so it cannot be replaced: name "
                       "a directory in it",
                       *path);
    if (!S_ISDIR(st.stx_mode))
        return ts_fail(err, TS_EBUSY, "%s exists and is not a %s, so it is not replaced", *path,
                       noun);
    if (strcmp(last, ".") != 0 && strcmp(last, "..") != 0)
        return 0;
    real = realpath(*path, NULL);
    if (real == NULL)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be looked up", *path);
    free(*path);
    *path = real;
    return 0;
}

/* Checks that a file or directory that has the result's name may be replaced. *there: 1 if one
 * exists. */
static int check_target(const struct ts_atomic_dir *d, int *there, struct ts_err *err)
{
    struct ts_atomic_names s;
    const int fd = open(d->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc;
    *there = fd >= 0 || errno != ENOENT;
    if (fd < 0 && errno == EACCES)
        return ts_atomic_not_ours(&d->conf, d->path, err);
    if (fd < 0)
        return errno == ENOENT ? 0 : ts_fail_errno(err, TS_EIO, "%s: cannot be replaced", d->path);
    rc = ts_atomic_look(&d->conf, d->path, fd, 1, &s, err);
    close(fd);
    if (rc == 0 && s.has_files && !d->conf.force && !d->conf.resume)
        return ts_atomic_exists(&d->conf, d->path, "directory", err);
    if (rc == 0 && (s.fixed || faccessat(AT_FDCWD, d->path, W_OK | X_OK, AT_EACCESS) != 0))
        return ts_atomic_not_ours(&d->conf, d->path, err);
    return rc == 0 ? ts_atomic_may_move(&d->conf, d->path, err) : rc;
}

static int open_dir(struct ts_atomic_dir *d, const char *path, struct ts_err *err)
{
    struct ts_disk_free there_is;
    int there, rc = ts_atomic_name(path, &d->path, err);
    if (rc == 0 && d->path == NULL)
        rc = ts_fail(err, TS_EARG, "%s: is not a directory, which a %s needs", path, d->conf.what);
    if (rc == 0)
        rc = check_place(&d->path, d->conf.what, err);
    if (rc < 0)
        return rc;
    d->partial = ts_atomic_join(d->path, d->conf.suffix, "");
    if (d->partial == NULL)
        return ts_no_memory(err, path);
    rc = check_target(d, &there, err);
    if (rc == 0)
        rc = take_dir(d, err);
    if (rc < 0)
        return rc;
    ts_disk_free_of(d->fd, &there_is);
    d->free_bytes = there_is.bytes;
    return 0;
}

static void undo(void *object)
{
    struct ts_atomic_dir *d = object;
    if (d->fd >= 0 && d->lock_fd >= 0 && !d->committed && holds_names(d))
        ts_atomic_clear(&d->conf, d->fd, 0);
    if (!d->committed)
        leave(d);
}

int ts_atomic_dir_open(const struct ts_atomic_conf *conf, struct ts_atomic_dir **ret,
                       struct ts_err *err)
{
    struct ts_atomic_dir *d = calloc(1, sizeof *d);
    int rc;
    if (d == NULL)
        return ts_no_memory(err, conf->path);
    d->conf = *conf;
    d->fd = d->lock_fd = -1;
    ts_unfinished_add(&d->unfinished, undo, d);
    rc = open_dir(d, conf->path, err);
    if (rc == 0)
        *ret = d;
    else
        ts_atomic_dir_close(d);
    return rc;
}

void ts_atomic_dir_close(struct ts_atomic_dir *d)
{
    if (d == NULL)
        return;
    ts_unfinished_drop(&d->unfinished);
    undo(d);
    let_go(d);
    free(d->path);
    free(d->partial);
    free(d);
}

int ts_atomic_dir_create(struct ts_atomic_dir *d, const char *name, FILE **ret, char **path,
                         struct ts_err *err)
{
    const int fd = openat(d->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    char *full = ts_atomic_join(d->partial, "/", name);
    int rc = 0;
    if (file == NULL)
        rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot be created", d->partial, name);
    else if (full == NULL)
        rc = ts_no_memory(err, name);
    if (rc == 0) {
        *ret = file;
        *path = full;
        return 0;
    }
    if (file != NULL)
        fclose(file);
    else
        ts_fd_close(fd);
    free(full);
    return rc;
}

int ts_atomic_dir_finish(FILE *file, const char *path, struct ts_err *err)
{
    int rc = 0;
    if (ferror(file) || fflush(file) != 0 || ts_atomic_fsync(fileno(file)) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be written", path);
    if (fclose(file) != 0 && rc == 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be written", path);
    return rc;
}

/* ---- commit: giving the directory its final name ---- */

struct syncing {
    const char *path;
    struct ts_err *err;
    int rc;
};

/* Calls fsync for one file, which may be the first call to find that the disk is full. A link needs
 * none, since it is stored in the directory. */
static int sync_name(void *ctx, int dir, const char *name)
{
    struct syncing *s = ctx;
    const int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP)
        return 0;
    if (fd < 0 || ts_atomic_fsync(fd) != 0)
        s->rc = ts_fail_errno(s->err, TS_EIO, "%s/%s: cannot be written", s->path, name);
    ts_fd_close(fd);
    return s->rc < 0;
}

static int sync_all(const struct ts_atomic_dir *d, struct ts_err *err)
{
    struct syncing s = { d->partial, err, 0 };
    if (ts_atomic_walk(d->fd, sync_name, &s) < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be read", d->partial);
    if (s.rc == 0 && ts_atomic_fsync(d->fd) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be written", d->partial);
    return s.rc;
}

/* Exchanges the names of the old and the new result by three renames, if the file system has no
 * exchange. Meanwhile the old result has a name that no other process uses. */
static int exchange_in_steps(const struct ts_atomic_dir *d, struct ts_err *warn, struct ts_err *err)
{
    char suffix[32], *old;
    struct stat st;
    int rc = 0;
    snprintf(suffix, sizeof suffix, ".old.%ld", (long)getpid());
    old = ts_atomic_join(d->path, suffix, "");
    if (old == NULL)
        return ts_no_memory(err, d->path);
    if (lstat(old, &st) == 0) {
        rc = ts_fail(err, TS_EBUSY,
                     "%s: the name is needed to replace %s; move the file of that name elsewhere",
                     old, d->path);
    } else if (rename(d->path, old) != 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be renamed", d->path);
    } else if (rename(d->partial, d->path) != 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be renamed", d->partial);
        if (rename(old, d->path) != 0)
            rc = ts_fail_errno(err, TS_EIO, "%s: cannot be renamed; the old one is now %s",
                               d->partial, old);
    } else if (rename(old, d->partial) != 0) {
        ts_fail_errno(warn, TS_EIO, "%s: is in place, but %s, which it replaced, cannot be removed",
                      d->path, old);
    }
    free(old);
    return rc;
}

static int is_no_lock(void *ctx, int dir, const char *name)
{
    (void)ctx;
    (void)dir;
    return strcmp(name, TS_ATOMIC_LOCK) != 0;
}

/* Removes the old result, which now has the name of an unfinished one. This is done under the lock,
 * as for the directory of a dead process, so that files of a next writer are not removed. While the
 * lock is held, no other result can replace this one. So the lock in the new result, which says
 * what `partial` is, is our own. */
static void remove_old(const struct ts_atomic_dir *d, struct ts_err *warn)
{
    struct ts_atomic_dir old = {
        .conf = d->conf, .path = d->path, .partial = d->partial, .fd = -1, .lock_fd = -1
    };
    int rc = 0;
    for (int tries = 0; tries < TRIES; tries++) {
        rc = lock_dir(&old, NULL);
        if (rc != 1)
            break; /* rc 1: another process is renaming the directory, so try again */
        if (access(d->partial, F_OK) != 0 && errno == ENOENT)
            return;
    }
    if (rc == TS_EBUSY)
        return; /* the process that holds the lock clears the directory */
    if (rc == 0) {
        ts_atomic_clear(&old.conf, old.fd, 1);
        rc = ts_atomic_walk(old.fd, is_no_lock, NULL);
        if (rc == 0)
            unlinkat(d->fd, TS_ATOMIC_LOCK, 0);
        (void)write_lock(
            &old, 0, NULL); /* writes the text of the lock, by which other processes recognize it */
        rc |= leave(&old);
    }
    if (rc != 0 && warn->code == 0)
        ts_fail(warn, TS_EIO,
                "%s: is in place, but what it replaced could not be removed whole: the rest "
                "is in %s",
                d->path, d->partial);
}

static int fail_taken(const struct ts_atomic_dir *d, struct ts_err *err)
{
    return ts_fail(err, TS_EBUSY, "%s: another process took its name", d->partial);
}

/* Gives `partial` its final name. *replaced: an old result had that name, and is now called
 * `partial`. Syncing the files may have taken long, so the old result is checked once more. */
static int put_in_place(struct ts_atomic_dir *d, int *replaced, struct ts_err *warn,
                        struct ts_err *err)
{
    for (int tries = 0; tries < TRIES; tries++) {
        /* another process may have made a result of this name since the last check */
        int there, rc = check_target(d, &there, err);
        if (rc < 0)
            return rc;
        *replaced = there;
        if (there && (write_lock(d, 1, err) < 0 || ts_atomic_fsync(d->lock_fd) != 0))
            return ts_fail_errno(err, TS_EIO, "%s/%s: cannot be written", d->partial,
                                 TS_ATOMIC_LOCK);
        if (!holds_names(d))
            return fail_taken(d, err);
        if (!there) {
            if (ts_atomic_rename_new(d->partial, d->path) == 0)
                return 0;
            if (errno != EEXIST)
                return ts_fail_errno(err, TS_EIO, "%s: cannot be renamed to %s", d->partial,
                                     d->path);
        } else if (renameat2(AT_FDCWD, d->partial, AT_FDCWD, d->path, RENAME_EXCHANGE) == 0) {
            return 0;
        } else if (errno != ENOENT) {
            return exchange_in_steps(d, warn, err);
        }
    }
    return ts_fail(err, TS_EBUSY, "%s: another process makes and removes it", d->path);
}

/* Fails because a process that ignores locks has just taken the name of the result. Nothing is
 * removed. */
static int fail_other(const struct ts_atomic_dir *d, int replaced, struct ts_err *err)
{
    return ts_fail(err, TS_EBUSY, "%s: another process took its name, so that %s is another's%s%s",
                   d->partial, d->path, replaced ? "; what was there is " : "",
                   replaced ? d->partial : "");
}

int ts_atomic_dir_commit(struct ts_atomic_dir *d, struct ts_err *warn, struct ts_err *err)
{
    int replaced = 0, rc;
    warn->code = 0;
    if (!holds_names(d))
        return fail_taken(d, err);
    ts_written_end_dir(d->fd);
    rc = sync_all(d, err);
    if (rc == 0)
        rc = put_in_place(d, &replaced, warn, err);
    if (rc == 0 && !ts_atomic_has_name(d->fd, AT_FDCWD, d->path) &&
        !ts_atomic_has_name(
            d->fd, AT_FDCWD,
            d->partial)) /* `partial` is not this directory: another result has replaced it */
        rc = fail_other(d, replaced, err);
    if (rc < 0)
        return rc;
    d->committed = 1;
    ts_unfinished_drop(&d->unfinished);
    if (!replaced)
        /* the lock kept other processes out until the rename */
        unlinkat(d->fd, TS_ATOMIC_LOCK, 0);
    if (ts_atomic_fsync(d->fd) != 0 && warn->code == 0)
        ts_fail_errno(warn, TS_EIO, "%s: is in place, but cannot be written to the disk", d->path);
    ts_atomic_sync_parent(d->path, d->fd, warn);
    if (replaced)
        remove_old(d, warn);
    return 0;
}
