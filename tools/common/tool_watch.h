/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_watch.h - a thread that shows the progress of a long command, once a second and at SIGUSR1.
 *
 * The signal handler only writes a byte to a pipe on which the thread waits, so a line is printed
 * even if the computation makes no progress. If the pipe or thread cannot be made (system limits),
 * the command runs without them, and SIGUSR1 does nothing.
 *
 *   threads  one thread starts and ends it
 *   errors   none
 */
#ifndef TS_TOOLS_TOOL_WATCH_H
#define TS_TOOLS_TOOL_WATCH_H

/* starts the thread; called by tool_catch_signals; a second call does nothing */
void tool_watch_start(void);
void tool_watch_end(void); /* ends the thread; called by tool_main */

#endif
