/* SPDX-License-Identifier: BSD-3-Clause */
/* build_input.h - what several ranks of tshard build compare of the files that they read: names,
 * kinds, sizes and, of those on a disk, bytes here and there. So copies on disks of nodes do as
 * well as one file that all see; two files that differ elsewhere alone are taken for the same.
 *
 *   threads  any
 *   errors   none: a file that cannot be read is told as one, and reading it later says why
 */
#ifndef TS_TOOLS_BUILD_INPUT_H
#define TS_TOOLS_BUILD_INPUT_H

#include <stdio.h>

/* A line of text, the same for the same file. Reads BUILD_INPUT_PLACES times BUILD_INPUT_BYTES at
 * most. */
void build_input_put(FILE *to, const char *path);

#define BUILD_INPUT_PLACES 16u /* the first and the last bytes, and some between */
#define BUILD_INPUT_BYTES  4096u

#endif
