/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes on models with losses other than least squares and Poisson: a pass computes the gradient
 * over the nonzeros, then all rows make a step. A pass of LOSSES sums the loss.
 *
 * The gradient is stored in the buffer `apart`, where other updates have their products. Its
 * partial sums are added and sent like those of a product. Then the members (GPUs) divide the rows.
 * Each adds the part of the gradient from unlisted cells to its rows, makes their step and sends
 * them. Moments of Adam, and gradients that the caller asks for, are in the caller's host memory
 * and pass through `stage`.
 */
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/setting.h"
#include "gpu/rows/dense_kernel.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/pass/gpu_sums.h"
#include "gpu/team/gpu_team.h"
#include "gpu/sparse/loss_kernel.h"
#include "gpu/rows/step_kernel.h"
#include "stream/loss.h"
#include "stream/loss_functions.h"

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "steps of rows");
}

static int check(const struct ts_gpu_model *of, struct ts_err *err)
{
    if (!of->gpu->descends)
        return ts_fail(err, TS_EARG, "no GPU memory was set aside for gradients of a loss");
    return 0;
}

/* ---- kernels of a pass */

static struct ts_gpu_loss loss_of(const struct ts_gpu_product *r, const struct ts_loss *loss,
                                  double at, int observed, const struct ts_hold_out *hold_out)
{
    const struct ts_gpu_pass *p = r->pass;
    struct ts_gpu_loss ret = {
        .kind = loss->kind,
        .zeros = !observed,
        .at = at,
        .own = r->my->factor[p->ask->mode],
        .hold_out = *hold_out,
    };
    ts_gpu_find_levels(p->g, p->ask->mode, ret.level);
    return ret;
}

ts_gpu_error ts_gpu_gradient_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream)
{
    const struct ts_descent *descent = r->want->descend;
    const struct ts_gpu_loss loss =
        loss_of(r, descent->loss, descent->at, descent->observed, &descent->hold_out);
    return ts_loss_launch(r->pass->g->precision, args, &loss, stream);
}

ts_gpu_error ts_gpu_losses_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream)
{
    const struct ts_loss_sums *sums = r->want->losses;
    struct ts_gpu_loss loss = loss_of(r, sums->loss, sums->at, sums->observed, &sums->hold_out);
    loss.sums = r->my->losses;
    return ts_loss_launch(r->pass->g->precision, args, &loss, stream);
}

/* ---- steps of rows */

struct job {
    const struct ts_gpu_model *of;
    uint32_t mode;
    const struct ts_descent *descent;
    /* the sum that ts_step_values computes for each group of rows, in host memory */
    double *of_group;
    /* sum of the model over all cells, set by the first member (GPU) of this process */
    double model;
};

static struct ts_gpu_steps steps_of(const struct job *j, const struct ts_gpu_member *me)
{
    const struct ts_gpu *g = j->of->gpu;
    const struct ts_gpu_replica *my = &me->replica[j->of->number];
    const struct ts_descent *descent = j->descent;
    const double columns = ts_draw_columns(g->tensor, j->mode);
    struct ts_gpu_steps s = {
        .precision = g->precision,
        .order = g->tensor->order,
        .mode = j->mode,
        .rank = j->of->rank,
        .ld = j->of->ld,
        .gradient = my->apart,
        .kind = descent->loss->kind,
        .at = descent->at,
        .linear = descent->loss->linear,
        .l2 = descent->l2,
        .sums = !descent->observed && (descent->loss->linear != 0 || descent->loss->lower == 0),
        .closed = my->closed,
        .upto = my->upto,
        .from_model = descent->loss->lower == 0,
        .seed = descent->seed,
        .draw = descent->draw,
        .column = my->column,
        .weight = my->weight,
        .at_cells = !descent->observed && descent->n_cells > 0,
        .part = my->cell_part,
        .row_value = my->row_inner,
    };
    if (!descent->observed && descent->n_cells == 0) {
        s.all_columns = columns <= descent->n_drawn;
        s.n_columns = s.all_columns ? (uint32_t)columns : descent->n_drawn;
        s.each = columns / descent->n_drawn;
    }
    if (s.at_cells)
        s.cells = ts_drawn_cells_of(g->tensor, j->mode, descent);
    for (uint32_t m = 0; m < s.order; m++) {
        s.factor[m] = my->factor[m];
        s.n_rows[m] = g->mode[m].n_rows;
        s.sum[m] = my->group_sum[m];
    }
    return s;
}

