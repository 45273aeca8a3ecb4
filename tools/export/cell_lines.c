/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes cells as lines of text or as rows of an array. */
#include "tools/export/cell_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"
#include "tools/export/export_rows.h"

static int room_for(struct cell_text *t, size_t bytes, struct ts_err *err)
{
    size_t room = t->room;
    char *more;
    if (t->room - t->n >= bytes)
        return 0;
    while (room - t->n < bytes)
        room = room == 0 ? (size_t)1 << 16 : 2 * room;
    more = realloc(t->at, room);
    if (more == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for lines");
    t->at = more;
    t->room = room;
    return 0;
}

static char separator(const struct cell_lines *l)
{
    return l->format == CELL_CSV ? ',' : l->format == CELL_TSV ? '\t' : ' ';
}

static int put_names(const struct cell_lines *l, const char *const mode_name[],
                     const char *const number[], struct cell_text *to, struct ts_err *err)
{
    for (uint32_t m = 0; m < l->order + l->n_numbers; m++) {
        const char *name = m < l->order ? mode_name[m] : number[m - l->order];
        char made[24];
        int rc;
        if (name == NULL) {
            snprintf(made, sizeof made, "mode%" PRIu32, l->first_mode + m + 1);
            name = made;
        }
        rc = room_for(to, 2 * strlen(name) + 3, err);
        if (rc < 0)
            return rc;
        to->n =
            (size_t)(export_rows_field(to->at + to->n, name, strlen(name), separator(l)) - to->at);
        to->at[to->n++] = m + 1 < l->order + l->n_numbers ? separator(l) : '\n';
    }
    return 0;
}

/* Writes the header of NumPy's format 1.0: the dictionary, blanks, and a newline. */
static int put_npy_head(const struct cell_lines *l, uint64_t cells, struct cell_text *to,
                        struct ts_err *err)
{
    const uint32_t columns = (l->bare ? 0 : l->order) + l->n_numbers;
    char text[CELL_NPY_HEAD], shape[32] = "";
    int n, rc = room_for(to, sizeof text, err);
    if (rc < 0)
        return rc;
    if (columns > 1)
        snprintf(shape, sizeof shape, " %" PRIu32, columns);
    memset(text, ' ', sizeof text);
    n = snprintf(text + 10, sizeof text - 10,
                 "{'descr': '<f8', 'fortran_order': False, 'shape': (%" PRIu64 ",%s), }", cells,
                 shape);
    text[10 + n] = ' ';
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    text[8] = (char)(CELL_NPY_HEAD - 10);
    text[9] = 0;
    text[CELL_NPY_HEAD - 1] = '\n';
    memcpy(to->at + to->n, text, sizeof text);
    to->n += sizeof text;
    return 0;
}

/* Sets *ret to the label of an index, or to NULL. */
static int label_of(const struct cell_lines *l, uint32_t thread, uint32_t mode, uint64_t index,
                    const char **ret, size_t *n, struct ts_err *err)
{
    *ret = NULL;
    *n = 0;
    if (l->names != NULL)
        return index < l->names->mode[mode].n_labels
                   ? ts_row_label(l->names, thread, mode, index, ret, n, err)
                   : 0;
    if (l->table != NULL)
        *ret = cell_table_name(l->table, mode, index);
    *n = *ret == NULL ? 0 : strlen(*ret);
    return 0;
}

/* ---- lines for a terminal ---- */

enum { INDEX_WIDTH = 10, LABEL_WIDTH = 24, NUMBER_WIDTH = 12 };

static int has_labels(const struct cell_lines *l, uint32_t m)
{
    return l->names != NULL   ? l->names->mode[l->first_mode + m].n_labels > 0
           : l->table != NULL ? l->table->mode[l->first_mode + m].n > 0
                              : 0;
}

/* Returns the columns of an index or a label on a terminal. */
static int screen_width(const struct cell_lines *l, uint32_t m)
{
    const size_t longest = !has_labels(l, m)  ? 0
                           : l->names == NULL ? LABEL_WIDTH
                                              : l->names->mode[l->first_mode + m].longest;
    return longest > LABEL_WIDTH ? LABEL_WIDTH : longest > INDEX_WIDTH ? (int)longest : INDEX_WIDTH;
}

/* Writes a label of n bytes as a terminal shows it: blanks before it, or cut with an ellipsis. */
static void put_screen_label(const char *label, size_t n, int width, struct cell_text *to)
{
    const char *const end = label + n;
    char text[4 * LABEL_WIDTH + 8];
    size_t bytes = 0, cut = 0;
    int columns = 0;
    while (label < end && columns <= width) {
        char shown[5];
        const size_t of_char = tool_plain_next(&label, (size_t)(end - label), shown);
        if (columns == width - 1)
            cut = bytes;
        if (columns < width)
            memcpy(text + bytes, shown, of_char);
        bytes += columns < width ? of_char : 0;
        columns++;
    }
    if (columns > width) {
        memcpy(text + cut, "\xe2\x80\xa6", 3);
        bytes = cut + 3;
        columns = width;
    }
    to->n += (size_t)sprintf(to->at + to->n, "%*s%.*s ", width - columns, "", (int)bytes, text);
}

static int put_screen_index(const struct cell_lines *l, uint32_t thread, uint32_t m, uint64_t index,
                            struct cell_text *to, struct ts_err *err)
{
    const uint32_t mode = l->first_mode + m;
    const char *label = NULL;
    size_t n = 0;
    int rc = 0;
    if (has_labels(l, m))
        rc = label_of(l, thread, mode, index, &label, &n, err);
    if (rc < 0)
        return rc;
    if (n > 0)
        put_screen_label(label, n, screen_width(l, m), to);
    else
        to->n +=
            (size_t)sprintf(to->at + to->n, "%*" PRIu64 " ", screen_width(l, m), index + l->base);
    return 0;
}

static int put_screen_head(const struct cell_lines *l, const char *const mode_name[],
                           const char *const number[], struct cell_text *to, struct ts_err *err)
{
    for (uint32_t k = 0; k < l->order + l->n_numbers; k++) {
        const char *name = k < l->order ? mode_name[k] : number[k - l->order];
        const int wanted = k < l->order ? screen_width(l, k) : NUMBER_WIDTH;
        char made[24];
        int rc;
        if (name == NULL) {
            snprintf(made, sizeof made, "mode %" PRIu32, l->first_mode + k + 1);
            name = made;
        }
        rc = room_for(to, strlen(name) + LABEL_WIDTH + NUMBER_WIDTH + 3, err);
        if (rc < 0)
            return rc;
        to->n += (size_t)sprintf(to->at + to->n, "%s%*s", k > 0 ? " " : "", wanted, name);
    }
    to->at[to->n++] = '\n';
    return 0;
}

static int put_screen_lines(const struct cell_lines *l, uint32_t thread, uint64_t n,
                            const uint64_t *index, const double *const number[],
                            struct cell_text *to, struct ts_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        int rc = room_for(to, (4 * LABEL_WIDTH + 8) * (size_t)(l->order + l->n_numbers) + 2, err);
        for (uint32_t m = 0; m < l->order && rc == 0; m++)
            rc = put_screen_index(l, thread, m, index[i * l->order + m], to, err);
        if (rc < 0)
            return rc;
        for (uint32_t k = 0; k < l->n_numbers; k++) {
            const double x = number[k][i];
            const int whole = x == floor(x) && fabs(x) < 1e12;
            to->n += (size_t)sprintf(to->at + to->n, whole ? "%*.0f%c" : "%*.6g%c", NUMBER_WIDTH, x,
                                     k + 1 < l->n_numbers ? ' ' : '\n');
        }
    }
    return 0;
}

