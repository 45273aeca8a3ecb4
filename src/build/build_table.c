/* SPDX-License-Identifier: BSD-3-Clause */
/* build_table.c - for input that is a table: makes the dictionaries of names, and the sizes and
 * labels of modes of names and times. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/setting.h"
#include "build/build_steps.h"
#include "build/ranks/build_ranks.h"
#include "source/text/text_source.h"

#define NAMES_SHARE 4u   /* during reading, names get 1/4 of options.memory */
#define MODE_CHARS  128u /* bytes of the text "mode 3 (its name)" */
/* a mode with more bins gets no labels, as their file would be too large */
#define MOST_BINS (UINT64_C(1) << 24)

static int open_writer(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    char *path = ts_build_dir_file(b->dir, "mode%u.labels", m + 1);
    const int rc = path == NULL ? ts_no_memory(err, b->o->out)
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
                                  .sorted = b->o->sorted_names && b->o->after == NULL,
                                  .told = ts_build_comm_many(&b->ranks),
                                  .bytes = ts_build_table_names_bytes(b->o),
                                  .tmp = b->tmp,
                                  .stop = b->o->stop,
                                  .label = ts_build_table_add_label,
                                  .label_arg = b };
    int any = 0, rc; /* any: 1 if the fields of some mode are names */
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
    return b->o->after != NULL ? ts_build_after_names(b, err) : 0;
}

/* Returns the buffer of a new note to the user about mode m, and sets `mode` to the mode's name for
 * the text. NULL: the report has TS_BUILD_NOTES notes already. */
static char *new_note(struct ts_build *b, uint32_t m, char mode[MODE_CHARS])
{
    struct ts_build_report *r = b->report;
    const char *name = ts_table_mode_name(b->table, m);
    ts_setting_print(mode, MODE_CHARS, TS_NTH_MODE "%s%.100s%s", m + 1, name == NULL ? "" : " (",
                     name == NULL ? "" : name, name == NULL ? "" : ")");
    return r->n_notes < TS_BUILD_NOTES ? r->note[r->n_notes++] : NULL;
}

/* Adds a note if the first line may be a header that was read as data, which made a nonzero of the
 * names of the columns. */
static void note_first_line(struct ts_build *b)
{
    struct ts_build_report *r = b->report;
    if (ts_table_doubtful(b->table) && r->n_notes < TS_BUILD_NOTES)
        ts_setting_print(
            r->note[r->n_notes++], sizeof r->note[0],
            b->o->like == NULL
                ? "the first line was read as data, but looks like the names of "
                  "columns: " TS_SET_HEADER " says which it is"
                : "the first line was read as data, as in the build of the tensor, but looks like "
                  "the names of columns: if it is, undo the append, and remove the line");
}

/* Adds a note that the times of all lines fall into one bin: most likely the unit of the times is
 * wrong, or the bin is too wide. */
static void note_one_bin(struct ts_build *b, uint32_t m, uint64_t bin)
{
    char label[TS_TIME_LABEL], mode[MODE_CHARS], *note = new_note(b, m, mode);
    const int chars = (int)ts_time_bin_label(ts_table_mode_bin(b->table, m), bin, label);
    if (note != NULL)
        ts_setting_print(note, sizeof b->report->note[0],
                         "all %" PRIu64 " nonzeros read fall into one bin of %s, %.*s: "
                         "narrower bins (" TS_SET_BIN ") or another " TS_SET_TIME_UNIT
                         " may be what is meant",
                         b->collect.n_read, mode, chars, label);
}

/* Adds a note about fields such as 1e5: they may be codes, but are read as numbers. */
static void note_exponents(struct ts_build *b, uint32_t m, const struct ts_table_facts *f)
{
    char mode[MODE_CHARS], *note = new_note(b, m, mode);
    const char *example = f->example[TS_TABLE_EXPONENT];
    if (note != NULL)
        ts_setting_print(note, sizeof b->report->note[0],
                         "%" PRIu64 " field%s of %s, such as %s, %s read as %s; " TS_SET_TEXT
                         " " TS_NTH("%u") " takes the fields as they are written",
                         f->n[TS_TABLE_EXPONENT], ts_num_plural(f->n[TS_TABLE_EXPONENT]), mode,
                         *example != '\0' ? example : "1e5",
                         f->n[TS_TABLE_EXPONENT] == 1 ? "is" : "are",
                         f->n[TS_TABLE_EXPONENT] == 1 ? "a number" : "numbers", m + 1);
}

/* Adds a note about numbers in several spellings: 7 and 7.0 are two names in a column of names, but
 * one name in a column of whole numbers. */
