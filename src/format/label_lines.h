/* SPDX-License-Identifier: BSD-3-Clause */
/* label_lines.h - reads all labels of a mode, one after another.
 *
 * ts_tensor_labels reads selected labels; this reader returns all of them in order. It needs
 * memory for a piece of the file or the longest label.
 *
 *   owner    the caller owns the reader; the tensor must stay open
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

/* Opens the labels of a mode. *ret is NULL if the mode has no labels. */
int ts_label_lines_open(const struct ts_tensor *t, uint32_t mode, struct ts_label_lines **ret,
                        struct ts_err *err);

/* Sets *ret to the next label, *n bytes without a terminator, valid until the next call. *ret is
 * NULL at the end. */
int ts_label_lines_next(struct ts_label_lines *l, const char **ret, size_t *n, struct ts_err *err);
void ts_label_lines_close(struct ts_label_lines *l); /* NULL is fine */

/* Returns a label as a C string, malloc'ed; NULL: out of memory. Builders write no zero byte. If a
 * label has one, U+FFFD replaces it, so that no text is lost and different labels stay
 * different. */
char *ts_label_string(const char *text, size_t n);

#endif
