/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes one tensor of all segments of a tensor. A merge puts it beside the segments, and a
 * compaction replaces them by it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files/atomic_names.h"
#include "base/files/temp_dir.h"
#include "base/num.h"
#include "base/stop.h"
#include "build/append_steps.h"
#include "format/tensor_sums.h"

#define WAIT_NS 50000000L /* nanoseconds between two attempts to lock a tensor */
/* after this many attempts (a second), a note tells the user what it waits for */
#define WAIT_LOOKS 20

/* Threads of one process merge one after another, so that each finds the tensor that an earlier one
 * merged. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ building the tensor */

/* Whether the tensor was built so that no two segments have the same cell. */
static int is_unique(const struct ts_segments *s)
{
    for (uint32_t i = 1; i < s->n; i++)
        if (s->entry[i].duplicates != TS_REPEATED_ERROR)
            return 0;
    return 1;
}

/* The shard size that is returned is at least that of the largest shard. It is the default if each
 * mode has one shard, because one shard does not show the limit that the build had. */
uint64_t ts_append_shard_bytes(const struct ts_tensor *t)
{
    uint64_t bytes = TS_BUILD_MIN_SHARD;
    int several = 0;
    for (uint32_t m = 0; m < t->order; m++)
        several |= t->mode[m].disk.n_shards > 1;
    while (bytes < t->header.max_shard_bytes)
        bytes *= 2;
    return several && bytes <= TS_BUILD_MAX_SHARD ? bytes : TS_BUILD_SHARD;
}

struct ts_build_options ts_append_options(const struct ts_build_options *place)
{
    return (struct ts_build_options){ .memory = place->memory,
                                      .tmp = place->tmp,
                                      .threads = place->threads,
                                      .shard_bytes = place->shard_bytes,
                                      .progress = place->progress,
                                      .progress_arg = place->progress_arg,
                                      .work = place->work,
                                      .stop = place->stop,
                                      .no_space_check = place->no_space_check };
}

int ts_append_build(const struct ts_segments *all, const char *out,
                    const struct ts_build_options *place, uint64_t *hash, struct ts_err *err)
{
    struct ts_build_options o = ts_append_options(place);
    struct ts_build_report report;
    struct ts_tensor *t = NULL;
    int rc = ts_segments_tensor(all, 0, &t, err);
    if (rc < 0)
        return rc;
    o.out = out;
    o.duplicates = is_unique(all) ? TS_DUPLICATES_ERROR : TS_DUPLICATES_SUM;
    o.value_bytes = t->header.value_bytes;
    o.zeros = (t->header.flags & TS_TENSOR_ZEROS) != 0;
    o.weights = ts_tensor_weighted(t);
    if (o.shard_bytes == 0)
        o.shard_bytes = ts_append_shard_bytes(t);
    ts_tensor_close(t);
    t = NULL;
    rc = ts_build_segments(&o, all, &report, err);
    if (rc == 0)
        rc = ts_tensor_open(out, &t, err);
    if (rc == 0)
        *hash = t->hash;
    ts_tensor_close(t);
    return rc;
}

int ts_append_build_merged(const struct ts_append *a, const struct ts_segments *all,
                           const struct ts_build_options *o, uint64_t *hash, struct ts_err *err)
{
    char *out = ts_build_dir_file(a->dir, TS_MERGED_NAME, 0);
    const int rc =
        out == NULL ? ts_no_memory(err, a->old->path) : ts_append_build(all, out, o, hash, err);
    free(out);
    return rc;
}

/* ------------------------------------------------------------------ waiting for the lock */

/* Returns 1 if the path can be read as one tensor, because it has no list of segments or they are
 * merged; 0 if not. */
static int is_whole(const struct ts_segments *s)
{
    struct ts_tensor *t = NULL;
    const int whole = !s->listed || (s->merged && ts_segments_merged(s, &t, NULL) == 0);
    ts_tensor_close(t);
    return whole;
}

static int is_whole_at(const char *path, struct ts_err *err)
{
    struct ts_segments *s = NULL;
    int rc = ts_segments_open(path, &s, err);
    if (rc == 0)
        rc = is_whole(s);
    ts_segments_close(s);
    return rc;
}

/* What the process that holds the lock does, by the names in its new directory. */
struct holder {
    char next[32];     /* name of the segment that an append would make */
    int merges, other; /* merges: the names show a merge; other: they show another change */
};

static int note_name(void *ctx, int dir, const char *name)
{
    struct holder *h = ctx;
    (void)dir;
    if (strncmp(name, TS_MERGED_NAME, strlen(TS_MERGED_NAME)) == 0)
        h->merges = 1;
    else if (strcmp(name, TS_ATOMIC_LOCK) != 0)
        h->other |= strncmp(name, h->next, strlen(h->next)) == 0 || !h->merges;
    return 0;
}

/* Whether the process that holds the lock only merges the segments to read them, so that a writer
 * should wait for it. The names in its new directory tell: a merge makes `merged` first, a
 * compaction or drop segment 1, an append the next segment. Without any name yet, it may still
 * become a merge for a second. */
