/* SPDX-License-Identifier: BSD-3-Clause */
#include "source/table_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/mode_names.h"
#include "source/tns_number.h"

#define SAMPLE_BYTES \
    ((size_t)64 << 10) /* that tell what columns are: no more, whatever a piece is */
#define QUOTE_CHARS 60
#define NO_COLUMN   UINT32_MAX

enum role { ROLE_SKIP = TS_MAX_ORDER, ROLE_VALUE };

struct mode {
    enum ts_table_field field;
    uint32_t column;
    char *name;
    struct ts_time_bin bin;
    uint64_t least; /* atomic */
};

struct ts_table {
    struct ts_table_plan plan;
    const struct ts_names *names;
    uint32_t order, n_columns, value_column;
    struct mode mode[TS_MAX_ORDER];
    char *value_name;
    uint8_t role[TS_TABLE_MAX_COLUMNS]; /* a mode, or enum role */
    char *header;                       /* the line, without its end; NULL: there is none */
    size_t header_bytes;
    int known;
};

/* A field of a line: what stands in it, without quotes and blanks around. */
struct field {
    const char *begin, *end;
    int doubled; /* quotes in it are doubled */
};

static const char *quote(const struct field *f, char buf[QUOTE_CHARS + 4])
{
    const size_t n = (size_t)(f->end - f->begin), kept = n < QUOTE_CHARS ? n : QUOTE_CHARS;
    for (size_t i = 0; i < kept; i++)
        buf[i] = (unsigned char)f->begin[i] >= ' ' && f->begin[i] != 127 ? f->begin[i] : '?';
    strcpy(buf + kept, kept < n ? "..." : "");
    return buf;
}

/* ------------------------------------------------------------------ lines to fields */

static inline int is_end(const char *p)
{
    return *p == '\n' || (*p == '\r' && p[1] == '\n');
}

static inline const char *skip_blanks(const char *p, char separator)
{
    while (*p == ' ' || (*p == '\t' && separator != '\t'))
        p++;
    return p;
}

static int quoted_field(const char **p, char separator, struct field *f, struct ts_err *err)
{
    const char *q = *p + 1;
    f->begin = q;
    f->doubled = 0;
    for (;; q++) {
        if (*q == '\n')
            return ts_fail(err, TS_EFORMAT,
                           "a field begins with a quote that is not closed in its line");
        if (*q != '"')
            continue;
        if (q[1] != '"')
            break;
        f->doubled = 1;
        q++;
    }
    f->end = q;
    q = skip_blanks(q + 1, separator);
    if (separator == ' ' && q > f->end + 1)
        q--;
    if (!is_end(q) && *q != separator && !(separator == ' ' && *q == '\t'))
        return ts_fail(err, TS_EFORMAT, "text behind the closing quote of a field");
    *p = q;
    return 0;
}

/* The field at *p, and behind it: *p at the separator or the end of the line. 1; 0 when a comment or the end
 * of the line came instead, which only blanks for separators allow. */
static inline int next_field(const char **p, char separator, struct field *f, struct ts_err *err)
{
    const char *q = skip_blanks(*p, separator);
    if (separator == ' ' && (is_end(q) || *q == '#')) {
        while (*q != '\n')
            q++;
        *p = q;
        return 0;
    }
    if (*q == '"') {
        const int rc = quoted_field(&q, separator, f, err);
        *p = q;
        return rc < 0 ? rc : 1;
    }
    f->begin = q;
    f->doubled = 0;
    if (separator == ' ')
        while (*q != ' ' && *q != '\t' && *q != '\n')
            q++;
    else
        while (*q != separator && *q != '\n')
            q++;
    f->end = q;
    if (*q == '\n' && f->end > f->begin && f->end[-1] == '\r')
        f->end--;
    while (f->end > f->begin && (f->end[-1] == ' ' || f->end[-1] == '\t'))
        f->end--;
    *p = q;
    return 1;
}

