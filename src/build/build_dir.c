/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the directory of a tensor, which appears as a whole or not at all
 * (base/files/atomic_out.h). Says which files in it belong to a tensor, so that no other file is
 * removed. */
#include "build/build_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/atomic_names.h"
#include "base/files/atomic_out.h"
#include "base/setting.h"
#include "base/files/fd.h"
#include "build/build_access.h"
#include "format/file_read.h"
#include "format/layout.h"
#include "format/part.h"

struct ts_build_dir {
    /* NULL: another rank has made the directory, and `path` is its path */
    struct ts_atomic_dir *dir;
    char *path;
    int like; /* 1: at the commit, its files get the owner, group and mode in `access` */
    struct ts_build_access access;
};

const char *ts_build_dir_path(const struct ts_build_dir *d)
{
    return d->dir == NULL ? d->path : ts_atomic_dir_partial(d->dir);
}

char *ts_build_dir_file(const struct ts_build_dir *d, const char *fmt, unsigned number)
{
    char name[64], *path;
    snprintf(name, sizeof name, fmt, number);
    if (asprintf(&path, "%s/%s", ts_build_dir_path(d), name) < 0)
        return NULL;
    return path;
}

static int begins(int dir, const char *name, const char magic[8])
{
    char head[8];
    return ts_atomic_head(dir, name, head, sizeof head) == (long)sizeof head &&
           memcmp(head, magic, sizeof head) == 0;
}

