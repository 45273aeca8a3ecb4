/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a directory once, and its files through its descriptor. */
#include "base/files/open_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct ts_open_dir {
    char *path; /* the name in messages */
    char *real; /* the path without links, absolute if realpath finds it */
    int fd;
};

/* ---- identifying a file, and opening it again ---- */

int ts_file_id_of(const char *path, struct ts_file_id *ret)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return 0;
    *ret = (struct ts_file_id){ st.st_dev, st.st_ino };
    return 1;
}

int ts_file_id_open(int fd, struct ts_file_id *ret)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return 0;
    *ret = (struct ts_file_id){ st.st_dev, st.st_ino };
    return 1;
}

int ts_file_id_same(const struct ts_file_id *a, const struct ts_file_id *b)
{
    return a->dev == b->dev && a->ino == b->ino;
}

int ts_file_again(int fd, const char *path, int flags)
{
    struct ts_file_id was, is;
    char name[64];
    int again;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    again = open(name, flags);
    if (again >= 0 || (errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != ELOOP))
        return again;
    again = open(path, flags);
    if (again < 0) {
        errno = errno == ENOENT ? ESTALE : errno;
        return -1;
    }
    if (ts_file_id_open(fd, &was) && ts_file_id_open(again, &is) && ts_file_id_same(&was, &is))
        return again;
    close(again);
    errno = ESTALE;
    return -1;
}

int ts_file_crowded(int fd)
{
    struct rlimit most;
    return getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
           (rlim_t)fd >= most.rlim_cur / 2;
}

/* ---- opening a directory and its files ---- */

/* Makes a struct ts_open_dir, which owns fd. Closes fd on failure. */
static int make(int fd, const char *path, const char *real, struct ts_open_dir **ret,
                struct ts_err *err)
{
    struct ts_open_dir *d = calloc(1, sizeof *d);
    if (d != NULL) {
        d->fd = fd;
        d->path = strdup(path);
        d->real = realpath(real, NULL);
        if (d->real == NULL)
            d->real = strdup(real);
    }
    if (d != NULL && d->path != NULL && d->real != NULL) {
        *ret = d;
        return 0;
    }
    if (d == NULL)
        close(fd);
    ts_open_dir_close(d);
    return ts_no_memory(err, path);
}

int ts_open_dir_new(const char *path, struct ts_open_dir **ret, struct ts_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* a directory without read permission cannot be listed, but its files can be opened */
    if (fd < 0 && errno == EACCES)
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? ts_fail_errno(err, TS_EIO, "%s: cannot be opened", path)
                  : make(fd, path, path, ret, err);
}

int ts_open_dir_inside(const struct ts_open_dir *parent, const char *name, const char *path,
                       struct ts_open_dir **ret, struct ts_err *err)
{
    const int fd = openat(parent->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? ts_open_dir_explain(
                        parent, ts_fail_errno(err, TS_EIO, "%s: cannot be opened", path), err)
                  : make(fd, path, path, ret, err);
}

int ts_open_dir_at(int fd, const char *path, struct ts_open_dir **ret, struct ts_err *err)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return own < 0 ? ts_fail_errno(err, TS_EIO, "%s: cannot be opened", path)
                   : make(own, path, path, ret, err);
}

int ts_open_dir_again(const struct ts_open_dir *d, struct ts_open_dir **ret, struct ts_err *err)
{
    const int fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? ts_fail_errno(err, TS_EIO, "%s: cannot be opened", d->path)
                  : make(fd, d->path, d->real, ret, err);
}

void ts_open_dir_close(struct ts_open_dir *d)
{
    if (d == NULL)
        return;
    close(d->fd);
    free(d->real);
    free(d->path);
    free(d);
}

const char *ts_open_dir_path(const struct ts_open_dir *d)
{
    return d->path;
}

int ts_open_dir_fd(const struct ts_open_dir *d)
{
    return d->fd;
}

int ts_open_dir_file(const struct ts_open_dir *d, const char *name, struct ts_err *err)
{
    const int fd = openat(d->fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0
               ? fd
               : ts_open_dir_explain(
                     d, ts_fail_errno(err, TS_EIO, "%s/%s: cannot be opened", d->path, name), err);
}

int ts_open_dir_optional(const struct ts_open_dir *d, const char *name, int *fd, struct ts_err *err)
{
    *fd = openat(d->fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*fd >= 0)
        return 1;
    /* when a directory is replaced, another one gets its name, and then its files are removed. So
     * the file is really absent only if the name still leads to this directory */
    if (errno == ENOENT)
        return ts_open_dir_replaced(d) ? ts_open_dir_fail(d->path, err) : 0;
    return ts_open_dir_explain(
        d, ts_fail_errno(err, TS_EIO, "%s/%s: cannot be opened", d->path, name), err);
}

int ts_open_dir_named(const struct ts_open_dir *d, const char *name, int *fd, char **path,
                      struct ts_err *err)
{
    const int rc = ts_open_dir_optional(d, name, fd, err);
    if (rc <= 0 || asprintf(path, "%s/%s", d->path, name) >= 0)
        return rc;
    close(*fd);
    return ts_no_memory(err, d->path);
}

int ts_open_dir_replaced(const struct ts_open_dir *d)
{
    struct ts_file_id own, now;
    struct stat st;
    if (fstat(d->fd, &st) != 0)
        return 0;
    if (st.st_nlink == 0)
        return 1;
    if (!ts_file_id_of(d->real, &now))
        return errno == ENOENT || errno == ENOTDIR;
    own = (struct ts_file_id){ st.st_dev, st.st_ino };
    return !ts_file_id_same(&own, &now);
}

int ts_open_dir_explain(const struct ts_open_dir *d, int rc, struct ts_err *err)
{
    return (rc == TS_EIO || rc == TS_EFORMAT) && ts_open_dir_replaced(d)
               ? ts_open_dir_fail(d->path, err)
               : rc;
}

int ts_open_dir_fail(const char *path, struct ts_err *err)
{
    ts_fail(err, TS_EBUSY, "%s was replaced or removed while it was being read; try again", path);
    if (err != NULL)
        err->sys = ESTALE;
    return TS_EBUSY;
}

int ts_open_dir_stale(int rc, const struct ts_err *err)
{
    return rc == TS_EBUSY && err->sys == ESTALE;
}
