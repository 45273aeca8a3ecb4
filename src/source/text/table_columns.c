/* SPDX-License-Identifier: BSD-3-Clause */
/* table_columns.c - decides what the columns of a table are (modes, values, weights or none), from
 * the user's options, the header line, and a sample of the lines. */
#include "source/text/table_columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/setting.h"
#include "format/mode_names.h"
#include "source/text/csv_field.h"
#include "source/text/table_sample.h"

#define NO_COLUMN UINT32_MAX
#define MOST_NAME ((size_t)64) /* most bytes of a field that could be the name of a column */

static int is_word(const struct ts_csv_field *f, const char *word)
{
    const char *p = f->begin;
    while (p < f->end && *word != '\0' && *p == *word) {
        p += 1 + (f->doubled && *p == '"');
        word++;
    }
    return p >= f->end && *word == '\0';
}

/* ------------------------------------------------------------------ what the columns are */

static uint32_t column_named(const struct ts_table_sample *l, const char *name)
{
    for (uint32_t c = 0; c < l->n_columns; c++)
        if (is_word(&l->first[c], name))
            return c;
    return NO_COLUMN;
}

static uint32_t column_numbered(const struct ts_table_sample *l, const char *text)
{
    uint32_t n = 0;
    for (; *text >= '0' && *text <= '9' && n < 100000; text++)
        n = 10 * n + (uint32_t)(*text - '0');
    return *text == '\0' && n >= 1 && n <= l->n_columns ? n - 1 : NO_COLUMN;
}

/* Finds a column that the user names: by its name in the header, if there is one, or by its
 * number. */
static int find_column(const struct ts_table *t, const struct ts_table_sample *l,
                       const char *setting, const char *name, uint32_t *ret, struct ts_err *err)
{
    char list[512] = "";
    size_t n = 0;
    *ret = t->header != NULL ? column_named(l, name) : NO_COLUMN;
    if (*ret == NO_COLUMN)
        *ret = column_numbered(l, name);
    if (*ret != NO_COLUMN)
        return 0;
    for (uint32_t c = 0; c < l->n_columns && n < sizeof list && t->header != NULL; c++) {
        char buf[TS_CSV_QUOTE];
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", c == 0 ? ": " : ", ",
                              ts_csv_quote(&l->first[c], buf));
    }
    return ts_fail(err, TS_EARG, "%s names column '%s'; there are %u%s%s", setting, name,
                   l->n_columns, list,
                   t->header == NULL ? ", and no header line that would name them" : "");
}

/* Whether `name` is a field of the first line, and is not the number of a column. */
static int names_field(const struct ts_table_sample *l, const char *name)
{
    return name != NULL && column_named(l, name) != NO_COLUMN &&
           column_numbered(l, name) == NO_COLUMN;
}

/* Whether one of the names that the user gave is in the first line. */
static int names_in_header(const struct ts_table_plan *p, const struct ts_table_sample *l)
{
    int found = names_field(l, p->value) || names_field(l, p->weight);
    for (uint32_t i = 0; i < p->n_modes; i++)
        found |= column_named(l, p->mode[i]) != NO_COLUMN;
    for (uint32_t i = 0; i < p->n_columns; i++)
        found |= names_field(l, p->column[i]);
    for (uint32_t i = 0; i < p->n_text; i++)
        found |= names_field(l, p->text[i]);
    for (uint32_t i = 0; i < p->n_bins; i++)
        found |= names_field(l, p->binned[i]);
    for (uint32_t i = 0; i < p->n_units; i++)
        found |= names_field(l, p->timed[i]);
    return found;
}

