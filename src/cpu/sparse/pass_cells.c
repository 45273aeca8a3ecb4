/* SPDX-License-Identifier: BSD-3-Clause */
/* pass_cells.c - makes a pass that evaluates models at the nonzeros, and gives the values to the
 * function `take` of each model's struct ts_weighted (stream/weighted.h). */
#include <stdlib.h>

#include "base/clock.h"
#include "cpu/sparse/pass_state.h"
#include "cpu/ranks/share.h"

/* A model that a pass evaluates at the nonzeros, and the function that gets its values. */
struct cells {
    const struct ts_weighted *what;
    ts_cells_fn *kernel;
    struct ts_kernel_job job;
};

/* A partition whose nonzeros are being passed to the caller's function `take` (struct
 * ts_weighted). */
struct taking {
    const struct ts_pass_run *run;
    const struct ts_weighted *what;
    struct ts_cells cells;
    uint32_t thread;
    /* TS_MAX_ORDER x TS_BLOCK_NNZ: in each mode, the row number of each position of a block */
    uint32_t *rows;
    struct ts_err *err;
};

static int give_cells(void *ctx, const struct ts_unpacked *b, const double *cell, int last)
{
    struct taking *t = ctx;
    const struct ts_tensor *tensor = t->run->pass->tensor;
    int rc;
    for (uint32_t l = 0; l < tensor->order; l++) {
        const uint32_t m = tensor->mode[t->run->loop.mode].disk.level[l];
        uint32_t *to = t->rows + m * TS_BLOCK_NNZ;
        if ((t->what->rows >> m & 1) == 0)
            continue;
        ts_kernel_rows(b, l, tensor->order - 1, to);
        t->cells.row[m] = to;
    }
    t->cells.n = b->n;
    t->cells.value = b->value.d;
    t->cells.weight = ts_tensor_weighted(tensor) ? b->weight : NULL;
    t->cells.model = cell;
    t->cells.last = last;
    rc = t->what->take(t->what->ctx, t->thread, &t->cells, t->err);
    t->cells.first += b->n;
    return rc;
}

static int visit(const struct ts_pass_run *r, const struct ts_kernel_input *in, uint64_t partition,
                 struct ts_kernel_scratch *scratch, struct ts_err *err)
{
    const struct cells *model = r->models;
    const uint32_t thread = (uint32_t)omp_get_thread_num();
    int rc = 0;
    for (uint32_t k = 0; k < r->n && rc == 0; k++) {
        struct taking t = { .run = r,
                            .what = model[k].what,
                            .cells = { .partition = partition },
                            .thread = thread,
                            .rows = r->pass->rows + (size_t)thread * TS_MAX_ORDER * TS_BLOCK_NNZ,
                            .err = err };
        rc = model[k].kernel(&model[k].job, in, scratch, give_cells, &t);
    }
    return rc;
}

/* Prepares a model for evaluation in float64. It uses the kernel for the width of this model,
 * because a kernel for wider rows adds columns in another order. */
static void fill_cells(const struct ts_pass *p, uint32_t mode, const struct ts_pass_cells *model,
                       struct cells *ret)
{
    struct ts_fmat own = ts_fmat_view(&model->factor[mode], 0, model->factor[mode].rank);
    ret->what = model->what;
    ret->kernel = ts_cells_get(p->isa, p->precision, own.width);
    ts_pass_job(p, mode, TS_FLOAT64, model->factor, &own, &ret->job);
    ret->job.table[0] = own.data;
}

static int gather_parts(const struct ts_pass_run *r, const struct ts_pass_cells *model,
                        struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < r->n && rc == 0; k++)
        if (model[k].what->part != NULL)
            rc = ts_share_gather_parts(r->pass->share, r->loop.mode, model[k].what->part,
                                       model[k].what->part_bytes, err);
    return rc;
}

int ts_pass_cells(struct ts_pass *p, uint32_t mode, uint32_t n, const struct ts_pass_cells *model,
                  struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    struct cells *cells = calloc(n, sizeof *cells);
    struct ts_pass_run r = { .visit = visit, .models = cells, .n = n, .begin_ns = ts_clock_ns() };
    uint64_t computed;
    int rc;
    if (p->rows == NULL)
        p->rows = malloc(p->threads * (size_t)TS_MAX_ORDER * TS_BLOCK_NNZ * sizeof *p->rows);
    if (p->rows == NULL || cells == NULL) {
        free(cells);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", p->tensor->path);
    }
    for (uint32_t k = 0; k < n; k++)
        fill_cells(p, mode, &model[k], &cells[k]);
    rc = ts_pass_over(&r, p, mode, feed, NULL, err);
    free(cells);
    computed = ts_clock_ns();
    if (p->share != NULL)
        rc = ts_share_agree(p->share, rc, err);
    if (rc == 0 && p->share != NULL)
        rc = gather_parts(&r, model, err);
    if (rc == 0)
        ts_pass_end(&r, p->share == NULL ? 0 : ts_clock_ns() - computed, times);
    return rc;
}
