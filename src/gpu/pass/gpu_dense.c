/* SPDX-License-Identifier: BSD-3-Clause */
/* Works on rows outside of passes: copies rows in and out, solves for them, scales columns and
 * computes Gram matrices of whole factors, in every device's replica of the factors. */
#include <cuda_runtime.h>
#include <math.h>
#include <string.h>

#include "gpu/rows/dense_kernel.h"
#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_device.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/team/gpu_team.h"
#include "gpu/rows/simplex_kernel.h"

/* The most columns with which a kernel writes a Gram matrix directly to host memory, entry by
 * entry. With more columns, the matrix is copied over the link in vectors. */
#define WRITTEN_DIRECTLY 64

struct job {
    struct ts_gpu_model *of;
    uint32_t mode;
    uint64_t row, n;
    const double *from; /* the input of the job: rows to store, or scales of columns */
    const struct ts_row_update *update;
    const struct ts_row_sums *sums;
};

/* Returns the number of rows that pass at once through `stage`, a buffer on the device. */
static uint64_t stage_rows(const struct ts_gpu_model *of, uint64_t left)
{
    const uint64_t most = of->gpu->stage / of->rank;
    return left < most ? left : most;
}

static ts_gpu_error put(const struct ts_gpu *g, struct ts_gpu_member *me, const struct job *j)
{
    const struct ts_gpu_model *of = j->of;
    ts_gpu_error e = cudaSuccess;
    for (uint64_t done = 0; done < j->n && e == cudaSuccess;) {
        const uint64_t k = stage_rows(of, j->n - done);
        char *to = me->replica[of->number].factor[j->mode] + (j->row + done) * ts_gpu_row_bytes(of);
        e = cudaMemcpyAsync(me->stage, j->from + done * of->rank, 8 * k * of->rank,
                            cudaMemcpyHostToDevice, me->dense);
        TRY(e, ts_dense_put(g->precision, to, k, of->ld, of->rank, me->stage, me->dense));
        done += k;
    }
    return e == cudaSuccess ? cudaStreamSynchronize(me->dense) : e;
}

static int put_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const ts_gpu_error e = put(g, me, arg);
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "writing factor rows");
}

int ts_gpu_dense_put(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                     struct ts_err *err)
{
    struct ts_gpu_model *of = be;
    struct job j = { .of = of, .mode = mode, .row = row, .n = n, .from = rows };
    ts_gpu_cells_changed(of->gpu, mode);
    return ts_gpu_team_run(of->gpu, put_job, &j, NULL, err);
}

int ts_gpu_dense_get(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                     struct ts_err *err)
{
    struct ts_gpu_model *of = be;
    struct ts_gpu_member *me = ts_gpu_first(of->gpu);
    ts_gpu_error e = cudaSetDevice(me->device);
    for (uint64_t done = 0; done < n && e == cudaSuccess;) {
        const uint64_t k = stage_rows(of, n - done);
        const char *from =
            me->replica[of->number].factor[mode] + (row + done) * ts_gpu_row_bytes(of);
        e = ts_dense_get(of->gpu->precision, from, k, of->ld, of->rank, me->stage, me->dense);
        TRY(e, cudaMemcpyAsync(rows + done * of->rank, me->stage, 8 * k * of->rank,
                               cudaMemcpyDeviceToHost, me->dense));
        TRY(e, cudaStreamSynchronize(me->dense));
        done += k;
    }
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "reading factor rows");
}

/* Returns the array of the sums of absolute entries in units (TS_DESCEND_UNIT rows each). It
 * follows the inner products of the units in row_inner. */
static double *unit_sizes(const struct ts_gpu_model *of, const struct ts_gpu_replica *my,
                          uint32_t mode)
{
    return my->row_inner + ts_descend_units(of->gpu->mode[mode].n_rows);
}

