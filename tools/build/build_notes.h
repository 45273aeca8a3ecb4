/* SPDX-License-Identifier: BSD-3-Clause */
/* build_notes.h - notes about a tensor that was just built and may be meant otherwise.
 *
 *   errors   none: what cannot be read gets no note
 */
#ifndef TS_TOOLS_BUILD_NOTES_H
#define TS_TOOLS_BUILD_NOTES_H

#include "api/tools.h"

/* A line on standard error for each such mode: numbers that use few of their indices, such as zip
 * codes, years and times, and labels that are times, nearly all of them different. */
void build_notes(const struct ts_cmd *cmd, const char *tensor);

/* A line where index 0 is used in no mode, or, with `--base 0` (said_0), in some: the indices may
 * start at 1. binary: the input was a binary file. */
void build_base_note(const struct ts_cmd *cmd, const char *tensor, int said_0, int binary);

#endif
