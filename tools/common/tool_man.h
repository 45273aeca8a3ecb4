/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_man.h - prints the manual pages of a program from its tables. make runs `PROGRAM
 * --help-man` for the overview and `PROGRAM --help-man COMMAND` for the page of a command. */
#ifndef TS_TOOLS_TOOL_MAN_H
#define TS_TOOLS_TOOL_MAN_H

#include <stdio.h>

#include "tools/common/tool.h"

/* Writes a page; command NULL: the overview. Returns 0, or -1 for an unknown command. */
int tool_man(const struct tool_program *program, const char *command, FILE *to);

#endif
