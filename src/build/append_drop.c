/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces a tensor by one without the nonzeros of some first or last slices of a mode
 * (ts_append_drop). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "build/append_steps.h"
#include "format/label_lines.h"
#include "source/tensor_source.h"

/* The indices of a mode that stay: first to end - 1. */
struct stay {
    uint64_t first, end;
};

/* Whether the fields of a mode were times. Then its labels ascend as text. */
static int is_time(const struct ts_tensor *t, uint32_t mode, struct ts_err *err)
{
    struct ts_kept kept;
    int rc = ts_kept_read(t, &kept, err);
    if (rc > 0)
        rc = kept.text[TS_KEPT_FIELD][mode] != NULL &&
             strcmp(kept.text[TS_KEPT_FIELD][mode], "time") == 0;
    if (rc >= 0)
        ts_kept_free(&kept);
    return rc;
}

/* Sets *ret to the number of slices before the one whose index a cut gives; with cut->after,
 * including that one. */
static int count_numbers(const struct ts_tensor *t, const struct ts_append_cut *cut, uint64_t *ret,
                         struct ts_err *err)
{
    const uint64_t dim = t->mode[cut->mode].disk.dim, base = ts_tensor_base(t);
    char *end;
    unsigned long long n;
    errno = 0;
    n = strtoull(cut->label, &end, 10);
    if (*cut->label < '0' || *cut->label > '9' || *end != '\0' || errno != 0 || n < base ||
        n - base >= dim)
        return ts_fail(err, TS_EARG,
                       "%s: '%s' is no index of " TS_NTH_MODE ", which are %" PRIu64 " to %" PRIu64,
                       t->path, cut->label, cut->mode + 1, base, dim - 1 + base);
    *ret = n - base + (uint64_t)cut->after;
    return 0;
}

/* Like count_numbers, for a mode with labels. The cut may give the beginning of a time, such as
 * 2024-01. Its first slice is then the first label that begins so or is later. With cut->after, all
 * labels that begin so are included. */
static int count_labels(const struct ts_tensor *t, const struct ts_append_cut *cut, int time,
                        uint64_t *ret, struct ts_err *err)
{
    const size_t chars = strlen(cut->label);
    struct ts_label_lines *lines = NULL;
    int found = 0, rc = ts_label_lines_open(t, cut->mode, &lines, err);
    *ret = 0;
    while (rc == 0 && !found) {
        const char *label;
        size_t n;
        int order;
        rc = ts_label_lines_next(lines, &label, &n, err);
        if (rc < 0 || label == NULL)
            break;
        order = memcmp(label, cut->label, n < chars ? n : chars);
        if (order == 0)
            order = n < chars ? -1 : cut->after && time ? 0 : n > chars;
        found = time ? order > 0 || (order == 0 && !cut->after) : order == 0;
        *ret += !found || (!time && cut->after);
    }
    ts_label_lines_close(lines);
    if (rc == 0 && !found && !time)
        rc = ts_fail(err, TS_EARG, "%s: '%s' is no label of " TS_NTH_MODE, t->path, cut->label,
                     cut->mode + 1);
    return rc;
}

static int make_cut(const struct ts_tensor *t, const struct ts_append_cut *cut, struct stay *stay,
                    struct ts_err *err)
{
    uint64_t n = 0;
    const int has_labels = t->mode[cut->mode].disk.labels_bytes > 0;
    const int time = has_labels ? is_time(t, cut->mode, err) : 0;
    int rc = time < 0     ? time
             : has_labels ? count_labels(t, cut, time, &n, err)
                          : count_numbers(t, cut, &n, err);
    if (rc < 0)
        return rc;
    if (cut->after && n < stay->end)
        stay->end = n;
    if (!cut->after && n > stay->first)
        stay->first = n;
    if (stay->first < stay->end)
        return 0;
    return ts_fail(err, TS_EARG, "%s: no slice of " TS_NTH_MODE " would be left", t->path,
                   cut->mode + 1);
}

/* Sets *pick to the slices that no cut selects. Sets *changes to 1 if a cut selects some slice. */
static int make_pick(const struct ts_tensor *t, const struct ts_append_cut *cut, uint32_t n,
                     struct ts_pick *pick, int *changes, struct ts_err *err)
{
    struct stay stay[TS_MAX_ORDER];
    int rc = 0;
    for (uint32_t m = 0; m < t->order; m++)
        stay[m] = (struct stay){ 0, t->mode[m].disk.dim };
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = make_cut(t, &cut[i], &stay[cut[i].mode], err);
    for (uint32_t m = 0; m < t->order && rc == 0; m++) {
        struct ts_pick_range range = { stay[m].first, stay[m].end - 1 };
        if (range.first == 0 && stay[m].end == t->mode[m].disk.dim)
            continue;
        *changes = 1;
        rc = ts_pick_ranges(pick, t, m, &range, 1, err);
    }
    return rc;
}

/* Builds the tensor of the picked nonzeros in the new directory. *left: their number. */
static int build_rest(const struct ts_append *a, const struct ts_tensor *t,
                      const struct ts_pick *pick, const struct ts_build_options *place,
                      uint64_t *left, struct ts_err *err)
{
    struct ts_build_options o = ts_append_options(place);
    struct ts_build_report report;
    char *out = ts_build_dir_file(a->dir, TS_SEGMENT_NAME, 1);
    int rc = 0;
    if (out == NULL)
        return ts_no_memory(err, t->path);
    o.out = out;
    o.value_bytes = t->header.value_bytes;
    o.zeros = (t->header.flags & TS_TENSOR_ZEROS) != 0;
    o.weights = ts_tensor_weighted(t);
    if (o.shard_bytes == 0)
        o.shard_bytes = ts_append_shard_bytes(t);
    rc = ts_build_tensor(&o, t, pick, &report, err);
    if (rc == 0) {
        *left = report.nnz;
        rc = ts_build_dir_raise(a->dir, TS_FIRST_SEGMENT, err);
    }
    free(out);
    return rc;
}

int ts_append_drop(const char *path, const struct ts_append_cut *cut, uint32_t n,
                   const struct ts_build_options *o, struct ts_append_report *ret,
                   struct ts_err *err)
{
    struct ts_append a = { .dir = NULL };
    struct ts_pick pick = { .side = TS_PICK_ALL };
    struct ts_tensor *t = NULL;
    uint64_t left = 0;
    int changes = 0, rc = ts_append_merge(path, o, ret, NULL, err);
    memset(ret, 0, sizeof *ret);
    if (rc == 0)
        rc = ts_append_turn(&a, path, TS_TURN_TO_WRITE, o, err);
    if (rc == 0 && a.old->listed && !a.old->merged)
        rc = ts_fail(err, TS_EBUSY, "%s: another process has changed it meanwhile", path);
    if (rc == 0)
        rc = a.old->listed ? ts_segments_merged(a.old, &t, err)
                           : ts_segments_tensor(a.old, 0, &t, err);
    if (rc == 0)
        rc = make_pick(t, cut, n, &pick, &changes, err);
    if (rc == 0 && changes)
        rc = build_rest(&a, t, &pick, o, &left, err);
    if (rc == 0 && changes && left < t->nnz) {
        ret->n_segments = a.old->n;
        ret->dropped = t->nnz - left;
        rc = ts_build_dir_commit(a.dir, &ret->warn, err);
    }
    ts_pick_free(&pick);
    ts_tensor_close(t);
    ts_append_end(&a);
    return rc;
}