static int is_reader(const struct ts_append *a, const char *path, int looks)
{
    struct holder h = { .merges = 0 };
    char *partial = NULL;
    int fd = -1;
    snprintf(h.next, sizeof h.next, TS_SEGMENT_NAME, a->old == NULL ? 1 : a->old->n + 1);
    if (asprintf(&partial, "%s" TS_BUILDING_SUFFIX, path) >= 0)
        fd = open(partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)ts_atomic_walk(fd, note_name, &h);
        h.other = 0;
        (void)ts_atomic_walk(fd, note_name, &h); /* a second walk, now that h.merges is known */
        close(fd);
    }
    free(partial);
    /* 1: the other process has put its result in place already, and is removing the old files */
    if (ts_atomic_dir_replaced(path))
        return 1;
    return !h.other && (h.merges || looks < WAIT_LOOKS);
}

int ts_append_turn(struct ts_append *a, const char *path, enum ts_append_turn turn,
                   const struct ts_build_options *o, struct ts_err *err)
{
    const struct timespec pause = { 0, WAIT_NS };
    for (int looks = 0;; looks++) {
        struct ts_err why = { 0 };
        int rc = ts_stop_check(o->stop, err);
        if (rc == 0 && turn == TS_TURN_TO_MERGE)
            rc = is_whole_at(path, err);
        if (rc != 0)
            return rc;
        rc = ts_append_begin(a, path, &why);
        if (rc == 0)
            return turn == TS_TURN_TO_MERGE && is_whole(a->old);
        /* waits only for a lock of another process, which will be released */
        if (rc != TS_EBUSY || why.sys != EBUSY ||
            (turn == TS_TURN_TO_WRITE &&
             (!is_reader(a, path, looks) || (o->stop == NULL && looks == WAIT_LOOKS)))) {
            if (err != NULL)
                *err = why;
            return rc;
        }
        ts_append_end(a);
        *a = (struct ts_append){ .dir = NULL };
        if (looks == WAIT_LOOKS && o->note != NULL) {
            struct ts_err note;
            ts_fail(&note, TS_EBUSY, "waits: %s", why.text);
            o->note(o->note_arg, &note);
        }
        nanosleep(&pause, NULL);
    }
}

/* ------------------------------------------------------------------ merging the segments */

/* Makes the merged tensor in the tensor's directory, beside the segments. Sets *begun to 1 if the
 * tensor was locked, or if the failure has nothing to do with the lock. Then a merge into a
 * temporary directory would fail, too. */
static int merge_beside(const char *path, const struct ts_build_options *o,
                        struct ts_append_report *ret, int *begun, struct ts_err *err)
{
    struct ts_append a = { .dir = NULL };
    uint64_t hash = 0;
    int rc = ts_append_turn(&a, path, TS_TURN_TO_MERGE, o, err);
    *begun = rc >= 0 || rc == TS_ESTOP || rc == TS_ENOMEM;
    if (rc == 0)
        ret->n_segments = a.old->n;
    if (rc == 0)
        rc = ts_append_build_merged(&a, a.old, o, &hash, err);
    if (rc == 0)
        rc = ts_append_take(&a, a.old->n, 0, err);
    if (rc == 0)
        rc = ts_append_list(&a, a.old->n, &hash, err);
    if (rc == 0)
        rc = ts_build_dir_commit(a.dir, &ret->warn, err);
    ts_append_end(&a);
    return rc < 0 ? rc : 0;
}

/* Makes the merged tensor in a temporary directory, which is removed when *outside is closed. */
static int merge_outside(const char *path, const struct ts_build_options *o,
                         struct ts_append_report *ret, struct ts_tensor **outside,
                         struct ts_err *err)
{
    struct ts_temp_dir *temp = NULL;
    struct ts_segments *s = NULL;
    struct ts_tensor *t = NULL;
    char *out = NULL, *name = strdup(path);
    uint64_t hash;
    int rc = name == NULL ? ts_no_memory(err, path) : ts_segments_open(path, &s, err);
    if (rc == 0)
        rc = ts_temp_dir_new(o->tmp != NULL ? o->tmp : "/tmp", &temp, err);
    if (rc == 0 && asprintf(&out, "%s/" TS_MERGED_NAME, ts_temp_dir_path(temp)) < 0) {
        out = NULL;
        rc = ts_no_memory(err, path);
    }
    if (rc == 0)
        rc = ts_append_build(s, out, o, &hash, err);
    if (rc == 0)
        rc = ts_tensor_open(out, &t, err);
    if (rc == 0) {
        ret->n_segments = s->n;
        ret->outside = 1;
        free(t->path);
        t->path = name;
        t->temp = temp;
        *outside = t;
    } else {
        free(name);
        ts_temp_dir_remove(temp);
    }
    ts_segments_close(s);
    free(out);
    return rc;
}

static int is_owner(const char *path)
{
    struct stat st;
    return stat(path, &st) != 0 || st.st_uid == geteuid();
}

