/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_mpi.h - ranks (stream/comm.h) that are the processes of an MPI launcher: mpirun, srun.
 *
 *   owner    the caller owns the comm until ts_comm_mpi_close; there is one in a process
 *   threads  open and close from one thread; MPI is asked for MPI_THREAD_MULTIPLE, and
 *            MPI_THREAD_SERIALIZED will do where nobody is to notice ranks that are stopped
 *            (heartbeat.h)
 *   errors   0 or a negative ts_code; where MPI itself fails it ends all ranks with its own words
 */
#ifndef TS_MPI_COMM_MPI_H
#define TS_MPI_COMM_MPI_H

#include "stream/comm.h"

/* name: of the program, for sentences; lent. */
int ts_comm_mpi_open(const char *name, int *argc, char ***argv, struct ts_comm **ret,
                     struct ts_err *err);
void ts_comm_mpi_close(struct ts_comm *c); /* NULL is fine */

/* Name and version of this MPI, cut where ret has no room. */
void ts_comm_mpi_version(char *ret, size_t bytes);

/* How many ranks run on this host. */
uint32_t ts_comm_mpi_beside(const struct ts_comm *c);

#endif
