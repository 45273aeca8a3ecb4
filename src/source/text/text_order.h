/* SPDX-License-Identifier: BSD-3-Clause */
/* text_order.h - what the first lines of text say of a tensor: its order, and what its columns are.
 *
 *   owner    the caller
 *   threads  one, before those of the source
 *   errors   0 or a negative ts_code, with the line
 */
#ifndef TS_SOURCE_TEXT_ORDER_H
#define TS_SOURCE_TEXT_ORDER_H

#include "source/text/text_source.h"

struct ts_text_line {
    const char *name; /* name of the file */
    uint64_t number;
    const char *at, *end; /* the line and what follows of the text */
};

/* Whether a tensor may have the order that a line gives. */
int ts_text_order_check(const struct ts_files_plan *p, const struct ts_text_line *l, uint32_t order,
                        struct ts_err *err);

/* Columns that are empty at the start get their kind from their first fields, which are searched in
 * the files by an input of its own. Pipes cannot be read twice. */
int ts_text_look_on(const struct ts_files_plan *p, struct ts_err *err);

#endif
