/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_team.h - the threads of a team, a job for all of them, and what several processes agree on.
 *
 *   owner    ts_gpu_team_close ends what ts_gpu_team_open started
 *   threads  _run and all of gpu_ranks.c: those that call the backend, between jobs; the others are
 *            for members in a job
 *   errors   0 or a negative ts_code
 */
#ifndef TS_GPU_GPU_TEAM_H
#define TS_GPU_GPU_TEAM_H

#include "gpu/team/gpu_state.h"

/* ---- gpu_team.c */
int ts_gpu_team_open(struct ts_gpu *g, struct ts_err *err);
void ts_gpu_team_close(struct ts_gpu *g);
/* Runs the job on every member. feed: where the job takes shards from, or NULL. Returns the first
 * failure, or 0. */
int ts_gpu_team_run(struct ts_gpu *g, ts_gpu_job job, void *arg, struct ts_feed *feed,
                    struct ts_err *err);
/* Waits for all members here. Returns 0, or the code of the first failure. */
int ts_gpu_team_barrier(struct ts_gpu *g, struct ts_err *err);
/* Waits for an event of the device. Returns early when another member fails. */
int ts_gpu_team_wait(struct ts_gpu *g, struct ts_gpu_member *me, ts_gpu_event event,
                     struct ts_err *err);
/* Waits between two checks: yields at first, then sleeps. *n counts the waits, from 0. */
void ts_gpu_team_pause(uint32_t *n);
/* 0, or the first failure. During a pass the thread that runs it looks for other processes, too,
 * that have given up: TS_ESTOP then. */
int ts_gpu_team_failed(struct ts_gpu *g, struct ts_err *err);

/* ---- gpu_ranks.c: all processes call these alike; this process alone goes through them with
 * nothing to do */
/* Numbers the members: this process's are those of conf. */
int ts_gpu_ranks_join(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err);
void ts_gpu_ranks_leave(struct ts_gpu *g);
/* Two members have one GPU, which NCCL refuses. Of processes with an NCCL_HOSTID each it sees
 * two GPUs, and so do we: that is how one GPU tests what NCCL does over a network. */
int ts_gpu_ranks_share(const struct ts_gpu *g);
/* What a step of opening ended with: the same for all. TS_ELIMIT may be followed by another try. */
int ts_gpu_ranks_settle(struct ts_gpu *g, int rc, struct ts_err *err);
/* What a pass, or what follows it, ended with; where it failed, no pass may follow. */
int ts_gpu_ranks_end(struct ts_gpu *g, int rc, struct ts_err *err);
/* *x := the least that any has. */
int ts_gpu_ranks_least(struct ts_gpu *g, uint64_t *x, struct ts_err *err);
/* The elements first[i] .. first[i + 1] - 1 of an array, of `bytes` each, are member i's. All
 * get all. */
int ts_gpu_ranks_gather(struct ts_gpu *g, void *array, uint64_t bytes, const uint64_t *first,
                        struct ts_err *err);
/* The same of what has `bytes` bytes for each share of the pass over a mode that was the last
 * one: a process has those of the ranges of its members. */
int ts_gpu_ranks_shares(struct ts_gpu *g, uint32_t mode, double *array, uint64_t bytes,
                        struct ts_err *err);
/* Times and costs of ranges of all members, of which those here are known. */
int ts_gpu_ranks_times(struct ts_gpu *g, struct ts_backend_times *times, uint64_t *range_ns,
                       struct ts_err *err);
/* Says in g->link by what rows travel. */
void ts_gpu_ranks_link(struct ts_gpu *g);

#endif
