/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills the CPU backend's table of functions (stream/backend.h). Factors are in memory, pass.c
 * makes passes, and rowsolve.c updates rows. */
#include "cpu/cpu_backend.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/trace.h"
#include "cpu/cpu_state.h"
#include "cpu/dense/dense_cells.h"
#include "cpu/dense/dense_rows.h"
#include "stream/fit_sums.h"

static void *cpu_model(void *be, uint32_t k)
{
    const struct ts_cpu_shared *s = ((const struct ts_cpu *)be)->shared;
    return s->n_apart > 1 && k > 0 ? s->others[k - 1]->model : &s->model[k];
}

/* Says that a factor is about to change, so that later products of a dense tensor reuse no results
 * of the old factor. */
static void note_change(struct ts_cpu *c, uint32_t mode)
{
    if (c->shared->dense != NULL)
        ts_dense_product_changed(c->shared->dense, mode);
}

static int cpu_put_rows(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                        struct ts_err *err)
{
    struct ts_cpu *c = be;
    (void)err;
    assert((c->shared->lacks >> mode & 1) == 0);
    note_change(c, mode);
    c->factor[mode].rest = NULL;
    c->shared->put |= c->factor[mode].shared;
    ts_fmat_put(&c->factor[mode], row, n, rows, c->shared->threads);
    return 0;
}

static int cpu_get_rows(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                        struct ts_err *err)
{
    struct ts_cpu *c = be;
    (void)err;
    assert((c->shared->lacks >> mode & 1) == 0);
    ts_fmat_get(&c->factor[mode], row, n, rows, c->shared->threads);
    return 0;
}

/* Prepares the MTTKRP of a mode. Returns the matrix that it is written to, and the precision in
 * which it is summed. */
static struct ts_pass_model prepare_product(struct ts_cpu *c, uint32_t mode)
{
    const struct ts_cpu_shared *s = c->shared;
    const int last = mode + 1 == s->tensor->order;
    const enum ts_precision summed = last ? c->summed : c->factor[mode].precision;
    float *rest = summed != c->factor[mode].precision && c->keeps_rest
                      ? (float *)s->rest.data + c->col
                      : NULL;
    if ((s->own >> mode & 1) != 0) {
        c->product = ts_fmat_view(&s->apart, c->col, c->rank);
    } else {
        c->product = ts_fmat_view(&c->factor[mode], 0, c->rank);
        c->factor[mode].rest = rest;
    }
    c->product.n_rows = c->factor[mode].n_rows;
    c->product.rest = rest;
    return (struct ts_pass_model){ .col = c->col, .out = &c->product, .summed = summed };
}

/* Computes the product of a dense tensor, then calls `ready` of the row update, which computes the
 * matrix of the update. */
static int multiply_dense(const struct ts_request *r, uint32_t mode, struct ts_feed *feed,
                          struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_cpu *c = r->be;
    struct ts_cpu_shared *s = c->shared;
    const struct ts_pass_model model = prepare_product(c, mode);
    int rc;
    note_change(c, mode);
    ts_dense_product_learn(s->dense, &s->hold_out, 0);
    rc = ts_dense_product_run(s->dense, mode, s->factor, &c->product, model.summed, feed, times,
                              err);
    return rc == 0 && r->update != NULL && r->update->ready != NULL
               ? r->update->ready(r->update->ctx, err)
               : rc;
}

/* Computes the products of n models, and calls `ready` of their row updates, which computes the
 * matrices of the updates. some: 1 if updated rows may go to some ranks only. */
static int multiply_all(const struct ts_request *r, uint32_t n, uint32_t mode, int some,
                        struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_pass_model model[TS_PASS_MAX_MODELS];
    struct ts_cpu_shared *s = ((struct ts_cpu *)r[0].be)->shared;
    int rc;
    assert(n == 1 || (n > 0 && n <= TS_PASS_MAX_MODELS && s->n_models > 1));
    if (s->dense != NULL)
        return multiply_dense(r, mode, feed, times, err);
    for (uint32_t k = 0; k < n; k++) {
        model[k] = prepare_product(r[k].be, mode);
        model[k].update = r[k].update;
    }
    rc = ts_cpu_settle_put(s, err);
    if (rc == 0)
        rc = ts_pass_run(s->pass, mode, s->factor, n, model, feed, times, err);
    for (uint32_t k = 0; k < n && rc == 0 && s->share != NULL; k++) {
        struct ts_cpu *c = r[k].be;
        rc = ts_cpu_deal_rows(c, mode, &c->product, some, times, err);
    }
    return rc;
}

