/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_completion.h - what a shell completes after the name of a program, from its option tables.
 * Run by make, as `PROGRAM --help-completion bash|zsh|fish`.
 *
 *   errors   -1: no such shell
 */
#ifndef TS_TOOLS_TOOL_COMPLETION_H
#define TS_TOOLS_TOOL_COMPLETION_H

#include <stdio.h>

#include "tools/common/tool.h"

int tool_completion(const struct tool_program *program, const char *shell, FILE *to);

#endif
