/* SPDX-License-Identifier: BSD-3-Clause */
/* table_impl.h - the inside of a table (table_text.h): what its columns are. table_columns.c
 * decides that by the start of the first file; table_text.c parses lines accordingly.
 *
 *   owner    table_columns.c makes and frees it
 *   threads  written before there are several, but for what is atomic
 */
#ifndef TS_SOURCE_TABLE_IMPL_H
#define TS_SOURCE_TABLE_IMPL_H

#include "source/csv_field.h"
#include "source/table_text.h"

/* Of a column: a mode, or one of these. */
enum ts_table_role { TS_TABLE_SKIP = TS_MAX_ORDER, TS_TABLE_VALUE, TS_TABLE_WEIGHT };

struct ts_table_mode {
    enum ts_table_field field;
    uint32_t column;
    char *name;
    int whole; /* a mode of names, all of which are whole numbers as far as was seen */
    struct ts_time_bin bin;
    uint64_t least; /* atomic */
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
};

/* What the header calls a column, NULL without a header; cut to fit. */
const char *ts_table_column_name(const struct ts_table *t, uint32_t column,
                                 char ret[TS_CSV_QUOTE]);

#endif
