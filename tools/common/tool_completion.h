/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_completion.h - prints shell completions for a program from its option tables. make runs
 * `PROGRAM --help-completion bash|zsh|fish`.
 *
 *   errors   -1: unknown shell
 */
#ifndef TS_TOOLS_TOOL_COMPLETION_H
#define TS_TOOLS_TOOL_COMPLETION_H

#include <stdio.h>

#include "tools/common/tool.h"

int tool_completion(const struct tool_program *program, const char *shell, FILE *to);

#endif
