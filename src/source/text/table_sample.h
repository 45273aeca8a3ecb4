/* SPDX-License-Identifier: BSD-3-Clause */
/* table_sample.h - describes the fields in the first lines of a table (64 KiB). They decide what
 * its columns are, and whether the first line is a header.
 *
 *   owner    the sample points into the text that it was taken from
 *   threads  one sample is used by one thread
 *   errors   0 or a negative ts_code, with a message that does not begin with file and line
 */
#ifndef TS_SOURCE_TABLE_SAMPLE_H
#define TS_SOURCE_TABLE_SAMPLE_H

#include "source/text/table_columns.h"

/* The sample of lines. The arrays from `any` to `time` describe each column in the lines below the
 * first one; missing fields do not count. */
struct ts_table_sample {
    uint32_t n_columns;
    uint64_t n_lines; /* number of lines, without the first one and blank lines */
    struct ts_csv_field first[TS_TABLE_MAX_COLUMNS], second[TS_TABLE_MAX_COLUMNS];
    uint8_t any[TS_TABLE_MAX_COLUMNS];    /* 1: some field is not missing */
    uint8_t index[TS_TABLE_MAX_COLUMNS];  /* 1: all its fields are valid indices */
    uint8_t whole[TS_TABLE_MAX_COLUMNS];  /* 1: all its fields are whole numbers */
    uint8_t number[TS_TABLE_MAX_COLUMNS]; /* 1: all its fields are numbers */
    uint8_t date[TS_TABLE_MAX_COLUMNS];   /* 1: all its fields are times in ISO 8601 */
    uint8_t again[TS_TABLE_MAX_COLUMNS];  /* 1: the column's field in the first line occurs again */
    struct ts_time_look time[TS_TABLE_MAX_COLUMNS];
    const char *behind_first; /* start of the line after the first one */
    uint64_t line_of_first;   /* number of the first line, from 1 */
};

/* Reads the first line of a text, and the lines of the sample below it. */
int ts_table_sample_take(const struct ts_table *t, const char *text, size_t bytes,
                         struct ts_table_sample *ret, struct ts_err *err);

/* Finds the fields of the line at p: *n is their number, and the first `room` of them are stored in
 * f. *stop is the start of the next line. */
int ts_table_split(const char *p, const struct ts_table_plan *plan, struct ts_csv_field f[],
                   uint32_t room, uint32_t *n, const char **stop, struct ts_err *err);

/* Return whether a field is a number, whether it is missing, and whether it is a date. */
int ts_table_is_number(const struct ts_table_plan *plan, const struct ts_csv_field *f);
int ts_table_is_missing(const struct ts_csv_field *f);
int ts_table_is_date(const struct ts_csv_field *f);

/* Whether two fields have the same text, with or without quotes. */
int ts_table_same_field(const struct ts_csv_field *a, const struct ts_csv_field *b);

#endif