ts_gpu_error ts_gpu_dense_own(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              uint32_t mode, const struct ts_row_update *update,
                              const struct ts_row_sums *sums, int wide, uint64_t first_unit,
                              uint64_t n_units)
{
    struct ts_gpu_replica *my = &me->replica[of->number];
    const int in_float64 = wide && my->product != NULL;
    const struct ts_descend d = {
        .precision = of->gpu->precision,
        .wide = in_float64,
        .m = in_float64 ? (void *)my->product : my->apart,
        .a = my->factor[mode],
        .n_rows = of->gpu->mode[mode].n_rows,
        .ld = of->ld,
        .first_unit = first_unit,
        .n_units = n_units,
        .g = my->w,
        .table = my->w + (size_t)of->ld * of->ld,
        .simple = update->l1 == 0 && update->upper == INFINITY,
        .rounds = update->rounds,
        .rank = of->rank,
        .inverse = my->w + ((size_t)of->ld + TS_DESCEND_TABLE) * of->ld,
        .rho = update->rho,
        .inner = sums->inner != NULL ? my->row_inner : NULL,
        .size = sums->size != NULL ? unit_sizes(of, my, mode) : NULL,
        .scratch = my->parts,
    };
    switch (update->kind) {
    case TS_ROW_KEEP:
        return ts_descend_keep(&d, me->dense);
    case TS_ROW_SIMPLEX:
        return ts_simplex_rows(&d, me->dense);
    case TS_ROW_LEAST_SQUARES:
    case TS_ROW_COORDINATE:
    case TS_ROW_OBSERVED:
    case TS_ROW_MULTIPLY:
    case TS_ROW_DESCEND:
    TS_ROW_CASES_BY_METHOD:
        break;
    }
    return ts_descend_rows(&d, me->dense);
}

ts_gpu_error ts_gpu_dense_sum_up(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                 uint32_t mode, const struct ts_row_update *update,
                                 const struct ts_row_sums *sums)
{
    const int own = update != NULL && ts_row_reads_old(update->kind);
    const uint64_t n = of->gpu->mode[mode].n_rows, n_sums = own ? ts_descend_units(n) : n;
    struct ts_gpu_replica *my = &me->replica[of->number];
    const uint64_t square = (uint64_t)of->ld * of->ld;
    const int direct = of->ld <= WRITTEN_DIRECTLY;
    double *gram = direct ? my->host : my->gram, *inner = gram + square;
    ts_gpu_error e = ts_dense_gram_finish(n, of->ld, my->parts, gram, me->dense);
    if (sums->inner != NULL)
        TRY(e, ts_dense_sum(my->row_inner, n_sums, my->sums, inner, me->dense));
    if (sums->size != NULL)
        TRY(e, ts_dense_sum(unit_sizes(of, my, mode), n_sums, my->sums, inner + 1, me->dense));
    if (!direct)
        TRY(e, ts_dense_copy(my->host, gram, 8 * (square + 2), me->dense));
    return e;
}

/* Copies the Gram matrix and the sums from `host`, memory that the device has written. With the
 * update KEEP, the Gram matrix is that of the rows times the column weights. */
void ts_gpu_dense_copy_out(const struct ts_gpu_model *of, const struct ts_row_update *update,
                           const struct ts_row_sums *sums)
{
    const double *from = ts_gpu_first(of->gpu)->replica[of->number].host;
    const double *weight = update != NULL && update->kind == TS_ROW_KEEP ? update->weight : NULL;
    for (uint32_t i = 0; i < of->rank; i++) {
        double *row = sums->gram + (size_t)i * of->rank;
        memcpy(row, from + (size_t)i * of->ld, 8 * (size_t)of->rank);
        for (uint32_t j = 0; weight != NULL && j < of->rank; j++)
            row[j] *= weight[i] * weight[j];
    }
    if (sums->inner != NULL)
        *sums->inner = from[(size_t)of->ld * of->ld];
    if (sums->size != NULL)
        *sums->size = from[(size_t)of->ld * of->ld + 1];
}

static ts_gpu_error solve(const struct ts_gpu *g, struct ts_gpu_member *me, const struct job *j)
{
    const struct ts_gpu_replica *my = &me->replica[j->of->number];
    const uint64_t n = g->mode[j->mode].n_rows;
    if (ts_row_reads_old(j->update->kind))
        return ts_gpu_dense_own(j->of, me, j->mode, j->update, j->sums, 0, 0, ts_descend_units(n));
    return n == 0
               ? cudaSuccess
               : ts_dense_solve_rows(g->precision, my->factor[j->mode], NULL, n, j->of->ld, my->w,
                                     j->sums->inner != NULL ? my->row_inner : NULL, me->dense);
}

