/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates rows of Poisson models and of models with other losses. One pass computes the
 * multiplicative updates or the gradients of all models. Then each model makes its gradient
 * steps. */
#include <assert.h>

#include "base/clock.h"
#include "cpu/cpu_backend.h"
#include "cpu/cpu_state.h"
#include "cpu/losses/descend.h"
#include "cpu/pass_loop.h"
#include "cpu/losses/rounds.h"

static int refuse_dense(const struct ts_cpu_shared *s, struct ts_err *err)
{
    return ts_fail(err, TS_EARG, "%s: that works nonzero by nonzero, and the tensor is dense",
                   s->tensor->path);
}

/* Prepares a model whose rows follow from a loss at each nonzero. Its new rows go to the matrix
 * `apart`. */
static int begin_rounds(struct ts_cpu *c, uint32_t mode, struct ts_rounds_of *ret,
                        struct ts_err *err)
{
    struct ts_cpu_shared *s = c->shared;
    int rc = 0;
    if (s->dense != NULL)
        return refuse_dense(s, err);
    assert(s->n_models == 1 && (s->share == NULL || ts_share_is_whole(s->share)));
    if (s->rounds == NULL)
        rc = ts_rounds_new(s->tensor, c->rank, s->factor[0].precision, ts_isa_best(), s->threads,
                           ts_pass_plain(s->pass), &s->rounds, err);
    c->product = ts_fmat_view(&s->apart, c->col, c->rank);
    c->product.n_rows = c->factor[mode].n_rows;
    c->factor[mode].rest = NULL;
    *ret = (struct ts_rounds_of){
        .r = s->rounds, .share = s->share, .factor = s->factor, .apart = &c->product
    };
    return rc;
}

/* After multiplicative updates, divides the rows of the mode among ranks: each rank will sum its
 * rows' part of the Gram matrix. */
static void end_multiplied(struct ts_cpu *c, uint32_t mode)
{
    if (c->shared->share == NULL)
        return;
    ts_rowsolve_deal(c->rows, c->product.n_rows, &c->ranks[mode]);
    c->ranks[mode].here = 1;
    c->scattered = mode + 1;
}

/* Sets times->row_bytes to the bytes of rows that ranks sent in a call, summed over all models. */
static void tell_rows(const struct ts_request *w, uint32_t n, struct ts_backend_times *times)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < n; k++) {
        (void)ts_cpu_tell_rows(w[k].be, times);
        bytes += times->row_bytes;
    }
    times->row_bytes = bytes;
}

/* Makes multiplicative updates for several models that are apart (with matrices of their own), or
 * for one. */
int ts_cpu_multiply_all(const struct ts_request *w, uint32_t n, uint32_t mode, struct ts_feed *feed,
                        struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_rounds_of of[TS_CPU_MOST_MODELS] = { { 0 } };
    int rc = 0;
    assert(n > 0 && n <= TS_CPU_MOST_MODELS);
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        rc = begin_rounds(w[k].be, mode, &of[k], err);
        of[k].multiply = w[k].multiply;
        of[k].ret = w[k].multiplied;
    }
    if (rc == 0)
        rc = ts_rounds_run(of, n, mode, feed, times, err);
    for (uint32_t k = 0; k < n && rc == 0 && feed != NULL; k++)
        end_multiplied(w[k].be, mode);
    if (rc == 0 && times != NULL)
        tell_rows(w, n, times);
    return rc;
}

int ts_cpu_divide_columns(void *be, uint32_t mode, const struct ts_multiply *multiply,
                          struct ts_multiply_sums *ret, struct ts_err *err)
{
    const struct ts_request one = { .be = be, .multiply = multiply, .multiplied = ret };
    /* the times of the call, which the caller does not get */
    struct ts_backend_times times = { 0 };
    return ts_cpu_multiply_all(&one, 1, mode, NULL, &times, err);
}

static int begin_descent(struct ts_cpu *c, uint32_t mode, struct ts_rounds_of *ret,
                         struct ts_err *err)
{
    struct ts_cpu_shared *s = c->shared;
    int rc = begin_rounds(c, mode, ret, err);
    if (rc == 0 && s->steps == NULL)
        rc = ts_steps_new(s->tensor, c->rank, s->threads, &s->steps, err);
    return rc;
}

/* Makes the gradient step of a mode's rows, once the gradient over the nonzeros is known.
 * *dealt_ns: increased by the time in which rows were sent to the ranks that make their steps. */
static int end_descent(struct ts_cpu *c, uint32_t mode, const struct ts_descent *descent,
                       uint64_t *dealt_ns, struct ts_err *err)
{
    struct ts_cpu_shared *s = c->shared;
    const uint64_t start = ts_clock_ns();
    const int rc = s->share != NULL ? ts_cpu_deal_rows(c, mode, &c->product, 0, NULL, err) : 0;
    /* if the caller wants the gradient itself, factors do not change, and no rows are sent */
    c->ranks[mode].here = descent->gradient != NULL;
    *dealt_ns += ts_clock_ns() - start;
    return rc == 0 ? ts_steps_make(s->steps, s->share, c->ranks[mode].row, mode, s->factor,
                                   &c->product, descent, err)
                   : rc;
}

/* Makes gradient steps for several models that are apart (with matrices of their own), or for
 * one. */
int ts_cpu_descend_all(const struct ts_request *w, uint32_t n, uint32_t mode, struct ts_feed *feed,
                       struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_rounds_of of[TS_CPU_MOST_MODELS] = { { 0 } };
    uint64_t wait_ns = 0, exchange_ns = 0, dealt_ns = 0, then, end;
    int rc = 0;
    assert(n > 0 && n <= TS_CPU_MOST_MODELS);
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        rc = begin_descent(w[k].be, mode, &of[k], err);
        of[k].descend = w[k].descend;
    }
    if (rc == 0)
        rc = ts_rounds_gradient(of, n, mode, feed, &wait_ns, &exchange_ns, err);
    then = ts_clock_ns();
    for (uint32_t k = 0; k < n && rc == 0; k++)
        rc = end_descent(w[k].be, mode, w[k].descend, &dealt_ns, err);
    end = ts_clock_ns();
    *times = ts_pass_times(end - start, ((struct ts_cpu *)w[0].be)->shared->tensor->nnz, wait_ns,
                           exchange_ns + dealt_ns, end - then - dealt_ns);
    return rc;
}

int ts_cpu_zeros(void *be, uint32_t mode, const struct ts_descent *descent, double *zeros,
                 struct ts_err *err)
{
    struct ts_cpu *c = be;
    struct ts_rounds_of of;
    const int rc = begin_descent(c, mode, &of, err);
    return rc == 0 ? ts_steps_zeros(c->shared->steps, c->shared->share, mode, c->shared->factor,
                                    descent, zeros, err)
                   : rc;
}
