/* SPDX-License-Identifier: BSD-3-Clause */
/* build_notes.h - prints notes about a new tensor whose indices were perhaps not meant as they were
 * read.
 *
 *   errors   none: a mode that cannot be read gets no note
 */
#ifndef TS_TOOLS_BUILD_NOTES_H
#define TS_TOOLS_BUILD_NOTES_H

#include "api/tools.h"

/* Prints a line on standard error for each mode whose indices were perhaps misread: numbers of
 * which few are used, such as zip codes, years and times; and labels that are times, nearly all of
 * them different. */
void build_notes(const struct ts_cmd *cmd, const char *tensor);

/* Prints a line if index 0 is used in no mode or, with `--base 0` (said_0), is not used in some
 * modes: their indices may start at 1. binary: 1 if the input was a binary file. */
void build_base_note(const struct ts_cmd *cmd, const char *tensor, int said_0, int binary);

#endif
