/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the tensor of all segments, which is made when it is read for the first time. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "format/kept.h"
#include "format/segments.h"

static ts_segments_merger *merger; /* atomic */

void ts_segments_set_merger(ts_segments_merger *m, int replace)
{
    ts_segments_merger *none = NULL;
    if (replace)
        __atomic_store_n(&merger, m, __ATOMIC_RELEASE);
    else
        __atomic_compare_exchange_n(&merger, &none, m, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static int has_file(const struct ts_segments *s, uint32_t i, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, TS_SEGMENT_NAME "/%s", i + 1, name);
    return faccessat(ts_open_dir_fd(s->dir), path, F_OK, 0) == 0;
}

/* Whether a merge of all segments into one tensor copies the file `options` of the first segment.
 * It does not if the file has options that this version does not know. */
static int copies_options(const struct ts_segments *s)
{
    struct ts_tensor *t = NULL;
    struct ts_kept kept = { .order = 0 };
    int copies = 0;
    if (ts_segments_tensor(s, 0, &t, NULL) == 0 && ts_kept_read(t, &kept, NULL) > 0) {
        copies = kept.unknown == NULL;
        ts_kept_free(&kept);
    }
    ts_tensor_close(t);
    return copies;
}

/* A tensor may lack the files `modes`, `options` and `sums`, but not if it was made of segments
 * that have them. */
static int check_files(const struct ts_segments *s, struct ts_err *err)
{
    static const char *const name[] = { TS_MODES_NAME, TS_KEPT_NAME, TS_SUMS_NAME };
    int had[] = { has_file(s, s->n - 1, TS_MODES_NAME), has_file(s, 0, TS_KEPT_NAME), 1 };
    for (uint32_t i = 0; i < s->n; i++)
        had[2] &= has_file(s, i, TS_SUMS_NAME);
    for (size_t i = 0; i < sizeof had / sizeof *had; i++) {
        char path[64];
        snprintf(path, sizeof path, TS_MERGED_NAME "/%s", name[i]);
        if (had[i] && faccessat(ts_open_dir_fd(s->dir), path, F_OK, 0) != 0 &&
            (strcmp(name[i], TS_KEPT_NAME) != 0 || copies_options(s)))
            return ts_fail(err, TS_EFORMAT, "%s/%s: is missing, and the segments have it", s->path,
                           path);
    }
    return 0;
}

int ts_segments_merged(const struct ts_segments *s, struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    char *path = NULL, *own = strdup(s->path);
    int rc;
    if (own == NULL || asprintf(&path, "%s/" TS_MERGED_NAME, s->path) < 0) {
        free(own);
        return ts_no_memory(err, s->path);
    }
    rc = ts_tensor_open_inside(s->dir, TS_MERGED_NAME, path, &t, err);
    if (rc == 0 && (t->hash != s->merged_hash || t->order != s->order || t->part.n != 0))
        rc = ts_fail(err, TS_EFORMAT, "%s: is not the tensor that %s/" TS_INDEX_NAME " names", path,
                     s->path);
    if (rc == 0)
        rc = check_files(s, err);
    free(path);
    if (rc < 0) {
        free(own);
        ts_tensor_close(t);
        return ts_open_dir_explain(s->dir, rc, err);
    }
    free(t->path); /* replaces the path of the directory alone: its files keep their own paths */
    t->path = own;
    *ret = t;
    return 0;
}

static int refuse(const struct ts_segments *s, struct ts_err *err)
{
    return ts_fail(err, TS_EFORMAT,
                   "%s: has %" PRIu32 " segment%s, which this does not read: tshard compact %s "
                   "makes them one",
                   s->path, s->n, ts_num_plural(s->n), s->path);
}

/* Opens the tensor of all segments of a list that was just read, or makes it. Returns 1 if a merge
 * has since put that tensor beside the segments, so that the list must be read again. */
static int open_or_merge(const struct ts_segments *s, ts_segments_merger *merge, int again,
                         struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_tensor *outside = NULL;
    int rc = TS_EFORMAT;
    if (!s->listed)
        return ts_segments_tensor(s, 0, ret, err);
    if (s->merged)
        rc = ts_segments_merged(s, ret, err);
    if (rc == 0 || (rc != TS_EFORMAT && rc != TS_EIO) || (s->merged && (again || merge == NULL)))
        return rc;
    if (merge == NULL)
        return refuse(s, err);
    rc = merge(s->path, &outside, err);
    if (rc == 0 && outside != NULL)
        *ret = outside;
    return rc < 0 ? rc : outside == NULL;
}

int ts_segments_open_whole(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    ts_segments_merger *merge = __atomic_load_n(&merger, __ATOMIC_ACQUIRE);
    int damaged = 0;
    /* another process may append after each merge, and the list then has to be read again */
    for (int tries = 0; tries < TS_OPEN_DIR_TRIES; tries++) {
        struct ts_segments *s = NULL;
        int rc = ts_segments_open(path, &s, err);
        if (rc < 0)
            return rc;
        rc = open_or_merge(s, merge, damaged > 1, ret, err);
        damaged += rc > 0 && s->merged;
        ts_segments_close(s);
        if (rc <= 0)
            return rc;
    }
    return ts_open_dir_fail(path, err);
}
