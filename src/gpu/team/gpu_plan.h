/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_plan.h - plans the memory and the work of the GPU backend: sizes, the number of models, the
 * shards that stay on each device, and the ranges of members.
 *
 *   owner    ts_gpu_plan_free frees everything that ts_gpu_plan_new allocates
 *   threads  called by the thread that calls the backend, between jobs
 *   errors   0 or a negative ts_code
 */
#ifndef TS_GPU_GPU_PLAN_H
#define TS_GPU_GPU_PLAN_H

#include "gpu/team/gpu_state.h"

/* ---- defined in gpu_plan.c */
int ts_gpu_plan_new(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err);
void ts_gpu_plan_free(struct ts_gpu *g);
uint32_t ts_gpu_plan_stride(uint32_t rank, uint32_t element);
uint64_t ts_gpu_plan_factors(const struct ts_gpu *g); /* bytes of the factors of all models */
/* bytes that the largest shard takes on a device */
uint64_t ts_gpu_plan_largest(const struct ts_gpu *g);
uint64_t ts_gpu_plan_all(const struct ts_gpu *g); /* bytes that all shards take */
/* Chooses the kept shards (which stay on the device), the number of slots (buffers for the others)
 * and store_bytes, for `left` bytes on each device. `left` must hold at least two shards. */
int ts_gpu_plan_shards(struct ts_gpu *g, uint64_t left, struct ts_err *err);

/* ---- gpu_models.c: the function `most` of the backend's table */
uint32_t ts_gpu_models_most(const struct ts_backend_conf *conf);

/* ---- defined in gpu_keep.c */
/* Returns the ranges of the members (GPUs) of this process, n_here + 1 numbers. The feed delivers
 * all shards of these ranges. */
const uint64_t *ts_gpu_keep_ranges(struct ts_gpu *g, uint32_t mode);
/* To be called after a pass over `mode` in which member i worked for busy_ns[i]. Moves ranges and
 * their kept shards, and passes the new ranges to the feed. share[i]: the share of the cost that
 * member i gets next. Between processes, only kept shards move. */
int ts_gpu_keep_balance(struct ts_gpu *g, uint32_t mode, const uint64_t *busy_ns,
                        struct ts_feed *feed, double *share, struct ts_err *err);

#endif
