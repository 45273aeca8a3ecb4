/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_merge.h - a command that reads a tensor of several segments merges them first
 * (build/append.h), within the memory that its options allow.
 *
 *   threads  the main thread
 */
#ifndef TS_TOOLS_TOOL_MERGE_H
#define TS_TOOLS_TOOL_MERGE_H

#include "api/tools.h"

/* Lets the library merge segments when the command opens a tensor. Call it once the options are
 * parsed: args has the command's limit of memory. quiet: 1 suppresses notes. */
void tool_merge_setup(const struct ts_cmd *cmd, const void *args, int quiet);

#endif
