/* SPDX-License-Identifier: BSD-3-Clause */
/* build_table.c - what a build needs for tables only: dictionaries of names, and the sizes and
 * labels of modes of names and times. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "build/build_impl.h"
#include "build/build_ranks.h"
#include "source/text_source.h"

#define NAMES_SHARE 4u                  /* share of the memory during reading */
#define MOST_BINS   (UINT64_C(1) << 24) /* with more bins the file of labels would be too large */

static int open_writer(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    char *path = ts_build_dir_file(b->dir, "mode%u.labels", m + 1);
    const int rc = path == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out)
                                : ts_label_writer_new(path, m, &b->label[m], err);
    free(path);
    return rc;
}

uint64_t ts_build_table_names_bytes(const struct ts_build_options *o)
{
    return o->memory / NAMES_SHARE;
}

int ts_build_table_add_label(void *arg, uint32_t m, const char *name, uint32_t n,
                             struct ts_err *err)
{
    struct ts_build *b = arg;
    const int rc = b->label[m] == NULL ? open_writer(b, m, err) : 0;
    return rc < 0 ? rc : ts_label_writer_add(b->label[m], name, n, err);
}

int ts_build_table_begin(struct ts_build *b, struct ts_text_source *s, struct ts_err *err)
{
    struct ts_names_conf conf = { .order = b->order,
                                  .entry_bytes = ts_build_value_bits(b) / 8,
                                  .sorted = b->o->sorted_names,
                                  .told = ts_build_comm_many(&b->ranks),
                                  .bytes = ts_build_table_names_bytes(b->o),
                                  .tmp = b->tmp,
                                  .stop = b->o->stop,
                                  .label = ts_build_table_add_label,
                                  .label_arg = b };
    int any = 0, rc; /* any: of the modes has names */
    for (uint32_t m = 0; m < b->order; m++) {
        const enum ts_table_field field = ts_table_mode_field(b->table, m);
        conf.named[m] = field == TS_TABLE_NAME;
        any |= conf.named[m];
        if (field != TS_TABLE_NUMBER && b->o->map[m] != NULL)
            return ts_fail(
                err, TS_EARG,
                TS_SET_LABELS " names the indices of " TS_NTH_MODE ", but its fields are %s (%s)",
                m + 1, field == TS_TABLE_NAME ? "names themselves" : "times", b->o->map[m]);
        if (field != TS_TABLE_NUMBER && b->o->n_dims > 0)
            return ts_fail(err, TS_EARG,
                           TS_SET_SIZES " gives " TS_NTH_MODE
                                        " a size, but its fields are %s, which say how many "
                                        "there are",
                           m + 1, field == TS_TABLE_NAME ? "names" : "times");
    }
    if (!any)
        return 0;
    rc = ts_names_new(&conf, &b->names, err);
    if (rc < 0)
        return rc;
    b->beside_bytes += conf.bytes;
    ts_text_source_names(s, b->names);
    return 0;
}

/* All lines in one bin is most likely a wrong unit, or too wide a bin. */
static void note_one_bin(struct ts_build *b, uint32_t m, uint64_t bin)
{
    char label[TS_TIME_LABEL];
    const char *name = ts_table_mode_name(b->table, m);
    const int chars = (int)ts_time_bin_label(ts_table_mode_bin(b->table, m), bin, label);
    ts_setting_print(b->report->note, sizeof b->report->note,
                     "all %" PRIu64 " nonzeros read fall into one bin of " TS_NTH_MODE "%s%.100s%s, %.*s: "
                     "narrower bins (" TS_SET_BIN ") or another " TS_SET_TIME_UNIT
                     " may be what is meant",
                     b->collect.n_read, m + 1, name == NULL ? "" : " (", name == NULL ? "" : name,
                     name == NULL ? "" : ")", chars, label);
}

int ts_build_table_sizes(struct ts_build *b, int rc, struct ts_err *err)
{
    uint64_t least[TS_MAX_ORDER] = { 0 };
    for (uint32_t m = 0; m < b->order; m++)
        if (ts_table_mode_field(b->table, m) == TS_TABLE_TIME)
            least[m] = ts_table_mode_least(b->table, m);
    if (rc == 0 && b->names != NULL)
        rc = ts_names_check(b->names, err);
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_MIN, least, b->order, err);
    if (rc < 0)
        return rc;
    for (uint32_t m = 0; m < b->order; m++) {
        const enum ts_table_field field = ts_table_mode_field(b->table, m);
        if (field == TS_TABLE_NAME) {
            b->report->n_names[m] = ts_names_count(b->names, m);
            b->dim[m] = b->report->n_names[m] > 0 ? b->report->n_names[m] : 1;
        } else if (field == TS_TABLE_TIME && least[m] < b->dim[m]) {
            b->shift[m] = least[m];
            if (least[m] + 1 == b->dim[m] && b->collect.n_read > 1)
                note_one_bin(b, m, least[m]);
        }
    }
    if (b->names != NULL)
        b->report->name_generations = ts_names_generations(b->names);
    ts_names_free(b->names); /* its memory is needed for the areas now */
    b->names = NULL;
    return 0;
}

static int add_times(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    int rc = open_writer(b, m, err);
    for (uint64_t i = 0; i < b->dim[m] && rc == 0; i++) {
        char text[TS_TIME_LABEL];
        const size_t n = ts_time_bin_label(ts_table_mode_bin(b->table, m), b->shift[m] + i, text);
        rc = ts_label_writer_add(b->label[m], text, n, err);
    }
    return rc;
}

static int finish_writer(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    struct ts_disk_mode *disk = &b->mode[m];
    return ts_label_writer_finish(b->label[m], &disk->n_labels, &disk->labels_bytes,
                                  &disk->labels_hash, err);
}

int ts_build_table_end_names(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    int rc = 0;
    if (b->label[m] == NULL)
        return 0;
    rc = finish_writer(b, m, err);
    if (rc == 0 && !ts_build_ranks_writes(b))
        rc = ts_label_writer_sync(b->label[m], err);
    ts_label_writer_free(b->label[m]);
    b->label[m] = NULL;
    return rc;
}

int ts_build_table_labels(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    int rc = 0;
    if (ts_table_mode_field(b->table, m) == TS_TABLE_TIME && b->dim[m] <= MOST_BINS)
        rc = add_times(b, m, err);
    return rc == 0 && b->label[m] != NULL ? finish_writer(b, m, err) : rc;
}

void ts_build_table_mode_names(const struct ts_build *b, const char *name[])
{
    for (uint32_t m = 0; m < b->order; m++)
        if (ts_table_mode_name(b->table, m) != NULL)
            name[m] = ts_table_mode_name(b->table, m);
    name[b->order] = ts_table_value_name(b->table);
}

void ts_build_table_free(struct ts_build *b)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        ts_label_writer_free(b->label[m]);
    ts_names_free(b->names);
    ts_table_free(b->table);
}
