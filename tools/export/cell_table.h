/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_table.h - parses tables of cells with names, like the csv and tsv output of tshard export:
 * each line has indices, and optionally a value and a weight.
 *
 * The field of a mode is the name of an index, or its number if it has no name. All names are held
 * in memory.
 *
 *   owner    the table owns its copy of the names, which are read at opening only
 *   units    modes and indices from 0
 *   threads  one thread opens and closes; any number may parse
 *   errors   0 or a negative ts_code; failures of a line do not name the file and line
 */
#ifndef TS_TOOLS_CELL_TABLE_H
#define TS_TOOLS_CELL_TABLE_H

#include "api/tools.h"

struct cell_table {
    char separator;
    struct cell_mode {
        uint64_t n; /* number of names; 0: indices are numbers */
        char **name;
        uint64_t *index; /* the index of each name, in ascending order */
        /* hash table of the names: `room`, a power of two, is its size; an entry is 0, or the
         * number of a name from 1 */
        uint64_t room, *slot;
    } mode[TS_MAX_ORDER];
};

/* Makes the table of index names by which cells are parsed. names NULL: indices are numbers. */
int cell_table_open(const struct ts_model_names *names, char separator, struct cell_table *ret,
                    struct ts_err *err);

/* Returns the name of an index in a mode, or NULL if it has none. */
const char *cell_table_name(const struct cell_table *c, uint32_t mode, uint64_t index);
void cell_table_close(struct cell_table *c); /* accepts a struct of zeros */

/* Finds the first line that is not blank: *n is its number of fields, 0 if there is none, and
 * *line its text. */
int cell_table_first(const struct cell_table *c, char *text, size_t bytes, uint32_t *n, char **line,
                     struct ts_err *err);

/* Whether a line is a header with these names of modes. A name that is NULL stands for mode1,
 * mode2, ... */
int cell_table_is_head(const struct cell_table *c, const char *line, uint32_t order,
                       const char *const mode_name[]);

/* Parses whole lines and appends their cells to b. weight: receives the weight after the value, if
 * the rules and the text have weights; else NULL. */
int cell_table_parse(const struct cell_table *c, const struct ts_tns_rules *rules, const char *text,
                     size_t bytes, struct ts_batch *b, double *weight, uint64_t *line,
                     struct ts_err *err);

#endif
