/* SPDX-License-Identifier: BSD-3-Clause */
/* build_input.h - describes the input files of tshard build, so that several ranks can check that
 * they read the same: names, kinds, sizes and, for regular files, samples of the bytes. So each
 * node may read its own copy of a file. Files that differ only outside the samples are taken for
 * equal.
 *
 *   threads  any
 *   errors   none: the description says that a file cannot be read; reading it later reports why
 */
#ifndef TS_TOOLS_BUILD_INPUT_H
#define TS_TOOLS_BUILD_INPUT_H

#include <stdio.h>

/* Writes a line of text about a file; lines are equal for equal files. Reads at most
 * BUILD_INPUT_PLACES times BUILD_INPUT_BYTES of the file. */
void build_input_put(FILE *to, const char *path);

/* number of samples of a file: its first and last bytes, and some in between */
#define BUILD_INPUT_PLACES 16u
#define BUILD_INPUT_BYTES  4096u

#endif