static int merge(const char *path, const struct ts_build_options *o, struct ts_append_report *ret,
                 struct ts_tensor **outside, struct ts_err *err)
{
    struct ts_err why = { 0 };
    int begun = 0, rc;
    if (is_owner(path) || outside == NULL) {
        rc = merge_beside(path, o, ret, &begun, &why);
        if (rc == 0 || begun || outside == NULL) {
            if (rc < 0 && err != NULL)
                *err = why;
            return rc;
        }
    }
    rc = merge_outside(path, o, ret, outside, &why);
    if (rc == TS_ESTOP && err != NULL)
        *err = why;
    else if (rc < 0)
        ts_fail(err, rc,
                "%s (this user may not change the tensor: tshard compact %s, by its owner, makes "
                "one tensor of its segments)",
                why.text, path);
    return rc;
}

int ts_append_merge(const char *path, const struct ts_build_options *o,
                    struct ts_append_report *ret, struct ts_tensor **outside, struct ts_err *err)
{
    const struct timespec pause = { 0, WAIT_NS };
    int rc;
    memset(ret, 0, sizeof *ret);
    while (pthread_mutex_trylock(&one_at_a_time) != 0) {
        rc = ts_stop_check(o->stop, err);
        if (rc < 0)
            return rc;
        nanosleep(&pause, NULL);
    }
    rc = is_whole_at(path, err);
    if (rc == 0)
        rc = merge(path, o, ret, outside, err);
    pthread_mutex_unlock(&one_at_a_time);
    return rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------ replacing the segments */

/* Reads all files of a tensor, and checks their checksums. */
static int check_contents(const struct ts_tensor *t, const volatile sig_atomic_t *stop,
                          struct ts_err *err)
{
    void *raw = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(t));
    struct ts_tensor_sums sums;
    struct ts_kept kept;
    int rc = raw == NULL ? ts_no_memory(err, t->path) : ts_tensor_sums_read(t, &sums, err);
    if (rc >= 0) {
        rc = ts_kept_read(t, &kept, err);
        if (rc >= 0)
            ts_kept_free(&kept);
    }
    for (uint32_t m = 0; m < t->order && rc >= 0; m++) {
        uint64_t *rows = NULL;
        rc = ts_tensor_rows(t, m, &rows, err);
        free(rows);
        if (rc >= 0 && t->mode[m].disk.labels_bytes > 0)
            rc = ts_tensor_labels_lines(t, m, err);
        for (uint64_t s = 0; s < t->mode[m].disk.n_shards && rc >= 0; s++) {
            rc = ts_stop_check(stop, err);
            if (rc == 0)
                rc = ts_tensor_read_shard(t, m, s, raw, err);
        }
    }
    free(raw);
    return rc < 0 ? rc : 0;
}

/* Links the files of the merged tensor into the new directory, if the tensor is not damaged.
 * Returns 1, 0 if it is damaged, or a failure. */
static int take_merged(const struct ts_append *a, const struct ts_build_options *o,
                       struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    int rc = ts_segments_merged(a->old, &t, err);
    if (rc == 0)
        rc = check_contents(t, o->stop, err);
    if (rc == TS_EIO || rc == TS_EFORMAT) {
        ts_tensor_close(t);
        return 0;
    }
    if (rc == 0)
        rc = ts_build_dir_take(a->dir, NULL, ts_open_dir_fd(t->dir), a->old->path, err);
    ts_tensor_close(t);
    return rc < 0 ? rc : 1;
}

int ts_append_compact(const char *path, const struct ts_build_options *o,
                      struct ts_append_report *ret, struct ts_err *err)
{
    struct ts_append a = { .dir = NULL };
    struct ts_segments *s = NULL;
    uint64_t hash;
    int taken = 0, rc;
    memset(ret, 0, sizeof *ret);
    rc = ts_segments_open(path, &s, err);
    if (rc < 0)
        return rc;
    rc = !s->listed;
    ts_segments_close(s);
    if (rc == 0)
        rc = ts_append_turn(&a, path, TS_TURN_TO_COMPACT, o, err);
    if (rc == 0 && !a.old->listed) /* another process has compacted the tensor meanwhile */
        rc = 1;
    if (rc == 0 && a.old->merged && o->shard_bytes == 0) {
        taken = take_merged(&a, o, err);
        rc = taken < 0 ? taken : 0;
        ret->remade = taken == 0;
    }
    if (rc == 0 && taken == 0) {
        char *out = ts_build_dir_file(a.dir, TS_SEGMENT_NAME, 1);
        rc = out == NULL ? ts_no_memory(err, path) : ts_append_build(a.old, out, o, &hash, err);
        free(out);
        if (rc == 0)
            rc = ts_build_dir_raise(a.dir, TS_FIRST_SEGMENT, err);
    }
    if (rc == 0)
        rc = ts_build_dir_commit(a.dir, &ret->warn, err);
    if (rc == 0)
        ret->n_segments = a.old->n;
    ts_append_end(&a);
    return rc < 0 ? rc : 0;
}