/* Returns the number of rows, at most `left`, that fit in the buffer `stage` if each of them needs
 * the space of `each` rows. */
static uint64_t stage_rows(const struct ts_gpu_model *of, uint32_t each, uint64_t left)
{
    const uint64_t most = 8 * of->gpu->stage / (each * (uint64_t)of->rank * of->gpu->element);
    return left < most ? left : most;
}

/* Makes the step of rows first .. end - 1, or copies their gradient to the host. */
static ts_gpu_error step_rows(const struct job *j, struct ts_gpu_member *me,
                              const struct ts_gpu_steps *s, uint64_t first, uint64_t end)
{
    const uint64_t row = (uint64_t)s->rank * j->of->gpu->element;
    const struct ts_descent *descent = j->descent;
    const struct ts_adam adam = ts_adam_of(descent);
    char *const host[2] = { descent->gradient != NULL ? descent->gradient : descent->moment[0],
                            descent->gradient != NULL ? NULL : descent->moment[1] };
    char *const u = (char *)me->stage;
    ts_gpu_error e = cudaSuccess;
    for (uint64_t n; first < end && e == cudaSuccess; first += n) {
        n = stage_rows(j->of, descent->gradient != NULL ? 1 : 2, end - first);
        if (descent->gradient != NULL) {
            e = ts_step_get(s, first, n, u, me->dense);
            TRY(e, cudaMemcpyAsync(host[0] + first * row, u, n * row, cudaMemcpyDeviceToHost,
                                   me->dense));
            continue;
        }
        for (int k = 0; k < 2; k++)
            TRY(e, cudaMemcpyAsync(u + k * n * row, host[k] + first * row, n * row,
                                   cudaMemcpyHostToDevice, me->dense));
        TRY(e, ts_step_make(s, &adam, first, n, u, u + n * row, me->dense));
        for (int k = 0; k < 2; k++)
            TRY(e, cudaMemcpyAsync(host[k] + first * row, u + k * n * row, n * row,
                                   cudaMemcpyDeviceToHost, me->dense));
    }
    return e;
}

/* Sends the member's new rows to the other members (GPUs). All members call it after they have read
 * the old rows. */
static int send_rows(const struct job *j, struct ts_gpu_member *me, const uint64_t *first,
                     struct ts_err *err)
{
    struct ts_gpu *g = j->of->gpu;
    const uint64_t row = ts_gpu_row_bytes(j->of);
    struct ts_exchange_span span[TS_MAX_TEAM];
    struct ts_exchange_part part[TS_MAX_TEAM];
    void *base[TS_MAX_TEAM];
    ts_gpu_error e;
    int rc = ts_gpu_team_barrier(g, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < g->n_members; i++) {
        span[i] = (struct ts_exchange_span){ first[i] * row, (first[i + 1] - first[i]) * row };
        part[i] = (struct ts_exchange_part){ &span[i], first[i + 1] > first[i] };
        base[i] = ts_gpu_is_here(g, i) ? g->member[i].replica[j->of->number].factor[j->mode] : NULL;
    }
    rc = ts_exchange_gather(g->exchange, me->number, base, part, me->send, err);
    if (rc == 0)
        rc = ts_gpu_team_barrier(g, err);
    if (rc == 0)
        rc = ts_exchange_join(g->exchange, me->number, me->send, err);
    if (rc < 0)
        return rc;
    e = cudaEventRecord(me->received, me->send);
    rc = e == cudaSuccess ? ts_gpu_team_wait(g, me, me->received, err) : fail(err, e);
    return rc == 0 ? ts_exchange_check(g->exchange, me->number, err) : rc;
}

/* Divides n things equally: member k has first[k] .. first[k + 1] - 1. */
static void divide(const struct ts_gpu *g, uint64_t n, uint64_t *first)
{
    for (uint32_t i = 0; i <= g->n_members; i++)
        first[i] = n * i / g->n_members;
}

