/* SPDX-License-Identifier: BSD-3-Clause */
/* The row work outside of a pass: rows in and out, solves, scaling and Gram matrices of whole
 * factors, on every replica. */
#include <math.h>
#include <string.h>

#include "gpu/dense_kernel.h"
#include "gpu/gpu_fail.h"
#include "gpu/gpu_state.h"

struct job {
    uint32_t mode;
    uint64_t row, n;
    const double *from; /* what the job reads: rows or s */
    const struct ts_row_update *how;
    const struct ts_row_sums *sums;
};

static cudaError_t put(const struct ts_gpu *g, struct ts_gpu_member *me, const struct job *j)
{
    cudaError_t e = cudaSuccess;
    for (uint64_t done = 0; done < j->n && e == cudaSuccess;) {
        const uint64_t k = j->n - done < g->stage_rows ? j->n - done : g->stage_rows;
        char *to = me->factor[j->mode] + (j->row + done) * ts_gpu_row_bytes(g);
        e = cudaMemcpyAsync(me->stage, j->from + done * g->rank, 8 * k * g->rank,
                            cudaMemcpyHostToDevice, me->dense);
        TRY(e, ts_dense_put(g->precision, to, k, g->ld, g->rank, me->stage, me->dense));
        done += k;
    }
    return e == cudaSuccess ? cudaStreamSynchronize(me->dense) : e;
}

static int put_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const cudaError_t e = put(g, me, arg);
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "writing factor rows");
}

int ts_gpu_dense_put(struct ts_gpu *g, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                     struct ts_err *err)
{
    struct job j = { .mode = mode, .row = row, .n = n, .from = rows };
    return ts_gpu_team_run(g, put_job, &j, NULL, err);
}

int ts_gpu_dense_get(struct ts_gpu *g, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                     struct ts_err *err)
{
    struct ts_gpu_member *me = &g->member[0];
    cudaError_t e = cudaSetDevice(me->device);
    for (uint64_t done = 0; done < n && e == cudaSuccess;) {
        const uint64_t k = n - done < g->stage_rows ? n - done : g->stage_rows;
        const char *from = me->factor[mode] + (row + done) * ts_gpu_row_bytes(g);
        e = ts_dense_get(g->precision, from, k, g->ld, g->rank, me->stage, me->dense);
        TRY(e, cudaMemcpyAsync(rows + done * g->rank, me->stage, 8 * k * g->rank,
                               cudaMemcpyDeviceToHost, me->dense));
        TRY(e, cudaStreamSynchronize(me->dense));
        done += k;
    }
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "reading factor rows");
}

/* Where the sums of units are. */
static double *unit_sizes(const struct ts_gpu *g, const struct ts_gpu_member *me, uint32_t mode)
{
    return me->row_inner + ts_descend_units(g->mode[mode].n_rows);
}

cudaError_t ts_gpu_dense_own(const struct ts_gpu *g, struct ts_gpu_member *me, uint32_t mode,
                             const struct ts_row_update *how, const struct ts_row_sums *sums,
                             int wide, uint64_t first_unit, uint64_t n_units)
{
    const int in_float64 = wide && me->product != NULL;
    const struct ts_descend d = {
        .precision = g->precision,
        .wide = in_float64,
        .m = in_float64 ? (void *)me->product : me->apart,
        .a = me->factor[mode],
        .n_rows = g->mode[mode].n_rows,
        .ld = g->ld,
        .first_unit = first_unit,
        .n_units = n_units,
        .g = me->w,
        .table = me->w + (size_t)g->ld * g->ld,
        .simple = how->l1 == 0 && how->upper == INFINITY,
        .rounds = how->rounds,
        .inner = sums->inner != NULL ? me->row_inner : NULL,
        .size = sums->size != NULL ? unit_sizes(g, me, mode) : NULL,
        .scratch = me->parts,
    };
    return how->kind == TS_ROW_KEEP ? ts_descend_keep(&d, me->dense)
                                    : ts_descend_rows(&d, me->dense);
}

cudaError_t ts_gpu_dense_sum_up(const struct ts_gpu *g, struct ts_gpu_member *me, uint32_t mode,
                                const struct ts_row_update *how, const struct ts_row_sums *sums)
{
    const int own = how != NULL && ts_row_reads_old(how->kind);
    const uint64_t n = g->mode[mode].n_rows, n_sums = own ? ts_descend_units(n) : n;
    cudaError_t e = ts_dense_gram_finish(n, g->ld, me->parts, me->gram, me->dense);
    if (sums->inner != NULL)
        TRY(e, ts_dense_sum(me->row_inner, n_sums, me->sums, me->inner, me->dense));
    if (sums->size != NULL)
        TRY(e, ts_dense_sum(unit_sizes(g, me, mode), n_sums, me->sums, me->inner + 1, me->dense));
    TRY(e, ts_dense_copy(me->host, me->gram, 8 * ((uint64_t)g->ld * g->ld + 2), me->dense));
    return e;
}

