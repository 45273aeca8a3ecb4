/* SPDX-License-Identifier: BSD-3-Clause */
/* table_hints.c - recognises tables that are read with the wrong options, for messages, and reads
 * numbers with decimal commas. */
#include <stdio.h>
#include <string.h>

#include "base/setting.h"
#include "source/text/table_columns.h"
#include "source/text/tns_text.h"

#define NUMBER_CHARS 64u

/* Copies a field that has one comma and no point, with a point in place of the comma. */
static int with_point(const struct ts_csv_field *f, char text[NUMBER_CHARS])
{
    const size_t n = (size_t)(f->end - f->begin);
    const char *comma = memchr(f->begin, ',', n);
    if (comma == NULL || n >= NUMBER_CHARS || memchr(f->begin, '.', n) != NULL ||
        memchr(comma + 1, ',', (size_t)(f->end - comma - 1)) != NULL)
        return 0;
    memcpy(text, f->begin, n);
    text[comma - f->begin] = '.';
    text[n] = '\n'; /* '\n' ends the number for its reader */
    return 1;
}

int ts_table_decimal(const struct ts_table_plan *plan, const struct ts_csv_field *f, double *ret,
                     struct ts_err *err)
{
    char text[NUMBER_CHARS], buf[TS_CSV_QUOTE];
    const size_t n = (size_t)(f->end - f->begin);
    if (plan->decimal_comma && memchr(f->begin, '.', n) != NULL)
        return ts_fail(err, TS_EFORMAT, "value '%s' has a point, but " TS_SET_DECIMAL_COMMA,
                       ts_csv_quote(f, buf));
    if (plan->decimal_comma && with_point(f, text))
        return ts_tns_value(text, text + n, ret, err);
    return ts_tns_value(f->begin, f->end, ret, err);
}

int ts_table_has_comma(const struct ts_csv_field *f)
{
    char text[NUMBER_CHARS];
    double x;
    return with_point(f, text) &&
           ts_tns_value(text, text + (size_t)(f->end - f->begin), &x, NULL) == 0;
}

int ts_table_is_row_number(const struct ts_table *t, uint32_t column)
{
    char buf[TS_CSV_QUOTE];
    const char *name = ts_table_column_name(t, column, buf);
    return name != NULL && column == 0 && (*name == '\0' || strcmp(name, "Unnamed: 0") == 0);
}

/* Returns how often a character is in the line at p. */
static uint32_t count(const char *p, char c)
{
    uint32_t n = 0;
    for (; *p != '\n'; p++)
        n += *p == c;
    return n;
}

int ts_table_other_separator(const struct ts_table_plan *plan, const char *text, const char *end,
                             struct ts_err *err)
{
    static const char others[] = ";\t|,";
    const char *second;
    while (text < end && *text == '\n')
        text++;
    second = text < end ? memchr(text, '\n', (size_t)(end - text)) : NULL;
    if (second == NULL || ++second >= end)
        return 0;
    for (const char *c = others; *c != '\0'; c++)
        if (*c != plan->separator && plan->separator != ' ' && count(text, *c) > 0 &&
            count(text, *c) == count(second, *c)) {
            const int commas = *c == ';' && count(text, ',') == 0 && count(second, ',') > 0;
            const char word[2] = { *c, '\0' };
            return ts_fail(err, TS_EFORMAT,
                           "one column, but %u %s in each line (" TS_SET_SEPARATOR " %s%s)",
                           count(text, *c),
                           *c == ';'    ? "semicolons"
                           : *c == '\t' ? "tabs"
                           : *c == '|'  ? "bars"
                                        : "commas",
                           *c == ';'    ? "';'"
                           : *c == '\t' ? "'\\t'"
                           : *c == '|'  ? "'|'"
                                        : word,
                           commas ? ", and " TS_SET_DECIMAL_COMMA " for numbers such as 1,5" : "");
        }
    return 0;
}

int ts_table_is_matrix(const struct ts_csv_field *first, const struct ts_csv_field *second,
                       uint32_t n, struct ts_err *err)
{
    uint32_t fractions = 0;
    for (uint32_t c = 0; c < 2 * n; c++) {
        const struct ts_csv_field *f = c < n ? &first[c] : &second[c - n];
        double x;
        if (f->end == f->begin || ts_tns_value(f->begin, f->end, &x, NULL) < 0)
            return 0;
        fractions += !ts_table_is_whole(f, UINT64_MAX);
    }
    /* a line with few numbers may have coordinates of a place, so it is not taken for a row of a
     * matrix */
    if (n < 5 || fractions < 2 * (n - 1))
        return 0;
    return ts_fail(err, TS_EFORMAT,
                   "numbers with fractions in every column: the lines seem to be rows of a matrix, "
                   "with a value in each cell (numpy.savetxt writes so); save it with numpy.save, "
                   "which tstream cp reads as it is. If they are names, " TS_SET_TEXT
                   " names them");
}

int ts_table_is_wide(const struct ts_csv_field *name, uint32_t n, struct ts_err *err)
{
    char one[TS_CSV_QUOTE], two[TS_CSV_QUOTE];
    if (n < 3 || !ts_table_is_whole(&name[n - 2], UINT64_MAX) ||
        !ts_table_is_whole(&name[n - 1], UINT64_MAX))
        return 0;
    return ts_fail(
        err, TS_EFORMAT,
        "the columns %s and %s seem to be cells of a wide table, and a line for each cell "
        "is wanted (melt of pandas, or pivot_longer of tidyr, makes them). If they are "
        "modes and values, " TS_SET_COLUMNS " and " TS_SET_VALUE " name them",
        ts_csv_quote(&name[n - 2], one), ts_csv_quote(&name[n - 1], two));
}
