/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_budget.h - computes how much memory of each device a backend may use, and how much of it is
 * for shards.
 *
 * A budget is checked before anything is allocated. After everything except shards was allocated,
 * the driver's memory is measured, and the rest is for shards.
 *
 *   owner    ts_gpu_budget_open fills the struct, ts_gpu_budget_close frees its members
 *   units    bytes
 *   threads  one; functions set the current device of the calling thread
 *   errors   0 or a negative ts_code; TS_ELIMIT: the budget is too small or too large
 */
#include "gpu/team/gpu_state.h"
#ifndef TS_GPU_GPU_BUDGET_H
#define TS_GPU_GPU_BUDGET_H

struct ts_gpu_budget {
    struct ts_gpu_memory *memory;
    uint64_t asked;  /* the budget; 0: none, so all free memory may be used */
    uint64_t tables; /* bytes of page tables for page-locked host memory, on each device */
    uint64_t before[TS_MAX_TEAM]; /* bytes in use before the backend allocates anything */
    int measured[TS_MAX_TEAM];    /* 1: `before` is known, and includes no memory of this process */
    uint64_t driver[TS_MAX_TEAM]; /* bytes of the CUDA context and its libraries */
};

void ts_gpu_budget_open(const struct ts_gpu *g, const struct ts_backend_conf *conf,
                        struct ts_gpu_budget *ret);
void ts_gpu_budget_close(struct ts_gpu_budget *b);

/* Estimates the bytes that each device has for factors, sums and shards, before the device is
 * opened. Without a budget, and if NVML does not answer, there is no limit (UINT64_MAX). Makes no
 * context. */
uint64_t ts_gpu_budget_guess(const struct ts_gpu *g, const struct ts_backend_conf *conf);

/* Checks the budget of a member's device before anything is allocated. Fails with TS_ELIMIT if
 * there is too little memory, or if the budget exceeds the free memory. */
int ts_gpu_budget_check(const struct ts_gpu *g, struct ts_gpu_budget *b, uint32_t member,
                        struct ts_err *err);

/* Measures the driver's memory. To be called after everything except shards was allocated. */
void ts_gpu_budget_measure(struct ts_gpu *g, struct ts_gpu_budget *b, uint32_t member);

/* Sets *ret to the bytes for shards on each device: the smallest value of all devices of this
 * process. */
int ts_gpu_budget_left(const struct ts_gpu *g, const struct ts_gpu_budget *b, uint64_t *ret,
                       struct ts_err *err);

#endif
