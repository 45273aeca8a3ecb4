/* SPDX-License-Identifier: BSD-3-Clause */
/* csv_field.c - defines the functions of csv_field.h that few lines need: quoted fields and
 * messages. */
#include "source/text/csv_field.h"

#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "format/layout.h"

int ts_csv_quoted(const char **p, char separator, struct ts_csv_field *f, struct ts_err *err)
{
    const char *q = *p + 1;
    f->begin = q;
    f->doubled = 0;
    for (;; q++) {
        if (*q == '\n')
            return ts_fail(
                err, TS_EFORMAT,
                "a field begins with a quote that is not closed in its line; a quoted field "
                "must end there (" TS_SET_QUOTE_NONE " takes quotes as they are)");
        if (*q != '"')
            continue;
        if (q[1] != '"')
            break;
        f->doubled = 1;
        q++;
    }
    f->end = q;
    q = ts_csv_skip_blanks(q + 1, separator);
    if (separator == ' ' && q > f->end + 1)
        q--;
    if (!ts_csv_is_end(q) && *q != separator && !(separator == ' ' && *q == '\t'))
        return ts_fail(err, TS_EFORMAT,
                       "text behind the closing quote of a field (" TS_SET_QUOTE_NONE
                       " takes quotes as they are)");
    *p = q;
    return 0;
}

int ts_csv_has_return(const char *text, size_t bytes)
{
    const char *const end = text + bytes;
    const char *p = text;
    while ((p = memchr(p, '\r', (size_t)(end - p))) != NULL) {
        if (p + 1 == end || p[1] != '\n')
            return 1;
        p += 2;
    }
    return 0;
}

int ts_csv_check_return(const char *at, char separator, int quotes, const struct ts_csv_field *f,
                        struct ts_err *err)
{
    const int quoted = quotes && *ts_csv_skip_blanks(at, separator) == '"';
    if (quoted || memchr(f->begin, '\r', (size_t)(f->end - f->begin)) == NULL)
        return 0;
    return ts_fail(err, TS_EFORMAT,
                   "a carriage return in a field with no line feed behind it (if the file ends its "
                   "lines so, convert it with tr '\\r' '\\n'; a name with one must be in quotes)");
}

const char *ts_csv_quote(const struct ts_csv_field *f, char buf[TS_CSV_QUOTE])
{
    const size_t n = (size_t)(f->end - f->begin), most = TS_CSV_QUOTE - sizeof "...";
    const size_t kept = n < most ? n : most;
    for (size_t i = 0; i < kept; i++)
        buf[i] = (unsigned char)f->begin[i] >= ' ' && f->begin[i] != 127 ? f->begin[i] : '?';
    strcpy(buf + kept, kept < n ? "..." : "");
    return buf;
}

int ts_csv_is_digits(const struct ts_csv_field *f)
{
    const char *p = f->begin;
    while (p < f->end && *p >= '0' && *p <= '9')
        p++;
    return p == f->end;
}

int ts_csv_is_index(const struct ts_csv_field *f)
{
    uint64_t v = 0;
    const char *p = f->begin;
    for (; p < f->end && *p >= '0' && *p <= '9' && v <= TS_MAX_DIM; p++)
        v = 10 * v + (uint64_t)(*p - '0');
    return p == f->end && p > f->begin && v <= TS_MAX_DIM;
}

char *ts_csv_copy(const struct ts_csv_field *f)
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
