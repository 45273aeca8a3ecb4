/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads, checks and makes the list of the segments of a tensor. */
#include "format/segments.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/files/fd.h"
#include "base/num.h"
#include "base/setting.h"
#include "format/file_read.h"

static int is_zero(const uint8_t *byte, size_t n)
{
    while (n > 0 && byte[n - 1] == 0)
        n--;
    return n == 0;
}

static size_t bytes_of(uint32_t n)
{
    return sizeof(struct ts_disk_segments) + n * sizeof(struct ts_disk_segment) + sizeof(uint64_t);
}

int ts_segments_is(const void *header)
{
    struct ts_disk_segments h;
    memcpy(&h, header, sizeof h);
    return memcmp(h.magic, TS_INDEX_MAGIC, sizeof h.magic) == 0 && h.version == TS_FORMAT_SEGMENTS;
}

/* ------------------------------------------------------------------ checks */

/* Checks the header of a list of segments, before memory is allocated for the number of segments
 * that it states. */
static int check_head(const struct ts_disk_segments *h, uint64_t n_bytes, const char *where,
                      struct ts_err *err)
{
    const uint32_t unknown = h->features & ~(TS_FEATURE_SEGMENTS | TS_FEATURE_MERGED);
    if (h->index_bytes != n_bytes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the file has %" PRIu64 " bytes, expected %" PRIu64
                       " (it was cut short, or damaged)",
                       where, n_bytes, h->index_bytes);
    if (unknown != 0) /* such a feature may change how the rest of the file is read */
        return ts_fail(err, TS_EFORMAT,
                       "%s: the tensor has feature %u of the format, which this program does not "
                       "have: a newer one reads it",
                       where, (unsigned)__builtin_ctz(unknown));
    if ((h->features & TS_FEATURE_SEGMENTS) == 0 || h->n_segments < 1 ||
        h->n_segments > TS_MAX_SEGMENTS || bytes_of(h->n_segments) != n_bytes)
        return ts_fail(err, TS_EFORMAT, "%s: %" PRIu32 " segments do not fit its %" PRIu64 " bytes",
                       where, h->n_segments, n_bytes);
    if (h->order < TS_MIN_ORDER || h->order > TS_MAX_ORDER)
        return ts_fail(err, TS_EFORMAT, "%s: the order is %" PRIu32 ", expected %u to %u", where,
                       h->order, TS_MIN_ORDER, TS_MAX_ORDER);
    if (!is_zero(h->reserved, sizeof h->reserved) ||
        (h->merged_hash != 0 && (h->features & TS_FEATURE_MERGED) == 0))
        return ts_fail(err, TS_EFORMAT, "%s: unknown bytes in the header", where);
    return 0;
}

static int check_entry(const struct ts_disk_segment *e, uint32_t order, uint32_t i,
                       const char *where, struct ts_err *err)
{
    const uint32_t all = (UINT32_C(1) << order) - 1;
    if (e->sort != TS_SORT_LEVELS)
        return ts_fail(err, TS_EFORMAT,
                       "%s: segment %" PRIu32 " is sorted in order %" PRIu32
                       ", which this program does not know: a newer one reads it",
                       where, i + 1, e->sort);
    if ((e->copies & ~all) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: segment %" PRIu32 " has copies of unknown modes",
                       where, i + 1);
    if (e->copies != all)
        return ts_fail(err, TS_EFORMAT,
                       "%s: segment %" PRIu32 " has no copy for " TS_NTH_MODE
                       ", which this program needs: a newer one reads it",
                       where, i + 1, (uint32_t)__builtin_ctz(~e->copies) + 1);
    if (e->duplicates > TS_REPEATED_ERROR)
        return ts_fail(err, TS_EFORMAT,
                       "%s: segment %" PRIu32 " has rule %" PRIu32
                       " for repeated cells, which this program does not know: a newer one reads "
                       "it",
                       where, i + 1, e->duplicates);
    if (e->nnz < 1 || e->nnz > TS_MAX_NNZ || e->bytes == 0 || e->reserved32 != 0 ||
        !is_zero(e->reserved, sizeof e->reserved))
        return ts_fail(err, TS_EFORMAT, "%s: the entry of segment %" PRIu32 " is impossible", where,
                       i + 1);
    return 0;
}

