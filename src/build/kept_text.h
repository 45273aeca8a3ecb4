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

/* Sets the options of an append to those that built its tensor. Options whose bit (1 << id) is set
 * in `said` were given by the user, and stay. If the tensor was built from a table, *plan is set
 * too, and o->table becomes `plan`. Columns are then found by the names in the header.
 *
 * Units of times are not set: they are found in the new input, and must equal the old ones
 * (o->like). The first index is set only if both inputs are text that does not state it. Sizes and
 * labels are not set. If the user gave a format, the separator of that format stays.
 *
 * *o and *plan point to texts of `was`. Each text is parsed as if the user had typed it. */
int ts_kept_adopt(const struct ts_kept *was, uint64_t said, struct ts_build_options *o,
                  struct ts_table_plan *plan, struct ts_err *err);

#endif
