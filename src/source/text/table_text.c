/* SPDX-License-Identifier: BSD-3-Clause */
/* table_text.c - parses lines of a table, and makes nonzeros of them. */
#include "source/text/table_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/setting.h"
#include "source/text/csv_field.h"
#include "source/text/number_text.h"
#include "source/text/table_columns.h"
#include "source/text/text_kind.h"
#include "source/text/tns_number.h"

/* Returns the most nonzeros in a text of so many bytes: each line has a column of at least one byte
 * and a separator for each mode. */
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
    int returns; /* 1: some carriage return in the text is not followed by a line feed */
    uint64_t least[TS_MAX_ORDER];
    struct ts_table_facts facts[TS_MAX_ORDER];
};

/* Most digits of a whole number such as "1e19" that becomes a name. The side text (memory for
 * rewritten fields) is several times as large as the text, so that such names fit. */
#define MOST_DIGITS 20u

uint32_t ts_table_side(const struct ts_table *t)
{
    for (uint32_t m = 0; m < t->order; m++)
        if (t->mode[m].whole)
            return 4;
    return 1;
}

static void add_fact(struct parser *p, uint32_t m, enum ts_table_fact fact,
                     const struct ts_csv_field *f)
{
    struct ts_table_facts *of = &p->facts[m];
    char buf[TS_CSV_QUOTE] = { 0 };
    ts_csv_quote(f, buf);
    if (strlen(buf) >= TS_TABLE_EXAMPLE)
        memcpy(buf + TS_TABLE_EXAMPLE - 4, "...", 4);
    if (of->n[fact] == 0 || strcmp(buf, of->example[fact]) < 0)
        memcpy(of->example[fact], buf, TS_TABLE_EXAMPLE);
    of->n[fact]++;
}

/* Whether a field is digits, an 'e' and digits, such as 1e5. It may be a code and not a number,
 * because numbers that programs write have a point or a sign. */
static int may_be_code(const struct ts_csv_field *f)
{
    struct ts_csv_field part = *f;
    while (part.begin < f->end && (*part.begin | 32) != 'e')
        part.begin++;
    if (part.begin == f->begin || part.begin >= f->end - 1)
        return 0;
    part.begin++;
    if (!ts_csv_is_digits(&part))
        return 0;
    part.end = part.begin - 1;
    part.begin = f->begin;
    return ts_csv_is_digits(&part);
}

/* Copies a field to the side text (memory for changed copies of fields), with single quotes instead
 * of doubled ones. The copy ends with NUL. */
static void copy_aside(struct parser *p, struct ts_csv_field *f)
{
    char *at = p->side + p->n_side, *const first = at;
    for (const char *q = f->begin; q < f->end; q++) {
        *at++ = *q;
        q += *q == '"';
    }
    *at = '\0'; /* the NUL takes the space of the closing quote */
    f->begin = first;
    f->end = at;
    p->n_side = (size_t)(at + 1 - p->side);
}

/* Fails with a message that begins with the name or number of a column, and goes on with
 * `fault`. */
static int column_fails(const struct parser *p, uint32_t column, const char *fault,
                        struct ts_err *err)
{
    char buf[TS_CSV_QUOTE];
    const char *name = ts_table_column_name(p->t, column, buf);
    const int has_name = name != NULL && *name != '\0';
    return ts_fail(err, TS_EFORMAT, TS_NTH_COLUMN "%s%s%s: %s", column + 1, has_name ? " (" : "",
                   has_name ? name : "", has_name ? ")" : "", fault);
}

static int mode_fails(const struct parser *p, uint32_t m, const char *sentence, struct ts_err *err)
{
    const struct ts_table_mode *mode = &p->t->mode[m];
    return p->t->header != NULL || mode->name == NULL
               ? column_fails(p, mode->column, sentence, err)
               : ts_fail(err, TS_EFORMAT, TS_NTH_COLUMN " (%s): %s", mode->column + 1, mode->name,
                         sentence);
}

/* Whether a field counts as missing. In a mode of names, only an empty field is: 'NA' may be
 * Namibia. In a mode of names that are whole numbers, 'NA' and the like are missing, as in a column
 * of numbers. */
