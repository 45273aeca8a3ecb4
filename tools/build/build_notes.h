/* SPDX-License-Identifier: BSD-3-Clause */
/* build_notes.h - notes about modes of a table that was just built and may be meant otherwise.
 *
 *   errors   none: what cannot be read gets no note
 */
#ifndef TS_TOOLS_BUILD_NOTES_H
#define TS_TOOLS_BUILD_NOTES_H

#include "api/tools.h"

/* A line on standard error for each such mode: numbers that use few of their indices, such as zip
 * codes, years and times, and labels that are times, nearly all of them different. */
void build_notes(const struct ts_cmd *cmd, const char *tensor);

#endif