static int step_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    const struct ts_gpu_steps s = steps_of(j, me);
    uint64_t first[TS_MAX_TEAM + 1];
    ts_gpu_error e = ts_step_prepare(&s, me->dense);
    divide(g, g->mode[j->mode].n_rows, first);
    TRY(e, ts_step_gradient(&s, first[me->number], first[me->number + 1], me->dense));
    TRY(e, step_rows(j, me, &s, first[me->number], first[me->number + 1]));
    TRY(e, cudaStreamSynchronize(me->dense));
    if (e != cudaSuccess)
        return fail(err, e);
    return g->n_members > 1 && j->descent->gradient == NULL ? send_rows(j, me, first, err) : 0;
}

/* Computes the sum of the model over all cells, which is the same on every member (GPU), and for
 * each of this member's groups of rows the sum of losses that ts_step_values computes. */
static int value_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    struct job *j = arg;
    const struct ts_gpu_steps s = steps_of(j, me);
    const struct ts_gpu_replica *my = &me->replica[j->of->number];
    uint64_t first[TS_MAX_TEAM + 1], n;
    ts_gpu_error e = ts_step_prepare(&s, me->dense);
    divide(g, ts_step_groups(g->mode[j->mode].n_rows), first);
    n = first[me->number + 1] - first[me->number];
    TRY(e, ts_step_values(&s, first[me->number], first[me->number + 1], my->of_group, me->dense));
    if (n > 0)
        TRY(e, cudaMemcpyAsync(j->of_group + first[me->number], my->of_group + first[me->number],
                               8 * n, cudaMemcpyDeviceToHost, me->dense));
    if (me == ts_gpu_first(g) && s.sums)
        TRY(e, cudaMemcpyAsync(&j->model, my->upto + s.ld, 8, cudaMemcpyDeviceToHost, me->dense));
    TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : fail(err, e);
}

static int zeros_of(struct job *j, double *ret, struct ts_err *err)
{
    struct ts_gpu *g = j->of->gpu;
    const uint64_t groups = ts_step_groups(g->mode[j->mode].n_rows);
    uint64_t first[TS_MAX_TEAM + 1];
    int rc = 0;
    *ret = 0;
    if (groups == 0)
        return 0;
    j->of_group = calloc(groups, sizeof *j->of_group);
    if (j->of_group == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for sums of the loss");
    if (rc == 0)
        rc = ts_gpu_team_run(g, value_job, j, NULL, err);
    rc = ts_gpu_ranks_end(g, rc, err);
    divide(g, groups, first);
    if (rc == 0)
        rc = ts_gpu_ranks_gather(g, j->of_group, sizeof *j->of_group, first, err);
    *ret = j->descent->loss->linear * j->model;
    for (uint64_t k = 0; k < groups && rc == 0; k++)
        *ret += j->of_group[k];
    free(j->of_group);
    return rc;
}

/* Makes the steps of all rows. Moments or gradients in host memory are then complete in every
 * process. */
static int make_steps(struct job *j, struct ts_feed *feed, struct ts_err *err)
{
    struct ts_gpu *g = j->of->gpu;
    const uint64_t row = (uint64_t)j->of->rank * g->element;
    const struct ts_descent *descent = j->descent;
    uint64_t first[TS_MAX_TEAM + 1];
    int rc = ts_gpu_team_run(g, step_job, j, g->comm != NULL ? feed : NULL, err);
    rc = ts_gpu_ranks_end(g, rc, err);
    divide(g, g->mode[j->mode].n_rows, first);
    if (rc == 0 && descent->gradient != NULL)
        return ts_gpu_ranks_gather(g, descent->gradient, row, first, err);
    for (int k = 0; k < 2 && rc == 0; k++)
        rc = ts_gpu_ranks_gather(g, descent->moment[k], row, first, err);
    return rc;
}

static int check_rows(const struct ts_gpu_model *of, uint32_t mode, struct ts_err *err)
{
    const int rc = check(of, err);
    if (rc < 0 || ts_gpu_owns(of->gpu, mode))
        return rc;
    return ts_fail(err, TS_EARG, TS_NTH_MODE ": no GPU memory was set aside for its rows",
                   mode + 1);
}

int ts_gpu_descend_zeros(void *be, uint32_t mode, const struct ts_descent *descent, double *zeros,
                         struct ts_err *err)
{
    const struct ts_gpu_model *of = be;
    struct job j = { .of = of, .mode = mode, .descent = descent };
    const int rc = check_rows(of, mode, err);
    return rc == 0 ? zeros_of(&j, zeros, err) : rc;
}

/* Computes the gradients of all models, then makes the steps of one model after another, because
 * they pass through the same memory. */
int ts_gpu_descend(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                   struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_gpu *g = ((struct ts_gpu_model *)of[0].be)->gpu;
    const struct ts_gpu_request ask = {
        .mode = mode, .feed = feed, .kind = TS_REQUEST_DESCEND, .n = n, .of = of
    };
    uint64_t then;
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++)
        rc = check_rows(of[k].be, mode, err);
    if (rc < 0)
        return rc;
    rc = ts_gpu_pass_run(g, &ask, times, err);
    then = ts_clock_ns();
    for (uint32_t k = 0; k < n && rc == 0 && g->mode[mode].n_rows > 0; k++) {
        struct job j = { .of = of[k].be, .mode = mode, .descent = of[k].descend };
        rc = make_steps(&j, feed, err);
    }
    for (uint32_t i = 0; i < times->n_devices && rc == 0; i++)
        times->device[i].solve_ns += ts_clock_ns() - then;
    times->total_ns = ts_clock_ns() - start;
    return rc;
}

