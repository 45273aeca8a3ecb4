/* SPDX-License-Identifier: BSD-3-Clause */
/* label_lines.h - the labels of a mode of a tensor, one after another.
 *
 * ts_tensor_labels looks for some labels; this reader gives all of them, front to back. Memory is a
 * piece of the file, or the longest label.
 *
 *   owner    the caller, until close; the tensor must stay
 *   units    bytes; line i is the label of index i
 *   threads  one at a time
 *   errors   0 or a negative ts_code; the hash of the file is checked at opening
 */
#ifndef TS_FORMAT_LABEL_LINES_H
#define TS_FORMAT_LABEL_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/tensor.h"

struct ts_label_lines;

/* *ret is NULL for a mode without labels. */
int ts_label_lines_open(const struct ts_tensor *t, uint32_t mode, struct ts_label_lines **ret,
                        struct ts_err *err);

/* The next label, without an end: *n bytes that stay until the next call. *ret is NULL at the
 * end. */
int ts_label_lines_next(struct ts_label_lines *l, const char **ret, size_t *n, struct ts_err *err);
void ts_label_lines_close(struct ts_label_lines *l); /* NULL is fine */

/* A label as a string of C, malloc'ed; NULL: out of memory. A builder writes no byte of 0. Where a
 * label has one, U+FFFD takes its place, so that nothing behind it is lost and two labels stay
 * two. */
char *ts_label_string(const char *text, size_t n);

#endif
