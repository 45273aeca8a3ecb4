/* SPDX-License-Identifier: BSD-3-Clause */
/* export_rows.h - writes nonzeros as lines of text: indices or names, and the value.
 *
 *   owner    export_rows_open allocates the texts of values; the caller owns names, which must stay
 *            open
 *   units    bytes
 *   threads  any number of threads may call put, each with its own number
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_EXPORT_ROWS_H
#define TS_TOOLS_EXPORT_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "api/tools.h"

struct export_rows {
    const struct ts_tensor *tensor;
    char separator;
    int quoted;    /* fields are as in RFC 4180, with labels in place of indices if they exist */
    uint32_t base; /* number of the first index in the text: 0 or 1 */
    struct ts_row_names *names;
    struct export_value *value; /* texts of the values, if there are few different ones */
    size_t line_bytes;          /* most bytes of a line without its labels */
};

int export_rows_open(struct export_rows *e,
                     /* sets value and line_bytes; the caller has set the other members */
                     struct ts_err *err);
void export_rows_close(struct export_rows *e);

/* Returns the bytes that the longest possible line takes. */
size_t export_rows_line(const struct export_rows *e);

/* Writes the lines of the nonzeros from *p on of a block, whose level l is mode level[l], to *at,
 * until a line may not fit before `end`. Moves *p and *at. */
int export_rows_put(const struct export_rows *e, uint32_t thread, const struct ts_block *b,
                    const uint8_t level[], uint32_t *p, char **at, const char *end,
                    struct ts_err *err);

/* Writes a field of a table with quotes if needed; at has room for 2 n + 2 bytes. Returns its
 * end. */
char *export_rows_field(char *at, const char *text, size_t n, char separator);

#endif
