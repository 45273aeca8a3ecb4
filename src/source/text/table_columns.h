/* SPDX-License-Identifier: BSD-3-Clause */
/* table_columns.h - the inside of a table (table_text.h): what its columns are. table_columns.c
 * decides that by the start of the first file; table_late.c by what follows, for columns in which
 * the start has nothing. table_text.c parses lines accordingly.
 *
 *   owner    table_columns.c makes and frees it
 *   threads  written before there are several, but for what is atomic
 */
#ifndef TS_SOURCE_TABLE_COLUMNS_H
#define TS_SOURCE_TABLE_COLUMNS_H

#include <pthread.h>

#include "source/text/csv_field.h"
#include "source/text/table_text.h"

/* bytes that tell what a column is, whatever a piece is */
#define TS_TABLE_SAMPLE ((size_t)64 << 10)

/* The role of a column: the number of a mode, or one of these. */
enum ts_table_role { TS_TABLE_SKIP = TS_MAX_ORDER, TS_TABLE_VALUE, TS_TABLE_WEIGHT };

_Static_assert((int)TS_TABLE_VALUE == TS_TABLE_OF_VALUES &&
                   (int)TS_TABLE_WEIGHT == TS_TABLE_OF_WEIGHTS,
               "what others call these roles");

/* The kinds of fields of a mode, from the first one that is not missing. */
struct ts_table_look {
    int open;      /* the start of the first file has nothing of the mode */
    int any;       /* a field was seen since */
    uint64_t left; /* bytes of text that are still looked at after the first field */
    int index, whole;
    struct ts_time_look time;
};

struct ts_table_mode {
    enum ts_table_field field;
    uint32_t column;
    char *name;
    int text;  /* the user says that its fields are names */
    int whole; /* the mode has names, and all names so far are whole numbers */
    struct ts_time_bin bin;
    struct ts_table_look look; /* what fields look like, until the kind of the mode is decided */
    uint64_t least;            /* atomic */
    struct ts_table_facts facts;
};

struct ts_table {
    struct ts_table_plan plan;
    const struct ts_names *names;
    uint32_t order, n_columns, value_column;
    struct ts_table_mode mode[TS_MAX_ORDER];
    char *value_name;
    uint8_t role[TS_TABLE_MAX_COLUMNS]; /* a mode, or enum ts_table_role */
    char *header;                       /* the line, with its newline; NULL: there is no header */
    int known;
    int doubtful;         /* there is no header, but the first line looks like one */
    pthread_mutex_t lock; /* protects the facts of modes */
};

/* Whether a field is a whole number from 0 up to `most`. */
int ts_table_is_whole(const struct ts_csv_field *f, uint64_t most);

/* Whether a mode holds numbers or names, once its fields were seen. */
void ts_table_decide(struct ts_table_mode *mode, int numbers, int whole);

/* Adds facts of a piece of text to those of a mode. */
void ts_table_add_facts(struct ts_table *t, uint32_t mode, const struct ts_table_facts *more);

/* The number that a field of values or weights is. */
int ts_table_decimal(const struct ts_table_plan *plan, const struct ts_csv_field *f, double *ret,
                     struct ts_err *err);

/* Whether a field would be a number with a point in place of its one comma. */
int ts_table_has_comma(const struct ts_csv_field *f);

/* Whether the header calls a column as pandas calls its index, and what to say of it. */
int ts_table_is_row_number(const struct ts_table *t, uint32_t column);
#define TS_TABLE_ROW_NUMBER                                                                      \
    "the column has no name and counts lines from 0, as the index of pandas does; " TS_SET_NAMES \
    " or " TS_SET_COLUMNS " names the columns that are modes, and " TS_SET_VALUE                 \
    " that of the values"

/* For lines with one column: TS_EFORMAT if another separator would give several, otherwise 0. `end`
 * is behind the last whole line. */
int ts_table_other_separator(const struct ts_table_plan *plan, const char *text, const char *end,
                             struct ts_err *err);

/* TS_EFORMAT where all fields of two lines are numbers and many are no indices: rows of a
 * matrix. */
int ts_table_is_matrix(const struct ts_csv_field *first, const struct ts_csv_field *second,
                       uint32_t n, struct ts_err *err);

/* The name of a column in the header, cut to fit. NULL without a header. */
const char *ts_table_column_name(const struct ts_table *t, uint32_t column, char ret[TS_CSV_QUOTE]);

#endif
