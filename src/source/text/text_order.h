/* SPDX-License-Identifier: BSD-3-Clause */
/* text_order.h - checks the order of a tensor that the first line of a text gives, and decides what
 * its columns are.
 *
 *   owner    the caller
 *   threads  one, before the source starts its threads
 *   errors   0 or a negative ts_code, with a message that names file and line
 */
#ifndef TS_SOURCE_TEXT_ORDER_H
#define TS_SOURCE_TEXT_ORDER_H

#include "source/text/text_source.h"

/* A line of a text, and its position for messages. */
struct ts_text_line {
    const char *name; /* name of the file */
    uint64_t number;
    const char *at, *end; /* start of the line; end of the text */
};

/* Checks that a tensor may have the order that a line gives. */
int ts_text_order_check(const struct ts_files_plan *p, const struct ts_text_line *l, uint32_t order,
                        struct ts_err *err);

/* Decides whether columns that are empty at the start have numbers, names or times, from their
 * first fields. Reads the files up to the first pipe to find these fields, by an input of its
 * own. */
int ts_text_look_on(const struct ts_files_plan *p, struct ts_err *err);

#endif
