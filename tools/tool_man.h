/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_man.h - the man page of a program, from its tables. Run by make, as `PROGRAM --help-man`. */
#ifndef TS_TOOLS_TOOL_MAN_H
#define TS_TOOLS_TOOL_MAN_H

#include <stdio.h>

#include "tools/tool.h"

void tool_man(const struct tool_program *program, FILE *to);

#endif
