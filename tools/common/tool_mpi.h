/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_mpi.h - runs a program as one of several ranks (tool_ranks.h) that an MPI launcher has
 * started.
 *
 *   threads  the main thread
 */
#ifndef TS_TOOLS_TOOL_MPI_H
#define TS_TOOLS_TOOL_MPI_H

/* Opens MPI, calls `run`, and closes MPI. However this rank ends, the other ranks learn its
 * result. Several ranks may run only the commands of `together`, which ends with NULL. */
int tool_mpi_main(const char *name, const char *const *together, int argc, char **argv,
                  int (*run)(int argc, char **argv));

#endif
