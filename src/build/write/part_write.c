/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies a part of a tensor (format/part.h): its shards to the same offsets in new files, which
 * have holes where other shards would be, and files without shards completely. */
#include "build/write/part_write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/place.h"
#include "base/setting.h"
#include "base/stop.h"
#include "base/files/fd.h"
#include "build/build_dir.h"
#include "build/room/room.h"
#include "format/file_read.h"

#define PIECE (1u << 20) /* bytes that are copied at a time of a file that has no shards */

struct copy {
    const struct ts_part_conf *conf;
    struct ts_build_dir *dir;
    char *stored, *raw; /* buffers for a shard: as stored, and decompressed */
    uint64_t bytes;
};

static uint64_t padded(const struct ts_disk_shard *s)
{
    return (s->stored_bytes + (uint64_t)TS_PAGE - 1) / TS_PAGE * TS_PAGE;
}

uint64_t ts_part_shard_bytes(const struct ts_tensor *t, const struct ts_part *part)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < t->order; m++)
        for (uint64_t i = part->first[m]; i < part->end[m]; i++)
            sum += padded(&t->mode[m].shard[i]);
    return sum;
}

static int write_at(int fd, const char *path, uint64_t offset, const char *data, uint64_t n,
                    struct ts_err *err)
{
    return ts_fd_write(fd, data, n, offset) < 0
               ? ts_fail_errno(err, TS_EIO, "%s: cannot write", path)
               : 0;
}

/* Creates the file `name` in the directory of the part. */
static int create(const struct copy *c, const char *name, char **path, int *fd, struct ts_err *err)
{
    *path = ts_build_dir_file(c->dir, name, 0);
    if (*path == NULL)
        return ts_no_memory(err, c->conf->out);
    *fd = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return *fd < 0 ? ts_fail_errno(err, TS_EIO, "%s: cannot create", *path) : 0;
}

