/* SPDX-License-Identifier: BSD-3-Clause */
/* foreign_text.h - recognises files that are not text with nonzeros by their first bytes. Messages
 * say what they are, and how to make a table of them.
 *
 *   owner    everything is the caller's
 *   threads  any
 *   errors   TS_EFORMAT with a message that begins with the name
 */
#ifndef TS_SOURCE_FOREIGN_TEXT_H
#define TS_SOURCE_FOREIGN_TEXT_H

#include <stddef.h>

#include "base/err.h"

/* Returns 0, or a failure if a file whose decompressed text begins with these bytes cannot be a
 * text with nonzeros. */
int ts_foreign_text_check(const char *name, const char *text, size_t bytes, struct ts_err *err);

/* Like ts_foreign_text_check, for a zip archive: the name of its first member tells what kind of
 * file it is. */
int ts_foreign_zip_fails(const char *name, const unsigned char *head, size_t bytes,
                         struct ts_err *err);

#endif