static int is_missing(const struct parser *p, uint8_t role, const struct ts_csv_field *f)
{
    if (role < TS_MAX_ORDER && p->t->mode[role].field == TS_TABLE_NAME && !p->t->mode[role].whole)
        return f->begin == f->end;
    return ts_number_missing(f->begin, (size_t)(f->end - f->begin));
}

static int take_missing(const struct parser *p, uint32_t column, uint8_t role,
                        const struct ts_csv_field *f, struct ts_err *err)
{
    const int is_mode = role < TS_MAX_ORDER;
    char buf[TS_CSV_QUOTE];
    const char *name = is_mode && p->t->header == NULL ? p->t->mode[role].name
                                                       : ts_table_column_name(p->t, column, buf);
    return ts_tns_missing(p->rules, column, name,
                          is_mode                  ? (int)role
                          : role == TS_TABLE_VALUE ? TS_TNS_VALUE
                                                   : TS_TNS_WEIGHT,
                          f->begin, f->end, err);
}

/* Reads a field that is a whole number. If it is too large for an index, it becomes a name: its
 * digits, in whatever notation it was written. */
static int take_whole(struct parser *p, uint32_t m, const struct ts_csv_field *f, uint64_t *ret,
                      struct ts_err *err)
{
    const size_t n_text = (size_t)(f->end - f->begin);
    char *at = p->side + p->n_side, buf[TS_CSV_QUOTE], what[200];
    struct ts_number x;
    uint64_t v;
    size_t n;
    if (!ts_number_read(f->begin, n_text, &x) || !ts_number_whole(&x, &v)) {
        add_fact(p, m, TS_TABLE_WORD, f);
        return 0;
    }
    n = ts_number_digits(&x, at, n_text);
    add_fact(p, m, n == 0 || may_be_code(f) ? TS_TABLE_EXPONENT : TS_TABLE_SPELLED, f);
    n = ts_number_digits(&x, at, n_text < MOST_DIGITS ? MOST_DIGITS : n_text);
    if (n == 0) {
        snprintf(
            what, sizeof what,
            "'%s' is a number of more than %u digits, most of which an exponent stands for; " TS_SET_TEXT
            " " TS_NTH("%u") " takes it as a name",
            ts_csv_quote(f, buf), MOST_DIGITS, m + 1);
        return mode_fails(p, m, what, err);
    }
    *ret = ts_name_at((uint64_t)p->n_side, n) | TS_NAME_SIDE;
    p->n_side += n;
    return 1;
}

/* Counts names that look like numbers, for notes to the user. Not called for modes whose fields the
 * user has declared to be names. */
static void look_at_name(struct parser *p, uint32_t m, const struct ts_csv_field *f)
{
    const char c = *f->begin;
    if ((c >= '0' && c <= '9') || c == '.' || c == '+') {
        if (ts_csv_is_digits(f)) {
            p->facts[m].n[TS_TABLE_DIGITS]++;
            return;
        }
        if (ts_table_is_whole(f, UINT64_MAX)) {
            add_fact(p, m, TS_TABLE_SPELLED, f);
            return;
        }
    }
    if (p->t->mode[m].look.open && !ts_number_missing(f->begin, (size_t)(f->end - f->begin)))
        add_fact(p, m, TS_TABLE_WORD, f);
}

static int take_name(struct parser *p, uint32_t m, const struct ts_csv_field *f, int aside,
                     uint64_t *ret, struct ts_err *err)
{
    const size_t n = (size_t)(f->end - f->begin);
    if (n > TS_STRING_MAX)
        return mode_fails(p, m, "a name of more than 4095 bytes", err);
    /* a NUL byte is refused, because a name would end there for users of the library */
    if (memchr(f->begin, '\0', n) != NULL)
        return mode_fails(p, m, "a name with a NUL byte", err);
    if (p->t->mode[m].whole && !aside && !ts_csv_is_digits(f)) {
        const int rc = take_whole(p, m, f, ret, err);
        if (rc != 0)
            return rc < 0 ? rc : 0;
    } else if (!p->t->mode[m].text && !p->t->mode[m].whole) {
        look_at_name(p, m, f);
    }
    *ret = ts_name_at((uint64_t)(f->begin - (aside ? p->side : p->text)), n) |
           (aside ? TS_NAME_SIDE : 0);
    return 0;
}

