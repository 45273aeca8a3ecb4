/* SPDX-License-Identifier: BSD-3-Clause */
/* build_after.c - takes names, times and sizes from the tensor that nonzeros are appended to. So an
 * index means the same slice in the old tensor and in the new nonzeros. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "build/build_steps.h"
#include "format/label_lines.h"
#include "source/text/table_columns.h"

/* Returns 1 if the first label of a mode is a time, and 0 if not. */
static int is_time(const struct ts_tensor *t, uint32_t m, struct ts_err *err)
{
    const struct ts_time_rule iso = { TS_TIME_ISO, 1 };
    const uint64_t index = 0;
    char *label = NULL;
    int64_t seconds;
    int rc = ts_tensor_labels(t, m, 1, &index, &label, err);
    if (rc == 0)
        rc = label != NULL && ts_time_read(&iso, label, strlen(label), &seconds) == 0;
    free(label);
    return rc;
}

/* Checks that each index of a mode of names has a label, and that the labels are not times. */
static int check_named(const struct ts_build *b, uint32_t m, struct ts_err *err)
{
    const struct ts_tensor *t = b->o->after;
    const struct ts_disk_mode *d = &t->mode[m].disk;
    const int times = d->labels_bytes > 0 && !b->table->mode[m].text ? is_time(t, m, err) : 0;
    if (times < 0)
        return times;
    if (times > 0)
        return ts_fail(err, TS_EARG,
                       "%s: the labels of " TS_NTH_MODE " are times: give the " TS_SET_BIN
                       " that the tensor was built with, or " TS_SET_TEXT
                       " " TS_NTH("%u") " if they are names",
                       t->path, m + 1, m + 1);
    if (d->labels_bytes > 0 && d->n_labels == d->dim)
        return 0;
    return ts_fail(err, TS_EARG,
                   "%s: " TS_NTH_MODE " has %" PRIu64 " labels for its size of %" PRIu64
                   ", but the fields that are appended are names",
                   t->path, m + 1, d->n_labels, d->dim);
}

static int seed_mode(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    const struct ts_tensor *t = b->o->after;
    struct ts_label_lines *lines = NULL;
    char *text = NULL;
    size_t room = 0, used = 0;
    size_t at[TS_NAMES_FIND];
    uint32_t len[TS_NAMES_FIND], n = 0;
    int more = 1, rc = check_named(b, m, err);
    if (rc == 0)
        rc = ts_label_lines_open(t, m, &lines, err);
    while (rc == 0 && more) {
        const char *name[TS_NAMES_FIND], *label;
        size_t bytes;
        rc = ts_label_lines_next(lines, &label, &bytes, err);
        more = rc == 0 && label != NULL;
        if (more && used + bytes > room) {
            char *larger = realloc(text, 2 * (used + bytes) + 4096);
            if (larger == NULL) {
                rc = ts_no_memory(err, t->path);
                break;
            }
            text = larger;
            room = 2 * (used + bytes) + 4096;
        }
        if (more) {
            memcpy(text + used, label, bytes);
            at[n] = used;
            len[n++] = (uint32_t)bytes;
            used += bytes;
        }
        if (rc < 0 || n == 0 || (more && n < TS_NAMES_FIND))
            continue;
        for (uint32_t i = 0; i < n; i++)
            name[i] = text + at[i];
        rc = ts_names_seed(b->names, m, n, name, len, err);
        n = 0;
        used = 0;
    }
    ts_label_lines_close(lines);
    free(text);
    return rc;
}

int ts_build_after_names(struct ts_build *b, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0; m++)
        if (ts_table_mode_field(b->table, m) == TS_TABLE_NAME)
            rc = seed_mode(b, m, err);
    return rc;
}

/* Sets *ret to the number of the time bin with this label. Returns 0 if no bin as wide as *bin has
 * this label. */
