/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_text.h - converts between the options of a build and the texts that its tensor keeps of them
 * (format/kept.h).
 *
 *   owner    the caller
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_KEPT_TEXT_H
#define TS_BUILD_KEPT_TEXT_H

#include "build/build.h"
#include "format/kept.h"

/* Parses a transform, "log1p", "binary" or "scale=X", or writes it as text, which may also be
 * "none". */
int ts_transform_parse(const char *text, struct ts_transform *ret, struct ts_err *err);
#define TS_TRANSFORM_CHARS 48
void ts_transform_text(const struct ts_transform *t, char ret[TS_TRANSFORM_CHARS]);

/* Completes the options of an append from those of the build of its tensor. Options whose bit (1 <<
 * id) is set in `said` were given by the user, and stay. If the input was a table, *plan is
 * completed too, o->table becomes `plan`, and columns are found by the names of the header.
 *
 * The units of times are not taken over: the new input may have others. They are found in the
 * input, and compared with the old ones (o->like). The first index is taken over only from and for
 * texts that do not state it. Sizes and labels are not taken over either. If the user gave a
 * format, its separator stays.
 *
 * *o and *plan point to texts of `was`. Each text is parsed as if the user had typed it. */
int ts_kept_adopt(const struct ts_kept *was, uint64_t said, struct ts_build_options *o,
                  struct ts_table_plan *plan, struct ts_err *err);

#endif