static int weigh_all(const struct ts_request *r, uint32_t n, uint32_t mode, struct ts_feed *feed,
                     struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_pass_cells model[TS_PASS_MAX_MODELS];
    struct ts_cpu_shared *s = ((struct ts_cpu *)r[0].be)->shared;
    assert(n > 0 && n <= TS_PASS_MAX_MODELS);
    if (s->dense != NULL)
        return ts_dense_cells_run(s->tensor, s->factor[0].rank, s->threads, s->factor, r[0].cells,
                                  feed, times, err);
    for (uint32_t k = 0; k < n; k++)
        model[k] = (struct ts_pass_cells){ ((struct ts_cpu *)r[k].be)->factor, r[k].cells };
    return ts_pass_cells(s->pass, mode, n, model, feed, times, err);
}

/* Computes requests of kind ERRORS or LOSSES, in a pass that evaluates the models at the
 * nonzeros. */
static int judge_all(const struct ts_request *r, uint32_t n, uint32_t mode, struct ts_feed *feed,
                     struct ts_backend_times *times, struct ts_err *err)
{
    const struct ts_tensor *t = ((struct ts_cpu *)r[0].be)->shared->tensor;
    struct ts_fit_sums *sums = calloc(n, sizeof *sums);
    struct ts_request *cells = calloc(n, sizeof *cells);
    int rc = sums == NULL || cells == NULL
                 ? ts_fail(err, TS_ENOMEM, "%s: out of memory for sums", t->path)
                 : 0;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        rc = ts_fit_sums_begin(t, mode, &r[k], &sums[k], err);
        cells[k] =
            (struct ts_request){ .be = r[k].be, .kind = TS_REQUEST_CELLS, .cells = &sums[k].cells };
    }
    if (rc == 0)
        rc = weigh_all(cells, n, mode, feed, times, err);
    for (uint32_t k = 0; k < n && sums != NULL; k++)
        ts_fit_sums_end(&sums[k], rc);
    free(sums);
    free(cells);
    return rc;
}

/* ret := the elementwise product of the Gram matrices of all modes' factors but that of `mode`.
 * one: memory for one Gram matrix. */
static int gram_product(struct ts_cpu *c, uint32_t mode, double *ret, double *one,
                        struct ts_err *err)
{
    const size_t n = (size_t)c->rank * c->rank;
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        ret[i] = 1;
    for (uint32_t m = 0; m < c->shared->tensor->order && rc == 0; m++) {
        if (m == mode)
            continue;
        rc = ts_rowsolve_run(c->rows, &c->factor[m], NULL, NULL,
                             &(struct ts_row_sums){ .gram = one }, NULL, err);
        for (size_t i = 0; i < n && rc == 0; i++)
            ret[i] *= one[i];
    }
    return rc;
}

/* Solves for the rows of a mode of a dense tensor. It first computes the MTTKRP, in which unknown
 * and held-out cells count as 0. */
static int complete_dense(struct ts_cpu *c, uint32_t mode, struct ts_feed *feed,
                          const struct ts_row_update *update, const struct ts_row_sums *sums,
                          struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_cpu_shared *s = c->shared;
    const uint64_t start = ts_clock_ns();
    double *gram = malloc(2 * sizeof *gram * c->rank * c->rank);
    uint64_t then;
    int rc = gram == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", s->tensor->path) : 0;
    if (rc == 0 && s->dense_rows == NULL)
        rc = ts_dense_rows_new(s->tensor, c->rank, s->factor[0].precision, ts_isa_best(),
                               s->threads, &s->dense_rows, err);
    if (rc == 0)
        rc = gram_product(c, mode, gram, gram + (size_t)c->rank * c->rank, err);
    note_change(c, mode);
    ts_dense_product_learn(s->dense, &update->hold_out, update->mean);
    if (rc == 0)
        rc = ts_dense_product_run(s->dense, mode, s->factor, &c->factor[mode], TS_FLOAT64, feed,
                                  times, err);
    then = ts_clock_ns();
    if (rc == 0)
        rc = ts_dense_rows_run(s->dense_rows, mode, s->factor, ts_dense_product_sums(s->dense),
                               gram, update, sums->size, feed, err);
    free(gram);
    if (rc == 0 && times != NULL) {
        times->total_ns = ts_clock_ns() - start;
        times->device[0].solve_ns = ts_clock_ns() - then;
    }
    return rc;
}

/* Computes requests of kind ROWS, for several models that are apart (with matrices of their own),
 * or for one. */
