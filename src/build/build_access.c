/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives directories and files the owner, group, mode and ACLs of others. */
#include "build/build_access.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/files/atomic_names.h"
#include "base/files/atomic_out.h"
#include "base/files/atomic_steps.h"
#include "base/files/fd.h"
#include "format/layout.h"

#define MODE_BITS ((mode_t)07777)

/* ------------------------------------------------------------------ ACLs */

#define ACCESS_ACL  "system.posix_acl_access"
#define DEFAULT_ACL "system.posix_acl_default"
#define ACL_HEAD    4 /* bytes of the version, which comes before the entries */
/* bytes of an entry: 2 of its tag, 2 of the rights, 4 of a user's or group's number */
#define ACL_ENTRY 8

enum acl_tag {
    ACL_OF_OWNER = 0x01,
    ACL_OF_USER = 0x02,
    ACL_OF_GROUP = 0x04,
    ACL_OF_NAMED_GROUP = 0x08,
    ACL_OF_ALL_NAMED = 0x10, /* the mask: the most rights that named users and all groups have */
    ACL_OF_OTHERS = 0x20,
};

static void read_acl(int fd, const char *kind, struct ts_build_acl *ret)
{
    const ssize_t n = fgetxattr(fd, kind, ret->byte, sizeof ret->byte);
    ret->n = n >= 0 ? (int)n : errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1;
}

static unsigned number_at(const struct ts_build_acl *acl, int at)
{
    return acl->byte[at] + 256u * acl->byte[at + 1];
}

/* Returns the mode of a file on which the ACL cannot be set. Nobody gets more rights by it than by
 * the ACL. */
static mode_t mode_without(const struct ts_build_acl *acl, mode_t mode)
{
    unsigned group = mode >> 3 & 7, named = 7, mask = 7;
    if (acl->n == 0)
        return mode;
    if (acl->n < 0)
        return mode & ~(mode_t)(S_IRWXG | S_IRWXO);
    for (int at = ACL_HEAD; at + ACL_ENTRY <= acl->n; at += ACL_ENTRY) {
        const unsigned tag = number_at(acl, at), rights = number_at(acl, at + 2) & 7;
        if (tag == ACL_OF_GROUP)
            group = rights;
        if (tag == ACL_OF_USER || tag == ACL_OF_NAMED_GROUP)
            named &= rights;
        if (tag == ACL_OF_ALL_NAMED)
            mask = rights;
    }
    /* without the ACL, a user it names may have the rights of the group or of others */
    named &= mask;
    return (mode & ~(mode_t)(S_IRWXG | S_IRWXO)) | (group & named) << 3 | (mode & 7 & named);
}

/* For a file whose group could not be given: its own group gets no more rights than others have. */
static void close_group(struct ts_build_acl *acl, mode_t *mode)
{
    const unsigned others = *mode & 7;
    if (acl->n == 0)
        *mode &= ~(mode_t)S_IRWXG | others << 3;
    for (int at = ACL_HEAD; at + ACL_ENTRY <= acl->n; at += ACL_ENTRY)
        if (number_at(acl, at) == ACL_OF_GROUP)
            acl->byte[at + 2] &= (unsigned char)others;
}

/* Sets the ACL of a file. Returns whether the file has it now. Sets *changed to 1 if the file had
 * another ACL. */
static int set_acl(int fd, const char *kind, const struct ts_build_acl *acl, int *changed)
{
    struct ts_build_acl is;
    read_acl(fd, kind, &is);
    if (acl->n >= 0 && is.n == acl->n && memcmp(is.byte, acl->byte, (size_t)is.n) == 0)
        return 1;
    *changed = 1;
    if (acl->n > 0 && fsetxattr(fd, kind, acl->byte, (size_t)acl->n, 0) == 0)
        return 1;
    (void)fremovexattr(fd, kind); /* removes the ACL that the file got from its directory */
    return acl->n == 0;
}

/* ------------------------------------------------------------------ giving owner and rights */

int ts_build_access_of(int dir, const char *path, struct ts_build_access *ret, struct ts_err *err)
{
    const int index = openat(dir, TS_INDEX_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st, file;
    int rc = 0;
    if (index < 0 || fstat(dir, &st) != 0 || fstat(index, &file) != 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be looked up", path);
    } else {
        *ret = (struct ts_build_access){ .uid = st.st_uid,
                                         .gid = st.st_gid,
                                         .file_uid = file.st_uid,
                                         .file_gid = file.st_gid,
                                         .dir_mode = st.st_mode & MODE_BITS,
                                         .file_mode = file.st_mode & MODE_BITS };
        read_acl(dir, ACCESS_ACL, &ret->dir_acl);
        read_acl(dir, DEFAULT_ACL, &ret->new_acl);
        read_acl(index, ACCESS_ACL, &ret->file_acl);
    }
    ts_fd_close(index);
    return rc;
}

/* Gives a file or directory an owner, group, mode and ACL. Returns whether anything changed. The
 * mode comes last, because a change of the owner may clear bits of it. new_acl: for a directory,
 * the ACL that new files in it get. */
static int give(int fd, const struct stat *st, uid_t uid, gid_t gid, mode_t mode,
                const struct ts_build_acl *acl, const struct ts_build_acl *new_acl)
{
    struct ts_build_acl own = *acl;
    int changed = 0, has_group = st->st_gid == gid;
    if (st->st_uid != uid)
        changed |= fchown(fd, uid, gid) == 0;
    has_group |= changed;
    if (!has_group)
        changed |= has_group = fchown(fd, (uid_t)-1, gid) == 0;
    if (!has_group)
        close_group(&own, &mode);
    if (new_acl != NULL)
        (void)set_acl(fd, DEFAULT_ACL, new_acl, &changed);
    if (!set_acl(fd, ACCESS_ACL, &own, &changed))
        mode = mode_without(&own, mode);
    if (changed || (st->st_mode & MODE_BITS) != mode)
        changed |= fchmod(fd, mode) == 0;
    return changed;
}

void ts_build_access_begin(const struct ts_build_access *a, int dir)
{
    struct stat st;
    if (fstat(dir, &st) == 0)
        give(dir, &st, a->uid, a->gid, a->dir_mode | S_IRWXU, &a->dir_acl, &a->new_acl);
}

struct giving {
    const struct ts_build_access *a;
    const char *path;
    struct ts_err *err;
    int rc, inside; /* inside 1: the directory is inside that of the tensor */
};

static int give_dir(const struct giving *g, int fd, int inside);

static int give_name(void *ctx, int dir, const char *name)
{
    struct giving *g = ctx;
    const int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        ts_fd_close(fd);
        return 0; /* a file that cannot be opened was not written by this program */
    }
    if (S_ISDIR(st.st_mode) && !g->inside)
        g->rc = give_dir(g, fd, 1);
    else if (S_ISREG(st.st_mode) && st.st_nlink == 1 && strcmp(name, TS_ATOMIC_LOCK) != 0 &&
             give(fd, &st, g->a->file_uid, g->a->file_gid, g->a->file_mode, &g->a->file_acl,
                  NULL) &&
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
    if (in.rc == 0 && fstat(fd, &st) == 0 &&
        give(fd, &st, g->a->uid, g->a->gid, g->a->dir_mode, &g->a->dir_acl, &g->a->new_acl) &&
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
