/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher.h - ends what a launcher of MPI does not: it waits for a machine that is gone.
 *
 * MPI_Abort asks the launcher to end all ranks. It asks the machines of all ranks in turn, and
 * waits for their answers. TCP gives a machine that does not answer a quarter of an hour.
 *
 *   threads  one call; later ones do nothing
 */
#ifndef TS_MPI_LAUNCHER_H
#define TS_MPI_LAUNCHER_H

/* Starts a process that waits for a second. Then it kills this one, all else that the launcher has
 * started on this machine, and the launcher, with a proxy of MPICH that is between them. It holds
 * no file open. What has ended by itself before is left alone. */
void ts_launcher_end_soon(void);

/* Whether a process of this name (of /proc/PID/comm) belongs to a launcher. */
int ts_launcher_is(const char *comm);

#endif
