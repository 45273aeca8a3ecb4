/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_sums.h - sums of shares, which kernels leave on the device that computed them: one array
 * of doubles for all shares of a mode.
 *
 * Each share was computed by one member, and the others have zeros there. So the arrays of
 * members are added up, and what other processes computed is told; whoever adds the shares does
 * it in their order, on the host.
 *
 *   owner    the caller frees what ts_gpu_sums_new made
 *   units    bytes; `each` counts doubles
 *   threads  _clear and _fetch: the member's; everything else: between jobs
 *   errors   codes of base/err.h, and CUDA's where a member is asked
 */
#ifndef TS_GPU_GPU_SUMS_H
#define TS_GPU_GPU_SUMS_H

#include "gpu/pass/gpu_pass.h"
#include "gpu/team/gpu_types.h"

struct ts_gpu_sums {
    struct ts_gpu *g;
    uint32_t mode, each; /* doubles of a share */
    /* on the host, for one model: sums of the members here; NULL: no memory */
    double *here[TS_MAX_TEAM];
};

int ts_gpu_sums_new(struct ts_gpu_sums *s, struct ts_gpu *g, uint32_t mode, uint32_t each,
                    struct ts_err *err);
void ts_gpu_sums_free(struct ts_gpu_sums *s);

/* The bytes of all shares. */
static inline uint64_t ts_gpu_sums_bytes(const struct ts_gpu_sums *s)
{
    return 8 * s->each * s->g->mode[s->mode].n_shares;
}

/* Enqueues zeros on the device; and the copy to the host. */
ts_gpu_error ts_gpu_sums_clear(const struct ts_gpu_sums *s, const struct ts_gpu_member *me,
                               double *on_device);
ts_gpu_error ts_gpu_sums_fetch(const struct ts_gpu_sums *s, const struct ts_gpu_member *me,
                               const double *on_device);
/* Adds up the sums that were fetched. *all: the sums of all members of all processes, which must
 * make the same call. */
int ts_gpu_sums_join(const struct ts_gpu_sums *s, const double **all, struct ts_err *err);

/* A pass that only sums. */
struct ts_gpu_sums_pass {
    const struct ts_gpu_request *ask;
    uint32_t each;
    double *(*of)(const struct ts_gpu_replica *my); /* where the kernel stores the sums */
    /* adds a share to the sums of the request */
    void (*add)(const struct ts_request *of, const double *share);
    const char *what; /* is done, for a sentence: "sums of a loss" */
};

/* Fetches all sums of all models. All processes make the same calls. */
int ts_gpu_sums_run(struct ts_gpu *g, const struct ts_gpu_sums_pass *pass,
                    struct ts_backend_times *times, struct ts_err *err);

#endif
