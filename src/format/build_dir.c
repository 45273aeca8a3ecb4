#include "format/build_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/layout.h"

struct ts_build_dir {
    char *path, *building, *lock_path, *parent;
    int force, lock_fd, committed;
};

const char *ts_build_dir_path(const struct ts_build_dir *d)
{
    return d->building;
}

char *ts_build_dir_file(const struct ts_build_dir *d, const char *fmt, unsigned number)
{
    char name[64], *path;
    snprintf(name, sizeof name, fmt, number);
    if (asprintf(&path, "%s/%s", d->building, name) < 0)
        return NULL;
    return path;
}

/* Whether a file of this name belongs to a tensor: nothing else is ever removed. */
static int is_ours(const char *name)
{
    unsigned mode;
    char kind[16];
    int end = 0;
    if (strcmp(name, "index") == 0 || strcmp(name, "lock") == 0)
        return 1;
    return sscanf(name, "mode%2u.%15[a-z]%n", &mode, kind, &end) == 2 && name[end] == '\0' &&
           (strcmp(kind, "shards") == 0 || strcmp(kind, "rows") == 0 ||
            strcmp(kind, "labels") == 0);
}

/* Removes a tensor's files from a directory, but `keep`. */
static void clear_dir(const char *path, const char *keep)
{
    DIR *dir = opendir(path);
    const struct dirent *e;
    if (dir == NULL)
        return;
    while ((e = readdir(dir)) != NULL)
        if (is_ours(e->d_name) && (keep == NULL || strcmp(e->d_name, keep) != 0))
            unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
}

/* Whether the directory may be replaced: a tensor, or empty. */
static int is_replaceable(const char *path)
{
    char index[4096], magic[8];
    int fd, ok;
    DIR *dir;
    const struct dirent *e;
    snprintf(index, sizeof index, "%s/index", path);
    fd = open(index, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ok = read(fd, magic, 8) == 8 && memcmp(magic, TS_INDEX_MAGIC, 8) == 0;
        close(fd);
        if (ok)
            return 1;
    }
    dir = opendir(path);
    if (dir == NULL)
        return 0;
    ok = 1;
    while ((e = readdir(dir)) != NULL)
        ok &= strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || is_ours(e->d_name);
    closedir(dir);
    return ok;
}

static int check_target(const struct ts_build_dir *d, struct ts_err *err)
{
    struct stat st;
    if (lstat(d->path, &st) < 0)
        return 0;
    if (!d->force)
        return ts_fail(err, TS_EBUSY, "%s exists; use --force to replace it", d->path);
    if (!S_ISDIR(st.st_mode) || !is_replaceable(d->path))
        return ts_fail(err, TS_EBUSY, "%s exists and is no tensor, so --force does not replace it",
                       d->path);
    return 0;
}

static int locked_elsewhere(const struct ts_build_dir *d, int fd, struct ts_err *err)
{
    char text[32] = "";
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    const long pid = n > 0 ? strtol(text, NULL, 10) : 0;
    if (pid > 0)
        return ts_fail(err, TS_EBUSY, "%s is being built by another process (pid %ld)", d->path,
                       pid);
    return ts_fail(err, TS_EBUSY, "%s is being built by another process", d->path);
}

/* Makes the directory and locks it. Another process may rename or remove it between any two steps:
 * then once more. */
static int lock_dir(struct ts_build_dir *d, struct ts_err *err)
{
    for (int tries = 0; tries < 100; tries++) {
        struct stat ours, there;
        char text[32];
        int n, fd;
        if (mkdir(d->building, 0777) < 0 && errno != EEXIST)
            return ts_fail_errno(err, TS_EIO, "%s: cannot create the directory", d->building);
        fd = open(d->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot create", d->lock_path);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            const int rc = errno == EWOULDBLOCK
                               ? locked_elsewhere(d, fd, err)
                               : ts_fail_errno(err, TS_EIO, "%s: cannot lock", d->lock_path);
            close(fd);
            return rc;
        }
        if (fstat(fd, &ours) < 0 || stat(d->lock_path, &there) < 0 ||
            ours.st_ino != there.st_ino || ours.st_dev != there.st_dev) {
            close(fd);
            continue;
        }
        d->lock_fd = fd;
        clear_dir(d->building, "lock");
        n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
        if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
            return ts_fail_errno(err, TS_EIO, "%s: cannot write", d->lock_path);
        return 0;
    }
    return ts_fail(err, TS_EBUSY, "%s is being built by another process", d->path);
}

