/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_mpi.h - ranks (stream/comm.h) that are the processes of an MPI launcher: mpirun, srun.
 *
 *   owner    the caller owns the comm until ts_comm_mpi_close; a process has at most one
 *   threads  open and close from one thread; MPI is asked for MPI_THREAD_MULTIPLE, and
 *            MPI_THREAD_SERIALIZED is enough without a heartbeat (heartbeat.h)
 *   errors   0 or a negative ts_code; if MPI itself fails, it ends all ranks with its own message
 */
#ifndef TS_MPI_COMM_MPI_H
#define TS_MPI_COMM_MPI_H

#include "stream/comm.h"

/* Starts MPI, and sets *ret to its ranks. name: the name of the program for messages, which must
 * stay valid until ts_comm_mpi_close. */
int ts_comm_mpi_open(const char *name, int *argc, char ***argv, struct ts_comm **ret,
                     struct ts_err *err);
void ts_comm_mpi_close(struct ts_comm *c); /* NULL is fine */

/* Writes name and version of this MPI to ret, cut off at `bytes` bytes. */
void ts_comm_mpi_version(char *ret, size_t bytes);

/* Returns the number of ranks on this host. */
uint32_t ts_comm_mpi_beside(const struct ts_comm *c);

#endif
