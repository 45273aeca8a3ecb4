/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_openmp.h - prepares the process for OpenMP, which reads the environment and the limit on
 * stacks before main() begins.
 *
 * GNU's OpenMP lets a thread that waits for others spin for milliseconds before it sleeps. If
 * other processes use the CPUs, spinning takes the time that the awaited thread needs, and a run
 * takes up to 300 times as long. A thousand spins bridge the gap between two consecutive parallel
 * regions, so runs on idle CPUs are as fast as before. A stack of a few dozen KiB is not enough.
 *
 *   owner    changes the environment and the soft stack limit of this process and of programs it
 *            executes
 *   threads  call it first in main()
 */
#ifndef TS_TOOLS_TOOL_OPENMP_H
#define TS_TOOLS_TOOL_OPENMP_H

/* Sets GOMP_SPINCOUNT and KMP_BLOCKTIME, unless the user has set one of them or OMP_WAIT_POLICY,
 * and raises a soft limit on the stack that is too low. If OpenMP has already read a changed
 * value, executes the program again, unless the command, argv[1], is in `quick` (ends with NULL),
 * whose commands compute nothing. Returns 0, or 1 after a message if the stack limit stays too
 * low. */
int tool_openmp_prepare(const char *program, char **argv, const char *const *quick);

#endif
