/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_sums.h - sums of shares (one thread block's nonzeros each), which kernels store on the device
 * that computes a share: one array of doubles for all shares of a mode.
 *
 * Each share is computed by one member, and the arrays of the others have zeros for it. So the
 * arrays of the members are added up, and exchanged between processes. Callers then add the shares
 * in their order, on the host.
 *
 *   owner    the caller frees what ts_gpu_sums_new made
 *   units    bytes; `each` counts doubles
 *   threads  _clear and _fetch are called by the member's thread; everything else between jobs
 *   errors   a negative ts_code, or a ts_gpu_error from functions with a member
 */
#ifndef TS_GPU_GPU_SUMS_H
#define TS_GPU_GPU_SUMS_H

#include "gpu/pass/gpu_pass.h"
#include "gpu/team/gpu_types.h"

struct ts_gpu_sums {
    struct ts_gpu *g;
    uint32_t mode, each; /* each: number of doubles for a share (one thread block's nonzeros) */
    /* on the host, for one model: the sums of each member (GPU) of this process; NULL: no memory */
    double *here[TS_MAX_TEAM];
};

int ts_gpu_sums_new(struct ts_gpu_sums *s, struct ts_gpu *g, uint32_t mode, uint32_t each,
                    struct ts_err *err);
void ts_gpu_sums_free(struct ts_gpu_sums *s);

/* Returns the bytes of an array with the sums of all shares (one thread block's nonzeros each). */
static inline uint64_t ts_gpu_sums_bytes(const struct ts_gpu_sums *s)
{
    return 8 * s->each * s->g->mode[s->mode].n_shares;
}

/* Enqueue zeros for the array of sums on the device (clear), and the copy of the array to the host
 * (fetch). */
ts_gpu_error ts_gpu_sums_clear(const struct ts_gpu_sums *s, const struct ts_gpu_member *me,
                               double *on_device);
ts_gpu_error ts_gpu_sums_fetch(const struct ts_gpu_sums *s, const struct ts_gpu_member *me,
                               const double *on_device);
/* Adds up the sums that were fetched from members (GPUs). *all: the sums of all members of all
 * processes, which must all make this call. */
int ts_gpu_sums_join(const struct ts_gpu_sums *s, const double **all, struct ts_err *err);

/* A pass that only adds up sums of shares (thread blocks' nonzeros), and computes no rows. */
struct ts_gpu_sums_pass {
    const struct ts_gpu_request *ask;
    uint32_t each;
    double *(*of)(const struct ts_gpu_replica *my); /* where the kernel stores the sums */
    /* adds the sums of one share to those of the request */
    void (*add)(const struct ts_request *of, const double *share);
    const char *what; /* what is computed, for messages, such as "sums of a loss" */
};

/* Makes the pass and adds the sums of all models to their requests. All processes make the same
 * call. */
int ts_gpu_sums_run(struct ts_gpu *g, const struct ts_gpu_sums_pass *pass,
                    struct ts_backend_times *times, struct ts_err *err);

#endif
