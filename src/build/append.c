/* SPDX-License-Identifier: BSD-3-Clause */
/* Appends nonzeros to a tensor: fills a new directory with the segments that stay and a new one,
 * and puts it in the place of the old directory. All checks of what may be appended stay in one
 * file, because their order matters. */
#include "build/append_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/atomic_names.h"
#include "base/files/fd.h"
#include "base/setting.h"
#include "base/stop.h"
#include "build/build_dir.h"
#include "build/kept_text.h"
#include "format/label_lines.h"
#include "format/segments.h"
#include "format/tensor_sums.h"
#include "source/source.h"

#define PIPE_CHARS 24  /* bytes of the text "/dev/fd/" and a number */
#define WAIT_MS    100 /* milliseconds between two checks whether the user wants to stop */

/* ------------------------------------------------------------------ the list of segments */

static int add_bytes(void *ctx, int dir, const char *name)
{
    uint64_t *bytes = ctx;
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        *bytes += (uint64_t)st.st_size;
    return 0;
}

static int make_entry(const struct ts_tensor *t, uint64_t time, struct ts_disk_segment *ret,
                      struct ts_err *err)
{
    const int dir = ts_open_dir_fd(t->dir);
    struct ts_tensor_sums sums;
    struct stat st;
    const int rc = ts_tensor_sums_read(t, &sums, err);
    if (rc < 0)
        return rc;
    *ret = (struct ts_disk_segment){
        .index_hash = t->hash,
        .nnz = t->nnz,
        .time = time,
        .n_records = sums.records.n,
        .record = { sums.records.word[0], sums.records.word[1] },
        .cell = { sums.cells.word[0], sums.cells.word[1] },
        .copies = (UINT32_C(1) << t->order) - 1,
        .sort = TS_SORT_LEVELS,
        .duplicates = TS_REPEATED_SUM,
    };
    if (time == 0 && fstatat(dir, TS_INDEX_NAME, &st, 0) == 0)
        ret->time = (uint64_t)st.st_mtime;
    if (ts_atomic_walk(dir, add_bytes, &ret->bytes) < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be read", t->path);
    return 0;
}

/* Fails if another segment has the same nonzeros: most likely they were appended twice. */
static int check_repeat(const struct ts_append *a, const struct ts_disk_segment *e,
                        struct ts_err *err)
{
    for (uint32_t i = 0; i < a->old->n; i++)
        if (e->n_records > 0 && a->entry[i].n_records == e->n_records &&
            memcmp(a->entry[i].record, e->record, sizeof e->record) == 0)
            return ts_fail(err, TS_EARG,
                           "%s: these %" PRIu64 " nonzeros are those of segment %" PRIu32
                           ", so nothing was appended; " TS_SET_REPEAT " appends them once more",
                           a->old->path, e->n_records, i + 1);
    return 0;
}

/* ------------------------------------------------------------------ the old tensor */

/* Fails if t is a tensor to which nothing can be appended. */
static int check_base(const struct ts_tensor *t, struct ts_err *err)
{
    if (t->part.n != 0)
        return ts_fail(err, TS_EARG,
                       "%s: is part of a tensor: append to the whole, and make the parts again",
                       t->path);
    if ((t->header.flags & TS_TENSOR_DUPLICATES) != 0)
        return ts_fail(err, TS_EARG,
                       "%s: keeps several nonzeros of a cell, to which nothing is appended",
                       t->path);
    return 0;
}

/* Checks that this user may change the tensor: make a directory beside the tensor's directory, and
 * remove files in it. */
static int check_access(const char *path, struct ts_err *err)
{
    char *real = realpath(path, NULL), *slash = real == NULL ? NULL : strrchr(real, '/');
    struct statx st;
    int rc = 0;
    if (real == NULL || statx(AT_FDCWD, real, 0, STATX_TYPE | STATX_MODE | STATX_UID, &st) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot be looked up", path);
    else if ((st.stx_attributes_mask & st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
        rc = ts_fail(err, TS_EBUSY,
                     "%s: is a mount point, which no change can replace, so it is not changed: "
                     "change the tensor where the folder around it is mounted",
                     path);
    else if (faccessat(AT_FDCWD, real, W_OK | X_OK, AT_EACCESS) != 0)
        rc = errno == EROFS
                 ? ts_fail(err, TS_EBUSY,
                           "%s: its file system can only be read, so it is not changed", path)
             : st.stx_uid == geteuid()
                 ? ts_fail(err, TS_EBUSY,
                           "%s: its mode does not let its owner write it, so it is not changed: "
                           "chmod u+rwx %s",
                           path, path)
                 : ts_fail(err, TS_EBUSY,
                           "%s: may not be written by this user, so it is not changed: its owner, "
                           "user %lu, can",
                           path, (unsigned long)st.stx_uid);
    if (rc == 0 && slash != NULL) {
        slash[slash == real] = '\0';
        if (faccessat(AT_FDCWD, real, W_OK | X_OK, AT_EACCESS) != 0)
            rc = ts_fail(err, TS_EBUSY,
                         "%s: a change needs a directory beside it, and this user may not make one "
                         "in %s",
                         path, real);
    }
    free(real);
    return rc;
}

int ts_append_begin(struct ts_append *a, const char *path, struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    /* opens the segments first, because its message says if the path is no tensor */
    int rc = ts_segments_open(path, &a->old, err);
    if (rc < 0)
        return rc;
    rc = check_access(path, err);
    if (rc == 0)
        rc = ts_build_dir_look(ts_open_dir_fd(a->old->dir), path, err);
    if (rc == 0)
        rc = ts_build_dir_open(path, 1, &a->dir, err);
    if (rc < 0)
        return rc;
    ts_segments_close(a->old);
    a->old = NULL;
    rc = ts_segments_open(path, &a->old, err);
    if (rc == 0)
        rc = ts_build_dir_like(a->dir, ts_open_dir_fd(a->old->dir), path, err);
    if (rc == 0 && (a->entry = calloc(a->old->n + 1, sizeof *a->entry)) == NULL)
        rc = ts_no_memory(err, path);
    if (rc == 0 && a->old->listed)
        memcpy(a->entry, a->old->entry, a->old->n * sizeof *a->entry);
    if (rc < 0 || a->old->listed)
        return rc;
    rc = ts_segments_tensor(a->old, 0, &t, err);
    if (rc == 0)
        rc = check_base(t, err);
    if (rc == 0)
        rc = make_entry(t, 0, &a->entry[0], err);
    ts_tensor_close(t);
    return rc;
}

void ts_append_end(struct ts_append *a)
{
    ts_build_dir_close(a->dir);
    ts_segments_close(a->old);
    free(a->entry);
    ts_kept_free(&a->kept);
}

/* Links the files of the first n segments into the new directory, each in a directory of its own.
 * alone 1: n is 1, and the new directory becomes a tensor of the segment's files. */
int ts_append_take(const struct ts_append *a, uint32_t n, int alone, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        struct ts_tensor *t = NULL;
        char name[32];
        snprintf(name, sizeof name, TS_SEGMENT_NAME, i + 1);
        rc = ts_segments_tensor(a->old, i, &t, err);
        if (rc == 0)
            rc = ts_build_dir_take(a->dir, alone ? NULL : name, ts_open_dir_fd(t->dir), t->path,
                                   err);
        ts_tensor_close(t);
    }
    return rc;
}

int ts_append_list(const struct ts_append *a, uint32_t n, const uint64_t *merged_hash,
                   struct ts_err *err)
{
    size_t bytes;
    void *list = ts_segments_make(a->old->order, a->entry, n, merged_hash, &bytes);
    const int rc = list == NULL ? ts_no_memory(err, a->old->path)
                                : ts_build_dir_write(a->dir, TS_INDEX_NAME, list, bytes, err);
    free(list);
    return rc;
}

/* ------------------------------------------------------------------ appending nonzeros */

/* Checks that modes and values have the same names in both tensors, where both name them. */
static int check_names(const struct ts_tensor *last, const struct ts_tensor *t, struct ts_err *err)
{
    for (uint32_t m = 0; m <= t->order; m++) {
        const char *was = m < t->order ? ts_tensor_mode_name(last, m) : ts_tensor_value_name(last);
        const char *is = m < t->order ? ts_tensor_mode_name(t, m) : ts_tensor_value_name(t);
        if (was == NULL || is == NULL || strcmp(was, is) == 0)
            continue;
        if (m == t->order)
            return ts_fail(err, TS_EARG,
                           "%s: its values are %s, and what is appended has values of %s",
                           last->path, was, is);
        return ts_fail(err, TS_EARG, "%s: " TS_NTH_MODE " is %s, and what is appended has %s there",
                       last->path, m + 1, was, is);
    }
    return 0;
}

/* Checks by the kept options of the tensor that nonzeros may be appended. If its values were
 * transformed after they were added up, no cell may be in two segments, because sums cannot be
 * added later. */
static int check_kept(const struct ts_append_conf *conf, const struct ts_kept *kept,
                      struct ts_err *err)
{
    const char *transform = kept->text[TS_KEPT_TRANSFORM][0];
    const char *duplicates = kept->text[TS_KEPT_DUPLICATES][0];
    if (duplicates == NULL || transform == NULL)
        return ts_fail(err, TS_EFORMAT,
                       "%s: does not say what was done with several nonzeros of a cell",
                       conf->path);
    if (strcmp(duplicates, "sum") != 0 && strcmp(duplicates, "error") != 0)
        return ts_fail(
            err, TS_EARG,
            "%s: was built with " TS_SET_OPTION("duplicates") " %s, and only to sum and "
                                                              "error is anything appended",
            conf->path, duplicates);
    if (strcmp(duplicates, "error") != 0 && strcmp(transform, "none") != 0 &&
        strncmp(transform, "scale=", 6) != 0)
        return ts_fail(err, TS_EARG,
                       "%s: was built with " TS_SET_TRANSFORM " %s, which holds for the whole sum "
                       "of a cell. Only with " TS_SET_NO_DUPLICATES
                       " as well, is anything appended",
                       conf->path, transform);
    return 0;
}

/* Fails if a tensor with weights drops zeros: a cell whose weighted mean is 0 lost its weight,
 * which the mean with a later value needs. */
static int check_dropped(const char *path, const struct ts_tensor *t, struct ts_err *err)
{
    if (!ts_tensor_weighted(t) || (t->header.flags & TS_TENSOR_ZEROS) != 0 ||
        t->header.n_zeros == 0)
        return 0;
    return ts_fail(
        err, TS_EARG,
        "%s: has weights and no kept zeros, so that a zero of it, or of what is appended, "
        "is lost with its weight: build it with " TS_SET_KEEP_ZEROS,
        path);
}

static int check_all_dropped(const struct ts_append *a, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < a->old->n && rc == 0; i++) {
        struct ts_tensor *t = NULL;
        rc = ts_segments_tensor(a->old, i, &t, err);
        if (rc == 0)
            rc = check_dropped(a->old->path, t, err);
        ts_tensor_close(t);
    }
    return rc;
}

/* For nonzeros that a program gives: checks that their type, zeros, weights and names of modes are
 * those of the tensor. Drops the kept options that say how text was read. */
static int follow_source(struct ts_append *a, const struct ts_append_conf *conf,
                         const struct ts_tensor *last, struct ts_build_options *o,
                         struct ts_err *err)
{
    static const enum ts_kept_id of_text[] = { TS_KEPT_HEADER,  TS_KEPT_WIDTH,  TS_KEPT_QUOTE,
                                               TS_KEPT_DECIMAL, TS_KEPT_NAMES,  TS_KEPT_VALUE,
                                               TS_KEPT_WEIGHTS, TS_KEPT_COLUMN, TS_KEPT_FIELD,
                                               TS_KEPT_BIN,     TS_KEPT_MAP,    TS_KEPT_TIME_UNIT };
    const struct ts_build_options *given = conf->build;
    if (given->value_bytes != last->header.value_bytes ||
        (given->zeros != 0) != ((last->header.flags & TS_TENSOR_ZEROS) != 0) ||
        (given->weights != 0) != ts_tensor_weighted(last))
        return ts_fail(err, TS_EBUSY, "%s: was replaced by another tensor; try again", conf->path);
    for (uint32_t m = 0; m < given->n_names && m < last->order; m++) {
        const char *was = ts_tensor_mode_name(last, m);
        if (was != NULL && strcmp(was, given->mode_name[m]) != 0)
            return ts_fail(err, TS_EARG,
                           "%s: " TS_NTH_MODE " is %s, and what is appended has %s there",
                           conf->path, m + 1, was, given->mode_name[m]);
    }
    memcpy(o->map, given->map, sizeof o->map);
    o->base = (uint32_t)ts_tensor_base(last);
    o->n_names = 0; /* 0: names of modes are taken from the tensor */
    for (size_t i = 0; i < sizeof of_text / sizeof *of_text; i++)
        for (uint32_t m = 0; m < ts_kept_count(&a->kept, of_text[i]); m++) {
            const int rc = ts_kept_set(&a->kept, of_text[i], m, NULL, err);
            if (rc < 0)
                return rc;
        }
    return 0;
}

/* Checks options that the user gave although the tensor decides them: they must be the same. */
static int check_said(const struct ts_append_conf *conf, const struct ts_kept *kept,
                      struct ts_err *err)
{
    static const char *const duplicates[] = {
        [TS_DUPLICATES_SUM] = "sum", [TS_DUPLICATES_KEEP] = "keep", [TS_DUPLICATES_ERROR] = "error"
    };
    const struct ts_build_options *given = conf->build;
    const char *const is[TS_N_KEPT] = {
        [TS_KEPT_VALUES] = given->value_bytes == 8 ? "float64" : "float32",
        [TS_KEPT_ZEROS] = given->zeros ? "keep" : "drop",
        [TS_KEPT_DUPLICATES] = duplicates[given->duplicates],
    };
    for (uint32_t i = 0; i < TS_N_KEPT; i++) {
        const char *was = kept->text[i][0];
        if ((conf->said >> i & 1) != 0 && is[i] != NULL && was != NULL && strcmp(was, is[i]) != 0)
            return ts_fail(err, TS_EARG,
                           "%s: '%s' was '%.200s' in the build of the tensor, and is '%s' here",
                           conf->path, ts_kept_key((enum ts_kept_id)i), was, is[i]);
    }
    return 0;
}

/* Sets *o to the options of the append that follow from the tensor. from_source: nonzeros come from
 * a program. */
static int follow(struct ts_append *a, const struct ts_append_conf *conf, int from_source,
                  const struct ts_tensor *last, const char *out, struct ts_build_options *o,
                  struct ts_err *err)
{
    struct ts_table_plan none = { 0 };
    int rc;
    *o = *conf->build;
    o->out = out;
    o->force = 0;
    o->after = last;
    o->value_bytes = last->header.value_bytes;
    o->n_dims = 0;
    memset(o->map, 0, sizeof o->map);
    if (a->old->n == TS_MAX_SEGMENTS)
        return ts_fail(err, TS_EARG, "%s: has %u segments, the most possible: tshard compact %s",
                       conf->path, TS_MAX_SEGMENTS, conf->path);
    rc = ts_kept_adopt(&a->kept, conf->said, o, from_source ? &none : conf->plan, err);
    if (rc == 0 && from_source) {
        o->table = NULL;
        o->weights = conf->build->weights;
    }
    if (rc == 0)
        rc = check_kept(conf, &a->kept, err);
    if (rc == 0)
        rc = check_said(conf, &a->kept, err);
    if (rc == 0 && from_source)
        rc = follow_source(a, conf, last, o, err);
    o->zeros = (last->header.flags & TS_TENSOR_ZEROS) != 0;
    o->duplicates = a->unique ? TS_DUPLICATES_ERROR : TS_DUPLICATES_SUM;
    o->like = &a->kept;
    o->like_path = conf->path;
    return rc;
}

/* Adds a note to the report if a mode has outgrown the size that the build was given. */
static void note_growth(const struct ts_append *a, const struct ts_tensor *last,
                        const struct ts_tensor *t, struct ts_build_report *report)
{
    for (uint32_t m = 0; m < t->order && report->n_notes < TS_BUILD_NOTES; m++) {
        const uint64_t was = last->mode[m].disk.dim, is = t->mode[m].disk.dim;
        const char *size = a->kept.text[TS_KEPT_SIZE][m];
        if (is > was && size != NULL && strcmp(size, "none") != 0 &&
            t->mode[m].disk.labels_bytes == 0)
            ts_setting_print(report->note[report->n_notes++], sizeof report->note[0],
                             TS_NTH_MODE " grows from %" PRIu64 " to %" PRIu64
                                         ", although the build had its size as " TS_SET_SIZES,
                             m + 1, was, is);
    }
}

/* Checks that the labels that a program gives for mode m of t begin with those of the tensor
 * `last`, so that its indices mean the same slices. */
static int check_labels(const char *path, const struct ts_tensor *last, const struct ts_tensor *t,
                        uint32_t m, const volatile sig_atomic_t *stop, struct ts_err *err)
{
    struct ts_label_lines *was = NULL, *is = NULL;
    int rc = ts_label_lines_open(last, m, &was, err);
    if (rc == 0)
        rc = ts_label_lines_open(t, m, &is, err);
    for (uint64_t i = 0; rc == 0 && was != NULL; i++) {
        const char *a = NULL, *b = NULL;
        size_t n_a = 0, n_b = 0;
        rc = i % 65536 == 0 ? ts_stop_check(stop, err) : 0;
        if (rc == 0)
            rc = ts_label_lines_next(was, &a, &n_a, err);
        if (rc < 0 || a == NULL)
            break;
        rc = is == NULL ? 0 : ts_label_lines_next(is, &b, &n_b, err);
        if (rc == 0 && (b == NULL || n_a != n_b || memcmp(a, b, n_a) != 0))
            rc = ts_fail(err, TS_EARG,
                         "%s: index %" PRIu64 " of " TS_NTH_MODE
                         " is '%.*s', and among the labels of what is appended it is '%.*s'",
                         path, i + ts_tensor_base(last), m + 1, (int)(n_a < 100 ? n_a : 100), a,
                         (int)(n_b < 100 ? n_b : 100), b == NULL ? "" : b);
    }
    ts_label_lines_close(was);
    ts_label_lines_close(is);
    return rc;
}

/* Where the appended nonzeros come from: a source, or if that is NULL, the files of the conf. */
struct input {
    uint32_t order;
    const struct ts_source *source;
};

/* Builds the new segment in the new directory, and makes its entry in the list of segments. */
static int build_segment(struct ts_append *a, const struct ts_append_conf *conf,
                         const struct input *in, struct ts_build_report *report, struct ts_err *err)
{
    struct ts_disk_segment *e = &a->entry[a->old->n];
    struct ts_tensor *last = NULL, *t = NULL;
    struct ts_build_options o;
    char *out = ts_build_dir_file(a->dir, TS_SEGMENT_NAME, a->old->n + 1);
    int rc = out == NULL ? ts_no_memory(err, conf->path)
                         : ts_segments_tensor(a->old, a->old->n - 1, &last, err);
    if (rc == 0)
        rc = follow(a, conf, in->source != NULL, last, out, &o, err);
    if (rc == 0)
        rc = in->source != NULL ? ts_build_source(&o, in->order, in->source, report, err)
                                : ts_build_paths(&o, conf->paths, conf->n_paths, report, err);
    if (rc == 0)
        rc = ts_tensor_open(out, &t, err);
    for (uint32_t m = 0; rc == 0 && in->source != NULL && m < in->order; m++)
        if (o.map[m] != NULL)
            rc = check_labels(conf->path, last, t, m, o.stop, err);
    if (rc == 0)
        rc = ts_segments_follows(last, t, err);
    if (rc == 0)
        rc = check_names(last, t, err);
    if (rc == 0)
        rc = check_dropped(conf->path, t, err);
    if (rc == 0)
        rc = make_entry(t, conf->time, e, err);
    if (rc == 0 && !conf->repeat)
        rc = check_repeat(a, e, err);
    if (rc == 0)
        note_growth(a, last, t, report);
    ts_tensor_close(t);
    ts_tensor_close(last);
    free(out);
    return rc;
}

/* Reads how the tensor was built. Fails if the tensor does not say it. */
static int read_kept(struct ts_append *a, struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    int rc = ts_segments_tensor(a->old, 0, &t, err);
    if (rc < 0)
        return rc;
    rc = ts_kept_read(t, &a->kept, err);
    ts_tensor_close(t);
    if (rc == 0)
        return ts_fail(err, TS_EARG,
                       "%s: does not say how it was built, as tensors of an older version: build "
                       "it again from all files, to append later",
                       a->old->path);
    a->unique = a->kept.text[TS_KEPT_DUPLICATES][0] != NULL &&
                strcmp(a->kept.text[TS_KEPT_DUPLICATES][0], "error") == 0;
    return rc < 0 ? rc : 0;
}

/* Merges all segments of the new directory to find out whether two of them have the same cell,
 * which is a failure. */
static int check_unique(const struct ts_append *a, const struct ts_append_conf *conf,
                        uint64_t *hash, struct ts_err *err)
{
    struct ts_segments all = { .path = (char *)ts_build_dir_path(a->dir),
                               .n = a->old->n + 1,
                               .order = a->old->order,
                               .listed = 1,
                               .entry = a->entry };
    struct ts_build_options o = *conf->build;
    int rc = ts_open_dir_new(all.path, &all.dir, err);
    o.shard_bytes = 0; /* 0: the shard size of the first segment */
    if (rc == 0)
        rc = ts_append_build_merged(a, &all, &o, hash, err);
    ts_open_dir_close(all.dir);
    return rc;
}

/* Returns the descriptor of an open file that a path such as /dev/fd/3 or "-" means; -1: none. */
static int open_input(const char *path)
{
    int fd = -1, end = 0;
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0)
        return STDIN_FILENO;
    if (sscanf(path, "/dev/fd/%d%n", &fd, &end) == 1 && path[end] == '\0')
        return fd;
    return sscanf(path, "/proc/self/fd/%d%n", &fd, &end) == 1 && path[end] == '\0' ? fd : -1;
}

static int is_pipe(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* Waits for the first byte of each pipe before the lock is taken, because the program that writes
 * it may read the tensor and wait for the lock. pipe[i] gets the descriptor of an opened named
 * pipe, or -1. It stays open, or written bytes would be lost. */
static int wait_for_input(const struct ts_append_conf *conf, int pipe[], struct ts_err *err)
{
    for (uint32_t i = 0; i < conf->n_paths; i++) {
        const char *path = conf->paths[i];
        struct pollfd p = { .fd = open_input(path), .events = POLLIN };
        if (p.fd < 0 && is_pipe(path))
            p.fd = pipe[i] = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        while (p.fd >= 0 && poll(&p, 1, WAIT_MS) == 0) {
            const int rc = ts_stop_check(conf->build->stop, err);
            if (rc < 0)
                return rc;
        }
        if (pipe[i] >= 0 && (p.revents & (POLLIN | POLLHUP)) == POLLHUP)
            return ts_fail(err, TS_EFORMAT, "%s: is empty", path);
    }
    return ts_stop_check(conf->build->stop, err);
}

/* Compacts the tensor before the append if the later segments have many bytes (compact_at). If that
 * fails, the append goes on, unless the user stopped it. */
static int compact_first(const struct ts_append_conf *conf, struct ts_append_report *ret,
                         struct ts_err *err)
{
    struct ts_append_report compacted = { 0 };
    struct ts_build_options o = *conf->build;
    struct ts_segments *s = NULL;
    struct ts_err why;
    uint64_t bytes = 0;
    int rc, due;
    if (conf->compact_at <= 0 || ts_segments_open(conf->path, &s, NULL) < 0)
        return 0;
    for (uint32_t i = 1; s->listed && i < s->n; i++)
        bytes += s->entry[i].bytes;
    due = s->listed && (double)bytes > conf->compact_at * (double)s->entry[0].bytes;
    ts_segments_close(s);
    if (!due)
        return 0;
    o.shard_bytes = 0;
    rc = ts_append_compact(conf->path, &o, &compacted, &why);
    ret->compacted = compacted.n_segments;
    if (rc == TS_ESTOP && err != NULL)
        *err = why;
    return rc == TS_ESTOP ? rc : 0;
}

static int append(const struct ts_append_conf *conf, const struct input *in,
                  struct ts_build_report *build, struct ts_append_report *ret, struct ts_err *err)
{
    struct ts_append a = { .dir = NULL };
    uint64_t hash = 0;
    int rc;
    memset(ret, 0, sizeof *ret);
    memset(build, 0, sizeof *build);
    rc = compact_first(conf, ret, err);
    if (rc == 0)
        rc = ts_append_turn(&a, conf->path, TS_TURN_TO_WRITE, conf->build, err);
    if (rc == 0)
        rc = read_kept(&a, err);
    if (rc == 0)
        rc = check_all_dropped(&a, err);
    if (rc == 0)
        rc = build_segment(&a, conf, in, build, err);
    if (rc == 0)
        rc = ts_append_take(&a, a.old->n, 0, err);
    if (rc == 0 && a.unique) { /* fails if a cell is in two segments */
        a.entry[a.old->n].duplicates = TS_REPEATED_ERROR;
        rc = check_unique(&a, conf, &hash, err);
    }
    if (rc == 0)
        rc = ts_append_list(&a, a.old->n + 1, a.unique ? &hash : NULL, err);
    if (rc == 0)
        rc = ts_build_dir_commit(a.dir, &ret->warn, err);
    if (rc == 0) {
        ret->n_segments = a.old->n + 1;
        ret->segment = a.entry[a.old->n];
    }
    ts_append_end(&a);
    return rc;
}

int ts_append_paths(const struct ts_append_conf *conf, struct ts_build_report *build,
                    struct ts_append_report *ret, struct ts_err *err)
{
    const struct input files = { .source = NULL };
    struct ts_append_conf with = *conf;
    const uint32_t n = conf->n_paths;
    int *pipe = malloc((n + 1) * sizeof *pipe), rc = 0;
    char(*name)[PIPE_CHARS] = malloc((n + 1) * sizeof *name);
    const char **paths = malloc((n + 1) * sizeof *paths);
    if (pipe == NULL || name == NULL || paths == NULL)
        rc = ts_no_memory(err, conf->path);
    for (uint32_t i = 0; i < n && pipe != NULL; i++)
        pipe[i] = -1;
    if (rc == 0)
        rc = wait_for_input(conf, pipe, err);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        snprintf(name[i], sizeof name[i], "/dev/fd/%d", pipe[i]);
        paths[i] = pipe[i] < 0 ? conf->paths[i] : name[i];
    }
    with.paths = paths;
    if (rc == 0)
        rc = append(&with, &files, build, ret, err);
    for (uint32_t i = 0; i < n && pipe != NULL; i++)
        ts_fd_close(pipe[i]);
    free(pipe);
    free(name);
    free(paths);
    return rc;
}

int ts_append_source(const struct ts_append_conf *conf, uint32_t order,
                     const struct ts_source *source, struct ts_build_report *build,
                     struct ts_append_report *ret, struct ts_err *err)
{
    const struct input in = { .order = order, .source = source };
    const int rc = append(conf, &in, build, ret, err);
    if (rc < 0)
        /* stop also ends the wait of a program that gives nonzeros before the start */
        source->stop(source->self);
    return rc;
}

int ts_append_undo(const char *path, const struct ts_build_options *o, struct ts_append_report *ret,
                   struct ts_err *err)
{
    struct ts_append a = { .dir = NULL };
    int rc = ts_append_turn(&a, path, TS_TURN_TO_WRITE, o, err);
    memset(ret, 0, sizeof *ret);
    if (rc == 0 && a.old->n == 1)
        rc = ts_fail(err, TS_EARG, "%s: nothing was appended since it was built", path);
    if (rc == 0)
        rc = ts_append_take(&a, a.old->n - 1, a.old->n == 2, err);
    if (rc == 0 && a.old->n > 2)
        rc = ts_append_list(&a, a.old->n - 1, NULL, err);
    if (rc == 0)
        rc = ts_build_dir_commit(a.dir, &ret->warn, err);
    if (rc == 0) {
        ret->n_segments = a.old->n - 1;
        ret->segment = a.entry[a.old->n - 1];
    }
    ts_append_end(&a);
    return rc;
}
