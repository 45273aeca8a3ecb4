/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_openmp.h - prepares the process for OpenMP, which reads the environment and the limit on
 * stacks before main() begins.
 *
 * GNU's OpenMP lets a thread that waits for others spin for milliseconds before it sleeps. Where
 * other processes use the CPUs, the thread spins away the time that the one it waits for needs, and
 * a run takes up to 300 times as long. A thousand turns bridge the gap between two regions that
 * follow each other, so nothing is lost on idle CPUs. A stack of a few dozen KiB is not enough.
 *
 *   owner    the environment and the soft limit on stacks of this process, and of what it becomes
 *   threads  call it first in main()
 */
#ifndef TS_TOOLS_TOOL_OPENMP_H
#define TS_TOOLS_TOOL_OPENMP_H

/* Sets GOMP_SPINCOUNT and KMP_BLOCKTIME, unless the user has set one of them or OMP_WAIT_POLICY,
 * and raises a soft limit on the stack that is too low. Where something changed that was read
 * already, the program is executed again, unless its command, argv[1], is one of `quick`, which
 * compute nothing; NULL ends them. Returns 0, or 1 after a message where the stack remains too
 * small. */
int tool_openmp_prepare(const char *program, char **argv, const char *const *quick);

#endif
