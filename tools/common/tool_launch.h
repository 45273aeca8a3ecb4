/* SPDX-License-Identifier: BSD-3-Clause */
/* tool_launch.h - which of several processes this one is, by what launchers tell it in its
 * environment: Open MPI's, those that speak PMI (MPICH, Intel), Slurm's. No MPI is asked. */
#ifndef TS_TOOLS_TOOL_LAUNCH_H
#define TS_TOOLS_TOOL_LAUNCH_H

#include <stdint.h>

/* Processes of a launcher that prepares for MPI; 1: none is seen. */
uint32_t tool_launch_mpi(void);

/* The number of this process and of all, of any launcher: 1, or 0 where none is seen. */
int tool_launch_place(uint32_t *rank, uint32_t *n);

/* This is one of several processes that a launcher prepares for MPI, and its command, argv[1], is
 * none of those that each may run by itself; NULL ends them. */
int tool_launch_together(int argc, char **argv, const char *const *by_itself);

/* Becomes the program of this name that MPI is linked into, which lies beside this one, or else
 * where a shell finds it. Returns 1 where there is none, and the first process has said it. */
int tool_launch_become(const char *program, char **argv);

#endif
