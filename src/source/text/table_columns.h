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

/* Of a column: a mode, or one of these. */
enum ts_table_role { TS_TABLE_SKIP = TS_MAX_ORDER, TS_TABLE_VALUE, TS_TABLE_WEIGHT };

/* What the fields of a mode look like, from the first one that is not missing. */
struct ts_table_look {
    int open;      /* the start of the first file has nothing of the mode */
    int any;       /* a field was seen since */
    uint64_t left; /* bytes of text to look at after that field */
    int index, whole;
    struct ts_time_look time;
};

struct ts_table_mode {
    enum ts_table_field field;
    uint32_t column;
    char *name;
    int text;  /* the user says that its fields are names */
    int whole; /* a mode of names, all of which are whole numbers as far as was seen */
    struct ts_time_bin bin;
    struct ts_table_look look; /* until it is decided */
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
    char *header;                       /* the line, with its newline; NULL: there is none */
    int known;
    pthread_mutex_t lock; /* protects the facts of modes */
};

/* Whether a field is a whole number from 0 up to `most`. */
int ts_table_is_whole(const struct ts_csv_field *f, uint64_t most);

/* Whether a mode holds numbers or names, once its fields were seen. */
void ts_table_decide(struct ts_table_mode *mode, int numbers, int whole);

/* Adds facts of a piece of text to those of a mode. */
void ts_table_add_facts(struct ts_table *t, uint32_t mode, const struct ts_table_facts *more);

/* What the header calls a column, NULL without a header; cut to fit. */
const char *ts_table_column_name(const struct ts_table *t, uint32_t column, char ret[TS_CSV_QUOTE]);

#endif
