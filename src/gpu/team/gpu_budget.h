/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_budget.h - the memory that a backend may take of each device, and what of it is left for
 * shards.
 *
 * A budget is checked before anything is allocated. Once everything but the shards is allocated,
 * the driver's share is measured, and what is left is that for shards.
 *
 *   owner    ts_gpu_budget_open fills the struct, ts_gpu_budget_close gives back what it holds
 *   units    bytes
 *   threads  one: the calling thread's device becomes that of the member
 *   errors   0 or a negative ts_code; TS_ELIMIT: the budget is too small or too large
 */
#include "gpu/team/gpu_state.h"
#ifndef TS_GPU_GPU_BUDGET_H
#define TS_GPU_GPU_BUDGET_H

struct ts_gpu_budget {
    struct ts_gpu_memory *memory;
    uint64_t asked;               /* the budget; 0: none, use what is free */
    uint64_t tables;              /* page tables of page-locked host memory, on every device */
    uint64_t before[TS_MAX_TEAM]; /* bytes in use before the backend allocates anything */
    int measured[TS_MAX_TEAM];    /* `before` is known, and none of it is of this process */
    uint64_t driver[TS_MAX_TEAM]; /* bytes of the CUDA context and its libraries */
};

void ts_gpu_budget_open(const struct ts_gpu *g, const struct ts_backend_conf *conf,
                        struct ts_gpu_budget *ret);
void ts_gpu_budget_close(struct ts_gpu_budget *b);

/* What each device has for factors, sums and shards, before it is opened; without a budget and an
 * answer of NVML there is no limit. Makes no context. */
uint64_t ts_gpu_budget_guess(const struct ts_gpu *g, const struct ts_backend_conf *conf);

/* Checks the budget before anything is allocated, while a refusal costs nothing. */
int ts_gpu_budget_check(const struct ts_gpu *g, struct ts_gpu_budget *b, uint32_t member,
                        struct ts_err *err);

/* Measures the driver's memory, once everything but the shards is allocated. */
void ts_gpu_budget_measure(struct ts_gpu *g, struct ts_gpu_budget *b, uint32_t member);

/* Bytes left for shards on each device: the smallest of all devices here. */
int ts_gpu_budget_left(const struct ts_gpu *g, const struct ts_gpu_budget *b, uint64_t *ret,
                       struct ts_err *err);

#endif