static int bin_of(const struct ts_time_bin *bin, const char *label, uint64_t *ret)
{
    static const enum ts_time_unit units[] = { TS_TIME_ISO, TS_TIME_YEAR };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        struct ts_time_bin b = *bin;
        char again[TS_TIME_LABEL];
        size_t n;
        b.rule = (struct ts_time_rule){ units[i], 1 };
        if (ts_time_bin_of(&b, label, strlen(label), ret) != 0)
            continue;
        n = ts_time_bin_label(&b, *ret, again);
        if (n == strlen(label) && memcmp(again, label, n) == 0)
            return 1;
    }
    return 0;
}

int ts_build_after_times(const struct ts_build *b, uint32_t m, uint64_t *first, struct ts_err *err)
{
    const struct ts_tensor *t = b->o->after;
    const struct ts_time_bin *bin = ts_table_mode_bin(b->table, m);
    const struct ts_disk_mode *d = &t->mode[m].disk;
    const uint64_t index[2] = { 0, d->dim - 1 }, least = *first;
    char *label[2] = { NULL, NULL };
    uint64_t at[2];
    int same = d->labels_bytes > 0 && d->n_labels == d->dim;
    int rc = same ? ts_tensor_labels(t, m, d->dim > 1 ? 2 : 1, index, label, err) : 0;
    if (rc == 0 && same && d->dim == 1)
        label[1] = label[0] == NULL ? NULL : strdup(label[0]);
    same = same && rc == 0 && label[0] != NULL && label[1] != NULL &&
           bin_of(bin, label[0], &at[0]) && bin_of(bin, label[1], &at[1]) &&
           at[1] - at[0] == d->dim - 1;
    if (rc == 0 && !same)
        rc = ts_fail(err, TS_EARG,
                     "%s: the labels of " TS_NTH_MODE
                     " are not those of bins as wide as these: " TS_SET_BIN
                     " must be what it was when the tensor was built",
                     t->path, m + 1);
    else if (rc == 0 && least < at[0])
        rc = ts_fail(err, TS_EARG,
                     "%s: its times in " TS_NTH_MODE " begin with %s, and what is appended begins "
                     "earlier, which would change all its indices: build it again from all files",
                     t->path, m + 1, label[0]);
    else if (rc == 0)
        *first = at[0];
    free(label[0]);
    free(label[1]);
    return rc;
}

/* Fails if the old tensor has labels of mode m, and the new nonzeros give its indices as numbers.
 * For a table it always fails, for other input if an index has no label. It does not fail if a file
 * of all labels is given (o->map). */
static int check_labelled(const struct ts_build *b, uint32_t m, uint64_t dim, struct ts_err *err)
{
    const struct ts_tensor *t = b->o->after;
    const struct ts_disk_mode *d = &t->mode[m].disk;
    if (d->labels_bytes == 0 || b->o->map[m] != NULL ||
        (b->table != NULL && ts_table_mode_field(b->table, m) != TS_TABLE_NUMBER))
        return 0;
    if (b->table != NULL)
        return ts_fail(err, TS_EARG,
                       "%s: the indices of " TS_NTH_MODE " have labels, and the fields that are "
                       "appended are whole numbers: " TS_SET_TEXT " " TS_NTH("%u") " takes them "
                                                                                   "as names",
                       t->path, m + 1, m + 1);
    if (dim <= d->dim)
        return 0;
    return ts_fail(err, TS_EARG,
                   "%s: the indices of " TS_NTH_MODE " have labels, and what is appended has "
                   "indices up to %" PRIu64 " of %" PRIu64 ", which have none",
                   t->path, m + 1, dim - 1 + ts_tensor_base(t), d->dim);
}

int ts_build_after_sizes(struct ts_build *b, struct ts_err *err)
{
    const struct ts_tensor *t = b->o->after;
    for (uint32_t m = 0; m < b->order; m++) {
        const uint64_t least = t->mode[m].disk.dim + b->shift[m];
        const int rc = check_labelled(b, m, b->dim[m], err);
        if (rc < 0)
            return rc;
        if (b->dim[m] < least)
            b->dim[m] = least;
    }
    return 0;
}