/* Behind a field: 1 and *p at the next one, 0 at the end of the line. */
static inline int go_on(const char **p, char separator)
{
    if (**p == '\r')
        (*p)++;
    if (**p == '\n')
        return 0;
    *p += separator != ' ';
    return 1;
}

/* All fields of a line, of which the first `room` are stored; *stop is behind its '\n'. */
static int split(const char *p, char separator, struct field f[], uint32_t room, uint32_t *n,
                 const char **stop, struct ts_err *err)
{
    struct field one;
    *n = 0;
    if (is_end(skip_blanks(p, separator))) {
        while (*p != '\n')
            p++;
        *stop = p + 1;
        return 0;
    }
    for (;;) {
        const int rc = next_field(&p, separator, &one, err);
        if (rc < 0)
            return rc;
        if (rc > 0 && *n < room)
            f[*n] = one;
        *n += rc > 0;
        if (rc == 0 || !go_on(&p, separator))
            break;
    }
    *stop = p + 1;
    return 0;
}

/* What a field says, malloc'ed. */
static char *copy_field(const struct field *f)
{
    char *s = malloc((size_t)(f->end - f->begin) + 1), *at = s;
    for (const char *p = f->begin; s != NULL && p < f->end; p++) {
        *at++ = *p;
        p += f->doubled && *p == '"';
    }
    if (s != NULL)
        *at = '\0';
    return s;
}

static int is_word(const struct field *f, const char *word)
{
    return !f->doubled && strlen(word) == (size_t)(f->end - f->begin) &&
           memcmp(word, f->begin, strlen(word)) == 0;
}

static int is_index(const struct field *f)
{
    uint64_t v = 0;
    const char *p = f->begin;
    for (; p < f->end && *p >= '0' && *p <= '9' && v <= TS_MAX_DIM; p++)
        v = 10 * v + (uint64_t)(*p - '0');
    return p == f->end && p > f->begin && v <= TS_MAX_DIM;
}

static int is_number(const struct field *f)
{
    double x;
    return f->end > f->begin && ts_tns_value(f->begin, f->end, &x, NULL) == 0;
}

/* ------------------------------------------------------------------ what the columns are */

/* Of the sample: whether each column that is not empty everywhere has nothing but indices, or numbers. */
struct look {
    uint32_t n_columns;
    uint64_t n_lines;
    struct field first[TS_TABLE_MAX_COLUMNS], second[TS_TABLE_MAX_COLUMNS];
    uint8_t any[TS_TABLE_MAX_COLUMNS], index[TS_TABLE_MAX_COLUMNS], number[TS_TABLE_MAX_COLUMNS];
    const char *behind_first; /* the line after the first one */
    uint64_t line_of_first;   /* from 1 */
};

/* Takes the first line, and looks at those behind it. */
static int look_at(const struct ts_table *t, const char *text, size_t bytes, struct look *l,
                   struct ts_err *err)
{
    const char sep = t->plan.separator, *p = text, *end = text + bytes;
    uint32_t n = 0;
    int rc;
    l->behind_first = text;
    for (l->line_of_first = 0; n == 0 && p < end; l->line_of_first++) {
        rc = split(p, sep, l->first, TS_TABLE_MAX_COLUMNS, &n, &p, err);
        if (rc < 0)
            return rc;
    }
    l->n_columns = n;
    l->behind_first = p;
    if (n > TS_TABLE_MAX_COLUMNS)
        return ts_fail(err, TS_ELIMIT, "%u columns; at most %u are possible", n,
                       TS_TABLE_MAX_COLUMNS);
    memset(l->any, 0, sizeof l->any);
    memset(l->index, 1, sizeof l->index);
    memset(l->number, 1, sizeof l->number);
    end = bytes < SAMPLE_BYTES ? end : text + SAMPLE_BYTES;
    for (l->n_lines = 0; p < end && memchr(p, '\n', (size_t)(end - p)) != NULL;) {
        if (split(p, sep, l->second, TS_TABLE_MAX_COLUMNS, &n, &p, NULL) < 0)
            break; /* it will be refused when it is parsed */
        for (uint32_t c = 0; c < n && c < l->n_columns; c++) {
            const struct field *f = &l->second[c];
            if (f->begin == f->end)
                continue;
            l->any[c] = 1;
            l->index[c] = l->index[c] && is_index(f);
            l->number[c] = l->number[c] && is_number(f);
        }
        l->n_lines += n > 0;
    }
    return 0;
}