int ts_segments_parse(const void *bytes, size_t n_bytes, const char *where, struct ts_segments *ret,
                      struct ts_err *err)
{
    struct ts_disk_segments h = { .version = 0 };
    struct ts_disk_segment *e;
    uint64_t stored, found, nnz = 0;
    int rc = 0;
    if (n_bytes >= sizeof h)
        memcpy(&h, bytes, sizeof h);
    if (n_bytes < sizeof h || !ts_segments_is(&h))
        return ts_fail(err, TS_EFORMAT, "%s: not a list of segments", where);
    rc = check_head(&h, n_bytes, where, err);
    if (rc < 0)
        return rc;
    found = XXH3_64bits(bytes, n_bytes - sizeof stored);
    memcpy(&stored, (const char *)bytes + n_bytes - sizeof stored, sizeof stored);
    if (found != stored)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the checksum is %016" PRIx64 ", expected %016" PRIx64
                       " (the file is damaged)",
                       where, found, stored);
    e = malloc(h.n_segments * sizeof *e);
    if (e == NULL)
        return ts_no_memory(err, where);
    memcpy(e, (const char *)bytes + sizeof h, h.n_segments * sizeof *e);
    for (uint32_t i = 0; i < h.n_segments && rc == 0; i++) {
        rc = check_entry(&e[i], h.order, i, where, err);
        nnz += e[i].nnz;
    }
    if (rc == 0 && nnz > TS_MAX_NNZ)
        rc = ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " nonzeros, expected 1 to 2^40", where, nnz);
    if (rc < 0) {
        free(e);
        return rc;
    }
    ret->listed = 1;
    ret->order = h.order;
    ret->n = h.n_segments;
    ret->merged = (h.features & TS_FEATURE_MERGED) != 0;
    ret->merged_hash = h.merged_hash;
    ret->entry = e;
    return 0;
}

void *ts_segments_make(uint32_t order, const struct ts_disk_segment *entry, uint32_t n,
                       const uint64_t *merged_hash, size_t *bytes)
{
    struct ts_disk_segments h = { .version = TS_FORMAT_SEGMENTS,
                                  .order = order,
                                  .index_bytes = bytes_of(n),
                                  .features = TS_FEATURE_SEGMENTS,
                                  .n_segments = n };
    char *buf = malloc(bytes_of(n));
    uint64_t hash;
    if (buf == NULL)
        return NULL;
    if (merged_hash != NULL) {
        h.features |= TS_FEATURE_MERGED;
        h.merged_hash = *merged_hash;
    }
    memcpy(h.magic, TS_INDEX_MAGIC, sizeof h.magic);
    memcpy(buf, &h, sizeof h);
    memcpy(buf + sizeof h, entry, n * sizeof *entry);
    *bytes = bytes_of(n);
    hash = XXH3_64bits(buf, *bytes - sizeof hash);
    memcpy(buf + *bytes - sizeof hash, &hash, sizeof hash);
    return buf;
}

/* ------------------------------------------------------------------ opening */

/* Reads the list of segments in an open index file. */
static int read_list(int fd, uint64_t n_bytes, const char *index, struct ts_segments *ret,
                     struct ts_err *err)
{
    struct ts_disk_segments h;
    void *bytes = NULL;
    int rc = ts_file_read_at(fd, index, 0, sizeof h, &h, err);
    if (rc == 0)
        rc = check_head(&h, n_bytes, index, err);
    if (rc < 0)
        return rc;
    bytes = malloc(n_bytes);
    rc = bytes == NULL ? ts_no_memory(err, index)
                       : ts_file_read_at(fd, index, 0, n_bytes, bytes, err);
    if (rc == 0)
        rc = ts_segments_parse(bytes, n_bytes, index, ret, err);
    free(bytes);
    return rc;
}

static int open_list(struct ts_segments *s, struct ts_err *err)
{
    uint8_t header[sizeof(struct ts_disk_header)];
    struct ts_tensor *t = NULL;
    uint64_t n_bytes = 0;
    char *index = NULL;
    int fd = -1, rc;
    if (asprintf(&index, "%s/" TS_INDEX_NAME, s->path) < 0)
        return ts_no_memory(err, s->path);
    if (ts_open_dir_new(s->path, &s->dir, err) == 0)
        fd = ts_open_dir_file(s->dir, TS_INDEX_NAME, err);
    if (fd >= 0 && ts_file_read_size(fd, index, &n_bytes, NULL) == 0 && n_bytes >= sizeof header &&
        ts_file_read_at(fd, index, 0, sizeof header, header, NULL) == 0 && ts_segments_is(header)) {
        rc = read_list(fd, n_bytes, index, s, err);
    } else { /* not a list of segments: if the index is damaged, ts_tensor_open says how */
        rc = ts_tensor_open(s->path, &t, err);
        s->order = rc == 0 ? t->order : 0;
        s->n = 1;
        ts_tensor_close(t);
    }
    ts_fd_close(fd);
    free(index);
    return rc < 0 && s->dir != NULL ? ts_open_dir_explain(s->dir, rc, err) : rc;
}

