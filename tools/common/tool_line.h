/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_line.h - the terminal line that progress overwrites.
 *
 *   owner    the process has one line, which all threads share
 *   threads  any thread; a lock keeps writers apart
 */
#ifndef TS_TOOLS_TOOL_LINE_H
#define TS_TOOLS_TOOL_LINE_H

/* Returns the columns of the terminal at standard error; 0 if it is no terminal, or of unknown
 * width. */
int tool_line_columns(void);
void tool_line_show(const char *text);  /* cuts the text to the terminal's width */
void tool_line_erase(void);             /* erases the text; does nothing if no text is shown */
void tool_line_print(const char *text); /* prints a line that progress does not overwrite */

#endif