static uint32_t column_named(const struct look *l, const char *name)
{
    for (uint32_t c = 0; c < l->n_columns; c++)
        if (is_word(&l->first[c], name))
            return c;
    return NO_COLUMN;
}

static uint32_t column_numbered(const struct look *l, const char *text)
{
    uint32_t n = 0;
    for (; *text >= '0' && *text <= '9' && n < 100000; text++)
        n = 10 * n + (uint32_t)(*text - '0');
    return *text == '\0' && n >= 1 && n <= l->n_columns ? n - 1 : NO_COLUMN;
}

/* A column by its name, where there is a header, or its number. */
static int find_column(const struct ts_table *t, const struct look *l, const char *option,
                       const char *name, uint32_t *ret, struct ts_err *err)
{
    char list[512] = "";
    size_t n = 0;
    *ret = t->header != NULL ? column_named(l, name) : NO_COLUMN;
    if (*ret == NO_COLUMN)
        *ret = column_numbered(l, name);
    if (*ret != NO_COLUMN)
        return 0;
    for (uint32_t c = 0; c < l->n_columns && n < sizeof list && t->header != NULL; c++) {
        char buf[QUOTE_CHARS + 4];
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", c == 0 ? ": " : ", ",
                              quote(&l->first[c], buf));
    }
    return ts_fail(err, TS_EARG, "--%s names column '%s'; there are %u%s%s", option, name,
                   l->n_columns, list,
                   t->header == NULL ? ", and no header line that would name them" : "");
}

/* Whether one of the names that the user gave is in the first line. */
static int names_in_header(const struct ts_table_plan *p, const struct look *l)
{
    int found = p->value != NULL && column_named(l, p->value) != NO_COLUMN &&
                column_numbered(l, p->value) == NO_COLUMN;
    for (uint32_t i = 0; i < p->n_modes; i++)
        found |= column_named(l, p->mode[i]) != NO_COLUMN;
    for (uint32_t i = 0; i < p->n_columns; i++)
        found |= column_named(l, p->column[i]) != NO_COLUMN &&
                 column_numbered(l, p->column[i]) == NO_COLUMN;
    return found;
}

static int has_header(const struct ts_table *t, const struct look *l)
{
    if (t->plan.header != 0)
        return t->plan.header == 1;
    if (names_in_header(&t->plan, l))
        return 1;
    for (uint32_t c = 0; c < l->n_columns; c++) /* words above numbers */
        if (l->any[c] && l->number[c] && !is_number(&l->first[c]) &&
            l->first[c].begin < l->first[c].end)
            return 1;
    return 0;
}

static int take_role(struct ts_table *t, uint32_t column, uint8_t role, struct ts_err *err)
{
    if (t->role[column] != ROLE_SKIP)
        return ts_fail(err, TS_EARG, "column %u is named twice", column + 1);
    t->role[column] = role;
    return 0;
}

static int find_value(struct ts_table *t, const struct look *l, struct ts_err *err)
{
    const struct ts_table_plan *p = &t->plan;
    int rc;
    t->value_column = NO_COLUMN;
    if (p->value == NULL || strcmp(p->value, "none") == 0)
        return 0;
    rc = find_column(t, l, "value", p->value, &t->value_column, err);
    return rc < 0 ? rc : take_role(t, t->value_column, ROLE_VALUE, err);
}

