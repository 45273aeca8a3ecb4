/* SPDX-License-Identifier: BSD-3-Clause */
/* heartbeat.h - detects a rank that no longer responds because it was stopped, or because its
 * machine or network is gone.
 *
 * A thread of each rank sends a byte to the next rank twice a second, and listens to the rank
 * before. If the rank before is silent for too long, a message that names it goes to the standard
 * error that the process was started with, and the launcher ends all ranks. A launcher detects
 * ranks that die, but not ranks that are stopped: the others would wait for ever. Only time in
 * which this rank sends its own beats counts as silence, so a job that is suspended as a whole can
 * continue later.
 *
 * Another thread asks the kernel whether machines at the other end of TCP connections answer
 * (mpi/wire.h): a thread that waits in MPI may block the thread that sends the beats. If a machine
 * is gone, the launcher waits for it. So the processes of the launcher on this machine are killed a
 * second later (mpi/launcher.h).
 *
 * Before the first beat, ranks wait for each other in MPI, which does not report a missing rank. So
 * a thread measures the time until all ranks have started.
 *
 *   owner    the caller owns the heartbeat, which may exist between MPI_Init_thread and
 *            MPI_Finalize only
 *   threads  start and stop from one thread
 *   errors   start returns NULL if this MPI does not support several threads at once: then lost
 *            ranks are not detected
 */
#ifndef TS_MPI_HEARTBEAT_H
#define TS_MPI_HEARTBEAT_H

struct ts_heartbeat;

/* To be called before MPI_Init_thread, which waits for all ranks. Ends this process and its
 * launcher if ts_heartbeat_start has not returned after TS_HEARTBEAT_STARTS times the timeout
 * (TS_HEARTBEAT_SECONDS). name: the name of the program, which must stay valid. */
#define TS_HEARTBEAT_STARTS 30
void ts_heartbeat_before(const char *name);

/* The time without a beat after which a rank counts as lost, in seconds. The environment variable
 * TSTREAM_RANK_TIMEOUT replaces it; 0: never. */
#define TS_HEARTBEAT_SECONDS 7

/* Starts the heartbeat; collective. name: the name of the program, which must stay valid. level:
 * the thread support that MPI_Init_thread has granted. look: a function that the thread of the
 * beats calls some twenty times a second. */
struct ts_heartbeat *ts_heartbeat_start(const char *name, int level, void (*look)(void *ctx),
                                        void *ctx);

/* Stops the heartbeat after the rank before has stopped its own; collective. h may be NULL. */
void ts_heartbeat_stop(struct ts_heartbeat *h);

#endif