/* Each member (GPU) solves all rows of its replica and gets the same bits, so nothing is exchanged.
 * Only member 0 computes the Gram matrix and the other sums. If update is NULL, only the Gram
 * matrix is computed. */
static int solve_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    const struct ts_gpu_model *of = j->of;
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const uint64_t n = g->mode[j->mode].n_rows;
    ts_gpu_error e = cudaSuccess;
    if (j->update == NULL && me != ts_gpu_first(g))
        return 0;
    if (j->update != NULL)
        TRY(e, ts_gpu_device_send_update(of, me, j->update));
    if (j->update != NULL)
        TRY(e, solve(g, me, j));
    if (me == ts_gpu_first(g))
        TRY(e, ts_dense_gram_part(g->precision, my->factor[j->mode], n, of->ld, 0,
                                  ts_dense_gram_parts(of->ld, n), my->parts, me->dense));
    if (me == ts_gpu_first(g))
        TRY(e, ts_gpu_dense_sum_up(of, me, j->mode, j->update, j->sums));
    TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "row solves");
}

int ts_gpu_dense_solve(void *be, uint32_t mode, const struct ts_row_update *update,
                       const struct ts_row_sums *sums, struct ts_err *err)
{
    struct ts_gpu_model *of = be;
    struct job j = { .of = of, .mode = mode, .update = update, .sums = sums };
    int rc;
    if (update != NULL)
        ts_gpu_cells_changed(of->gpu, mode);
    rc = ts_gpu_team_run(of->gpu, solve_job, &j, NULL, err);
    if (rc == 0)
        ts_gpu_dense_copy_out(of, update, sums);
    return rc;
}

int ts_gpu_dense_gram(void *be, uint32_t mode, double *gram, struct ts_err *err)
{
    return ts_gpu_dense_solve(be, mode, NULL, &(struct ts_row_sums){ .gram = gram }, err);
}

/* Scales the columns of a factor. In a team of one member, it does not wait for the end of scaling.
 * Later readers of the factor wait: the stream `dense` does the scaling itself, and other streams
 * wait for the event `scaled` (gpu_pass.c). */
static int scale_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    const struct ts_gpu_model *of = j->of;
    struct ts_gpu_replica *my = &me->replica[of->number];
    const uint64_t n = g->mode[j->mode].n_rows;
    const int by_value = of->ld <= TS_DENSE_BY_VALUE;
    ts_gpu_error e = my->scaling ? cudaEventSynchronize(me->scaled) : cudaSuccess;
    if (e == cudaSuccess && !by_value) /* the device has read the old host_scale */
        memcpy(my->host_scale, j->from, 8 * (size_t)of->rank);
    if (!by_value)
        TRY(e, ts_dense_copy(my->w, my->host_scale, 8 * (uint64_t)of->ld, me->dense));
    if (n > 0 && by_value)
        TRY(e, ts_dense_scale_by(g->precision, my->factor[j->mode], n, of->ld, j->from, of->rank,
                                 me->dense));
    else if (n > 0)
        TRY(e, ts_dense_scale(g->precision, my->factor[j->mode], n, of->ld, my->w, me->dense));
    TRY(e, cudaEventRecord(me->scaled, me->dense));
    me->scaling = e == cudaSuccess && g->n_members == 1;
    my->scaling = me->scaling && !by_value;
    if (!me->scaling)
        TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : ts_gpu_fail(err, e, "scaling columns");
}

int ts_gpu_dense_scale(void *be, uint32_t mode, const double *s, struct ts_err *err)
{
    struct ts_gpu_model *of = be;
    struct job j = { .of = of, .mode = mode, .from = s };
    ts_gpu_cells_changed(of->gpu, mode);
    return ts_gpu_team_run(of->gpu, scale_job, &j, NULL, err);
}