/* The columns of the modes. */
static int find_modes(struct ts_table *t, const struct look *l, struct ts_err *err)
{
    const struct ts_table_plan *p = &t->plan;
    const int by_name = p->n_columns == 0 && t->header != NULL && p->n_modes > 0;
    const uint32_t last = l->n_columns - 1;
    int rc = 0;
    if (p->n_columns > 0 && p->n_modes > 0 && p->n_columns != p->n_modes)
        return ts_fail(err, TS_EARG, "--columns has %u columns, but --modes %u names", p->n_columns,
                       p->n_modes);
    if (p->n_columns > 0 || by_name) {
        t->order = p->n_columns > 0 ? p->n_columns : p->n_modes;
        for (uint32_t m = 0; m < t->order && rc == 0; m++) {
            rc = find_column(t, l, p->n_columns > 0 ? "columns" : "modes",
                             p->n_columns > 0 ? p->column[m] : p->mode[m], &t->mode[m].column, err);
            if (rc == 0)
                rc = take_role(t, t->mode[m].column, (uint8_t)m, err);
        }
        return rc;
    }
    if (p->n_modes == 0 && p->value == NULL) { /* as in a .tns: the last one is the value */
        t->value_column = last;
        t->role[last] = ROLE_VALUE;
        if (l->any[last] && !l->number[last]) {
            char buf[QUOTE_CHARS + 4];
            return ts_fail(err, TS_EARG,
                           "the last column%s%s is not a number in every line; --value NAME says "
                           "which is the value, --value none that there is none",
                           t->header == NULL ? "" : ", ",
                           t->header == NULL ? "" : quote(&l->first[last], buf));
        }
    }
    for (uint32_t c = 0; c < l->n_columns && (p->n_modes == 0 || t->order < p->n_modes); c++) {
        if (t->role[c] != ROLE_SKIP)
            continue;
        if (t->order == TS_MAX_ORDER)
            return ts_fail(
                err, TS_ELIMIT,
                "%u columns, so more than %u modes; --modes or --columns name those that "
                "are modes",
                l->n_columns, TS_MAX_ORDER);
        t->mode[t->order].column = c;
        t->role[c] = (uint8_t)t->order++;
    }
    if (p->n_modes > t->order)
        return ts_fail(err, TS_EARG, "--modes names %u modes, but there are %u columns for them",
                       p->n_modes, t->order);
    return 0;
}