static int open_once(const char *path, struct ts_segments **ret, struct ts_err *err)
{
    struct ts_segments *s = calloc(1, sizeof *s);
    int rc;
    if (s == NULL || (s->path = strdup(path)) == NULL) {
        free(s);
        return ts_no_memory(err, path);
    }
    rc = open_list(s, err);
    if (rc == 0)
        *ret = s;
    else
        ts_segments_close(s);
    return rc;
}

int ts_segments_open(const char *path, struct ts_segments **ret, struct ts_err *err)
{
    struct ts_err why;
    int rc = open_once(path, ret, &why);
    for (int tries = 1; ts_open_dir_stale(rc, &why) && tries < TS_OPEN_DIR_TRIES; tries++)
        rc = open_once(path, ret, &why);
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

void ts_segments_close(struct ts_segments *s)
{
    if (s == NULL)
        return;
    ts_open_dir_close(s->dir);
    free(s->entry);
    free(s->path);
    free(s);
}

int ts_segments_tensor(const struct ts_segments *s, uint32_t i, struct ts_tensor **ret,
                       struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    char name[32], *path = NULL;
    int rc;
    if (!s->listed)
        return ts_tensor_open(s->path, ret, err);
    snprintf(name, sizeof name, TS_SEGMENT_NAME, i + 1);
    if (asprintf(&path, "%s/%s", s->path, name) < 0)
        return ts_no_memory(err, s->path);
    rc = ts_tensor_open_inside(s->dir, name, path, &t, err);
    if (rc == 0 &&
        (t->hash != s->entry[i].index_hash || t->nnz != s->entry[i].nnz || t->order != s->order))
        rc = ts_fail(err, TS_EFORMAT, "%s: is not the segment that %s/" TS_INDEX_NAME " lists",
                     path, s->path);
    if (rc == 0 && t->part.n != 0)
        rc = ts_fail(err, TS_EFORMAT, "%s: is part of a tensor, which no segment is", path);
    free(path);
    if (rc == 0) {
        *ret = t;
        return 0;
    }
    ts_tensor_close(t);
    return ts_open_dir_explain(s->dir, rc, err);
}

int ts_segments_follows(const struct ts_tensor *before, const struct ts_tensor *t,
                        struct ts_err *err)
{
    const uint32_t kinds = TS_TENSOR_ZEROS | TS_TENSOR_WEIGHTS | TS_TENSOR_DUPLICATES;
    if (t->order != before->order)
        return ts_fail(err, TS_EFORMAT, "%s: has %" PRIu32 " mode%s, and %s has %" PRIu32, t->path,
                       t->order, ts_num_plural(t->order), before->path, before->order);
    if (t->header.value_bytes != before->header.value_bytes)
        return ts_fail(
            err, TS_EFORMAT, "%s: its values are float%" PRIu32 ", and those of %s float%" PRIu32,
            t->path, 8 * t->header.value_bytes, before->path, 8 * before->header.value_bytes);
    if ((t->header.flags & kinds) != (before->header.flags & kinds))
        return ts_fail(err, TS_EFORMAT,
                       "%s: one of it and %s has zeros, weights or several nonzeros of a cell, and "
                       "the other has none",
                       t->path, before->path);
    if (ts_tensor_base(t) != ts_tensor_base(before))
        return ts_fail(err, TS_EFORMAT,
                       "%s: its indices start at %" PRIu32 ", and those of %s at %" PRIu32, t->path,
                       ts_tensor_base(t), before->path, ts_tensor_base(before));
    for (uint32_t m = 0; m < t->order; m++)
        if (t->mode[m].disk.dim < before->mode[m].disk.dim)
            return ts_fail(
                err, TS_EFORMAT, "%s: " TS_NTH_MODE " has the size %" PRIu64 ", and in %s %" PRIu64,
                t->path, m + 1, t->mode[m].disk.dim, before->path, before->mode[m].disk.dim);
    return 0;
}
