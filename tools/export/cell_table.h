/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_table.h - cells in a table of names, as csv and tsv of tshard export are: a line to indices,
 * and perhaps a value and its weight.
 *
 * A field of a mode is the name of an index, or the number of one that has none. All names are held
 * in memory.
 *
 *   owner    the table owns the names; the tensor is asked while it opens
 *   units    modes and indices from 0
 *   threads  open and close by one; parse by any number at a time
 *   errors   0 or a negative ts_code; of a line without file and line
 */
#ifndef TS_TOOLS_CELL_TABLE_H
#define TS_TOOLS_CELL_TABLE_H

#include "api/tools.h"

struct cell_table {
    char separator;
    struct {
        uint64_t n; /* names; 0: indices are numbers */
        char **name;
        uint64_t room, *slot; /* a power of two: 0, or a name's number from 1 */
    } mode[TS_MAX_ORDER];
};

/* t NULL: there are no names. */
int cell_table_open(const struct ts_tensor *t, char separator, struct cell_table *ret,
                    struct ts_err *err);
void cell_table_close(struct cell_table *c); /* one of zeros is fine */

/* The number of fields of the first line that has any, and that line; 0: none has. */
int cell_table_first(const struct cell_table *c, char *text, size_t bytes, uint32_t *n, char **line,
                     struct ts_err *err);

/* Whether a line begins with these names of modes, NULL being mode1, mode2, ... */
int cell_table_is_head(const struct cell_table *c, const char *line, uint32_t order,
                       const char *const mode_name[]);

/* Appends whole lines to b. weight: of each cell, where rules and text have one behind the value;
 * else NULL. */
int cell_table_parse(const struct cell_table *c, const struct ts_tns_rules *rules, const char *text,
                     size_t bytes, struct ts_batch *b, double *weight, uint64_t *line,
                     struct ts_err *err);

#endif
