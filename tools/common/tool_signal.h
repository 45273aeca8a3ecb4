/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_signal.h - turns signals into a flag that long computations check.
 *
 *   threads  tool_catch_signals from the main thread, before others start; any thread reads the
 *            flag
 */
#ifndef TS_TOOLS_TOOL_SIGNAL_H
#define TS_TOOLS_TOOL_SIGNAL_H

#include <signal.h>
#include <stdint.h>

/* After this call, the first SIGINT, SIGTERM or SIGHUP only sets tool_stop; another one more than
 * 0.2 s later kills. A SIGHUP ignored because of nohup(1) stays ignored. SIGPIPE and SIGXFSZ are
 * ignored: writing fails with a message instead. SIGUSR1 prints the progress (tool_watch.h). */
void tool_catch_signals(void);
extern volatile sig_atomic_t tool_stop; /* number of the signal that asked to stop; 0: none came */

/* Sets tool_stop to SIGALRM after ns nanoseconds, unless a signal came before. The next signal
 * after that still counts as the first, which does not kill. */
void tool_stop_after(uint64_t ns);

/* If a signal stopped the command, ends the process by that signal, so that a shell also ends a
 * loop around the command. Returns if there was no signal, or if the command succeeded
 * nevertheless. */
void tool_signal_end(int status);

#endif