static void note_spellings(struct ts_build *b, uint32_t m, const struct ts_table_facts *f)
{
    char mode[MODE_CHARS], *note = new_note(b, m, mode);
    const int whole = ts_table_mode_whole(b->table, m);
    const uint32_t of = f->n[TS_TABLE_SPELLED] > 0 ? TS_TABLE_SPELLED : TS_TABLE_EXPONENT;
    const char *example = f->example[of];
    if (note == NULL)
        return;
    if (whole)
        ts_setting_print(
            note, sizeof b->report->note[0],
            "numbers of %s such as %s are named by their digits, because its first 64 KiB are "
            "whole numbers, but others such as '%s' are not; " TS_SET_TEXT
            " " TS_NTH("%u") " takes the fields as they are written",
            mode, *example != '\0' ? example : "7.0", f->example[TS_TABLE_WORD], m + 1);
    else
        ts_setting_print(
            note, sizeof b->report->note[0],
            "%s has names, and some are numbers in several spellings, such as %s beside digits "
            "alone: 7 and 7.0 are two names there; " TS_SET_TEXT
            " " TS_NTH("%u") " says that this is meant",
            mode, *example != '\0' ? example : "7.0", m + 1);
}

/* Refuses a mode that was taken for names because its fields are missing at the start of a pipe, if
 * all later fields are whole numbers. In a file they would have been read as indices. */
static int check_open(const struct ts_build *b, uint32_t m, const struct ts_table_facts *f,
                      struct ts_err *err)
{
    const char *name = ts_table_mode_name(b->table, m);
    if (!ts_table_mode_open(b->table, m) || f->n[TS_TABLE_WORD] > 0 ||
        f->n[TS_TABLE_DIGITS] + f->n[TS_TABLE_SPELLED] == 0)
        return 0;
    return ts_fail(
        err, TS_EFORMAT,
        TS_NTH_MODE
        "%s%.100s%s: its fields are missing in the first 64 KiB, and whole numbers behind; "
        "of an input that is read once this is known too late: give a file, or " TS_SET_TEXT
        " " TS_NTH("%u") ", which takes its fields as names",
        m + 1, name == NULL ? "" : " (", name == NULL ? "" : name, name == NULL ? "" : ")", m + 1);
}

/* Adds up the counts of unexpected fields (ts_table_facts) of each mode over all ranks, and writes
 * notes about them. */
static int tell_facts(struct ts_build *b, int rc, struct ts_err *err)
{
    uint64_t n[TS_MAX_ORDER * TS_TABLE_FACTS];
    for (uint32_t m = 0; m < b->order; m++)
        memcpy(n + m * TS_TABLE_FACTS, ts_table_mode_facts(b->table, m)->n,
               TS_TABLE_FACTS * sizeof *n);
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, n, b->order * TS_TABLE_FACTS, err);
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        struct ts_table_facts f = *ts_table_mode_facts(b->table, m);
        const uint64_t *all = memcpy(f.n, n + m * TS_TABLE_FACTS, sizeof f.n);
        const uint64_t other =
            all[TS_TABLE_SPELLED] + (ts_table_mode_whole(b->table, m) ? all[TS_TABLE_EXPONENT] : 0);
        rc = check_open(b, m, &f, err);
        if (all[TS_TABLE_EXPONENT] > 0)
            note_exponents(b, m, &f);
        if (other > 0 &&
            all[ts_table_mode_whole(b->table, m) ? TS_TABLE_WORD : TS_TABLE_DIGITS] > 0)
            note_spellings(b, m, &f);
    }
    return rc;
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
    rc = tell_facts(b, rc, err);
    if (rc < 0)
        return rc;
    note_first_line(b);
    for (uint32_t m = 0; m < b->order; m++) {
        const enum ts_table_field field = ts_table_mode_field(b->table, m);
        if (field == TS_TABLE_NAME) {
            b->report->n_names[m] = ts_names_count(b->names, m);
            b->dim[m] = b->report->n_names[m] > 0 ? b->report->n_names[m] : 1;
        } else if (field == TS_TABLE_TIME && least[m] < b->dim[m]) {
            b->shift[m] = least[m];
            if (b->o->after != NULL)
                rc = ts_build_after_times(b, m, &b->shift[m], err);
            if (rc < 0)
                return rc;
            if (least[m] + 1 == b->dim[m] && b->collect.n_read > 1)
                note_one_bin(b, m, least[m]);
        }
    }
    if (b->names != NULL)
        b->report->name_generations = ts_names_generations(b->names);
    ts_names_free(b->names); /* frees memory that the sorts need */
    b->names = NULL;
    return 0;
}

uint64_t ts_build_table_times_bytes(const struct ts_time_bin *bin)
{
    char text[TS_TIME_LABEL];
    const uint64_t line = ts_time_bin_label(bin, 0, text) + 1;
    const uint64_t n = bin->seconds == 0 ? UINT64_C(9999) * 12 / bin->months + 1
                                         : UINT64_C(9999) * 366 * 24 * 3600 / bin->seconds + 1;
    return line * (n < MOST_BINS ? n : MOST_BINS);
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