static int take_time(struct parser *p, uint32_t m, const struct ts_csv_field *f, uint64_t *ret,
                     struct ts_err *err)
{
    const struct ts_table_mode *mode = &p->t->mode[m];
    const size_t n = (size_t)(f->end - f->begin);
    if (ts_time_bin_of(&mode->bin, f->begin, n, ret) < 0) {
        char what[TS_TIME_SENTENCE], number[12];
        snprintf(number, sizeof number, "%u", m + 1);
        return mode_fails(p, m,
                          ts_time_why(&mode->bin.rule, mode->name != NULL ? mode->name : number,
                                      f->begin, n, what),
                          err);
    }
    return 0;
}

static int take_number(struct parser *p, uint32_t m, const struct ts_csv_field *f, uint64_t *ret,
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
    if (may_be_code(f))
        add_fact(p, m, TS_TABLE_EXPONENT, f);
    if (rc < 0) {
        char buf[TS_CSV_QUOTE], what[200];
        struct ts_number x;
        uint64_t w;
        if (!ts_number_read(f->begin, (size_t)(f->end - f->begin), &x) ||
            !ts_number_whole(&x, &w)) {
            snprintf(what, sizeof what,
                     "'%s' is not a whole number, but those before it are; " TS_SET_TEXT
                     " " TS_NTH("%u") " takes this mode's fields as names",
                     ts_csv_quote(f, buf), m + 1);
            return mode_fails(p, m, what, err);
        }
        if (w == 0 && p->rules->base == 1 && ts_table_is_row_number(p->t, p->t->mode[m].column))
            return column_fails(p, p->t->mode[m].column, TS_TABLE_ROW_NUMBER, err);
        return mode_fails(p, m, why.text, err);
    }
    return 0;
}

static int take_value(const struct parser *p, const struct ts_csv_field *f, double *ret,
                      struct ts_err *err)
{
    const char *stop;
    int rc;
    if (p->t->plan.decimal_comma)
        return ts_table_decimal(&p->t->plan, f, ret, err);
    stop = ts_tns_decimal(f->begin, ret);
    if (stop == f->end)
        return 0;
    rc = ts_tns_value(f->begin, f->end, ret, err);
    if (rc < 0 && ts_table_has_comma(f)) {
        char buf[TS_CSV_QUOTE];
        return ts_fail(err, rc,
                       "value '%s' has a comma (" TS_SET_DECIMAL_COMMA " reads it as a point)",
                       ts_csv_quote(f, buf));
    }
    return rc;
}

static int take_weight(const struct parser *p, const struct ts_csv_field *f, double *ret,
                       struct ts_err *err)
{
    char buf[TS_CSV_QUOTE];
    double weight;
    if (ts_table_decimal(&p->t->plan, f, &weight, NULL) < 0 || !isfinite((float)weight))
        return ts_fail(err, TS_EFORMAT, "weight '%s' is not a number that float32 holds",
                       ts_csv_quote(f, buf));
    if (weight < 0)
        return ts_fail(err, TS_EFORMAT, "weight %s is negative", ts_csv_quote(f, buf));
    *ret = weight;
    return 0;
}

