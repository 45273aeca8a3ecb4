/* SPDX-License-Identifier: BSD-3-Clause */
/* foreign_text.h - files that are no text of nonzeros, told by their first bytes: what they are,
 * and how to make a table of them.
 *
 *   owner    everything is the caller's
 *   threads  any
 *   errors   TS_EFORMAT with a sentence that begins with the name
 */
#ifndef TS_SOURCE_FOREIGN_TEXT_H
#define TS_SOURCE_FOREIGN_TEXT_H

#include <stddef.h>

#include "base/err.h"

/* 0, or a failure where a file that begins with these bytes, unpacked, cannot be text. */
int ts_foreign_text_check(const char *name, const char *text, size_t bytes, struct ts_err *err);

/* Like ts_foreign_text_check, for a zip archive, by the name of its first member. */
int ts_foreign_zip_fails(const char *name, const unsigned char *head, size_t bytes,
                         struct ts_err *err);

#endif