static int complete_all(const struct ts_request *r, uint32_t n, uint32_t mode, struct ts_feed *feed,
                        struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_pass_rows model[TS_CPU_MOST_MODELS] = { { 0 } };
    int rc;
    assert(n > 0 && n <= TS_CPU_MOST_MODELS);
    for (uint32_t k = 0; k < n; k++) {
        struct ts_cpu *c = r[k].be;
        struct ts_cpu_shared *s = c->shared;
        assert(s->n_models == 1);
        c->factor[mode].rest = NULL;
        if (s->dense != NULL)
            return complete_dense(c, mode, feed, r->update, r->sums, times, err);
        model[k] = (struct ts_pass_rows){ s->pass, s->factor, r[k].update, r[k].sums->size };
    }
    rc = ts_pass_complete(mode, n, model, feed, times, err);
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        struct ts_cpu *c = r[k].be;
        if (c->shared->share != NULL)
            rc = ts_cpu_deal_rows(c, mode, &c->factor[mode], 1, times, err);
    }
    return rc;
}

static int cpu_own_rows(void *be, uint32_t modes, struct ts_err *err)
{
    struct ts_cpu *c = be;
    struct ts_cpu_shared *s = c->shared;
    const uint64_t n = ts_most_rows(s->tensor, modes);
    int rc = 0;
    s->own = 0;
    if (n > s->apart.n_rows) {
        ts_fmat_free(&s->apart);
        rc = ts_fmat_new(n, s->factor[0].rank, s->factor[0].precision, "products beside factors",
                         &s->apart, err);
    }
    if (rc == 0 && modes != 0)
        rc = ts_rowsolve_own(c->rows, err);
    if (rc == 0)
        s->own = modes;
    return rc;
}

static void cpu_hold_out(void *be, const struct ts_hold_out *h)
{
    struct ts_cpu *c = be;
    c->shared->hold_out = *h;
    if (c->shared->pass != NULL)
        ts_pass_hold_out(c->shared->pass, h);
}

static void cpu_sum_in(void *be, enum ts_precision summed)
{
    struct ts_cpu *c = be;
    c->summed = summed;
}

static int cpu_solve(void *be, uint32_t mode, const struct ts_row_update *update,
                     const struct ts_row_sums *sums, struct ts_err *err)
{
    struct ts_cpu *c = be;
    struct ts_rowsolve_ranks *ranks = c->shared->share == NULL ? NULL : &c->ranks[mode];
    const int rc = ts_rowsolve_run(c->rows, &c->factor[mode],
                                   ts_row_reads_old(update->kind) ? &c->product : NULL, update,
                                   sums, ranks, err);
    ts_cpu_note_lacks(c->shared, mode, ranks);
    note_change(c, mode);
    c->factor[mode].rest = NULL;
    c->scattered = 0;
    return rc;
}

/* Computes requests of kind PRODUCT: the MTTKRPs of n models and, for requests that contain an
 * update, their new rows. */
static int product_all(const struct ts_request *r, uint32_t n, uint32_t mode, struct ts_feed *feed,
                       struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_trace *trace = ((const struct ts_cpu *)r[0].be)->shared->trace;
    const uint64_t start = ts_clock_ns();
    struct ts_device_times *d;
    uint64_t exchanged_ns, now, then;
    int rc;
    if (n == 1 && r[0].update == NULL)
        return multiply_all(r, 1, mode, 0, feed, times, err);
    rc = multiply_all(r, n, mode, 1, feed, times, err);
    then = ts_clock_ns();
    (void)ts_cpu_exchanged(r[0].be); /* discards the times of exchanges before these updates */
    for (uint32_t k = 0; k < n && rc == 0; k++)
        if (r[k].update != NULL)
            rc = cpu_solve(r[k].be, mode, r[k].update, r[k].sums, err);
    if (rc < 0)
        return rc;
    now = ts_clock_ns();
    d = &times->device[0];
    exchanged_ns = ts_cpu_tell_rows(r[0].be, times);
    d->solve_ns = now - then - exchanged_ns;
    d->exchange_ns += exchanged_ns;
    d->exposed_ns += exchanged_ns;
    times->total_ns = now - start;
    ts_trace_add(trace, TS_TRACE_MODES, "product", start, then, mode, TS_TRACE_NO_SHARD, 0);
    ts_trace_add(trace, TS_TRACE_MODES, "rows", then, now, mode, TS_TRACE_NO_SHARD, 0);
    return 0;
}

