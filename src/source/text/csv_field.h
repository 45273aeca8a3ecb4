/* SPDX-License-Identifier: BSD-3-Clause */
/* csv_field.h - finds the fields of a line of a table: between separators, or between blanks; some
 * may be in quotes.
 *
 * The functions that are called for every line are inline.
 *
 *   owner    fields point into the text
 *   threads  any
 *   errors   TS_EFORMAT, with a message that does not name file and line
 */
#ifndef TS_SOURCE_CSV_FIELD_H
#define TS_SOURCE_CSV_FIELD_H

#include <stddef.h>

#include "base/err.h"

/* The text of a field, without the quotes and blanks around it. */
struct ts_csv_field {
    const char *begin, *end;
    int doubled; /* 1: the text has doubled quotes, each pair of which stands for one */
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

/* Like ts_csv_next, but only for a field that begins with a quote. */
int ts_csv_quoted(const char **p, char separator, struct ts_csv_field *f, struct ts_err *err);

/* Finds the field at *p, and sets *p to its end: the separator, or the end of the line. Returns 1,
 * or a failure. If the separator is blanks: 0 if a comment or the end of the line comes first.
 * quotes 0: quotes are ordinary characters. */
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

/* To be called with *p at the end of a field: returns 1 with *p at the next field, or 0 at the end
 * of the line. */
static inline int ts_csv_go_on(const char **p, char separator)
{
    if (**p == '\r')
        (*p)++;
    if (**p == '\n')
        return 0;
    *p += separator != ' ';
    return 1;
}

/* Whether the text has a carriage return that no line feed follows. */
int ts_csv_has_return(const char *text, size_t bytes);

/* Returns TS_EFORMAT if an unquoted field contains a carriage return, which may be meant as the end
 * of a line. at: where the field starts, with the blanks and quotes before it. */
int ts_csv_check_return(const char *at, char separator, int quotes, const struct ts_csv_field *f,
                        struct ts_err *err);

/* Copies as much of a field as fits into buf, for a message. Returns buf. */
#define TS_CSV_QUOTE 64
const char *ts_csv_quote(const struct ts_csv_field *f, char buf[TS_CSV_QUOTE]);

/* Returns a copy of a field in which doubled quotes are single, malloc'ed; NULL: out of memory. */
char *ts_csv_copy(const struct ts_csv_field *f);

/* Whether a field consists of digits only. */
int ts_csv_is_digits(const struct ts_csv_field *f);

/* Whether a field consists of digits whose number is a valid index. */
int ts_csv_is_index(const struct ts_csv_field *f);

#endif
