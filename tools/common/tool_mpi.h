/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_mpi.h - a program as one of several ranks (tool_ranks.h) that a launcher of MPI has started.
 *
 *   threads  the main thread
 */
#ifndef TS_TOOLS_TOOL_MPI_H
#define TS_TOOLS_TOOL_MPI_H

/* Opens MPI, runs, and closes it; however the program ends, the other ranks learn how. Of its
 * commands ranks run those of `together`, which NULL ends, and no other. */
int tool_mpi_main(const char *name, const char *const *together, int argc, char **argv,
                  int (*run)(int argc, char **argv));

#endif