static int finish(char *path, int fd, int rc, struct ts_err *err)
{
    if (fd >= 0 && close(fd) != 0 && rc == 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot write", path);
    free(path);
    return rc;
}

/* ---- shards ---- */

static int copy_shard(struct copy *c, uint32_t mode, uint64_t i, int from, int to,
                      const char *to_path, struct ts_err *err)
{
    const struct ts_tensor *t = c->conf->tensor;
    const struct ts_mode *m = &t->mode[mode];
    const struct ts_disk_shard *s = &m->shard[i];
    int rc = ts_stop_check(c->conf->stop, err);
    if (rc == 0)
        rc = ts_part_check(t, mode, i, err);
    if (rc == 0)
        rc = ts_file_read_at(from, m->shards_path, s->offset, padded(s), c->stored, err);
    if (rc == 0)
        rc = ts_tensor_unpack_shard(t, mode, i, c->stored, c->raw, err);
    if (rc == 0)
        rc = write_at(to, to_path, s->offset, c->stored, padded(s), err);
    if (rc == 0)
        c->bytes += padded(s);
    if (rc == 0 && c->conf->done != NULL)
        c->conf->done(c->conf->ctx, c->bytes);
    return rc;
}

static int copy_mode(struct copy *c, uint32_t mode, struct ts_err *err)
{
    const struct ts_mode *m = &c->conf->tensor->mode[mode];
    char name[32], *path = NULL;
    int to = -1, rc, from = ts_tensor_shards_open(c->conf->tensor, mode, 0, err);
    if (from < 0)
        return from;
    snprintf(name, sizeof name, "mode%u.shards", mode + 1);
    rc = create(c, name, &path, &to, err);
    if (rc == 0 && ftruncate(to, (off_t)m->disk.shards_bytes) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be made %llu bytes long", path,
                           (unsigned long long)m->disk.shards_bytes);
    for (uint64_t i = c->conf->part.first[mode]; i < c->conf->part.end[mode] && rc == 0; i++)
        rc = copy_shard(c, mode, i, from, to, path, err);
    close(from);
    return finish(path, to, rc, err);
}

/* ---- files without shards ---- */

/* Copies the open file `from` to the file `name` of the part, and closes `from`. */
static int copy_open(struct copy *c, const char *name, int from, struct ts_err *err)
{
    char *from_path, *path = NULL;
    uint64_t n = 0;
    int to = -1, rc;
    if (asprintf(&from_path, "%s/%s", c->conf->tensor->path, name) < 0) {
        close(from);
        return ts_no_memory(err, c->conf->out);
    }
    rc = ts_file_read_size(from, from_path, &n, err);
    if (rc == 0)
        rc = create(c, name, &path, &to, err);
    for (uint64_t at = 0; at < n && rc == 0; at += PIECE) {
        const uint64_t now = n - at < PIECE ? n - at : PIECE;
        rc = ts_stop_check(c->conf->stop, err);
        if (rc == 0)
            rc = ts_file_read_at(from, from_path, at, now, c->stored, err);
        if (rc == 0)
            rc = write_at(to, path, at, c->stored, now, err);
    }
    close(from);
    free(from_path);
    return finish(path, to, rc, err);
}

/* Copies the file `name` of the tensor to the part, if it exists. */
static int copy_file(struct copy *c, const char *name, struct ts_err *err)
{
    int from, rc = ts_open_dir_optional(c->conf->tensor->dir, name, &from, err);
    return rc <= 0 ? rc : copy_open(c, name, from, err);
}

static int copy_side_files(struct copy *c, struct ts_err *err)
{
    static const char *const of_mode[] = { "mode%u.rows", "mode%u.labels" };
    int rc = copy_file(c, TS_MODES_NAME, err);
    if (rc == 0)
        rc = copy_file(c, TS_SUMS_NAME, err);
    if (rc == 0)
        rc = copy_file(c, TS_KEPT_NAME, err);
    for (uint32_t m = 0; m < c->conf->tensor->order; m++)
        for (int i = 0; i < 2 && rc == 0; i++) {
            char name[32];
            snprintf(name, sizeof name, of_mode[i], m + 1);
            rc = copy_file(c, name, err);
        }
    return rc;
}

static int copy_all(struct copy *c, struct ts_err *err)
{
    const struct ts_tensor *t = c->conf->tensor;
    char text[TS_PART_BYTES];
    /* opened first, because copying may take hours; copied last, because the index makes the tensor
     * valid */
    const int index = ts_open_dir_file(t->dir, TS_INDEX_NAME, err);
    int rc = index < 0 ? index : copy_side_files(c, err);
    for (uint32_t m = 0; m < t->order && rc == 0; m++)
        rc = copy_mode(c, m, err);
    if (rc == 0)
        rc = ts_build_dir_write(c->dir, TS_PART_NAME, text, ts_part_text(t, &c->conf->part, text),
                                err);
    if (rc == 0)
        return copy_open(c, TS_INDEX_NAME, index, err);
    ts_fd_close(index);
    return rc;
}

/* Fails if the disk has too little space for the part. Files of shards need only the space of the
 * copied shards, because they have holes. */
static int check_room(const struct ts_part_conf *conf, struct ts_err *err)
{
    const struct ts_tensor *t = conf->tensor;
    uint64_t bytes = ts_part_shard_bytes(t, &conf->part) + t->header.index_bytes;
    uint64_t longest = 0;
    struct ts_room room;
    struct ts_need need = { 0 };
    int rc;
    for (uint32_t m = 0; m < t->order; m++) {
        const struct ts_disk_mode *disk = &t->mode[m].disk;
        bytes += disk->rows_bytes + disk->labels_bytes;
        longest = disk->shards_bytes > longest ? disk->shards_bytes : longest;
    }
    need.result = need.both = (struct ts_space){ bytes, bytes };
    need.file = longest;
    ts_room_look("the part", conf->out, NULL, &room);
    room.place = TS_SET_OUT;
    rc = ts_room_check(&room, &need, "nothing was copied", err);
    ts_room_free(&room);
    return rc;
}

int ts_part_write(const struct ts_part_conf *conf, uint64_t *bytes, struct ts_err *warn,
                  struct ts_err *err)
{
    struct copy c = { .conf = conf };
    const struct ts_place place[] = {
        { .path = conf->tensor->path },
        { .path = conf->out, .suffix = TS_BUILDING_SUFFIX, .option = TS_SET_OUT }
    };
    const size_t room = ts_tensor_raw_bytes(conf->tensor) + PIECE;
    int rc = 0;
    c.stored = malloc(room);
    c.raw = malloc(room);
    if (c.stored == NULL || c.raw == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: no memory for a shard", conf->tensor->path);
    if (rc == 0)
        rc = ts_place_check(place, 2, err);
    if (rc == 0 && !conf->no_space_check)
        rc = check_room(conf, err);
    if (rc == 0)
        rc = ts_build_dir_open(conf->out, conf->force, &c.dir, err);
    if (rc == 0)
        rc = copy_all(&c, err);
    if (rc == 0)
        rc = ts_build_dir_commit(c.dir, warn, err);
    ts_build_dir_close(c.dir);
    free(c.stored);
    free(c.raw);
    *bytes = c.bytes;
    return rc;
}