static int has_header(const struct ts_table *t, const struct ts_table_sample *l)
{
    if (t->plan.header != 0)
        return t->plan.header == 1;
    if (names_in_header(&t->plan, l))
        return 1;
    /* there is a header if the first field of a column is a word, and its others are numbers or
     * dates */
    for (uint32_t c = 0; c < l->n_columns; c++) {
        const struct ts_csv_field *f = &l->first[c];
        if (l->any[c] && !ts_table_is_missing(f) &&
            ((l->number[c] && !ts_table_is_number(&t->plan, f)) ||
             (l->date[c] && !ts_table_is_date(f))))
            return 1;
    }
    return 0;
}

/* Whether a field could be the name of a column: it begins with a letter, and is not like an
 * address of mail or the web, with '@' or "://". */
static int like_a_name(const struct ts_csv_field *f)
{
    const unsigned char c = f->begin < f->end ? (unsigned char)*f->begin : '\0';
    const int letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c >= 0x80;
    const size_t n = (size_t)(f->end - f->begin);
    return letter && n <= MOST_NAME && memchr(f->begin, '@', n) == NULL &&
           memmem(f->begin, n, "://", 3) == NULL;
}

/* Whether the first line, which is read as data, may be a header: each of its fields could be a
 * name, and does not occur again in its column. */
static int like_a_header(const struct ts_table *t, const struct ts_table_sample *l)
{
    const int said = t->plan.header != 0 && !t->plan.header_kept;
    if (t->header != NULL || said || l->n_lines == 0)
        return 0;
    for (uint32_t c = 0; c < l->n_columns; c++)
        if (l->again[c] || !like_a_name(&l->first[c]) || ts_table_is_missing(&l->first[c]))
            return 0;
    return 1;
}

static int take_role(struct ts_table *t, uint32_t column, uint8_t role, struct ts_err *err)
{
    if (t->role[column] != TS_TABLE_SKIP)
        return ts_fail(err, TS_EARG, TS_NTH_COLUMN " is named twice", column + 1);
    t->role[column] = role;
    return 0;
}

static int find_value(struct ts_table *t, const struct ts_table_sample *l, struct ts_err *err)
{
    const struct ts_table_plan *p = &t->plan;
    int rc;
    t->value_column = NO_COLUMN;
    if (p->value == NULL || strcmp(p->value, "none") == 0)
        return 0;
    rc = find_column(t, l, TS_SET_VALUE, p->value, &t->value_column, err);
    return rc < 0 ? rc : take_role(t, t->value_column, TS_TABLE_VALUE, err);
}

static int find_weight(struct ts_table *t, const struct ts_table_sample *l, struct ts_err *err)
{
    const char *name = t->plan.weight;
    uint32_t column;
    int rc;
    if (name == NULL)
        return 0;
    rc = find_column(t, l, TS_SET_WEIGHTS, name, &column, err);
    if (rc == 0 && column == t->value_column)
        rc = ts_fail(err, TS_EARG, TS_SET_WEIGHTS " names column '%s', which is that of the values",
                     name);
    return rc < 0 ? rc : take_role(t, column, TS_TABLE_WEIGHT, err);
}

