/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives directories and files the owner, group and mode of others. */
#include "build/build_access.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/files/atomic_names.h"
#include "base/files/atomic_out.h"
#include "base/files/atomic_steps.h"
#include "base/files/fd.h"
#include "format/layout.h"

#define MODE_BITS ((mode_t)07777)

int ts_build_access_of(int dir, const char *path, struct ts_build_access *ret, struct ts_err *err)
{
    struct stat st, file;
    if (fstat(dir, &st) != 0 || fstatat(dir, TS_INDEX_NAME, &file, 0) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be looked up", path);
    *ret = (struct ts_build_access){ .uid = st.st_uid,
                                     .gid = st.st_gid,
                                     .file_uid = file.st_uid,
                                     .file_gid = file.st_gid,
                                     .dir_mode = st.st_mode & MODE_BITS,
                                     .file_mode = file.st_mode & MODE_BITS };
    return 0;
}

/* Returns whether anything changed. A change of the owner may clear bits of the mode, so the mode
 * comes last. */
static int give(int fd, const struct stat *st, uid_t uid, gid_t gid, mode_t mode)
{
    int changed = 0;
    if (st->st_uid != uid)
        changed |= fchown(fd, uid, gid) == 0;
    if (!changed && st->st_gid != gid)
        changed |= fchown(fd, (uid_t)-1, gid) == 0;
    if (changed || (st->st_mode & MODE_BITS) != mode)
        changed |= fchmod(fd, mode) == 0;
    return changed;
}

void ts_build_access_begin(const struct ts_build_access *a, int dir)
{
    struct stat st;
    if (fstat(dir, &st) == 0)
        give(dir, &st, a->uid, a->gid, a->dir_mode | S_IRWXU);
}

struct giving {
    const struct ts_build_access *a;
    const char *path;
    struct ts_err *err;
    int rc, inside; /* inside: a directory in the directory */
};

static int give_dir(const struct giving *g, int fd, int inside);

static int give_name(void *ctx, int dir, const char *name)
{
    struct giving *g = ctx;
    const int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        ts_fd_close(fd);
        return 0; /* what cannot be looked at is not ours */
    }
    if (S_ISDIR(st.st_mode) && !g->inside)
        g->rc = give_dir(g, fd, 1);
    else if (S_ISREG(st.st_mode) && st.st_nlink == 1 && strcmp(name, TS_ATOMIC_LOCK) != 0 &&
             give(fd, &st, g->a->file_uid, g->a->file_gid, g->a->file_mode) &&
             ts_atomic_fsync(fd) != 0)
        g->rc = ts_fail_errno(g->err, TS_EIO, "%s/%s: cannot be written", g->path, name);
    close(fd);
    return g->rc < 0;
}

static int give_dir(const struct giving *g, int fd, int inside)
{
    struct giving in = { g->a, g->path, g->err, 0, inside };
    struct stat st;
    if (ts_atomic_walk(fd, give_name, &in) < 0)
        return ts_fail_errno(g->err, TS_EIO, "%s: cannot be read", g->path);
    if (in.rc == 0 && fstat(fd, &st) == 0 && give(fd, &st, g->a->uid, g->a->gid, g->a->dir_mode) &&
        ts_atomic_fsync(fd) != 0)
        in.rc = ts_fail_errno(g->err, TS_EIO, "%s: cannot be written", g->path);
    return in.rc;
}

int ts_build_access_give(const struct ts_build_access *a, int dir, const char *path,
                         struct ts_err *err)
{
    const struct giving g = { a, path, err, 0, 0 };
    return give_dir(&g, dir, 0);
}
