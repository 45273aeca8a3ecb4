/* SPDX-License-Identifier: BSD-3-Clause */
/* pass_products.c - computes MTTKRPs of several models in one pass. The heads (sums of partitions'
 * first rows) are added to their rows in the order of the file. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine/fpmode.h"
#include "cpu/sparse/pass_state.h"
#include "cpu/ranks/share.h"
#include "format/tensor_kind.h"

/* The models of a pass whose products are summed in the same precision, with their kernel and its
 * job. */
struct part {
    ts_kernel_fn *kernel;
    struct ts_kernel_job job;
    struct ts_kernel_model model[TS_PASS_MAX_MODELS];
};

/* Data that the threads of a pass share. */
struct products {
    struct part part[2]; /* indexed by the enum ts_precision in which products are summed */
    uint64_t head_bytes;
    /* n models; `ready` of the update was called for those before next_model */
    const struct ts_pass_model *model;
    atomic_uint next_model;
};

static int is_wide(enum ts_precision stored, enum ts_precision summed)
{
    return stored == TS_FLOAT32 && summed == TS_FLOAT64;
}

/* Prepares row updates in one thread. During the products this costs the other threads nothing if
 * there are fewer partitions than threads. */
static int make_ready(void *run, struct ts_err *err)
{
    struct ts_pass_run *r = run;
    struct products *x = r->models;
    uint32_t k;
    int rc = 0;
    while (rc == 0 && (k = atomic_fetch_add(&x->next_model, 1)) < r->n) {
        const struct ts_row_update *update = x->model[k].update;
        rc = update == NULL || update->ready == NULL ? 0 : update->ready(update->ctx, err);
    }
    return rc;
}

static int visit(const struct ts_pass_run *r, const struct ts_kernel_input *in, uint64_t partition,
                 struct ts_kernel_scratch *scratch, struct ts_err *err)
{
    const struct products *x = r->models;
    const struct ts_pass *p = r->pass;
    (void)err;
    for (int i = 0; i < 2; i++)
        if (x->part[i].job.n_models > 0)
            x->part[i].kernel(&x->part[i].job, in, scratch,
                              (char *)p->heads + partition * x->head_bytes, &p->edge[partition]);
    return 0;
}

/* Adds the heads (sums of partitions' first rows) to the rows of a model. If a row starts in one
 * partition and continues in others, `out` has the sum of the first one, and the heads have the
 * sums of the others. */
static void add_heads(const struct ts_pass_run *r, uint64_t n_partitions,
                      const struct ts_pass_model *m, double *sum)
{
    const struct products *x = r->models;
    const struct ts_pass *p = r->pass;
    const uint32_t rank = m->out->rank;
    const uint64_t mode = ts_fpmode_flush();
    const int wide = is_wide(p->precision, m->summed);
    const uint64_t at = m->col * ts_precision_bytes(p->precision);
    for (uint64_t k = r->loop.begin; k < r->loop.end; k++) {
        const uint32_t row = p->edge[k].first;
        const int goes_on = k > 0 && p->edge[k - 1].last == row;
        const char *head = (const char *)p->heads + k * x->head_bytes + at;
        if (!goes_on)
            memset(sum, 0, rank * sizeof *sum);
        else if (p->edge[k - 1].first != row)
            ts_fmat_get(m->out, row, 1, sum, 1);
        for (uint32_t c = 0; c < rank; c++) {
            sum[c] +=
                p->precision == TS_FLOAT32 ? ((const float *)head)[c] : ((const double *)head)[c];
            if (wide)
                sum[c] += ((const float *)head)[p->stride + c];
        }
        if (k + 1 == n_partitions || p->edge[k].last != row || p->edge[k + 1].first != row)
            ts_fmat_put(m->out, row, 1, sum, 1);
    }
    ts_fpmode_restore(mode);
}

/* Returns the address of column 0 in a row of all models. row: the address of column col in it. */
static void *row_of_all(void *row, uint32_t col, size_t size)
{
    return row == NULL ? NULL : (char *)row - col * size;
}

/* Assigns each model to part[] by the precision in which its product is summed. */
static void fill_parts(const struct ts_pass *p, uint32_t mode, const struct ts_fmat *factor,
                       uint32_t n, struct products *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct ts_pass_model *m = &ret->model[i];
        struct part *part = &ret->part[m->summed];
        assert(!is_wide(p->precision, m->summed) || mode + 1 == p->tensor->order);
        if (part->job.n_models == 0) {
            part->kernel = p->kernel[m->summed];
            ts_pass_job(p, mode, m->summed, factor, m->out, &part->job);
            part->job.out = row_of_all(m->out->data, m->col, ts_precision_bytes(p->precision));
            part->job.model = part->model;
            part->job.hold_out = p->hold_out;
            part->job.level = p->tensor->mode[mode].disk.level;
        }
        if (m->out->rest != NULL) /* models whose `out` has no rest do not use job.rest */
            part->job.rest = row_of_all(m->out->rest, m->col, sizeof(float));
        part->model[part->job.n_models++] = (struct ts_kernel_model){ m->col, m->out->width };
    }
    ret->head_bytes =
        (ret->part[TS_FLOAT64].job.n_models > 0 && p->precision == TS_FLOAT32 ? 2 : 1) *
        ts_fmat_bytes(1, p->rank, p->precision);
}

/* Returns the products of n models as a matrix with the columns of all models. Columns of models
 * outside of this pass are the same on all ranks. */
static struct ts_fmat rows_of_all(const struct ts_pass *p, uint32_t n,
                                  const struct ts_pass_model *model)
{
    struct ts_fmat whole = ts_fmat_view(model[0].out, 0, model[0].out->rank);
    whole.data = row_of_all(whole.data, model[0].col, ts_precision_bytes(p->precision));
    whole.rest = NULL;
    whole.width = whole.stride;
    for (uint32_t i = 0; i < n; i++)
        if (model[i].out->rest != NULL)
            whole.rest = row_of_all(model[i].out->rest, model[i].col, sizeof(float));
    return whole;
}

int ts_pass_run(struct ts_pass *p, uint32_t mode, const struct ts_fmat *factor, uint32_t n,
                const struct ts_pass_model *model, struct ts_feed *feed,
                struct ts_backend_times *times, struct ts_err *err)
{
    struct products x = { .model = model };
    struct ts_pass_run r = { .visit = visit, .models = &x, .n = n, .begin_ns = ts_clock_ns() };
    uint64_t computed, exchanged;
    struct ts_fmat whole;
    int rc;
    assert(n > 0 && n <= TS_PASS_MAX_MODELS);
    fill_parts(p, mode, factor, n, &x);
    rc = ts_pass_over(&r, p, mode, feed, make_ready, err);
    computed = ts_clock_ns();
    if (p->share != NULL) {
        whole = rows_of_all(p, n, model);
        rc = ts_share_heads(p->share, mode, rc, p->edge, p->heads, x.head_bytes, &whole,
                            &r.loop.begin, &r.loop.end, err);
    }
    if (rc < 0)
        return rc;
    exchanged = p->share != NULL ? ts_clock_ns() : computed;
    for (uint32_t i = 0; i < n; i++)
        add_heads(&r, ts_tensor_partitions(p->tensor, mode), &model[i], p->scratch[0].sum);
    ts_pass_end(&r, exchanged - computed, times);
    return 0;
}
