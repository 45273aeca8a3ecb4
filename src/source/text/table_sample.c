/* SPDX-License-Identifier: BSD-3-Clause */
/* table_sample.c - reads the first lines of a table, which decide what its columns are. */
#include "source/text/table_sample.h"

#include <string.h>

#include "source/text/number_text.h"

int ts_table_split(const char *p, const struct ts_table_plan *plan, struct ts_csv_field f[],
                   uint32_t room, uint32_t *n, const char **stop, struct ts_err *err)
{
    const char separator = plan->separator;
    struct ts_csv_field one;
    *n = 0;
    if (ts_csv_is_end(ts_csv_skip_blanks(p, separator))) {
        while (*p != '\n')
            p++;
        *stop = p + 1;
        return 0;
    }
    for (;;) {
        const char *const at = p;
        const int rc = ts_csv_next(&p, separator, !plan->no_quotes, &one, err);
        if (rc < 0)
            return rc;
        if (rc > 0 && ts_csv_check_return(at, separator, !plan->no_quotes, &one, err) < 0)
            return TS_EFORMAT;
        if (rc > 0 && *n < room)
            f[*n] = one;
        *n += rc > 0;
        if (rc == 0 || !ts_csv_go_on(&p, separator))
            break;
    }
    *stop = p + 1;
    return 0;
}

int ts_table_is_number(const struct ts_table_plan *plan, const struct ts_csv_field *f)
{
    double x;
    return f->end > f->begin && ts_table_decimal(plan, f, &x, NULL) == 0;
}

int ts_table_is_missing(const struct ts_csv_field *f)
{
    return ts_number_missing(f->begin, (size_t)(f->end - f->begin));
}

int ts_table_is_date(const struct ts_csv_field *f)
{
    const struct ts_time_rule iso = { TS_TIME_ISO, 1 };
    int64_t seconds;
    return ts_time_read(&iso, f->begin, (size_t)(f->end - f->begin), &seconds) == 0;
}

int ts_table_is_whole(const struct ts_csv_field *f, uint64_t most)
{
    struct ts_number x;
    uint64_t v;
    return ts_csv_is_index(f) || (ts_number_read(f->begin, (size_t)(f->end - f->begin), &x) &&
                                  ts_number_whole(&x, &v) && v <= most);
}

int ts_table_same_field(const struct ts_csv_field *a, const struct ts_csv_field *b)
{
    const char *p = a->begin, *q = b->begin;
    while (p < a->end && q < b->end && *p == *q) {
        p += 1 + (a->doubled && *p == '"');
        q += 1 + (b->doubled && *q == '"');
    }
    return p >= a->end && q >= b->end;
}

int ts_table_sample_take(const struct ts_table *t, const char *text, size_t bytes,
                         struct ts_table_sample *ret, struct ts_err *err)
{
    const char *p = text, *end = text + bytes;
    uint32_t n = 0, blank = 0;
    int rc;
    ret->behind_first = text;
    for (ret->line_of_first = 0; n == 0 && p < end; ret->line_of_first++) {
        rc = ts_table_split(p, &t->plan, ret->first, TS_TABLE_MAX_COLUMNS, &n, &p, err);
        if (rc < 0) {
            ret->line_of_first++;
            return rc;
        }
    }
    ret->n_columns = n;
    ret->behind_first = p;
    if (n == 1 && !t->known) {
        rc = ts_table_other_separator(&t->plan, text, end, err);
        if (rc < 0)
            return rc;
    }
    if (n > TS_TABLE_MAX_COLUMNS)
        return ts_fail(err, TS_ELIMIT, "%u columns; at most %u are possible", n,
                       TS_TABLE_MAX_COLUMNS);
    memset(ret->any, 0, sizeof ret->any);
    memset(ret->index, 1, sizeof ret->index);
    memset(ret->number, 1, sizeof ret->number);
    memset(ret->whole, 1, sizeof ret->whole);
    memset(ret->date, 1, sizeof ret->date);
    memset(ret->again, 0, sizeof ret->again);
    memset(ret->time, 0, sizeof ret->time);
    end = bytes < TS_TABLE_SAMPLE ? end : text + TS_TABLE_SAMPLE;
    for (ret->n_lines = 0; p < end && memchr(p, '\n', (size_t)(end - p)) != NULL;) {
        rc = ts_table_split(p, &t->plan, ret->second, TS_TABLE_MAX_COLUMNS, &n, &p, err);
        if (rc < 0 && ret->n_lines == 0 && !t->known) {
            ret->line_of_first += 1 + blank;
            /* a wrong first line is refused here, because it decides whether there is a header */
            return rc;
        }
        if (rc < 0)
            break; /* the parser will report the wrong line */
        blank += n == 0;
        for (uint32_t c = 0; c < n && c < ret->n_columns; c++) {
            const struct ts_csv_field *f = &ret->second[c];
            if (ts_table_is_missing(f))
                continue;
            ret->any[c] = 1;
            ret->index[c] = ret->index[c] && ts_table_is_whole(f, TS_MAX_DIM);
            ret->whole[c] = ret->whole[c] && ts_table_is_whole(f, UINT64_MAX);
            ret->number[c] = ret->number[c] && ts_table_is_number(&t->plan, f);
            ret->date[c] = ret->date[c] && ts_table_is_date(f);
            ret->again[c] = ret->again[c] || ts_table_same_field(f, &ret->first[c]);
            ts_time_look_at(&ret->time[c], f->begin, (size_t)(f->end - f->begin));
        }
        ret->n_lines += n > 0;
    }
    return 0;
}
