/* SPDX-License-Identifier: BSD-3-Clause */
/* export_rows.h - nonzeros as lines of text: indices or names, and the value.
 *
 *   owner    rows_open makes the texts of values; names are the caller's and must stay
 *   units    bytes
 *   threads  put by any number at a time, each with its own number
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
    int quoted;    /* fields as RFC 4180 has them, with labels for indices where there are some */
    uint32_t base; /* of indices */
    struct ts_row_names *names;
    struct export_value *value; /* text of values that are few */
    size_t line_bytes;          /* most of a line, but for its labels */
};

int export_rows_open(struct export_rows *e,
                     struct ts_err *err); /* all but value, line_bytes is set */
void export_rows_close(struct export_rows *e);

/* Room that any line fits into. */
size_t export_rows_line(const struct export_rows *e);

/* The lines of nonzeros *p.. of a block whose level l is mode level[l]: to *at, and on from there
 * until one might not fit before `end`. Moves *p and *at. */
int export_rows_put(const struct export_rows *e, uint32_t thread, const struct ts_block *b,
                    const uint8_t level[], uint32_t *p, char **at, const char *end,
                    struct ts_err *err);

/* A field as it stands in a table; room for 2 n + 2 bytes. Returns its end. */
char *export_rows_field(char *at, const char *text, size_t n, char separator);

#endif