static int parse_line(struct parser *p, const char *q, const char **stop, struct ts_batch *b,
                      struct ts_err *err)
{
    struct ts_table *t = p->t;
    const char sep = t->plan.separator;
    uint64_t index[TS_MAX_ORDER];
    uint32_t n = 0;
    double value = 1, weight = 1;
    uint64_t first;
    struct ts_err why;
    int added, missing = 0;
    if (ts_csv_is_end(ts_csv_skip_blanks(q, sep))) {
        while (*q != '\n')
            q++;
        *stop = q + 1;
        return 0;
    }
    for (;;) {
        struct ts_csv_field f;
        const uint8_t role = n < t->n_columns ? t->role[n] : (uint8_t)TS_TABLE_SKIP;
        const char *const at = q;
        int rc = ts_csv_next(&q, sep, !t->plan.no_quotes, &f, err);
        if (rc > 0 && p->returns && ts_csv_check_return(at, sep, !t->plan.no_quotes, &f, err) < 0)
            return TS_EFORMAT;
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
        n++;
        if (role != TS_TABLE_SKIP) {
            const int aside = f.doubled;
            if (aside)
                copy_aside(p, &f);
            if (is_missing(p, role, &f)) {
                rc = take_missing(p, n - 1, role, &f, err);
                missing |= rc > 0;
            } else if (role == TS_TABLE_VALUE)
                rc = take_value(p, &f, &value, &why);
            else if (role == TS_TABLE_WEIGHT)
                rc = take_weight(p, &f, &weight, &why);
            else if (t->mode[role].field == TS_TABLE_NAME)
                rc = take_name(p, role, &f, aside, &index[role], err);
            else if (t->mode[role].field == TS_TABLE_TIME)
                rc = take_time(p, role, &f, &index[role], err);
            else
                rc = take_number(p, role, &f, &index[role], err);
            if (rc < 0)
                return role < TS_TABLE_VALUE || is_missing(p, role, &f)
                           ? rc
                           : column_fails(p, n - 1, why.text, err);
        }
        if (!ts_csv_go_on(&q, sep))
            break;
    }
    *stop = q + 1;
    if (n == 0)
        return 0;
    if (n != t->n_columns)
        return ts_fail(err, TS_EFORMAT, "found %u field%s, expected %u", n, ts_num_plural(n),
                       t->n_columns);
    if (missing) {
        b->n_missing++;
        return 0;
    }
    for (uint32_t m = 0; m < t->order; m++)
        if (t->mode[m].field == TS_TABLE_TIME && index[m] < p->least[m])
            p->least[m] = index[m];
    first = b->n;
    added = ts_tns_add(p->rules, index, value, b, err);
    if (t->plan.weight != NULL && b->n > first)
        b->value[first] = ts_weighted_bits(b->value[first], ts_weight_keep(weight, &b->n_rounded));
    return added;
}

/* Looks up the names of nonzeros first .. end - 1 of the batch in the dictionaries. */
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
    p.returns = ts_csv_has_return(text, bytes);
    while (q < end) {
        int rc;
        n_lines++;
        rc = parse_line(&p, q, &q, b, err);
        if (rc < 0) {
            *line = n_lines;
            return rc;
        }
        if (b->n_rounded > 0 && b->rounded_line == 0)
            b->rounded_line = b->n_lines + n_lines;
        if (t->names != NULL && (b->n - found == TS_NAMES_FIND || q == end)) {
            find_names(&p, b, found, b->n);
            found = b->n;
        }
    }
    b->n_lines += n_lines;
    for (uint32_t m = 0; m < t->order; m++) {
        uint64_t least = ts_table_mode_least(t, m);
        for (uint32_t i = 0; i < TS_TABLE_FACTS; i++)
            if (p.facts[m].n[i] > 0) {
                ts_table_add_facts(t, m, &p.facts[m]);
                break;
            }
        while (p.least[m] < least &&
               !__atomic_compare_exchange_n(&t->mode[m].least, &least, p.least[m], 0,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
    }
    return 0;
}

/* ------------------------------------------------------------------ functions for text_kind.h */

static uint32_t kind_side(const void *form)
{
    return ts_table_side(form);
}

static int kind_header(void *form, struct ts_tns_rules *rules, const char *text, size_t bytes,
                       struct ts_tns_header *ret, uint64_t *line, struct ts_err *err)
{
    (void)rules;
    return ts_table_header(form, text, bytes, ret, line, err);
}

/* Returns 1 if there is any text. Called only if ts_table_header found no line. */
static uint32_t kind_fields(const char *text, size_t bytes, uint64_t *n_lines)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r' && text[i] != '\n')
            return 1;
        if (n_lines != NULL)
            *n_lines += text[i] == '\n';
    }
    return 0;
}

static int kind_parse(void *form, char *side, const struct ts_tns_rules *rules, const char *text,
                      size_t bytes, struct ts_batch *b, uint64_t *line, struct ts_err *err)
{
    return ts_table_parse(form, side, rules, text, bytes, b, line, err);
}

const struct ts_text_kind ts_text_table = {
    .number = TS_TEXT_IS_table,
    .name = "table",
    .ending = { ".csv", ".tsv", ".tab" },
    .example = "row,column,value\n1,1,1\n2,3,2.5\n",
    .cost = 8,
    .side = kind_side,
    .header = kind_header,
    .fields = kind_fields,
    .room = ts_table_room,
    .parse = kind_parse,
};
