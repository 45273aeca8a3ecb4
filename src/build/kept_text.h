/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_text.h - between the options of a build and what its tensor keeps of them (format/kept.h).
 *
 *   owner    the caller
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_KEPT_TEXT_H
#define TS_BUILD_KEPT_TEXT_H

#include "build/build.h"
#include "format/kept.h"

/* "log1p", "binary", "scale=X". As text also "none". */
int ts_transform_parse(const char *text, struct ts_transform *ret, struct ts_err *err);
#define TS_TRANSFORM_CHARS 48
void ts_transform_text(const struct ts_transform *t, char ret[TS_TRANSFORM_CHARS]);

/* Completes the options of an append from those of the build of its tensor. Rows whose bit (1 <<
 * id) is set in `said` were given by the user, and stay. If the input was a table, *plan is
 * completed too, o->table becomes `plan`, and columns are found by the names of the header.
 *
 * The units of times are not taken over: the new input has its own, and with those of another one
 * it could be read as something else. They are found out, and compared (o->like). The base is taken
 * over for texts that do not state it, if it was that of such texts. Sizes and names of indices are
 * not taken over either. A format that was given keeps its separator.
 *
 * *o and *plan point to texts of `was`. Each is parsed as one that a user typed. */
int ts_kept_adopt(const struct ts_kept *was, uint64_t said, struct ts_build_options *o,
                  struct ts_table_plan *plan, struct ts_err *err);

#endif