/* Finds the columns of the modes, and that of the values if the user names none. */
static int find_modes(struct ts_table *t, const struct ts_table_sample *l, struct ts_err *err)
{
    const struct ts_table_plan *p = &t->plan;
    const int by_name = p->n_columns == 0 && t->header != NULL && p->n_modes > 0;
    uint32_t last = l->n_columns - 1; /* the last column that does not have the weights */
    int rc = 0;
    if (p->n_columns > 0 && p->n_modes > 0 && p->n_columns != p->n_modes)
        return ts_fail(
            err, TS_EARG, TS_SET_COLUMNS " has %u column%s, but " TS_SET_NAMES " %u name%s",
            p->n_columns, ts_num_plural(p->n_columns), p->n_modes, ts_num_plural(p->n_modes));
    if (p->n_columns > 0 || by_name) {
        t->order = p->n_columns > 0 ? p->n_columns : p->n_modes;
        for (uint32_t m = 0; m < t->order && rc == 0; m++) {
            rc = find_column(t, l, p->n_columns > 0 ? TS_SET_COLUMNS : TS_SET_NAMES,
                             p->n_columns > 0 ? p->column[m] : p->mode[m], &t->mode[m].column, err);
            if (rc == 0)
                rc = take_role(t, t->mode[m].column, (uint8_t)m, err);
        }
        return rc;
    }
    if (last > 0 && t->role[last] == TS_TABLE_WEIGHT)
        last--;
    /* the last column has the values, as in a .tns file */
    if (p->n_modes == 0 && p->value == NULL) {
        t->value_column = last;
        t->role[last] = TS_TABLE_VALUE;
        if (l->any[last] && !l->number[last]) {
            char buf[TS_CSV_QUOTE];
            return ts_fail(err, TS_EARG,
                           "the last column%s%s%s is not a number in every line; " TS_SET_VALUE
                           " NAME says "
                           "which is the value, " TS_SET_VALUE " none that there is none%s",
                           t->header == NULL ? "" : " (",
                           t->header == NULL ? "" : ts_csv_quote(&l->first[last], buf),
                           t->header == NULL ? "" : ")",
                           ts_table_has_comma(&l->second[last]) ? " (" TS_SET_DECIMAL_COMMA
                                                                  " reads numbers such as 1,5)"
                                                                : "");
        }
    }
    for (uint32_t c = 0; c < l->n_columns && (p->n_modes == 0 || t->order < p->n_modes); c++) {
        if (t->role[c] != TS_TABLE_SKIP)
            continue;
        if (t->order == TS_MAX_ORDER)
            return ts_fail(err, TS_ELIMIT,
                           "%u columns, so more than %u modes; " TS_SET_NAMES " or " TS_SET_COLUMNS
                           " name those that "
                           "are modes",
                           l->n_columns, TS_MAX_ORDER);
        t->mode[t->order].column = c;
        t->role[c] = (uint8_t)t->order++;
    }
    if (p->n_modes > t->order)
        return ts_fail(err, TS_EARG,
                       TS_SET_NAMES " names %u mode%s, but there %s %u column%s for them",
                       p->n_modes, ts_num_plural(p->n_modes), t->order == 1 ? "is" : "are",
                       t->order, ts_num_plural(t->order));
    return 0;
}

/* Refuses columns without a role if the user has not said whether one of them has the values. */
static int check_left(struct ts_table *t, const struct ts_table_sample *l, struct ts_err *err)
{
    uint32_t left = 0, one = 0;
    char buf[TS_CSV_QUOTE];
    for (uint32_t c = 0; c < l->n_columns; c++)
        if (t->role[c] == TS_TABLE_SKIP) {
            left++;
            one = c;
        }
    if (t->plan.value != NULL || t->value_column != NO_COLUMN || left == 0)
        return 0;
    if (left == 1 && t->header == NULL && l->number[one] &&
        (one == l->n_columns - 1 ||
         (one == l->n_columns - 2 && t->role[one + 1] == TS_TABLE_WEIGHT))) {
        t->value_column = one; /* one column is left, which has the values, as in a .tns file */
        t->role[one] = TS_TABLE_VALUE;
        return 0;
    }
    return ts_fail(err, TS_EARG,
                   "%u column%s %s no mode%s%s; " TS_SET_VALUE
                   " NAME says which is the value, " TS_SET_VALUE " none "
                   "that each line counts as 1",
                   left, ts_num_plural(left), left == 1 ? "is" : "are",
                   t->header != NULL ? ", such as " : "",
                   t->header != NULL ? ts_csv_quote(&l->first[one], buf) : "");
}

static int mode_called(const struct ts_table *t, const char *name)
{
    for (uint32_t m = 0; m < t->order; m++)
        if (t->mode[m].name != NULL && strcmp(t->mode[m].name, name) == 0)
            return (int)m;
    for (uint32_t m = 0; m < t->order; m++) {
        char text[16];
        snprintf(text, sizeof text, "%u", m + 1);
        if (strcmp(text, name) == 0)
            return (int)m;
    }
    return -1;
}

