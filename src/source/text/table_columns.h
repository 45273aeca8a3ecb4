/* SPDX-License-Identifier: BSD-3-Clause */
/* table_columns.h - declares struct ts_table (table_text.h), which has the columns of a table.
 * table_columns.c decides what they are from the start of the first file. table_late.c does so from
 * later lines, for columns whose fields are all missing at the start. table_text.c then parses
 * lines.
 *
 *   owner    table_columns.c makes and frees it
 *   threads  written before there are several threads, except atomic members and the facts
 */
#ifndef TS_SOURCE_TABLE_COLUMNS_H
#define TS_SOURCE_TABLE_COLUMNS_H

#include <pthread.h>

#include "source/text/csv_field.h"
#include "source/text/table_text.h"

/* bytes of text at the start of the input that decide whether a column has numbers, names or
 * times */
#define TS_TABLE_SAMPLE ((size_t)64 << 10)

/* The role of a column: the number of a mode, or one of these constants. */
enum ts_table_role { TS_TABLE_SKIP = TS_MAX_ORDER, TS_TABLE_VALUE, TS_TABLE_WEIGHT };

_Static_assert((int)TS_TABLE_VALUE == TS_TABLE_OF_VALUES &&
                   (int)TS_TABLE_WEIGHT == TS_TABLE_OF_WEIGHTS,
               "what others call these roles");

/* What the fields of a mode look like, in the 64 KiB of text from its first field that is not
 * missing. */
struct ts_table_look {
    int open; /* 1: all fields of the mode are missing at the start of the first file */
    int any;  /* 1: a field that is not missing was found later */
    /* bytes of text that are still to be looked at before the kind of the fields is decided */
    uint64_t left;
    int index, whole;
    struct ts_time_look time;
};

struct ts_table_mode {
    enum ts_table_field field;
    uint32_t column;
    char *name;
    int text;  /* 1: the user says that the fields of the mode are names */
    int whole; /* 1: the mode has names, and all names so far are whole numbers */
    struct ts_time_bin bin;
    struct ts_table_look look; /* what its fields look like, until their kind is decided */
    uint64_t least;            /* the smallest time bin so far; atomic */
    struct ts_table_facts facts;
};

struct ts_table {
    struct ts_table_plan plan;
    const struct ts_names *names;
    uint32_t order, n_columns, value_column;
    struct ts_table_mode mode[TS_MAX_ORDER];
    char *value_name;
    uint8_t role[TS_TABLE_MAX_COLUMNS]; /* number of a mode, or enum ts_table_role */
    /* the header line, with its newline; NULL: there is no header */
    char *header;
    int known;
    int doubtful;         /* 1: there is no header, but the first line looks like one */
    pthread_mutex_t lock; /* protects the counts of unexpected fields (`facts` of each mode) */
};

/* Whether a field is a whole number from 0 to `most`. */
int ts_table_is_whole(const struct ts_csv_field *f, uint64_t most);

/* Says that the fields of a mode are numbers, or else names; `whole` 1: all of these names are
 * whole numbers. */
void ts_table_decide(struct ts_table_mode *mode, int numbers, int whole);

/* Adds the counts of unexpected fields (struct ts_table_facts) in a piece of text to those of a
 * mode. */
void ts_table_add_facts(struct ts_table *t, uint32_t mode, const struct ts_table_facts *more);

/* Reads the number in a field of values or weights. */
int ts_table_decimal(const struct ts_table_plan *plan, const struct ts_csv_field *f, double *ret,
                     struct ts_err *err);

/* Whether a field would be a number if its only comma were a point. */
int ts_table_has_comma(const struct ts_csv_field *f);

/* Whether `column` is the first column and has no name, or the name that pandas gives to its index.
 * TS_TABLE_ROW_NUMBER is the message for such a column. */
int ts_table_is_row_number(const struct ts_table *t, uint32_t column);
#define TS_TABLE_ROW_NUMBER                                                                      \
    "the column has no name and counts lines from 0, as the index of pandas does; " TS_SET_NAMES \
    " or " TS_SET_COLUMNS " names the columns that are modes, and " TS_SET_VALUE                 \
    " that of the values"

/* For lines with one column: fails with TS_EFORMAT if the text would have several columns with
 * another separator, otherwise returns 0. `end` is after the last complete line. */
int ts_table_other_separator(const struct ts_table_plan *plan, const char *text, const char *end,
                             struct ts_err *err);

/* Fails with TS_EFORMAT if the fields of two lines are all numbers, many of them with fractions:
 * the lines seem to be rows of a matrix. */
int ts_table_is_matrix(const struct ts_csv_field *first, const struct ts_csv_field *second,
                       uint32_t n, struct ts_err *err);

/* Fails with TS_EFORMAT if the last two of n names in a header are whole numbers, such as years:
 * the table seems to have a column of values for each of them, not a line for each value. */
int ts_table_is_wide(const struct ts_csv_field *name, uint32_t n, struct ts_err *err);

/* Returns the name of a column in the header, cut to fit in ret. NULL if there is no header. */
const char *ts_table_column_name(const struct ts_table *t, uint32_t column, char ret[TS_CSV_QUOTE]);

#endif
