/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a .tsh directory: reads and checks the index, then opens the other files. */
#include "format/arrays/dense.h"
#include "base/files/fd.h"
#include "format/tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/arrays/dense.h"
#include "format/file_read.h"
#include "format/mode_names.h"
#include "format/part.h"
#include "format/segments.h"
#include "format/tensor_index.h"
#include "format/arrays/array_kind.h"

/* Returns the path of a file of a mode, "dir/mode3.rows", malloc'ed; NULL when out of memory. */
static char *mode_path(const char *dir, uint32_t mode, const char *suffix)
{
    const size_t room = strlen(dir) + strlen(suffix) + 32;
    char *path = malloc(room);
    if (path != NULL)
        snprintf(path, room, "%s/mode%" PRIu32 ".%s", dir, mode + 1, suffix);
    return path;
}

/* Whether `path`.building exists, which a build writes that is running or was killed. Slashes at
 * the end of path are ignored. */
static int is_building(const char *path, char *building, size_t room)
{
    struct stat st;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    snprintf(building, room, "%.*s" TS_BUILDING_SUFFIX, (int)len, path);
    return stat(building, &st) == 0;
}

/* Writes the message for a path that is a file and no directory. */
static int explain_file(const char *path, struct ts_err *err)
{
    struct stat st;
    if (ts_tensor_is_array(path))
        return ts_fail(err, TS_EARG,
                       "%s: not a tensor directory but a dense array, which this is not possible "
                       "with",
                       path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return ts_fail(err, TS_EFORMAT,
                       "%s: not a tensor directory but a pipe or a device; a tensor is read more "
                       "than once, so write it to a file",
                       path);
    if (stat(path, &st) == 0 && st.st_size == 0)
        return ts_fail(err, TS_EFORMAT, "%s: not a tensor directory but an empty file", path);
    return ts_fail(err, TS_EFORMAT,
                   "%s: not a tensor directory but a file (tshard build makes one of a text)",
                   path);
}

/* Whether the path is the name of a build that is not finished. */
static int is_unfinished(const char *path)
{
    const size_t n = sizeof TS_BUILDING_SUFFIX - 1;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return len > n && strncmp(path + len - n, TS_BUILDING_SUFFIX, n) == 0;
}

/* Whether the tensor has the name PATH.old.PID now, which is copied to ret. It has this name for a
 * moment if the file system cannot exchange two names (base/files/atomic_out.h). */
static int is_moved(const char *path, char *ret, size_t room)
{
    char pattern[4096];
    glob_t found = { 0 };
    int is = 0;
    if (strpbrk(path, "*?[\\") == NULL &&
        snprintf(pattern, sizeof pattern, "%s.old.[0-9]*", path) < (int)sizeof pattern &&
        glob(pattern, 0, NULL, &found) == 0)
        is = found.gl_pathc > 0 && snprintf(ret, room, "%s", found.gl_pathv[0]) < (int)room;
    globfree(&found);
    return is;
}

/* Writes the sentence for a directory whose index cannot be opened (errno says why). */
static int explain(const char *path, const char *index, struct ts_err *err)
{
    const int saved = errno;
    char building[4096];
    struct stat st;
    if (saved == ENOENT && stat(path, &st) == 0 && is_unfinished(path))
        return ts_fail(err, TS_EBUSY,
                       "%s: not finished (it has no file named " TS_INDEX_NAME
                       "): its build still runs, or was killed; a build of the same name begins "
                       "again",
                       path);
    if (saved == ENOENT && stat(path, &st) == 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s: not a tensor directory (it has no file named " TS_INDEX_NAME ")", path);
    if (saved == ENOENT && is_moved(path, building, sizeof building))
        return ts_fail(
            err, TS_EBUSY,
            "%s: no such directory; %s is there, which a writer was replacing: if it was "
            "killed, rename that to %s",
            path, building, path);
    if (saved == ENOENT && is_building(path, building, sizeof building))
        return ts_fail(err, TS_EBUSY,
                       "%s: no such directory; %s is there: a build that still runs, or was killed",
                       path, building);
    errno = saved;
    if (saved == ENOENT)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    if (saved == ENOTDIR)
        return explain_file(path, err);
    return ts_fail_errno(err, TS_EIO, "%s", index);
}

/* Opens the directory, and `index` in it. */
static int open_index(struct ts_tensor *t, const char *index, int *fd, struct ts_err *err)
{
    struct ts_err why;
    int rc = t->dir != NULL ? 0 : ts_open_dir_new(t->path, &t->dir, &why);
    if (rc == 0)
        rc = *fd = ts_open_dir_file(t->dir, TS_INDEX_NAME, &why);
    if (rc == TS_EIO) {
        errno = why.sys;
        return explain(t->path, index, err);
    }
    if (rc < 0 && err != NULL)
        *err = why;
    return rc < 0 ? rc : 0;
}

static int read_index(struct ts_tensor *t, struct ts_err *err)
{
    char *index = malloc(strlen(t->path) + sizeof "/" TS_INDEX_NAME);
    uint8_t header[sizeof(struct ts_disk_header)], *bytes = NULL;
    uint64_t n_bytes;
    int fd = -1, rc = TS_ENOMEM;
    if (index == NULL)
        return ts_no_memory(err, t->path);
    sprintf(index, "%s/" TS_INDEX_NAME, t->path);
    rc = open_index(t, index, &fd, err);
    if (rc < 0)
        goto done;
    rc = ts_file_read_size(fd, index, &n_bytes, err);
    if (rc == 0 && n_bytes < sizeof header)
        rc = ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " bytes are too short for an index", index,
                     n_bytes);
    if (rc == 0)
        rc = ts_file_read_at(fd, index, 0, sizeof header, header, err);
    if (rc == 0 && ts_segments_is(header)) {
        t->listed = 1;
        rc = ts_fail(err, TS_EFORMAT, "%s: is a list of segments, which no segment is", index);
        goto done;
    }
    if (rc == 0) /* before memory is allocated for what the file claims to hold */
        rc = ts_tensor_index_header(header, n_bytes, index, err);
    if (rc < 0)
        goto done;
    bytes = malloc(n_bytes);
    rc = bytes == NULL
             ? ts_fail(err, TS_ENOMEM, "%s: no memory for its %" PRIu64 " bytes", index, n_bytes)
             : ts_file_read_at(fd, index, 0, n_bytes, bytes, err);
    if (rc == 0)
        rc = ts_tensor_index_parse(bytes, n_bytes, index, t, err);
done:
    free(bytes);
    free(index);
    ts_fd_close(fd);
    return rc;
}

/* Fails unless a file of the tensor has the size that the index gives. */
static int check_size(const char *path, const struct stat *st, uint64_t bytes, struct ts_err *err)
{
    if (!S_ISREG(st->st_mode))
        return ts_fail(err, TS_EFORMAT, "%s: not a file", path);
    if ((uint64_t)st->st_size != bytes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the file has %" PRIu64 " bytes, expected %" PRIu64 "%s", path,
                       (uint64_t)st->st_size, bytes,
                       (uint64_t)st->st_size < bytes ? " (it was cut short)" : "");
    return 0;
}

/* Opens a file of the tensor and checks its size. It stays open as long as the tensor. bytes 0: the
 * tensor has no such file. */
static int open_file(const struct ts_tensor *t, const char *path, uint64_t bytes, int *fd,
                     struct ts_err *err)
{
    struct stat st;
    if (bytes == 0)
        return 0;
    *fd = openat(ts_open_dir_fd(t->dir), strrchr(path, '/') + 1,
                 O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* so that a pipe does not block */
    if (*fd < 0 || fstat(*fd, &st) < 0)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    return check_size(path, &st, bytes, err);
}

/* Opens a mode's file of shards, which are read later. The file is kept open unless the process has
 * too many open files. */
static int find_shards(const struct ts_tensor *t, struct ts_mode *m, struct ts_err *err)
{
    const int rc = open_file(t, m->shards_path, m->disk.shards_bytes, &m->shards_fd, err);
    if (rc < 0)
        return rc;
    if (!ts_file_id_open(m->shards_fd, &m->shards_id))
        return ts_fail_errno(err, TS_EIO, "%s", m->shards_path);
    if (ts_file_crowded(m->shards_fd)) {
        close(m->shards_fd);
        m->shards_fd = -1;
    }
    return 0;
}

int ts_tensor_shards_open(const struct ts_tensor *t, uint32_t mode, int flags, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    struct ts_file_id id;
    int fd;
    flags |= O_RDONLY | O_CLOEXEC;
    if (t->dir != NULL && m->shards_fd >= 0)
        fd = ts_file_again(m->shards_fd, m->shards_path, flags);
    else
        fd = t->dir != NULL
                 ? openat(ts_open_dir_fd(t->dir), strrchr(m->shards_path, '/') + 1, flags)
                 : open(m->shards_path, flags);
    if (fd < 0 && (errno == ESTALE || (t->dir != NULL && ts_open_dir_replaced(t->dir))))
        return ts_open_dir_fail(t->path, err);
    if (fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be opened", m->shards_path);
    if (t->dir != NULL && ts_file_id_open(fd, &id) && !ts_file_id_same(&id, &m->shards_id)) {
        close(fd);
        return ts_open_dir_fail(t->path, err);
    }
    return fd;
}

static int find_files(struct ts_tensor *t, struct ts_err *err)
{
    for (uint32_t m = 0; m < t->order; m++) {
        struct ts_mode *mode = &t->mode[m];
        int rc;
        mode->shards_path = mode_path(t->path, m, "shards");
        mode->rows_path = mode_path(t->path, m, "rows");
        mode->labels_path = mode_path(t->path, m, "labels");
        if (mode->shards_path == NULL || mode->rows_path == NULL || mode->labels_path == NULL)
            return ts_no_memory(err, t->path);
        rc = find_shards(t, mode, err);
        if (rc == 0)
            rc = open_file(t, mode->rows_path, mode->disk.rows_bytes, &mode->rows_fd, err);
        if (rc == 0)
            rc = open_file(t, mode->labels_path, mode->disk.labels_bytes, &mode->labels_fd, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Opens the tensor in the directory `name` of `parent`. If `parent` is NULL, opens the one at
 * `path`. */
static int open_once(const struct ts_open_dir *parent, const char *name, const char *path,
                     struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_tensor *t = calloc(1, sizeof *t);
    int listed, rc = 0;
    for (uint32_t m = 0; t != NULL && m < TS_MAX_ORDER; m++)
        t->mode[m].rows_fd = t->mode[m].labels_fd = t->mode[m].shards_fd = -1;
    if (t == NULL || (t->path = strdup(path)) == NULL) {
        rc = ts_no_memory(err, path);
        goto fail;
    }
    if (parent != NULL)
        rc = ts_open_dir_inside(parent, name, path, &t->dir, err);
    if (rc == 0)
        rc = read_index(t, err);
    if (rc == 0)
        rc = find_files(t, err);
    if (rc == 0)
        rc = ts_mode_names_read(t, err);
    if (rc == 0)
        rc = ts_part_read(t, err);
    if (rc < 0)
        goto fail;
    *ret = t;
    return 0;
fail:
    if (t != NULL && t->dir != NULL)
        rc = ts_open_dir_explain(t->dir, rc, err);
    listed = t != NULL && t->listed && parent == NULL;
    ts_tensor_close(t);
    return listed ? ts_segments_open_whole(path, ret, err) : rc;
}

int ts_tensor_open(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_err why;
    int rc = open_once(NULL, NULL, path, ret, &why);
    for (int tries = 1; ts_open_dir_stale(rc, &why) && tries < TS_OPEN_DIR_TRIES; tries++)
        rc = open_once(NULL, NULL, path, ret, &why);
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

int ts_tensor_open_inside(const struct ts_open_dir *parent, const char *name, const char *path,
                          struct ts_tensor **ret, struct ts_err *err)
{
    return open_once(parent, name, path, ret, err);
}

double ts_tensor_value(const struct ts_tensor *t, uint32_t code0, uint32_t code1)
{
    const uint64_t bits = (uint64_t)code0 << 32 | code1;
    double value;
    float single;
    switch (t->header.value_kind) {
    case TS_VALUE_CONST:
        return t->header.value_base;
    case TS_VALUE_INT:
        return t->header.value_base + code0;
    case TS_VALUE_DICT:
        return t->dict[code0];
    case TS_VALUE_F32:
        memcpy(&single, &code0, sizeof single);
        return single;
    default:
        memcpy(&value, &bits, sizeof value);
        return value;
    }
}

double ts_tensor_bytes_per_nnz(const struct ts_tensor *t, uint32_t mode)
{
    const struct ts_disk_mode *d = &t->mode[mode].disk;
    const double common = sizeof t->header + sizeof(double) * (t->header.n_dict + 1.0);
    return ((double)d->shards_bytes + (double)d->rows_bytes + sizeof *d +
            (double)d->n_shards * sizeof(struct ts_disk_shard) + common / t->order) /
           (double)t->nnz;
}