void ts_table_decide(struct ts_table_mode *mode, int numbers, int whole)
{
    mode->field = numbers ? TS_TABLE_NUMBER : TS_TABLE_NAME;
    mode->whole = !numbers && whole;
}

static void take_text(struct ts_table_mode *mode)
{
    mode->field = TS_TABLE_NAME;
    mode->text = 1;
    mode->whole = mode->look.open = 0;
}

/* Says that the fields of mode m are times. The start of the first file decides in which unit its
 * numbers are. */
static void take_bin(struct ts_table *t, const struct ts_table_sample *l, uint32_t m,
                     const struct ts_time_bin *bin)
{
    struct ts_table_mode *mode = &t->mode[m];
    struct ts_time_look look = l->time[mode->column];
    const struct ts_csv_field *first = &l->first[mode->column];
    if (t->header == NULL)
        ts_time_look_at(&look, first->begin, (size_t)(first->end - first->begin));
    mode->field = TS_TABLE_TIME;
    mode->whole = 0;
    mode->bin = *bin;
    mode->bin.rule = ts_time_look_rule(&look, ts_time_bin_by_days(bin));
}

/* Sets the unit of times that the user gives, for the mode `name`. NULL: for all modes of times. */
static int take_unit(struct ts_table *t, const char *name, enum ts_time_unit unit,
                     struct ts_err *err)
{
    const int m = name == NULL ? -1 : mode_called(t, name);
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->order; i++)
        if (t->mode[i].field == TS_TABLE_TIME && (name == NULL || (int)i == m)) {
            t->mode[i].bin.rule = (struct ts_time_rule){ unit, 1 };
            t->mode[i].look.open = 0;
            n++;
        }
    if (n > 0)
        return 0;
    return ts_fail(err, TS_EARG, TS_SET_TIME_UNIT "%s%s: there is no such mode of " TS_SET_BIN,
                   name == NULL ? "" : " ", name == NULL ? "" : name);
}