int ts_build_dir_open(const char *path, int force, struct ts_build_dir **ret, struct ts_err *err)
{
    struct ts_build_dir *d = calloc(1, sizeof *d);
    size_t n = strlen(path);
    int rc;
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (d == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    d->lock_fd = -1;
    d->force = force;
    d->path = strndup(path, n);
    if (d->path == NULL || asprintf(&d->building, "%s.building", d->path) < 0 ||
        asprintf(&d->lock_path, "%s/lock", d->building) < 0) {
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
        goto fail;
    }
    d->parent = strrchr(d->path, '/') == NULL
                    ? strdup(".")
                    : strndup(d->path, (size_t)(strrchr(d->path, '/') - d->path) + 1);
    rc = check_target(d, err);
    if (rc == 0)
        rc = lock_dir(d, err);
    if (rc < 0)
        goto fail;
    *ret = d;
    return 0;
fail:
    ts_build_dir_close(d);
    return rc;
}

void ts_build_dir_close(struct ts_build_dir *d)
{
    if (d == NULL)
        return;
    if (d->lock_fd >= 0) {
        if (!d->committed) {
            clear_dir(d->building, "lock");
            unlink(d->lock_path);
            rmdir(d->building);
        }
        close(d->lock_fd);
    }
    free(d->path);
    free(d->building);
    free(d->lock_path);
    free(d->parent);
    free(d);
}

int ts_build_dir_write(const struct ts_build_dir *d, const char *name, const void *data,
                       size_t bytes, struct ts_err *err)
{
    const char *p = data;
    char path[4096];
    int fd, rc = 0;
    snprintf(path, sizeof path, "%s/%s", d->building, name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot create", path);
    while (bytes > 0 && rc == 0) {
        const ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = ts_fail_errno(err, TS_EIO, "%s: cannot write", path);
        p += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return rc;
}

/* Every file of the directory on disk: where a full disk may show last. */
static int sync_files(const char *path, struct ts_err *err)
{
    DIR *dir = opendir(path);
    const struct dirent *e;
    int rc = 0;
    if (dir == NULL)
        return ts_fail_errno(err, TS_EIO, "%s: cannot open", path);
    while (rc == 0 && (e = readdir(dir)) != NULL) {
        int fd;
        if (!is_ours(e->d_name))
            continue;
        fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) < 0)
            rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot write", path, e->d_name);
        if (fd >= 0)
            close(fd);
    }
    closedir(dir);
    return rc;
}

static int sync_dir(const char *path, struct ts_err *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;
    if (fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot open", path);
    if (fsync(fd) < 0 && errno != EINVAL) /* some file systems have nothing to sync */
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot write", path);
    close(fd);
    return rc;
}

/* Both directories change their names in one step, or, where the file system cannot do that, one
 * after the other: then for a moment there is none, but never a part of one. The name that the old
 * one has meanwhile is our own, so nothing that someone keeps beside it is touched. */
static int replace(const struct ts_build_dir *d, struct ts_err *err)
{
    char old[4096 + 32]; /* one too long is refused by rename, not cut */
    struct stat st;
    if (renameat2(AT_FDCWD, d->building, AT_FDCWD, d->path, RENAME_EXCHANGE) == 0) {
        clear_dir(d->building, NULL);
        rmdir(d->building);
        return 0;
    }
    snprintf(old, sizeof old, "%s.old.%ld", d->path, (long)getpid());
    if (lstat(old, &st) == 0)
        return ts_fail(err, TS_EBUSY, "%s: the name is needed to replace %s; move what is there "
                       "elsewhere", old, d->path);
    if (rename(d->path, old) < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot rename", d->path);
    if (rename(d->building, d->path) < 0) {
        const int rc = ts_fail_errno(err, TS_EIO, "%s: cannot rename", d->building);
        if (rename(old, d->path) < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot rename; the tensor that was there is now "
                                 "%s", d->building, old);
        return rc;
    }
    clear_dir(old, NULL);
    rmdir(old);
    return 0;
}

int ts_build_dir_commit(struct ts_build_dir *d, struct ts_err *err)
{
    struct stat st;
    char lock[4096];
    int rc = sync_files(d->building, err);
    if (rc == 0)
        rc = sync_dir(d->building, err);
    if (rc == 0)
        rc = check_target(d, err); /* someone may have made one meanwhile */
    if (rc < 0)
        return rc;
    if (lstat(d->path, &st) == 0) {
        rc = replace(d, err);
        if (rc < 0)
            return rc;
    } else if (rename(d->building, d->path) < 0) {
        return ts_fail_errno(err, TS_EIO, "%s: cannot rename to %s", d->building, d->path);
    }
    d->committed = 1;
    /* removed last: while the old name existed, the lock in it kept others out */
    snprintf(lock, sizeof lock, "%s/lock", d->path);
    unlink(lock);
    return sync_dir(d->parent, err);
}
