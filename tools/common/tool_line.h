/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_line.h - the one line of a terminal that progress writes over and over.
 *
 *   owner    the process: one line, whoever writes it
 *   threads  any thread; a lock keeps writers apart
 */
#ifndef TS_TOOLS_TOOL_LINE_H
#define TS_TOOLS_TOOL_LINE_H

int tool_line_columns(void); /* of standard error; 0: it is no terminal, or does not say */
void tool_line_show(const char *text);  /* cut to the terminal's width */
void tool_line_erase(void);             /* nothing happens when nothing is shown */
void tool_line_print(const char *text); /* a line that stays */

#endif
