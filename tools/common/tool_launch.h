/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_launch.h - finds the rank of this process in the environment variables of launchers,
 * without calling MPI: Open MPI, launchers with PMI (MPICH, Intel MPI), and Slurm. */
#ifndef TS_TOOLS_TOOL_LAUNCH_H
#define TS_TOOLS_TOOL_LAUNCH_H

#include <stdint.h>

/* Returns the number of processes of a launcher for MPI; 1 if there is none. */
uint32_t tool_launch_mpi(void);

/* Sets *rank to the number of this process and *n to the number of all processes, for any launcher.
 * Returns 1, or 0 if there is no launcher. */
int tool_launch_place(uint32_t *rank, uint32_t *n);

/* Whether a launcher for MPI started several processes that must work together: the command,
 * argv[1], is not in by_itself (which ends with NULL), the commands that each process may run
 * alone. */
int tool_launch_together(int argc, char **argv, const char *const *by_itself);

/* Replaces this process by the named program, which is linked with MPI: in this program's
 * directory, or else in the PATH. Returns 1 if it is not found; the first process prints a
 * message. */
int tool_launch_become(const char *program, char **argv);

#endif