/* Columns that nobody named: one of them may be meant as the value, and that must be said. */
static int check_left(struct ts_table *t, const struct look *l, struct ts_err *err)
{
    uint32_t left = 0, one = 0;
    char buf[QUOTE_CHARS + 4];
    for (uint32_t c = 0; c < l->n_columns; c++)
        if (t->role[c] == ROLE_SKIP) {
            left++;
            one = c;
        }
    if (t->plan.value != NULL || t->value_column != NO_COLUMN || left == 0)
        return 0;
    if (left == 1 && one == l->n_columns - 1 && t->header == NULL && l->number[one]) {
        t->value_column = one; /* as in a .tns */
        t->role[one] = ROLE_VALUE;
        return 0;
    }
    return ts_fail(err, TS_EARG,
                   "%u column%s %s no mode%s%s; --value NAME says which is the value, --value none "
                   "that each line counts as 1",
                   left, left == 1 ? "" : "s", left == 1 ? "is" : "are",
                   t->header != NULL ? ", such as " : "",
                   t->header != NULL ? quote(&l->first[one], buf) : "");
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

/* Whether a mode's fields are numbers, names or times. */
static int find_fields(struct ts_table *t, const struct look *l, struct ts_err *err)
{
    const struct ts_table_plan *p = &t->plan;
    for (uint32_t m = 0; m < t->order; m++) {
        const uint32_t c = t->mode[m].column;
        const int numbers =
            t->header == NULL ? l->index[c] && is_index(&l->first[c]) : l->index[c] && l->any[c];
        t->mode[m].field = numbers ? TS_TABLE_NUMBER : TS_TABLE_NAME;
        t->mode[m].least = UINT64_MAX;
        t->mode[m].name = p->n_modes > 0 && p->n_columns > 0 ? strdup(p->mode[m])
                          : t->header != NULL                ? copy_field(&l->first[c])
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
            return ts_fail(err, TS_EARG, "--%s: there is no mode '%s'",
                           i < p->n_text ? "text" : "bin", name);
        t->mode[m].field = i < p->n_text ? TS_TABLE_NAME : TS_TABLE_TIME;
        if (i >= p->n_text)
            t->mode[m].bin = p->bin[i - p->n_text];
    }
    if (t->value_column != NO_COLUMN && t->header != NULL) {
        t->value_name = copy_field(&l->first[t->value_column]);
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
    t->header_bytes = bytes;
    return 0;
}

static int decide(struct ts_table *t, const char *text, const struct look *l, struct ts_err *err)
{
    int rc = 0;
    memset(t->role, ROLE_SKIP, sizeof t->role);
    t->n_columns = l->n_columns;
    if (has_header(t, l)) {
        const char *first = l->behind_first - 1;
        while (first > text && first[-1] != '\n')
            first--;
        rc = keep_header(t, first, (size_t)(l->behind_first - first), err);
        if (rc == 0 && l->n_lines == 0)
            rc = ts_fail(err, TS_EFORMAT, "there is a header, and nothing behind it");
    }
    if (rc == 0)
        rc = find_value(t, l, err);
    if (rc == 0)
        rc = find_modes(t, l, err);
    if (rc == 0)
        rc = check_left(t, l, err);
    if (rc == 0)
        rc = find_fields(t, l, err);
    if (rc == 0 && t->order < TS_MIN_ORDER)
        rc = ts_fail(err, TS_ELIMIT,
                     "%u column%s, so a tensor of %u mode%s: a decomposition needs at least 2%s",
                     l->n_columns, l->n_columns == 1 ? "" : "s", t->order, t->order == 1 ? "" : "s",
                     l->n_columns == 1 ? " (--separator says what divides columns)" : "");
    return rc;
}

int ts_table_header(struct ts_table *t, const char *text, size_t bytes, struct ts_tns_header *ret,
                    uint64_t *line, struct ts_err *err)
{
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct ts_tns_header h = { .bytes = mark };
    struct look *l;
    int rc = 0;
    *line = 1;
    *ret = h;
    l = malloc(sizeof *l);
    if (l == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for the columns");
    rc = look_at(t, text + mark, bytes - mark, l, err);
    *line = l->line_of_first;
    if (rc == 0 && l->n_columns > 0) {
        const char *first = l->behind_first;
        if (!t->known)
            rc = decide(t, text + mark, l, err);
        t->known |= rc == 0;
        if (rc == 0 && t->header != NULL && (size_t)(first - text) - mark >= t->header_bytes &&
            memcmp(first - t->header_bytes, t->header, t->header_bytes) == 0) {
            h.bytes = (size_t)(first - text);
            h.lines = l->line_of_first;
        }
        h.order = t->order;
        *ret = h;
        rc = rc < 0 ? rc : 1;
    }
    free(l);
    return rc;
}

/* ------------------------------------------------------------------ the object */

int ts_table_new(const struct ts_table_plan *plan, struct ts_table **ret, struct ts_err *err)
{
    struct ts_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for the columns");
    t->plan = *plan;
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
    free(t);
}

enum ts_table_field ts_table_mode_field(const struct ts_table *t, uint32_t mode)
{
    return t->mode[mode].field;
}

const char *ts_table_mode_name(const struct ts_table *t, uint32_t mode)
{
    return t->mode[mode].name;
}

const char *ts_table_value_name(const struct ts_table *t)
{
    return t->value_name;
}

const struct ts_time_bin *ts_table_mode_bin(const struct ts_table *t, uint32_t mode)
{
    return &t->mode[mode].bin;
}

uint64_t ts_table_mode_least(const struct ts_table *t, uint32_t mode)
{
    return __atomic_load_n(&t->mode[mode].least, __ATOMIC_RELAXED);
}

void ts_table_names(struct ts_table *t, const struct ts_names *names)
{
    t->names = names;
}

/* ------------------------------------------------------------------ nonzeros */

/* Each mode has a column of at least a byte and its separator. */
uint64_t ts_table_room(const struct ts_tns_rules *rules, size_t bytes)
{
    return bytes / (2 * rules->order) + 1;
}

struct parser {
    struct ts_table *t;
    const struct ts_tns_rules *rules;
    const char *text;
    char *side;
    size_t n_side;
    uint64_t least[TS_MAX_ORDER];
};

/* Undoes doubled quotes, in the side text, and ends the field there. */
static void copy_aside(struct parser *p, struct field *f)
{
    char *at = p->side + p->n_side, *const first = at;
    for (const char *q = f->begin; q < f->end; q++) {
        *at++ = *q;
        q += *q == '"';
    }
    *at = '\0'; /* where the second of the quotes around it was */
    f->begin = first;
    f->end = at;
    p->n_side = (size_t)(at + 1 - p->side);
}

static int mode_fails(const struct parser *p, uint32_t m, const char *what, struct ts_err *err)
{
    const char *name = p->t->mode[m].name;
    return ts_fail(err, TS_EFORMAT, "column %u%s%s%s: %s", p->t->mode[m].column + 1,
                   name != NULL ? " (" : "", name != NULL ? name : "", name != NULL ? ")" : "",
                   what);
}

static int take_name(struct parser *p, uint32_t m, const struct field *f, int aside, uint64_t *ret,
                     struct ts_err *err)
{
    const size_t n = (size_t)(f->end - f->begin);
    if (n == 0)
        return mode_fails(p, m, "the field is empty, and so names nothing", err);
    if (n > TS_STRING_MAX)
        return mode_fails(p, m, "a name of more than 4095 bytes", err);
    *ret = ts_name_at((uint64_t)(f->begin - (aside ? p->side : p->text)), n) |
           (aside ? TS_NAME_SIDE : 0);
    return 0;
}

static int take_time(struct parser *p, uint32_t m, const struct field *f, uint64_t *ret,
                     struct ts_err *err)
{
    char buf[QUOTE_CHARS + 4], what[200];
    if (ts_time_bin_of(&p->t->mode[m].bin, f->begin, (size_t)(f->end - f->begin), ret) < 0) {
        snprintf(what, sizeof what,
                 "'%s' is no time; expected seconds since 1970, or a date as in 2024-05-31 or "
                 "2024-05-31T13:45",
                 quote(f, buf));
        return mode_fails(p, m, what, err);
    }
    p->least[m] = *ret < p->least[m] ? *ret : p->least[m];
    return 0;
}

static int take_number(struct parser *p, uint32_t m, const struct field *f, uint64_t *ret,
                       struct ts_err *err)
{
    uint32_t n;
    const uint64_t v = ts_tns_digits(f->begin, &n) - p->rules->base;
    struct ts_err why;
    int rc;
    if (f->begin + n == f->end && n > 0 && n < 12 && v < TS_MAX_DIM && !p->rules->fixed) {
        *ret = v;
        return 0;
    }
    rc = ts_tns_index(p->rules, m, f->begin, f->end, ret, &why);
    if (rc < 0) {
        char buf[QUOTE_CHARS + 4], what[200];
        if (!is_index(f) && f->end > f->begin) {
            snprintf(what, sizeof what,
                     "'%s' is not a whole number, but those before it are; --text %u takes this "
                     "mode's fields as names",
                     quote(f, buf), m + 1);
            return mode_fails(p, m, what, err);
        }
        return mode_fails(p, m, why.text, err);
    }
    return 0;
}

static int take_value(const struct field *f, double *ret, struct ts_err *err)
{
    const char *stop = f->begin < f->end ? ts_tns_decimal(f->begin, ret) : NULL;
    if (f->begin == f->end)
        return ts_fail(err, TS_EFORMAT, "the value is empty");
    return stop == f->end ? 0 : ts_tns_value(f->begin, f->end, ret, err);
}

static int parse_line(struct parser *p, const char *q, const char **stop, struct ts_batch *b,
                      struct ts_err *err)
{
    struct ts_table *t = p->t;
    const char sep = t->plan.separator;
    uint64_t index[TS_MAX_ORDER];
    uint32_t n = 0;
    double value = 1;
    if (is_end(skip_blanks(q, sep))) {
        while (*q != '\n')
            q++;
        *stop = q + 1;
        return 0;
    }
    for (;;) {
        struct field f;
        const uint8_t role = n < t->n_columns ? t->role[n] : (uint8_t)ROLE_SKIP;
        int rc = next_field(&q, sep, &f, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
        n++;
        if (role != ROLE_SKIP) {
            const int aside = f.doubled;
            if (aside)
                copy_aside(p, &f);
            if (role == ROLE_VALUE)
                rc = take_value(&f, &value, err);
            else if (t->mode[role].field == TS_TABLE_NAME)
                rc = take_name(p, role, &f, aside, &index[role], err);
            else if (t->mode[role].field == TS_TABLE_TIME)
                rc = take_time(p, role, &f, &index[role], err);
            else
                rc = take_number(p, role, &f, &index[role], err);
            if (rc < 0)
                return rc;
        }
        if (!go_on(&q, sep))
            break;
    }
    *stop = q + 1;
    if (n == 0)
        return 0;
    if (n != t->n_columns)
        return ts_fail(err, TS_EFORMAT, "found %u field%s, expected %u", n, n == 1 ? "" : "s",
                       t->n_columns);
    return ts_tns_add(p->rules, index, value, b, err);
}

/* Looks the names of nonzeros [first, end) up. */
static void find_names(const struct parser *p, struct ts_batch *b, uint64_t first, uint64_t end)
{
    for (uint32_t m = 0; m < b->order; m++) {
        const char *name[TS_NAMES_FIND];
        uint32_t len[TS_NAMES_FIND];
        uint64_t index[TS_NAMES_FIND];
        const uint32_t n = (uint32_t)(end - first);
        if (p->t->mode[m].field != TS_TABLE_NAME)
            continue;
        for (uint32_t i = 0; i < n; i++) {
            index[i] = b->index[(first + i) * b->order + m];
            name[i] = ts_name_text(index[i], p->text, p->side);
            len[i] = ts_name_length(index[i]);
        }
        ts_names_find(p->t->names, m, n, name, len, index);
        for (uint32_t i = 0; i < n; i++)
            b->index[(first + i) * b->order + m] = index[i];
    }
}

int ts_table_parse(struct ts_table *t, char *side, const struct ts_tns_rules *rules,
                   const char *text, size_t bytes, struct ts_batch *b, uint64_t *line,
                   struct ts_err *err)
{
    struct parser p = { .t = t, .rules = rules, .text = text, .side = side };
    const char *q = text, *end = text + bytes;
    uint64_t n_lines = 0, found = b->n;
    for (uint32_t m = 0; m < t->order; m++)
        p.least[m] = UINT64_MAX;
    while (q < end) {
        int rc;
        n_lines++;
        rc = parse_line(&p, q, &q, b, err);
        if (rc < 0) {
            *line = n_lines;
            return rc;
        }
        if (t->names != NULL && (b->n - found == TS_NAMES_FIND || q == end)) {
            find_names(&p, b, found, b->n);
            found = b->n;
        }
    }
    b->n_lines += n_lines;
    for (uint32_t m = 0; m < t->order; m++) {
        uint64_t least = ts_table_mode_least(t, m);
        while (p.least[m] < least &&
               !__atomic_compare_exchange_n(&t->mode[m].least, &least, p.least[m], 0,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
    }
    return 0;
}
