/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_team.h - the threads of a team, jobs for all of them, and decisions of several processes.
 *
 *   owner    ts_gpu_team_close ends the threads that ts_gpu_team_open has started
 *   threads  ts_gpu_team_run and all functions of gpu_ranks.c are called by the thread that calls
 *            the backend, between jobs; the others by members during a job
 *   errors   0 or a negative ts_code
 */
#ifndef TS_GPU_GPU_TEAM_H
#define TS_GPU_GPU_TEAM_H

#include "gpu/team/gpu_state.h"

/* ---- defined in gpu_team.c */
int ts_gpu_team_open(struct ts_gpu *g, struct ts_err *err);
void ts_gpu_team_close(struct ts_gpu *g);
/* Runs the job on every member (GPU) of this process. feed: the feed from which the job takes
 * shards, or NULL. Returns the first failure, or 0. */
int ts_gpu_team_run(struct ts_gpu *g, ts_gpu_job job, void *arg, struct ts_feed *feed,
                    struct ts_err *err);
/* Waits for all members (GPUs) of this process. Returns 0, or the code of the first failure. */
int ts_gpu_team_barrier(struct ts_gpu *g, struct ts_err *err);
/* Waits for an event of the device. Returns early if another member fails. */
int ts_gpu_team_wait(struct ts_gpu *g, struct ts_gpu_member *me, ts_gpu_event event,
                     struct ts_err *err);
/* Waits between two checks whether something has ended: yields at first, then sleeps. *n counts the
 * waits, from 0. */
void ts_gpu_team_pause(uint32_t *n);
/* Returns 0, or the first failure. During a pass, the thread that runs it also polls for failures
 * of other processes, which give TS_ESTOP. */
int ts_gpu_team_failed(struct ts_gpu *g, struct ts_err *err);

/* ---- gpu_ranks.c: collective functions, which all processes must call. A run of one process may
 * call them too; they then send nothing */
/* Numbers the members of all processes. Those of this process use the devices of conf. */
int ts_gpu_ranks_join(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err);
void ts_gpu_ranks_leave(struct ts_gpu *g);
/* Whether two members share a GPU, which NCCL rejects. Processes with different NCCL_HOSTIDs count
 * as having two GPUs, as for NCCL. So one GPU can test how NCCL sends data over a network. */
int ts_gpu_ranks_share(const struct ts_gpu *g);
/* Agrees with the other processes on the result of a step of opening the backend: all return the
 * same result. After TS_ELIMIT, another attempt is possible. */
int ts_gpu_ranks_settle(struct ts_gpu *g, int rc, struct ts_err *err);
/* Agrees with the other processes on the result of a pass, or of the work after it. After a
 * failure, no pass may follow. */
int ts_gpu_ranks_end(struct ts_gpu *g, int rc, struct ts_err *err);
/* *x := the smallest *x of all processes. */
int ts_gpu_ranks_least(struct ts_gpu *g, uint64_t *x, struct ts_err *err);
/* Gathers an array on all processes. Member i has its elements first[i] .. first[i + 1] - 1, of
 * `bytes` bytes each. */
int ts_gpu_ranks_gather(struct ts_gpu *g, void *array, uint64_t bytes, const uint64_t *first,
                        struct ts_err *err);
/* Gathers an array with `bytes` bytes for each share (one thread block's nonzeros) of a mode, after
 * a pass over it: each process has the shares of its members' ranges. */
int ts_gpu_ranks_shares(struct ts_gpu *g, uint32_t mode, double *array, uint64_t bytes,
                        struct ts_err *err);
/* Gathers the times, and the costs of ranges, of all members (GPUs). */
int ts_gpu_ranks_times(struct ts_gpu *g, struct ts_backend_times *times, uint64_t *range_ns,
                       struct ts_err *err);
/* Sets g->link to a text that says how rows are sent between members (GPUs). */
void ts_gpu_ranks_link(struct ts_gpu *g);

#endif
