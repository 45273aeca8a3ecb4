/* SPDX-License-Identifier: BSD-3-Clause */
/* pass_rows.c - makes a pass that solves for the rows of a factor, each with its own Gram
 * matrix. */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cpu/rows/gram_rows.h"
#include "cpu/sparse/pass_state.h"
#include "cpu/ranks/share.h"
#include "format/tensor_kind.h"

/* A model for whose rows the pass solves, and the solver that sums their Gram matrices. */
struct solved {
    struct ts_gram_rows *gram;
    struct ts_kernel_job job;
};

static int visit(const struct ts_pass_run *r, const struct ts_kernel_input *in, uint64_t partition,
                 struct ts_kernel_scratch *scratch, struct ts_err *err)
{
    const struct solved *model = r->models;
    (void)err;
    for (uint32_t k = 0; k < r->n; k++)
        ts_gram_rows_take(model[k].gram, (uint32_t)omp_get_thread_num(), &model[k].job, in, scratch,
                          partition);
    return 0;
}

static int begin_rows(const struct ts_pass_rows *model, uint32_t mode, struct solved *ret,
                      struct ts_err *err)
{
    struct ts_pass *p = model->pass;
    int rc = 0;
    if (p->gram == NULL)
        rc = ts_gram_rows_new(p->max_partitions, p->tensor->order, p->rank, p->precision, p->isa,
                              p->threads, &p->gram, err);
    if (rc < 0)
        return rc;
    ts_pass_job(p, mode, p->precision, model->factor, &model->factor[mode], &ret->job);
    ret->gram = p->gram;
    ts_gram_rows_begin(p->gram, model->update, p->tensor->mode[mode].disk.level,
                       ts_tensor_weighted(p->tensor), &model->factor[mode]);
    return 0;
}

/* Finishes the rows whose nonzeros are in two partitions or more, and sends rows to the ranks that
 * need them. rc is the result of the pass so far. */
static int end_rows(const struct ts_pass_run *r, const struct ts_pass_rows *model, int rc,
                    uint64_t *exchange_ns, struct ts_err *err)
{
    struct ts_pass *p = model->pass;
    uint64_t ns = 0;
    if (p->share != NULL)
        rc = ts_gram_rows_end_shared(p->gram, p->share, r->loop.mode, rc, model->size, &ns, err);
    else if (rc == 0)
        ts_gram_rows_end(p->gram, r->loop.end, model->size);
    *exchange_ns += ns;
    return rc;
}

int ts_pass_complete(uint32_t mode, uint32_t n, const struct ts_pass_rows *model,
                     struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_pass *p = model[0].pass;
    struct solved *solved = calloc(n, sizeof *solved);
    struct ts_pass_run r = { .visit = visit, .models = solved, .n = n, .begin_ns = ts_clock_ns() };
    uint64_t exchange_ns = 0;
    int rc = 0;
    assert(n > 0);
    if (solved == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", p->tensor->path);
    for (uint32_t k = 0; k < n && rc == 0; k++)
        rc = begin_rows(&model[k], mode, &solved[k], err);
    if (rc == 0) {
        rc = ts_pass_over(&r, p, mode, feed, NULL, err);
        for (uint32_t k = 0; k < n && (k == 0 || rc == 0); k++)
            rc = end_rows(&r, &model[k], rc, &exchange_ns, err);
    }
    free(solved);
    if (rc == 0)
        ts_pass_end(&r, exchange_ns, times);
    return rc;
}