/* Decides whether the fields of each mode are numbers, names or times. */
static int find_fields(struct ts_table *t, const struct ts_table_sample *l, struct ts_err *err)
{
    const struct ts_table_plan *p = &t->plan;
    for (uint32_t m = 0; m < t->order; m++) {
        const uint32_t c = t->mode[m].column;
        const int first = t->header == NULL && !ts_table_is_missing(&l->first[c]),
                  any = first || l->any[c];
        ts_table_decide(
            &t->mode[m],
            any && l->index[c] && (!first || ts_table_is_whole(&l->first[c], TS_MAX_DIM)),
            any && l->whole[c] && (!first || ts_table_is_whole(&l->first[c], UINT64_MAX)));
        t->mode[m].look.open = !any;
        t->mode[m].least = UINT64_MAX;
        t->mode[m].name = p->n_modes > 0 && p->n_columns > 0 ? strdup(p->mode[m])
                          : t->header != NULL                ? ts_csv_copy(&l->first[c])
                          : p->n_modes > 0                   ? strdup(p->mode[m])
                                                             : NULL;
        if (t->mode[m].name == NULL && (t->header != NULL || p->n_modes > 0))
            return ts_fail(err, TS_ENOMEM, "out of memory for the columns");
        if (t->mode[m].name != NULL && strlen(t->mode[m].name) > TS_MODE_NAME_MAX)
            t->mode[m].name[TS_MODE_NAME_MAX] = '\0';
    }
    for (uint32_t i = 0; i < p->n_text + p->n_bins; i++) {
        const char *name = i < p->n_text ? p->text[i] : p->binned[i - p->n_text];
        const int m = mode_called(t, name);
        if (m < 0)
            return ts_fail(err, TS_EARG, "%s: there is no mode '%s'%s",
                           i < p->n_text ? TS_SET_TEXT : TS_SET_BIN, name,
                           t->header != NULL || p->n_modes > 0
                               ? ""
                               : ", as the table has no header line; " TS_SET_NAMES
                                 " names its modes");
        if (i < p->n_text)
            take_text(&t->mode[m]);
        else
            take_bin(t, l, (uint32_t)m, &p->bin[i - p->n_text]);
    }
    for (uint32_t i = 0; i < p->n_digits; i++) {
        const int m = mode_called(t, p->digits[i]);
        if (m < 0)
            return ts_fail(err, TS_EARG, "%s: there is no mode '%s'", TS_SET_TEXT, p->digits[i]);
        ts_table_decide(&t->mode[m], 0, 1);
        t->mode[m].look.open = 0;
    }
    /* two passes over the user's time units: first those for all modes, then those for single
     * modes, which override them */
    for (uint32_t i = 0; i < 2 * p->n_units; i++) {
        const uint32_t u = i % p->n_units;
        const int rc = (p->timed[u] != NULL) == (i >= p->n_units)
                           ? take_unit(t, p->timed[u], p->unit[u], err)
                           : 0;
        if (rc < 0)
            return rc;
    }
    if (t->value_column != NO_COLUMN && t->header != NULL) {
        t->value_name = ts_csv_copy(&l->first[t->value_column]);
        if (t->value_name == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for the columns");
        if (strlen(t->value_name) > TS_MODE_NAME_MAX)
            t->value_name[TS_MODE_NAME_MAX] = '\0';
    }
    return 0;
}

static int keep_header(struct ts_table *t, const char *line, size_t bytes, struct ts_err *err)
{
    t->header = malloc(bytes + 1);
    if (t->header == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for the columns");
    memcpy(t->header, line, bytes);
    return 0;
}

/* Whether the user has given any option about columns. */
static int is_told(const struct ts_table_plan *p)
{
    return p->header != 0 || p->n_modes > 0 || p->n_columns > 0 || p->value != NULL ||
           p->weight != NULL || p->n_text > 0 || p->n_bins > 0;
}

static int decide(struct ts_table *t, const char *text, const struct ts_table_sample *l,
                  struct ts_err *err)
{
    int rc = 0;
    memset(t->role, TS_TABLE_SKIP, sizeof t->role);
    t->n_columns = l->n_columns;
    if (has_header(t, l)) {
        const char *first = l->behind_first - 1;
        while (first > text && first[-1] != '\n')
            first--;
        rc = keep_header(t, first, (size_t)(l->behind_first - first), err);
        if (rc == 0 && l->n_lines == 0)
            rc = ts_fail(err, TS_EFORMAT, "there is a header, and nothing behind it");
    }
    if (rc == 0 && t->header == NULL && !is_told(&t->plan) && l->n_lines > 0)
        rc = ts_table_is_matrix(l->first, l->second, l->n_columns, err);
    if (rc == 0 && t->header != NULL && !is_told(&t->plan))
        rc = ts_table_is_wide(l->first, l->n_columns, err);
    if (rc == 0)
        rc = find_value(t, l, err);
    if (rc == 0)
        rc = find_weight(t, l, err);
    if (rc == 0)
        rc = find_modes(t, l, err);
    if (rc == 0)
        rc = check_left(t, l, err);
    if (rc == 0)
        rc = find_fields(t, l, err);
    t->doubtful = like_a_header(t, l);
    if (rc == 0 && t->order < TS_MIN_ORDER)
        rc = ts_fail(err, TS_ELIMIT,
                     "%u column%s, so a tensor of %u mode%s: a decomposition needs at least 2%s",
                     l->n_columns, ts_num_plural(l->n_columns), t->order, ts_num_plural(t->order),
                     l->n_columns == 1 ? " (" TS_SET_SEPARATOR " says what divides columns)" : "");
    return rc;
}

const char *ts_table_column_name(const struct ts_table *t, uint32_t column, char ret[TS_CSV_QUOTE])
{
    const char *p = t->header;
    struct ts_csv_field f = { 0 };
    if (p == NULL)
        return NULL;
    for (uint32_t c = 0; c <= column; c++)
        if (ts_csv_next(&p, t->plan.separator, !t->plan.no_quotes, &f, NULL) <= 0 ||
            (!ts_csv_go_on(&p, t->plan.separator) && c < column))
            return NULL;
    return ts_csv_quote(&f, ret);
}

/* Whether the first line of a file has the same fields as the header of the first file, with or
 * without quotes. */
static int same_header(const struct ts_table *t, struct ts_table_sample *l)
{
    const char *end;
    uint32_t n = 0;
    int same =
        ts_table_split(t->header, &t->plan, l->second, TS_TABLE_MAX_COLUMNS, &n, &end, NULL) == 0 &&
        n == l->n_columns;
    for (uint32_t c = 0; same && c < n; c++)
        same = ts_table_same_field(&l->first[c], &l->second[c]);
    return same;
}

/* Whether the first line of a file has the names of the first file's header in another order, and
 * no number in the column of the values. */
static int is_reordered(const struct ts_table *t, struct ts_table_sample *l)
{
    const char *end;
    uint32_t n = 0, found = 0;
    if (ts_table_split(t->header, &t->plan, l->second, TS_TABLE_MAX_COLUMNS, &n, &end, NULL) < 0 ||
        n != l->n_columns || t->value_column == NO_COLUMN ||
        ts_table_is_number(&t->plan, &l->first[t->value_column]))
        return 0;
    for (uint32_t c = 0; c < n; c++)
        for (uint32_t k = 0; k < n; k++)
            if (ts_table_same_field(&l->first[c], &l->second[k])) {
                found++;
                break;
            }
    return found == n;
}

int ts_table_header(struct ts_table *t, const char *text, size_t bytes, struct ts_tns_header *ret,
                    uint64_t *line, struct ts_err *err)
{
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct ts_tns_header h = { .bytes = mark };
    struct ts_table_sample *l;
    int rc = 0;
    *line = 1;
    *ret = h;
    l = malloc(sizeof *l);
    if (l == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for the columns");
    rc = ts_table_sample_take(t, text + mark, bytes - mark, l, err);
    *line = l->line_of_first;
    if (rc == 0 && l->n_columns > 0) {
        const char *first = l->behind_first;
        if (!t->known)
            rc = decide(t, text + mark, l, err);
        t->known |= rc == 0;
        if (rc == 0 && t->header != NULL && same_header(t, l)) {
            h.bytes = (size_t)(first - text);
            h.lines = l->line_of_first;
        } else if (rc == 0 && t->plan.header == 1) {
            rc = ts_fail(err, TS_EFORMAT,
                         "its header is not that of the first file (" TS_SET_HEADER
                         " yes: every file has "
                         "the same)");
        } else if (rc == 0 && t->header != NULL && is_reordered(t, l)) {
            rc = ts_fail(err, TS_EFORMAT,
                         "its header has the names of the first file in another order; files of "
                         "one table have the same columns in the same order");
        }
        h.order = t->order;
        *ret = h;
        rc = rc < 0 ? rc : 1;
    }
    free(l);
    return rc;
}

/* ------------------------------------------------------------------ making and freeing a table */

int ts_table_new(const struct ts_table_plan *plan, struct ts_table **ret, struct ts_err *err)
{
    struct ts_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for the columns");
    t->plan = *plan;
    pthread_mutex_init(&t->lock, NULL);
    *ret = t;
    return 0;
}

void ts_table_free(struct ts_table *t)
{
    if (t == NULL)
        return;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(t->mode[m].name);
    free(t->value_name);
    free(t->header);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
