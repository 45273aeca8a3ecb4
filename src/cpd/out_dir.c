#include "cpd/out_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/out_name.h"

static char *join(const char *a, const char *b, const char *c)
{
    const size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
    char *s = malloc(n);
    if (s != NULL)
        snprintf(s, n, "%s%s%s", a, b, c);
    return s;
}

/* 0, or TS_EBUSY when the directory holds a file that is not ours. */
static int check_names(const char *dir, int (*ours)(const char *name), struct ts_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = 0;
    if (d == NULL)
        return errno == ENOENT ? 0 : ts_fail_errno(err, TS_EIO, "%s: cannot be replaced", dir);
    while (rc == 0 && (e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !ours(e->d_name))
            rc = ts_fail(err, TS_EBUSY,
                         "%s: holds %s, which is no file of a decomposition, so it is not replaced: "
                         "name another directory",
                         dir, e->d_name);
    closedir(d);
    return rc;
}

/* Removes our files from the open directory. */
static void clear_names(int fd, int (*ours)(const char *name))
{
    const int copy = dup(fd);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *e;
    if (d == NULL)
        return;
    rewinddir(d);
    while ((e = readdir(d)) != NULL)
        if (ours(e->d_name))
            unlinkat(fd, e->d_name, 0);
    closedir(d);
}

static int open_partial(struct ts_out_dir *o, int (*ours)(const char *name), struct ts_err *err)
{
    struct statvfs fs;
    if (mkdir(o->partial, 0777) != 0 && errno != EEXIST)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be created", o->partial);
    o->fd = open(o->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (o->fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be opened", o->partial);
    if (flock(o->fd, LOCK_EX | LOCK_NB) != 0) {
        close(o->fd);
        o->fd = -1;
        return ts_fail(err, TS_EBUSY, "%s: another process is writing it", o->partial);
    }
    clear_names(o->fd, ours);
    if (fstatvfs(o->fd, &fs) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: its free space cannot be read", o->partial);
    o->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return 0;
}

/* What could not be replaced when the work is done is refused before it: where a file system is mounted.
 * A name such as `.` becomes one that others can stand beside. */
static int check_place(char **dir, struct ts_err *err)
{
    const char *last = strrchr(*dir, '/');
    struct statx st;
    char *real;
    last = last == NULL ? *dir : last + 1;
    if (statx(AT_FDCWD, *dir, 0, STATX_TYPE, &st) != 0)
        return 0; /* it will be made */
    if ((st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 &&
        (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
        return ts_fail(err, TS_EARG, "%s: a file system is mounted there, so it cannot be replaced: name "
                       "a directory in it", *dir);
    if (strcmp(last, ".") != 0 && strcmp(last, "..") != 0)
        return 0;
    real = realpath(*dir, NULL);
    if (real == NULL)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be looked up", *dir);
    free(*dir);
    *dir = real;
    return 0;
}

int ts_out_dir_open(const char *dir, int (*ours)(const char *name), struct ts_out_dir *ret,
                    struct ts_err *err)
{
    struct ts_out_dir o = { .fd = -1 };
    size_t n = strlen(dir);
    char *name = strdup(dir);
    int rc;
    while (name != NULL && n > 1 && name[n - 1] == '/')
        name[--n] = '\0';
    rc = name == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", dir)
                      : ts_out_name(name, &o.dir, err);
    free(name);
    if (rc == 0 && o.dir == NULL)
        rc = ts_fail(err, TS_EARG, "%s: is no directory, which factors need", dir);
    if (rc < 0)
        return rc;
    rc = check_place(&o.dir, err);
    o.partial = rc < 0 ? NULL : join(o.dir, ".partial", "");
    if (rc == 0)
        rc = o.partial == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", dir)
                               : check_names(o.dir, ours, err);
    if (rc == 0)
        rc = open_partial(&o, ours, err);
    if (rc == 0)
        *ret = o;
    else
        ts_out_dir_close(&o, ours);
    return rc;
}

int ts_out_dir_create(struct ts_out_dir *o, const char *name, FILE **ret, char **path,
                      struct ts_err *err)
{
    const int fd = openat(o->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    char *full = join(o->partial, "/", name);
    int rc = 0;
    if (full == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", name);
    else if (file == NULL)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be created", full);
    if (rc == 0) {
        *ret = file;
        *path = full;
        return 0;
    }
    if (file != NULL)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    free(full);
    return rc;
}

int ts_out_dir_finish(FILE *file, const char *path, struct ts_err *err)
{
    int rc = 0;
    if (ferror(file) || fflush(file) != 0 || fsync(fileno(file)) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be written", path);
    if (fclose(file) != 0 && rc == 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be written", path);
    return rc;
}

static void sync_parent(const char *dir)
{
    char *copy = strdup(dir), *slash = copy == NULL ? NULL : strrchr(copy, '/');
    int fd;
    if (slash != NULL)
        slash[slash == copy] = '\0';
    fd = open(slash == NULL ? "." : copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(copy);
}

/* Swaps the two names in one step where the file system can, else in two. */
static int exchange(struct ts_out_dir *o, struct ts_err *err)
{
    char suffix[32], *old;
    struct stat there;
    int rc = 0;
    if (renameat2(AT_FDCWD, o->partial, AT_FDCWD, o->dir, RENAME_EXCHANGE) == 0)
        return 0;
    snprintf(suffix, sizeof suffix, ".old.%ld", (long)getpid()); /* nobody else's */
    old = join(o->dir, suffix, "");
    if (old == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", o->dir);
    if (lstat(old, &there) == 0) {
        rc = ts_fail(err, TS_EBUSY, "%s: is in the way; remove it or name another directory", old);
    } else if (rename(o->dir, old) != 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be replaced", o->dir);
    } else if (rename(o->partial, o->dir) != 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be replaced", o->dir);
        (void)rename(old, o->dir);
    } else if (rename(old, o->partial) != 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be removed", old);
    }
    free(old);
    return rc;
}

int ts_out_dir_commit(struct ts_out_dir *o, int (*ours)(const char *name), struct ts_err *err)
{
    int rc = check_names(o->dir, ours, err), old;
    if (rc < 0)
        return rc;
    if (fsync(o->fd) != 0 && errno != EINVAL) /* some file systems have no such thing for directories */
        return ts_fail_errno(err, TS_EIO, "%s: cannot be written", o->partial);
    if (rename(o->partial, o->dir) == 0) { /* DIR is not there, or empty */
        close(o->fd);
        o->fd = -1;
        sync_parent(o->dir);
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be renamed to %s", o->partial, o->dir);
    rc = exchange(o, err);
    if (rc < 0)
        return rc;
    close(o->fd);
    o->fd = -1;
    sync_parent(o->dir);
    old = open(o->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (old >= 0) {
        clear_names(old, ours);
        close(old);
        rmdir(o->partial);
    }
    return 0;
}

void ts_out_dir_close(struct ts_out_dir *o, int (*ours)(const char *name))
{
    if (o->fd >= 0) {
        clear_names(o->fd, ours);
        rmdir(o->partial);
        close(o->fd);
    }
    free(o->dir);
    free(o->partial);
    o->dir = o->partial = NULL;
    o->fd = -1;
}
