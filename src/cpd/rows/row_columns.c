/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies the rows of a mode from the backend to columns in host memory, and back. */
#include "cpd/rows/row_columns.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"

/* bytes of float64 rows that are copied to or from the backend at a time */
#define CHUNK_BYTES (UINT64_C(1) << 20)

uint64_t ts_row_columns_chunk(uint32_t rank)
{
    return CHUNK_BYTES / (rank * sizeof(double));
}

int ts_row_columns_check(const struct ts_row_task *task, struct ts_err *err)
{
    const size_t square = (size_t)task->init->rank * task->init->rank;
    for (size_t i = 0; i < square; i++)
        if (!isfinite(task->gram[i]))
            return ts_fail(err, TS_ELIMIT,
                           "factors are not finite: the values leave the range of the precision; "
                           "scale them so that the largest is near 1");
    return 0;
}

void ts_row_columns_identity(uint32_t rank, double *ret)
{
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t j = 0; j < rank; j++)
            ret[(size_t)i * rank + j] = i == j;
}

static uint64_t bytes_of(uint64_t n, uint64_t span, uint32_t rank, uint64_t of_span,
                         uint64_t of_rows)
{
    return 8 *
           ((n + span) * rank + of_span * span + of_rows * n + ts_row_columns_chunk(rank) * rank);
}

uint64_t ts_row_columns_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank,
                              uint64_t of_span, uint64_t of_rows)
{
    const struct ts_disk_mode *disk = &t->mode[mode].disk;
    return ts_bigmem_cost(bytes_of(disk->n_rows, disk->dim, rank, of_span, of_rows)) +
           (disk->rows_bytes > 0 ? 8 * disk->n_rows : 0);
}

int ts_row_columns_open(const struct ts_row_task *task, uint64_t of_span, uint64_t of_rows,
                        const char *what, struct ts_row_columns *ret, struct ts_err *err)
{
    const struct ts_init_conf *c = task->init;
    const uint64_t n = c->tensor->mode[task->mode].disk.n_rows;
    int rc;
    *ret = (struct ts_row_columns){ .task = task,
                                    .rank = c->rank,
                                    .threads =
                                        c->threads > 0 ? (int)c->threads : omp_get_max_threads(),
                                    .n = n,
                                    .span = n };
    rc = ts_row_columns_check(task, err);
    if (rc == 0)
        rc = ts_tensor_rows(c->tensor, task->mode, &ret->index, err);
    if (rc == 0 && ret->index != NULL && n > 0) {
        ret->first = ret->index[0];
        ret->span = ret->index[n - 1] - ret->first + 1;
    }
    if (rc == 0) {
        ret->bytes = bytes_of(n, ret->span, c->rank, of_span, of_rows);
        rc = ts_bigmem_new(ret->bytes, what, &ret->memory, err);
    }
    if (rc < 0)
        return rc;
    ret->m = ret->memory;
    ret->a = ret->m + n * c->rank;
    ret->chunk = ret->a + ret->span * c->rank;
    ret->more = ret->chunk + ts_row_columns_chunk(c->rank) * c->rank;
    memset(ret->a, 0, ret->span * c->rank * sizeof *ret->a);
    return 0;
}

void ts_row_columns_close(struct ts_row_columns *c)
{
    ts_bigmem_free(c->memory, c->bytes);
    free(c->index);
}

/* Copies rows of the backend to columns. old 1: the backend has the old rows, which go to `a` times
 * their weights, and to `m` unchanged. old 0: it has the MTTKRP, which goes to `m`, and gets the
 * old rows of `m` back. */
static int copy(struct ts_row_columns *c, int old, struct ts_err *err)
{
    const struct ts_row_task *t = c->task;
    const struct ts_init_conf *init = t->init;
    const uint64_t most = ts_row_columns_chunk(c->rank);
    int rc = 0;
    for (uint64_t row = 0; row < c->n && rc == 0; row += most) {
        const uint64_t n = c->n - row < most ? c->n - row : most;
        rc = init->backend->get_rows(init->be, t->mode, row, n, c->chunk, err);
#pragma omp parallel for num_threads(c->threads) if (n > 1024)
        for (uint32_t r = 0; r < c->rank; r++) {
            const double weight = t->update->weight == NULL ? 1 : t->update->weight[r];
            for (uint64_t i = 0; i < n && rc == 0; i++) {
                double *of_m = &c->m[r * c->n + row + i], *x = &c->chunk[i * c->rank + r];
                const double was = *of_m;
                *of_m = *x;
                if (old)
                    c->a[r * c->span + ts_row_columns_place(c, row + i)] = weight * *x;
                else
                    *x = was;
            }
        }
        if (rc == 0 && !old)
            rc = init->backend->put_rows(init->be, t->mode, row, n, c->chunk, err);
    }
    return rc;
}

/* Replaces the rows in the backend by the MTTKRP, which the backend has in a matrix of its own,
 * so that get_rows returns the MTTKRP. A coordinate descent from rows of zeros, with the identity
 * instead of the product of Gram matrices, does this. The Gram matrix of the MTTKRP is not used;
 * the Gram matrix of the old rows stays. */
static int settle(const struct ts_row_task *t, struct ts_err *err)
{
    const struct ts_init_conf *c = t->init;
    double *zeros = calloc((size_t)c->rank * (c->rank + 1), sizeof *zeros);
    const struct ts_row_update update = { .kind = TS_ROW_COORDINATE,
                                          .matrix = t->scratch,
                                          .weight = zeros,
                                          .lower = -INFINITY,
                                          .upper = INFINITY,
                                          .rounds = 1 };
    int rc;
    if (zeros == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for the weights of columns");
    ts_row_columns_identity(c->rank, t->scratch);
    rc = c->backend->solve(c->be, t->mode, &update,
                           &(struct ts_row_sums){ .gram = zeros + c->rank }, err);
    free(zeros);
    return rc;
}

int ts_row_columns_get(struct ts_row_columns *c, struct ts_err *err)
{
    int rc = copy(c, 1, err);
    if (rc == 0)
        rc = settle(c->task, err);
    return rc == 0 ? copy(c, 0, err) : rc;
}

/* Copies the columns of `a` to the rows of the backend. Afterwards `a` has the entries as the
 * backend rounded them. */
int ts_row_columns_put(struct ts_row_columns *c, struct ts_err *err)
{
    const struct ts_row_task *t = c->task;
    const struct ts_init_conf *init = t->init;
    const struct ts_row_update keep = { .kind = TS_ROW_KEEP };
    const struct ts_row_sums sums = { .gram = t->sums->gram, .inner = t->sums->inner };
    const uint64_t most = ts_row_columns_chunk(c->rank);
    int rc = 0;
    c->size = 0;
    for (uint64_t row = 0; row < c->n && rc == 0; row += most) {
        const uint64_t n = c->n - row < most ? c->n - row : most;
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t r = 0; r < c->rank; r++) {
                double *x = c->a + r * c->span + ts_row_columns_place(c, row + i);
                *x = t->precision == TS_FLOAT32 ? (float)*x : *x;
                c->chunk[i * c->rank + r] = *x;
                c->size += fabs(*x);
            }
        rc = init->backend->put_rows(init->be, t->mode, row, n, c->chunk, err);
    }
    return rc == 0 ? init->backend->solve(init->be, t->mode, &keep, &sums, err) : rc;
}
