/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_watch.h - a thread that looks after a command that runs for long: once a second, and when
 * SIGUSR1 asks.
 *
 * The signal's handler only writes a byte to a pipe that the thread waits at, so a line is printed
 * though nothing gets done meanwhile. Without pipe or thread (limits of the system) a command runs
 * on unwatched, and SIGUSR1 does nothing.
 *
 *   threads  start and end from one
 *   errors   none
 */
#ifndef TS_TOOLS_TOOL_WATCH_H
#define TS_TOOLS_TOOL_WATCH_H

void tool_watch_start(void); /* called by tool_catch_signals; a second call does nothing */
void tool_watch_end(void);   /* by tool_main */

#endif
