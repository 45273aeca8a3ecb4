/* SPDX-License-Identifier: BSD-3-Clause */
/* heartbeat.h - notices a rank that says nothing any more: it was stopped, or its machine or
 * network is gone.
 *
 * A thread of each rank sends a byte to the next rank twice a second, and listens to the rank
 * before. Where that one is silent for too long, one sentence that names it goes to the standard
 * error that the process was started with, and all ranks are ended by the launcher. A launcher
 * notices ranks that die, but none that are stopped: the others would wait for ever. Only beats of
 * its own that came in time count as waiting, so that a job that is suspended as a whole goes on
 * later.
 *
 * Another thread asks the kernel whether machines at the other end of TCP connections answer
 * (mpi/wire.h): a rank that waits in MPI may keep the beats out. Where a machine is gone, a
 * launcher waits for it. So its processes on this machine are ended a second later
 * (mpi/launcher.h).
 *
 * Before the first beat, ranks wait for each other in MPI, in which nobody is missed. So a thread
 * counts the seconds until all have started.
 *
 *   owner    the caller owns it, between MPI_Init_thread and MPI_Finalize
 *   threads  start and stop from one
 *   errors   NULL: there is none, as MPI is not for several threads at once, and nothing is noticed
 */
#ifndef TS_MPI_HEARTBEAT_H
#define TS_MPI_HEARTBEAT_H

struct ts_heartbeat;

/* Before MPI_Init_thread, which waits for all ranks: ends this process and its launcher where
 * ts_heartbeat_start has not come back after TS_HEARTBEAT_STARTS times that time. name: of the
 * program; lent. */
#define TS_HEARTBEAT_STARTS 30
void ts_heartbeat_before(const char *name);

/* Collective. name: of the program; lent. level: what MPI_Init_thread has given. The time is
 * TS_HEARTBEAT_SECONDS, or what the environment variable TSTREAM_RANK_TIMEOUT says, in seconds; 0:
 * none. */
#define TS_HEARTBEAT_SECONDS 7

/* look: called by that thread, some twenty times a second. */
struct ts_heartbeat *ts_heartbeat_start(const char *name, int level, void (*look)(void *ctx),
                                        void *ctx);

/* Collective; waits until the rank before has stopped, too. NULL is fine. */
void ts_heartbeat_stop(struct ts_heartbeat *h);

#endif
