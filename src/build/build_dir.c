/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of files of a tensor, for the directory that appears as a whole or not at all
 * (base/files/atomic_out.h). */
#include "build/build_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/atomic_out.h"
#include "base/setting.h"
#include "base/files/fd.h"
#include "format/layout.h"
#include "format/part.h"

struct ts_build_dir {
    struct ts_atomic_dir *dir; /* NULL: another rank's, and this is its path */
    char *path;
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

/* The files of a complete tensor are known by their first bytes. Shard files have none of their
 * own; they are known by the index beside them. */
static enum ts_atomic_kind kind_of(int dir, const char *name, int whole)
{
    const char *magic = NULL;
    unsigned mode;
    char kind[16];
    int end = 0, ours;
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
    return ts_atomic_dir_commit(d->dir, warn, err);
}