int cell_lines_head(const struct cell_lines *l, const char *const mode_name[],
                    const char *const number[], uint64_t cells, struct cell_text *to,
                    struct ts_err *err)
{
    if (l->format == CELL_NPY)
        return put_npy_head(l, cells, to, err);
    if (l->screen)
        return put_screen_head(l, mode_name, number, to, err);
    return l->format == CELL_TNS ? 0 : put_names(l, mode_name, number, to, err);
}

static void put_double(char *to, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    for (int i = 0; i < 8; i++)
        to[i] = (char)(bits >> 8 * i);
}

static int put_rows(const struct cell_lines *l, uint64_t n, const uint64_t *index,
                    const double *const number[], struct cell_text *to, struct ts_err *err)
{
    const uint32_t indices = l->bare ? 0 : l->order;
    const size_t bytes = 8 * (size_t)(indices + l->n_numbers);
    const int rc = room_for(to, n * bytes, err);
    char *at = to->at + to->n;
    if (rc < 0)
        return rc;
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t m = 0; m < indices; m++, at += 8)
            put_double(at, (double)(index[i * l->order + m] + l->base));
        for (uint32_t k = 0; k < l->n_numbers; k++, at += 8)
            put_double(at, number[k][i]);
    }
    to->n += n * bytes;
    return 0;
}