static int is_file(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Whether a name is one that NFS gives a file that is removed while a program reads it. The file
 * goes when its last reader closes it. */
static int is_nfs_rest(const char *name)
{
    return strncmp(name, ".nfs", 4) == 0 && strlen(name) >= 16 &&
           strspn(name + 4, "0123456789abcdef") == strlen(name + 4);
}

/* Returns whether a file belongs to a tensor. With `whole` (a complete tensor), its first bytes
 * must say so. Files of shards have no such bytes, so the index in the directory must. */
static enum ts_atomic_kind kind_of_file(int dir, const char *name, int whole)
{
    const char *magic = NULL;
    unsigned mode;
    char kind[16];
    int end = 0, ours;
    if (is_nfs_rest(name))
        return TS_ATOMIC_OURS;
    if (strcmp(name, TS_INDEX_NAME) == 0)
        magic = TS_INDEX_MAGIC;
    else if (strcmp(name, TS_MODES_NAME) == 0)
        magic = TS_MODES_MAGIC;
    else if (strcmp(name, TS_SUMS_NAME) == 0)
        magic = TS_SUMS_MAGIC;
    else if (strcmp(name, TS_KEPT_NAME) == 0)
        magic = TS_KEPT_MAGIC;
    else if (strcmp(name, TS_PART_NAME) == 0)
        magic = TS_PART_MAGIC;
    else if (sscanf(name, "mode%2u.%15[a-z]%n", &mode, kind, &end) != 2 || name[end] != '\0')
        return TS_ATOMIC_FOREIGN;
    else if (strcmp(kind, "rows") == 0)
        magic = TS_ROWS_MAGIC;
    else if (strcmp(kind, "labels") == 0)
        magic = TS_LABELS_MAGIC;
    else if (strcmp(kind, "shards") != 0)
        return TS_ATOMIC_FOREIGN;
    ours = is_file(dir, name);
    if (ours && whole)
        ours =
            magic != NULL ? begins(dir, name, magic) : begins(dir, TS_INDEX_NAME, TS_INDEX_MAGIC);
    return ours ? TS_ATOMIC_OURS : TS_ATOMIC_FOREIGN;
}

struct inside {
    int whole;
    char *foreign;
};

/* Returns 1, which ends the walk over a directory, at a name that is not one of a tensor's files.
 * Copies that name to in->foreign. */
static int is_foreign_file(void *ctx, int dir, const char *name)
{
    const struct inside *in = ctx;
    if (!in->whole && strcmp(name, TS_ATOMIC_LOCK) == 0)
        return 0; /* left by a build that was killed */
    if (kind_of_file(dir, name, 0) == TS_ATOMIC_OURS)
        return 0;
    snprintf(in->foreign, 256, "%s", name);
    return 1;
}

/* Whether a name is that of a segment's directory or of the merged tensor's. If the tensor is not
 * complete (whole 0), also that of a directory in which one of them is being built. */
static int is_segment(const char *name, int whole)
{
    unsigned number;
    int end = 0;
    if (strncmp(name, TS_MERGED_NAME, strlen(TS_MERGED_NAME)) == 0)
        end = (int)strlen(TS_MERGED_NAME);
    else if (sscanf(name, TS_SEGMENT_NAME "%n", &number, &end) != 1)
        return 0;
    return name[end] == '\0' || (!whole && strcmp(name + end, TS_BUILDING_SUFFIX) == 0);
}

/* Returns whether a directory is a segment of the tensor. The names of its files decide, not their
 * bytes, so that a damaged segment can be removed. foreign: gets the first name that is not one of
 * a tensor's files. */
static enum ts_atomic_kind kind_of_segment(int dir, const char *name, int whole, char foreign[256])
{
    struct inside in = { whole, foreign };
    struct stat st;
    int fd, ours;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
        /* if the tensor is replaced, the link is removed, not the directory it points to */
        return TS_ATOMIC_OURS;
    if (whole && !begins(dir, TS_INDEX_NAME, TS_INDEX_MAGIC))
        return TS_ATOMIC_FOREIGN;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return TS_ATOMIC_FOREIGN;
    ours = ts_atomic_walk(fd, is_foreign_file, &in) == 0;
    close(fd);
    return ours ? TS_ATOMIC_OURS : TS_ATOMIC_FOREIGN;
}

static enum ts_atomic_kind kind_of(int dir, const char *name, int whole)
{
    char foreign[256];
    return is_segment(name, whole) ? kind_of_segment(dir, name, whole, foreign)
                                   : kind_of_file(dir, name, whole);
}

struct looking {
    const char *path;
    struct ts_err *err;
};

static int refuse_foreign(void *ctx, int dir, const char *name)
{
    const struct looking *l = ctx;
    char inside[256] = "";
    const int segment = is_segment(name, 1);
    if (strcmp(name, TS_ATOMIC_LOCK) == 0 ||
        (segment ? kind_of_segment(dir, name, 1, inside) : kind_of_file(dir, name, 1)) ==
            TS_ATOMIC_OURS)
        return 0;
    return ts_fail(l->err, TS_EBUSY,
                   "%s holds %s%s%s, which is not a file of a tensor, so it is not changed: move "
                   "that elsewhere",
                   l->path, name, *inside != '\0' ? "/" : "", inside);
}

int ts_build_dir_look(int dir, const char *path, struct ts_err *err)
{
    struct looking l = { path, err };
    const int rc = ts_atomic_walk(dir, refuse_foreign, &l);
    return rc == TS_EBUSY ? rc : 0; /* a failure to read the directory is reported later */
}

int ts_build_dir_open(const char *path, int force, struct ts_build_dir **ret, struct ts_err *err)
{
    const struct ts_atomic_conf conf = { .path = path,
                                         .suffix = TS_BUILDING_SUFFIX,
                                         .what = "tensor",
                                         .place = TS_SET_OUTPUT,
                                         .force = force,
                                         .kind = kind_of };
    struct ts_build_dir *d = calloc(1, sizeof *d);
    int rc;
    if (d == NULL)
        return ts_no_memory(err, path);
    rc = ts_atomic_dir_open(&conf, &d->dir, err);
    if (rc == 0)
        *ret = d;
    else
        free(d);
    return rc;
}

int ts_build_dir_check(const char *path, int force, struct ts_err *err)
{
    struct ts_build_dir *d = NULL;
    const int rc = ts_build_dir_open(path, force, &d, err);
    ts_build_dir_close(d);
    return rc;
}

int ts_build_dir_join(const char *path, struct ts_build_dir **ret, struct ts_err *err)
{
    struct ts_build_dir *d = calloc(1, sizeof *d);
    if (d == NULL || (d->path = strdup(path)) == NULL) {
        free(d);
        return ts_no_memory(err, path);
    }
    *ret = d;
    return 0;
}

void ts_build_dir_close(struct ts_build_dir *d)
{
    if (d == NULL)
        return;
    if (d->dir != NULL)
        ts_atomic_dir_close(d->dir);
    free(d->path);
    free(d);
}

int ts_build_dir_write(const struct ts_build_dir *d, const char *name, const void *data,
                       size_t bytes, struct ts_err *err)
{
    const char *path = ts_build_dir_path(d);
    const int fd =
        openat(ts_atomic_dir_fd(d->dir), name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int rc = 0;
    if (fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s/%s: cannot create", path, name);
    if (ts_fd_write(fd, data, bytes, TS_FD_NEXT) < 0)
        rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot write", path, name);
    if (close(fd) != 0 && rc == 0)
        rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot write", path, name);
    return rc;
}

/* ------------------------------------------------------------------ files of another tensor */

#define PIECE ((size_t)1 << 20) /* bytes that are copied at a time */

struct taking {
    int to;
    const char *from_path, *to_path;
    struct ts_err *err;
    int rc;
};

static int copy_file(const struct taking *k, int from, const char *name)
{
    char *path = NULL, *piece = malloc(PIECE);
    const int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const int out = openat(k->to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    uint64_t n = 0;
    struct stat st;
    int rc = 0;
    if (in >= 0 && out >= 0 && fstat(in, &st) == 0)
        (void)fchmod(out, st.st_mode & 07777);
    if (piece == NULL || asprintf(&path, "%s/%s", k->from_path, name) < 0) {
        path = NULL;
        rc = ts_no_memory(k->err, name);
    }
    if (rc == 0 && in < 0)
        rc = ts_fail_errno(k->err, TS_EIO, "%s", path);
    if (rc == 0 && out < 0)
        rc = ts_fail_errno(k->err, TS_EIO, "%s/%s: cannot create", k->to_path, name);
    if (rc == 0)
        rc = ts_file_read_size(in, path, &n, k->err);
    for (uint64_t at = 0; at < n && rc == 0; at += PIECE) {
        const size_t now = n - at < PIECE ? (size_t)(n - at) : PIECE;
        rc = ts_file_read_at(in, path, at, now, piece, k->err);
        if (rc == 0 && ts_fd_write(out, piece, now, TS_FD_NEXT) < 0)
            rc = ts_fail_errno(k->err, TS_EIO, "%s/%s: cannot write", k->to_path, name);
    }
    if (rc == 0 && fsync(out) != 0)
        rc = ts_fail_errno(k->err, TS_EIO, "%s/%s: cannot write", k->to_path, name);
    ts_fd_close(in);
    ts_fd_close(out);
    free(piece);
    free(path);
    return rc;
}

static int take_file(void *ctx, int from, const char *name)
{
    struct taking *k = ctx;
    if (is_nfs_rest(name) || kind_of_file(from, name, 1) != TS_ATOMIC_OURS)
        return 0; /* only files of the tensor are taken */
    if (linkat(from, name, k->to, name, 0) != 0)
        k->rc = copy_file(k, from, name);
    return k->rc < 0;
}

int ts_build_dir_take(const struct ts_build_dir *d, const char *name, int from,
                      const char *from_path, struct ts_err *err)
{
    struct taking k = { .to = ts_atomic_dir_fd(d->dir),
                        .from_path = from_path,
                        .to_path = ts_build_dir_path(d),
                        .err = err };
    const int top = k.to;
    if (name != NULL) {
        k.to = mkdirat(top, name, 0777) == 0
                   ? openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                   : -1;
        if (k.to < 0)
            return ts_fail_errno(err, TS_EIO, "%s/%s: cannot create", k.to_path, name);
    }
    if (ts_atomic_walk(from, take_file, &k) < 0 && k.rc == 0)
        k.rc = ts_fail_errno(err, TS_EIO, "%s: cannot be read", from_path);
    if (k.rc == 0 && fsync(k.to) != 0)
        k.rc = ts_fail_errno(err, TS_EIO, "%s: cannot be flushed to the disk", k.to_path);
    if (name != NULL)
        close(k.to);
    return k.rc;
}

struct raising {
    int to;
    const char *path;
    struct ts_err *err;
    int rc;
};

static int raise_file(void *ctx, int from, const char *name)
{
    struct raising *r = ctx;
    if (renameat(from, name, r->to, name) != 0)
        r->rc = ts_fail_errno(r->err, TS_EIO, "%s/%s: cannot be renamed", r->path, name);
    return r->rc < 0;
}

int ts_build_dir_raise(const struct ts_build_dir *d, const char *name, struct ts_err *err)
{
    struct raising r = { ts_atomic_dir_fd(d->dir), ts_build_dir_path(d), err, 0 };
    const int from = openat(r.to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || ts_atomic_walk(from, raise_file, &r) < 0)
        r.rc = r.rc < 0 ? r.rc : ts_fail_errno(err, TS_EIO, "%s/%s: cannot be read", r.path, name);
    ts_fd_close(from);
    if (r.rc == 0 && unlinkat(r.to, name, AT_REMOVEDIR) != 0)
        r.rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot be removed", r.path, name);
    return r.rc;
}

int ts_build_dir_like(struct ts_build_dir *d, int other, const char *path, struct ts_err *err)
{
    const int rc = ts_build_access_of(other, path, &d->access, err);
    if (rc < 0)
        return rc;
    d->like = 1;
    ts_build_access_begin(&d->access, ts_atomic_dir_fd(d->dir));
    return 0;
}

int ts_build_dir_sync(const struct ts_build_dir *d, uint32_t order, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < order && rc == 0; m++) {
        char name[32];
        int fd;
        snprintf(name, sizeof name, "mode%u.shards", m + 1);
        fd = openat(ts_atomic_dir_fd(d->dir), name, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) != 0)
            rc = ts_fail_errno(err, TS_EIO, "%s/%s: cannot be flushed to the disk",
                               ts_build_dir_path(d), name);
        ts_fd_close(fd);
    }
    return rc;
}

int ts_build_dir_commit(struct ts_build_dir *d, struct ts_err *warn, struct ts_err *err)
{
    const int rc = d->like ? ts_build_access_give(&d->access, ts_atomic_dir_fd(d->dir),
                                                  ts_build_dir_path(d), err)
                           : 0;
    return rc == 0 ? ts_atomic_dir_commit(d->dir, warn, err) : rc;
}
