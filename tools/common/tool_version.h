/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_version.h - the version of the program, for --version and for the record of a run.
 *
 *   owner    the strings are the program's own
 */
#ifndef TS_TOOLS_TOOL_VERSION_H
#define TS_TOOLS_TOOL_VERSION_H

#include <stdio.h>

const char *tool_version(void); /* returns the version in configure.ac */
const char *tool_commit(void); /* the commit as `git describe` names it; "unknown" outside of git */

/* Prints the version, commit, libraries and kernels, and the vector instructions used on this
 * machine. */
void tool_version_print(const char *program, FILE *to);

#endif
