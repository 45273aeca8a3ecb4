/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_version.h - which program this is: for --version, and the record of a run.
 *
 *   owner    the strings are the program's own
 */
#ifndef TS_TOOLS_TOOL_VERSION_H
#define TS_TOOLS_TOOL_VERSION_H

#include <stdio.h>

const char *tool_version(void); /* the version in configure.ac */
const char *tool_commit(void); /* the commit as `git describe` names it; "unknown" outside of git */

/* Version, commit, what was built in, and the vector code that runs on this machine. */
void tool_version_print(const char *program, FILE *to);

#endif
