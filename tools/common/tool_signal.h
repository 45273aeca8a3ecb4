/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_signal.h - signals become a flag that whoever works looks at.
 *
 *   threads  tool_catch_signals from the main thread, before others start; the flag from any
 */
#ifndef TS_TOOLS_TOOL_SIGNAL_H
#define TS_TOOLS_TOOL_SIGNAL_H

#include <signal.h>
#include <stdint.h>

/* From this call on the first SIGINT, SIGTERM or SIGHUP sets tool_stop and nothing else; one that
 * comes more than 0.2 s later kills. A SIGHUP that nohup(1) had ignored stays so. SIGPIPE and
 * SIGXFSZ are ignored: writing fails with a sentence instead. SIGUSR1 prints how far the command is
 * (tool_watch.h). */
void tool_catch_signals(void);
extern volatile sig_atomic_t tool_stop; /* number of the signal, 0 when none came */

/* Sets tool_stop to SIGALRM once so much time has passed, if nothing else has asked before. A
 * signal that comes later is the first one. */
void tool_stop_after(uint64_t ns);

/* The end of a command that a signal stopped: dies by it, so that a shell knows and ends the loop
 * that the command is in. Returns when there was none, or when the command was done all the
 * same. */
void tool_signal_end(int status);

#endif