/* The Gram matrix of rows that stay is that of weighted ones. */
void ts_gpu_dense_copy_out(const struct ts_gpu *g, const struct ts_row_update *how,
                           const struct ts_row_sums *sums)
{
    const double *from = g->member[0].host;
    const double *weight = how != NULL && how->kind == TS_ROW_KEEP ? how->weight : NULL;
    for (uint32_t i = 0; i < g->rank; i++) {
        double *row = sums->gram + (size_t)i * g->rank;
        memcpy(row, from + (size_t)i * g->ld, 8 * (size_t)g->rank);
        for (uint32_t j = 0; weight != NULL && j < g->rank; j++)
            row[j] *= weight[i] * weight[j];
    }
    if (sums->inner != NULL)
        *sums->inner = from[(size_t)g->ld * g->ld];
    if (sums->size != NULL)
        *sums->size = from[(size_t)g->ld * g->ld + 1];
}

static cudaError_t solve(const struct ts_gpu *g, struct ts_gpu_member *me, const struct job *j)
{
    const uint64_t n = g->mode[j->mode].n_rows;
    if (ts_row_reads_old(j->how->kind))
        return ts_gpu_dense_own(g, me, j->mode, j->how, j->sums, 0, 0, ts_descend_units(n));
    return n == 0 ? cudaSuccess
                  : ts_dense_solve_rows(g->precision, me->factor[j->mode], NULL, n, g->ld, me->w,
                                        j->sums->inner != NULL ? me->row_inner : NULL, me->dense);
}

/* Each member solves all rows of its replica and gets the same bits, so nothing is exchanged. The
 * sums are those of member 0. how is NULL: the Gram matrix alone. */
static int solve_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    const uint64_t n = g->mode[j->mode].n_rows;
    cudaError_t e = cudaSuccess;
    if (j->how == NULL && me->number > 0)
        return 0;
    if (j->how != NULL)
        TRY(e, ts_gpu_device_send_update(g, me, j->how));
    if (j->how != NULL)
        TRY(e, solve(g, me, j));
    if (me->number == 0)
        TRY(e, ts_dense_gram_part(g->precision, me->factor[j->mode], n, g->ld, 0,
                                  ts_dense_gram_parts(g->ld, n), me->parts, me->dense));
    if (me->number == 0)
        TRY(e, ts_gpu_dense_sum_up(g, me, j->mode, j->how, j->sums));
    TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "row solves");
}

int ts_gpu_dense_solve(struct ts_gpu *g, uint32_t mode, const struct ts_row_update *how,
                       const struct ts_row_sums *sums, struct ts_err *err)
{
    struct job j = { .mode = mode, .how = how, .sums = sums };
    const int rc = ts_gpu_team_run(g, solve_job, &j, NULL, err);
    if (rc == 0)
        ts_gpu_dense_copy_out(g, how, sums);
    return rc;
}

int ts_gpu_dense_gram(struct ts_gpu *g, uint32_t mode, double *gram, struct ts_err *err)
{
    return ts_gpu_dense_solve(g, mode, NULL, &(struct ts_row_sums){ .gram = gram }, err);
}

/* A member that is alone does not wait for the scaling. What reads the factor afterwards does:
 * `dense` because it scales, other streams because they wait for `scaled` (gpu_pass.c). */
static int scale_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    const uint64_t n = g->mode[j->mode].n_rows;
    cudaError_t e = me->scaling ? cudaEventSynchronize(me->scaled) : cudaSuccess;
    if (e == cudaSuccess) /* host_scale has been read */
        memcpy(me->host_scale, j->from, 8 * (size_t)g->rank);
    TRY(e, ts_dense_copy(me->w, me->host_scale, 8 * (uint64_t)g->ld, me->dense));
    if (n > 0)
        TRY(e, ts_dense_scale(g->precision, me->factor[j->mode], n, g->ld, me->w, me->dense));
    TRY(e, cudaEventRecord(me->scaled, me->dense));
    me->scaling = e == cudaSuccess && g->n_members == 1;
    if (!me->scaling)
        TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "scaling columns");
}

int ts_gpu_dense_scale(struct ts_gpu *g, uint32_t mode, const double *s, struct ts_err *err)
{
    struct job j = { .mode = mode, .from = s };
    return ts_gpu_team_run(g, scale_job, &j, NULL, err);
}
