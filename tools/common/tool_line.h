/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_line.h - the one line of a terminal that progress writes over and over.
 *
 *   owner    the process: one line, whoever writes it
 *   threads  any thread; a lock keeps writers apart
 */
#ifndef TS_TOOLS_TOOL_LINE_H
#define TS_TOOLS_TOOL_LINE_H

/* columns of the terminal at standard error; 0 if there is none, or if its width is unknown */
int tool_line_columns(void);
void tool_line_show(const char *text);  /* cut to the terminal's width */
void tool_line_erase(void);             /* nothing happens when nothing is shown */
void tool_line_print(const char *text); /* a line that stays */

#endif