/* Writes a label; if there is none, or an empty one, writes the index as a number. */
static int put_index(const struct cell_lines *l, uint32_t thread, uint32_t mode, uint64_t index,
                     struct cell_text *to, struct ts_err *err)
{
    const char *label = NULL;
    size_t n = 0;
    int rc = 0;
    mode += l->first_mode;
    if (l->format != CELL_TNS)
        rc = label_of(l, thread, mode, index, &label, &n, err);
    if (rc == 0)
        rc = room_for(to, 2 * n + TS_DECIMAL_CHARS, err);
    if (rc < 0)
        return rc;
    to->n = (size_t)((n == 0 ? ts_decimal_u64(to->at + to->n, index + l->base)
                             : export_rows_field(to->at + to->n, label, n, separator(l))) -
                     to->at);
    to->at[to->n++] = separator(l);
    return 0;
}

/* Positions in a line of text where the fields of the modes begin. */
struct fields {
    size_t at[TS_MAX_ORDER + 1];
};

/* Copies the field of a mode from the previous line, whose cell has the same index in this mode. */
static int repeat_index(const struct fields *before, uint32_t mode, struct cell_text *to,
                        struct ts_err *err)
{
    const size_t n = before->at[mode + 1] - before->at[mode];
    const int rc = room_for(to, n, err);
    if (rc < 0)
        return rc;
    memcpy(to->at + to->n, to->at + before->at[mode], n);
    to->n += n;
    return 0;
}

/* Writes the line of a cell. before: where the fields of the previous line begin, whose indices are
 * in memory just before `index`; NULL if there is no such line. */
static int put_line(const struct cell_lines *l, uint32_t thread, const uint64_t *index,
                    const double *const number[], uint64_t i, const struct fields *before,
                    struct fields *fields, struct cell_text *to, struct ts_err *err)
{
    char *at;
    int rc = 0;
    for (uint32_t m = 0; m < l->order && rc == 0; m++) {
        fields->at[m] = to->n;
        if (before != NULL && index[m] == index[(int64_t)m - l->order])
            rc = repeat_index(before, m, to, err);
        else
            rc = put_index(l, thread, m, index[m], to, err);
    }
    fields->at[l->order] = to->n;
    if (rc == 0)
        rc = room_for(to, CELL_NUMBERS * (TS_DECIMAL_CHARS + 1), err);
    if (rc < 0)
        return rc;
    at = to->at + to->n;
    for (uint32_t k = 0; k < l->n_numbers; k++) {
        at = k == 0 && l->narrow ? ts_decimal_f32(at, (float)number[k][i])
                                 : ts_decimal_f64(at, number[k][i]);
        *at++ = k + 1 < l->n_numbers ? separator(l) : '\n';
    }
    to->n = (size_t)(at - to->at);
    return 0;
}

int cell_lines_put(const struct cell_lines *l, uint32_t thread, uint64_t n, const uint64_t *index,
                   const double *const number[], struct cell_text *to, struct ts_err *err)
{
    struct fields fields[2]; /* fields of the last two lines of text, used in turn */
    int rc = 0;
    if (l->format == CELL_NPY)
        return put_rows(l, n, index, number, to, err);
    if (l->screen)
        return put_screen_lines(l, thread, n, index, number, to, err);
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = put_line(l, thread, index + i * l->order, number, i,
                      i == 0 ? NULL : &fields[(i - 1) % 2], &fields[i % 2], to, err);
    return rc;
}
