/* SPDX-License-Identifier: BSD-3-Clause */
/* Fetches the sums of shares (one thread block's nonzeros each) from the devices, and adds them on
 * the host. */
#include "gpu/pass/gpu_sums.h"

#include <cuda_runtime.h>
#include <stdlib.h>

#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_pass.h"
#include "gpu/team/gpu_team.h"

int ts_gpu_sums_new(struct ts_gpu_sums *s, struct ts_gpu *g, uint32_t mode, uint32_t each,
                    struct ts_err *err)
{
    *s = (struct ts_gpu_sums){ .g = g, .mode = mode, .each = each };
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++) {
        s->here[i] = calloc(1, ts_gpu_sums_bytes(s) + 1);
        if (s->here[i] == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for the sums of shares");
    }
    return 0;
}

void ts_gpu_sums_free(struct ts_gpu_sums *s)
{
    for (uint32_t i = 0; i < TS_MAX_TEAM; i++)
        free(s->here[i]);
}

ts_gpu_error ts_gpu_sums_clear(const struct ts_gpu_sums *s, const struct ts_gpu_member *me,
                               double *on_device)
{
    const uint64_t bytes = ts_gpu_sums_bytes(s);
    return bytes > 0 ? cudaMemsetAsync(on_device, 0, bytes, me->dense) : cudaSuccess;
}

ts_gpu_error ts_gpu_sums_fetch(const struct ts_gpu_sums *s, const struct ts_gpu_member *me,
                               const double *on_device)
{
    const uint64_t bytes = ts_gpu_sums_bytes(s);
    return bytes > 0 ? cudaMemcpyAsync(s->here[me->number], on_device, bytes,
                                       cudaMemcpyDeviceToHost, me->dense)
                     : cudaSuccess;
}

int ts_gpu_sums_join(const struct ts_gpu_sums *s, const double **all, struct ts_err *err)
{
    struct ts_gpu *g = s->g;
    double *sum = s->here[g->first_here];
    for (uint32_t i = g->first_here + 1; i < g->first_here + g->n_here; i++)
        for (uint64_t k = 0; k < ts_gpu_sums_bytes(s) / 8; k++)
            sum[k] += s->here[i][k];
    *all = sum;
    return ts_gpu_ranks_shares(g, s->mode, sum, 8 * s->each, err);
}

/* ---- a pass that only adds up sums */

struct job {
    const struct ts_gpu_sums_pass *pass;
    struct ts_gpu_sums sums;
    uint32_t at; /* the number of the model whose sums are fetched */
};

static double *device_of(const struct job *j, uint32_t k, const struct ts_gpu_member *me)
{
    const struct ts_gpu_model *of = j->pass->ask->of[k].be;
    return j->pass->of(&me->replica[of->number]);
}

/* Waits for the work on the stream `dense`. Returns 0, or the failure: e, or that of the wait. */
static int end(const struct job *j, struct ts_gpu_member *me, ts_gpu_error e, struct ts_err *err)
{
    TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, j->pass->what);
}

/* Clears the sums on a device. The sums of shares (thread blocks' nonzeros) that the member does
 * not compute stay zero. */
static int clear_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    ts_gpu_error e = cudaSuccess;
    (void)g;
    for (uint32_t k = 0; k < j->pass->ask->n && e == cudaSuccess; k++)
        e = ts_gpu_sums_clear(&j->sums, me, device_of(j, k, me));
    return end(j, me, e, err);
}

static int fetch_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    (void)g;
    return end(j, me, ts_gpu_sums_fetch(&j->sums, me, device_of(j, j->at, me)), err);
}

/* Fetches and adds the sums of one model after another, because they use the same arrays. */
static int fetch_all(struct job *j, struct ts_err *err)
{
    const struct ts_gpu_sums *s = &j->sums;
    const double *share;
    int rc = 0;
    for (j->at = 0; j->at < j->pass->ask->n && rc == 0; j->at++) {
        rc = ts_gpu_team_run(s->g, fetch_job, j, NULL, err);
        rc = ts_gpu_ranks_end(s->g, rc, err);
        if (rc == 0)
            rc = ts_gpu_sums_join(s, &share, err);
        for (uint64_t k = 0; rc == 0 && k < s->g->mode[s->mode].n_shares; k++)
            j->pass->add(&j->pass->ask->of[j->at], share + s->each * k);
    }
    return rc;
}

int ts_gpu_sums_run(struct ts_gpu *g, const struct ts_gpu_sums_pass *pass,
                    struct ts_backend_times *times, struct ts_err *err)
{
    struct job j = { .pass = pass };
    int rc = ts_gpu_sums_new(&j.sums, g, pass->ask->mode, pass->each, err);
    if (rc == 0)
        rc = ts_gpu_team_run(g, clear_job, &j, NULL, err);
    rc = ts_gpu_ranks_end(g, rc, err);
    if (rc == 0)
        rc = ts_gpu_pass_run(g, pass->ask, times, err);
    rc = rc == 0 ? fetch_all(&j, err) : ts_gpu_ranks_end(g, rc, err);
    ts_gpu_sums_free(&j.sums);
    return rc;
}
