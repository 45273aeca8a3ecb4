/* SPDX-License-Identifier: BSD-3-Clause */
/* csv_field.h - the fields of a line of a table: between separators, or between blanks, some of
 * them in quotes.
 *
 * What is done with every line of a text is inline.
 *
 *   owner    fields point into the text
 *   threads  any
 *   errors   TS_EFORMAT, with a sentence without file and line
 */
#ifndef TS_SOURCE_CSV_FIELD_H
#define TS_SOURCE_CSV_FIELD_H

#include <stddef.h>

#include "base/err.h"

/* A field of a line: what stands in it, without quotes and blanks around. */
struct ts_csv_field {
    const char *begin, *end;
    int doubled; /* quotes in it are doubled */
};

static inline int ts_csv_is_end(const char *p)
{
    return *p == '\n' || (*p == '\r' && p[1] == '\n');
}

static inline const char *ts_csv_skip_blanks(const char *p, char separator)
{
    while (*p == ' ' || (*p == '\t' && separator != '\t'))
        p++;
    return p;
}

/* Like ts_csv_next, for a field that begins with a quote. */
int ts_csv_quoted(const char **p, char separator, struct ts_csv_field *f, struct ts_err *err);

/* The field at *p, and behind it: *p at the separator or the end of the line. 1; 0 when a comment
 * or the end of the line came instead, which only blanks for separators allow. quotes: 0 takes them
 * as any other character. */
static inline int ts_csv_next(const char **p, char separator, int quotes, struct ts_csv_field *f,
                              struct ts_err *err)
{
    const char *q = ts_csv_skip_blanks(*p, separator);
    if (separator == ' ' && (ts_csv_is_end(q) || *q == '#')) {
        while (*q != '\n')
            q++;
        *p = q;
        return 0;
    }
    if (*q == '"' && quotes) {
        const int rc = ts_csv_quoted(&q, separator, f, err);
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
static inline int ts_csv_go_on(const char **p, char separator)
{
    if (**p == '\r')
        (*p)++;
    if (**p == '\n')
        return 0;
    *p += separator != ' ';
    return 1;
}

/* Whether the text has a carriage return with no line feed behind it. */
int ts_csv_has_return(const char *text, size_t bytes);

/* TS_EFORMAT where a field without quotes has a carriage return: lines may end so. `at` is where
 * the field was looked for. */
int ts_csv_check_return(const char *at, char separator, int quotes, const struct ts_csv_field *f,
                        struct ts_err *err);

/* Copies as much of a field as fits into buf, for a message. Returns buf. */
#define TS_CSV_QUOTE 64
const char *ts_csv_quote(const struct ts_csv_field *f, char buf[TS_CSV_QUOTE]);

/* What a field says, without the quotes that are doubled in it; malloc'ed, NULL: no memory. */
char *ts_csv_copy(const struct ts_csv_field *f);

/* Whether a field is nothing but digits. */
int ts_csv_is_digits(const struct ts_csv_field *f);

/* Whether a field is digits that make an index. */
int ts_csv_is_index(const struct ts_csv_field *f);

#endif