/* Launches the kernels of this file once, on one row of each mode, so that their code is loaded.
 * The rows are overwritten. */
ts_gpu_error ts_gpu_loss_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              const struct ts_gpu_mttkrp *args)
{
    const struct ts_gpu *g = of->gpu;
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const struct ts_loss *loss = ts_loss_of(TS_GCP_BERNOULLI);
    struct ts_gpu_loss what = { .kind = loss->kind, .own = my->factor[0] };
    struct ts_descent descent = { .loss = loss, .n_drawn = 1, .step = 1 };
    const struct job j = { .of = of, .descent = &descent };
    const struct ts_adam adam = ts_adam_of(&descent);
    struct ts_gpu_steps s = steps_of(&j, me);
    ts_gpu_error e = ts_loss_launch(g->precision, args, &what, me->dense);
    what.sums = my->losses;
    TRY(e, ts_loss_launch(g->precision, args, &what, me->dense));
    for (uint32_t m = 0; m < s.order; m++)
        s.n_rows[m] = 1;
    TRY(e, ts_step_prepare(&s, me->dense));
    s.cells = (struct ts_drawn_cells){ .all = 1, .of_row = 1 };
    for (uint32_t m = 0; m < s.order; m++)
        s.cells.n_rows[m] = 1;
    for (s.at_cells = 0; s.at_cells < 2 && e == cudaSuccess; s.at_cells++) {
        e = ts_step_gradient(&s, 0, 1, me->dense);
        TRY(e, ts_step_values(&s, 0, 1, my->of_group, me->dense));
    }
    TRY(e, ts_step_get(&s, 0, 1, me->stage, me->dense));
    TRY(e, ts_step_make(&s, &adam, 0, 1, me->stage, (char *)me->stage + s.rank * g->element,
                        me->dense));
    return e;
}

/* ---- sums of a loss */

static double *losses_of(const struct ts_gpu_replica *my)
{
    return my->losses;
}

static void add_cells(struct ts_cell_losses *to, const double *from)
{
    to->n += from[0];
    to->loss += from[1];
    to->reference += from[2];
    to->x += from[3];
}

static void add_share(const struct ts_request *of, const double *share)
{
    add_cells(&of->losses->kept, share);
    add_cells(&of->losses->held, share + TS_LOSS_SUMS / 2);
}

int ts_gpu_losses(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                  struct ts_backend_times *times, struct ts_err *err)
{
    const struct ts_gpu_model *first = of[0].be;
    const struct ts_gpu_request ask = {
        .mode = mode, .feed = feed, .kind = TS_REQUEST_LOSSES, .n = n, .of = of
    };
    const struct ts_gpu_sums_pass pass = { &ask, TS_LOSS_SUMS, losses_of, add_share,
                                           "sums of a loss" };
    /* all models and processes get the same result of this check */
    const int rc = check(first, err);
    for (uint32_t k = 0; k < n && rc == 0; k++)
        of[k].losses->kept = of[k].losses->held = (struct ts_cell_losses){ 0 };
    return rc == 0 ? ts_gpu_sums_run(first->gpu, &pass, times, err) : rc;
}