static int cpu_scale(void *be, uint32_t mode, const double *s, struct ts_err *err)
{
    struct ts_cpu *c = be;
    struct ts_fmat *f = &c->factor[mode];
    const int rc = ts_cpu_settle_put(c->shared, err);
    if (rc < 0)
        return rc;
    note_change(c, mode);
    if ((c->shared->lacks >> mode & 1) != 0)
        ts_cpu_scale_some(c, mode, s);
    else if (f->shared)
        ts_rowsolve_scale(c->rows, f, s, c->shared->comm->place, c->shared->comm->beside);
    else
        ts_rowsolve_scale(c->rows, f, s, 0, 1);
    return ts_cpu_settle(c->shared, f, err);
}

static int cpu_gram(void *be, uint32_t mode, double *gram, struct ts_err *err)
{
    struct ts_cpu *c = be;
    struct ts_rowsolve_ranks *ranks = c->scattered == mode + 1 ? &c->ranks[mode] : NULL;
    int rc = ts_cpu_settle_put(c->shared, err);
    assert(ranks != NULL || (c->shared->lacks >> mode & 1) == 0);
    if (rc == 0)
        rc = ts_rowsolve_run(c->rows, &c->factor[mode], NULL, NULL,
                             &(struct ts_row_sums){ .gram = gram }, ranks, err);
    ts_cpu_note_lacks(c->shared, mode, ranks);
    return rc == 0 ? ts_cpu_settle(c->shared, &c->factor[mode], err) : rc;
}

static int cpu_pass(const struct ts_request *requests, uint32_t n, uint32_t mode,
                    struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    switch (requests[0].kind) {
    case TS_REQUEST_PRODUCT:
        return product_all(requests, n, mode, feed, times, err);
    case TS_REQUEST_ROWS:
        return complete_all(requests, n, mode, feed, times, err);
    case TS_REQUEST_MULTIPLY:
        return ts_cpu_multiply_all(requests, n, mode, feed, times, err);
    case TS_REQUEST_DESCEND:
        return ts_cpu_descend_all(requests, n, mode, feed, times, err);
    case TS_REQUEST_CELLS:
        return weigh_all(requests, n, mode, feed, times, err);
    case TS_REQUEST_ERRORS:
    case TS_REQUEST_LOSSES:
        return judge_all(requests, n, mode, feed, times, err);
    /* not requested: this backend answers CELLS, from which scores are computed */
    case TS_REQUEST_SCORES:
    case TS_N_REQUEST_KINDS:
        break;
    }
    return ts_backend_check(&ts_backend_cpu, 1u << ts_request_takes(requests[0].kind), err);
}

static uint32_t cpu_most_rank(const struct ts_backend_conf *conf)
{
    (void)conf;
    return UINT32_MAX;
}

/* Returns the number of column groups whose sums are computed in passes of their own: 0 on CPU
 * cores, where columns form no such groups. */
static uint32_t cpu_groups(const void *be)
{
    (void)be;
    return 0;
}

static uint64_t cpu_cells_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads)
{
    return t->dense == NULL ? 0 : ts_dense_cells_bytes(t, rank, threads);
}

const struct ts_backend ts_backend_cpu = {
    .version = TS_BACKEND_VERSION,
    .bytes = sizeof(struct ts_backend),
    .name = "cpu",
    .can = TS_ROWS_ALL | TS_CAN(HELD_OUT) | TS_CAN(AT_ONCE) | TS_CAN(CELLS) | TS_CAN(ERRORS) |
           TS_CAN(LOSSES) | TS_CAN(MEANS) | TS_CAN(WEIGHTS) | TS_CAN(RANKS),
    .most_rank = cpu_most_rank,
    .open = ts_cpu_open,
    .close = ts_cpu_close,
    .link = ts_cpu_link,
    .row_bytes = ts_cpu_row_bytes,
    .spread = ts_cpu_spread,
    .shares = ts_cpu_shares,
    .collect = ts_cpu_collect,
    .agree = ts_cpu_agree,
    .given_up = ts_cpu_given_up,
    .tell_ranks = ts_cpu_tell_ranks,
    .need = ts_cpu_need,
    .wish = ts_cpu_wish,
    .cells_bytes = cpu_cells_bytes,
    .groups = cpu_groups,
    .deal = ts_cpu_deal,
    .put_rows = cpu_put_rows,
    .get_rows = cpu_get_rows,
    .own_rows = cpu_own_rows,
    .sum_in = cpu_sum_in,
    .hold_out = cpu_hold_out,
    .model = cpu_model,
    .most = ts_cpu_most,
    .together = ts_cpu_together_here,
    .solve = cpu_solve,
    .pass = cpu_pass,
    .exchanged = ts_cpu_exchanged,
    .divide_columns = ts_cpu_divide_columns,
    .zeros = ts_cpu_zeros,
    .scale = cpu_scale,
    .gram = cpu_gram,
};
