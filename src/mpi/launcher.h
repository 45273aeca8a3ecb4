/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher.h - kills the processes of an MPI launcher that waits for a lost machine.
 *
 * MPI_Abort asks the launcher to end all ranks. It asks the machines of all ranks in turn, and
 * waits for their answers. TCP gives a machine that does not answer a quarter of an hour.
 *
 *   threads  from any thread; the first call counts, later calls do nothing
 */
#ifndef TS_MPI_LAUNCHER_H
#define TS_MPI_LAUNCHER_H

/* Starts a helper process that waits for a second. It then kills this process, all processes that
 * the launcher has started on this machine, the launcher, and the proxy of MPICH between them.
 * Processes that have ended by then are not touched. The helper keeps no file open. */
void ts_launcher_end_soon(void);

/* Whether a process of this name (of /proc/PID/comm) belongs to a launcher. */
int ts_launcher_is(const char *comm);

#endif
