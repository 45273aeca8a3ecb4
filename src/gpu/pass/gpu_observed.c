/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of observed cells on GPUs: each row has its own Gram matrix, and is solved for by the
 * device that sums it. Also the errors at all nonzeros, for these models and for models that count
 * held-out cells as zeros.
 *
 * A warp or a thread block sums a unit (a part of a share, observed_kernel.h). A row inside a unit
 * is complete after the kernel of the shard. The partial sums of other rows (parts) are then added
 * inside the shard, like edges of products. The parts of the first and last row of a shard are
 * stored in `ends` and sent to all members, and each member solves for these rows. The size of each
 * row (its part of `size` in struct ts_row_sums) is in row_inner, and is sent with the row. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/setting.h"
#include "gpu/rows/dense_kernel.h"
#include "gpu/sparse/errors_kernel.h"
#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/pass/gpu_sums.h"
#include "gpu/observed/observed_long.h"

/* Limits on the number of places (memory for the Gram matrix of one long row, observed_long.h), and
 * the bytes of all places if there is no budget. */
#define MOST_PLACES  128u
#define LEAST_PLACES 2u
#define PLACES_BYTES (UINT64_C(1) << 30)

uint64_t ts_gpu_observed_part_bytes(const struct ts_gpu_model *of)
{
    return 8 * ts_observed_part(of->rank);
}

int ts_gpu_observed_long(const struct ts_gpu_model *of)
{
    return of->gpu->cells == NULL && ts_observed_is_long(of->gpu->precision, of->rank);
}

/* Returns the number of places, each for the Gram matrix of a long row. There are as many as large
 * GPUs have multiprocessors, but not more than there is work for, or than fit in an eighth of the
 * budget. There are at least two, so that one long row does not block all others. */
uint32_t ts_gpu_observed_places(const struct ts_gpu_model *of)
{
    const struct ts_gpu *g = of->gpu;
    const uint64_t room = g->device_bytes > 0 ? g->device_bytes / 8 : PLACES_BYTES;
    uint64_t n = room / ts_observed_long_bytes(of->ld), most = LEAST_PLACES;
    for (uint32_t m = 0; m < g->tensor->order; m++)
        most = g->mode[m].n_shares > most ? g->mode[m].n_shares : most;
    most = most < MOST_PLACES ? most : MOST_PLACES;
    n = n < most ? n : most;
    return (uint32_t)(n > LEAST_PLACES ? n : LEAST_PLACES);
}

/* Sets the places (memory for the Gram matrices of long rows) in the arguments of kernels. */
static void add_places(const struct ts_gpu_model *of, const struct ts_gpu_replica *my, int alone,
                       struct ts_gpu_observed *o)
{
    if (!ts_gpu_observed_long(of))
        return;
    o->ends = alone ? NULL : my->ends;
    o->place = my->place;
    o->lock = my->lock;
    o->n_places = ts_gpu_observed_places(of);
}

static struct ts_gpu_observed observed_of(const struct ts_gpu_product *r)
{
    struct ts_gpu_observed o = {
        .rank = r->of->rank,
        .by_count = r->update->by_count,
        .l2 = r->update->l2,
        .mean = r->update->mean,
        .lower = r->update->lower,
        .upper = r->update->upper,
        .hold_out = r->update->hold_out,
        .part = r->my->part,
        .size = r->sums->size != NULL ? r->my->row_inner : NULL,
    };
    ts_gpu_find_levels(r->pass->g, r->pass->ask->mode, o.level);
    add_places(r->of, r->my, r->pass->alone, &o);
    return o;
}

ts_gpu_error ts_gpu_observed_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream)
{
    const struct ts_gpu_observed o = observed_of(r);
    return ts_observed_launch(r->pass->g->precision, args, &o, stream);
}

ts_gpu_error ts_gpu_observed_fold(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream)
{
    const struct ts_gpu_observed o = observed_of(r);
    return ts_observed_fold_shards(r->pass->g->precision, args, &o,
                                   r->pass->alone ? NULL : r->my->ends, stream);
}

ts_gpu_error ts_gpu_observed_finish(const struct ts_gpu_product *r)
{
    const struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu_observed o = observed_of(r);
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = cudaSuccess;
    if (p->mode->n_shards > 0 && !p->alone)
        e = ts_observed_fold(p->g->precision, &r->args, &o, p->mode->n_shards, r->my->ends,
                             me->shard_row[p->ask->mode], me->dense);
    if (me != ts_gpu_first(p->g) || r->sums->size == NULL)
        return e;
    TRY(e, ts_dense_sum(r->my->row_inner, p->mode->n_rows, r->my->sums, r->my->inner, me->dense));
    /* two numbers, as copies have multiples of 16 bytes */
    TRY(e, ts_dense_copy(r->my->host, r->my->inner, 16, me->dense));
    return e;
}

ts_gpu_error ts_gpu_observed_solve(const struct ts_gpu_product *r, const double *part,
                                   const uint32_t *row)
{
    const struct ts_gpu_observed o = observed_of(r);
    return ts_observed_fold(r->pass->g->precision, &r->args, &o, (r->pass->mode->n_rows + 1) / 2,
                            part, row, r->pass->me->dense);
}

void ts_gpu_observed_copy_out(const struct ts_gpu_product *r)
{
    if (r->sums->size != NULL)
        *r->sums->size = *(const double *)r->my->host;
}

ts_gpu_error ts_gpu_errors_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream)
{
    const struct ts_gpu_pass *p = r->pass;
    const uint32_t mode = p->ask->mode;
    struct ts_gpu_errors what = {
        .own = r->my->factor[mode],
        .mean = r->want->errors->mean,
        .hold_out = r->want->errors->hold_out,
        .sums = r->my->errors,
    };
    ts_gpu_find_levels(p->g, mode, what.level);
    return ts_errors_launch(p->g->precision, args, &what, stream);
}

ts_gpu_error ts_gpu_observed_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                  const struct ts_gpu_mttkrp *args)
{
    const struct ts_gpu *g = of->gpu;
    const struct ts_gpu_replica *my = &me->replica[of->number];
    struct ts_gpu_observed o = {
        .rank = of->rank,
        .l2 = 1,
        .lower = -INFINITY,
        .upper = INFINITY,
        .part = my->part,
        .size = my->row_inner,
    };
    ts_gpu_error e;
    add_places(of, my, 0, &o);
    e = ts_observed_launch(g->precision, args, &o, me->dense);
    TRY(e, ts_observed_fold_shards(g->precision, args, &o, my->ends, me->dense));
    TRY(e, ts_observed_fold(g->precision, args, &o, 1, my->ends, me->shard_row[0], me->dense));
    TRY(e, cudaMemsetAsync(my->factor[0], 0, ts_gpu_row_bytes(of), me->dense));
    return e;
}

ts_gpu_error ts_gpu_observed_solve_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                        const double *part, const uint32_t *row)
{
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const struct ts_gpu_mttkrp args = { .out = my->factor[0], .ld = of->ld };
    const struct ts_gpu_observed o = {
        .rank = of->rank, .l2 = 1, .lower = -INFINITY, .upper = INFINITY, .size = my->row_inner
    };
    return ts_observed_fold(of->gpu->precision, &args, &o, 1, part, row, me->dense);
}

ts_gpu_error ts_gpu_errors_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const struct ts_gpu_mttkrp *args)
{
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const struct ts_gpu_errors what = { .own = my->factor[0], .sums = my->errors };
    return ts_errors_launch(of->gpu->precision, args, &what, me->dense);
}

/* ---- requests for rows */

static int check(const struct ts_gpu_model *of, struct ts_err *err)
{
    const uint32_t most =
        of->gpu->cells == NULL ? TS_OBSERVED_LONG_MOST : ts_observed_most(of->gpu->precision);
    if (!of->gpu->observes)
        return ts_fail(err, TS_EARG, "no GPU memory was set aside for observed cells");
    if (of->rank > most)
        return ts_fail(
            err, TS_EARG,
            "on GPUs a model of observed cells %shas a rank of at most %u; take " TS_SET_CPU
            ", or a lower rank",
            of->gpu->cells != NULL ? "of a dense tensor " : "", most);
    return 0;
}

int ts_gpu_observed_complete(const struct ts_request *of, uint32_t n, uint32_t mode,
                             struct ts_feed *feed, struct ts_backend_times *times,
                             struct ts_err *err)
{
    const struct ts_gpu_model *first = of[0].be;
    const struct ts_gpu_request ask = {
        .mode = mode, .feed = feed, .kind = TS_REQUEST_ROWS, .n = n, .of = of
    };
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++)
        rc = check(of[k].be, err);
    return rc == 0 ? ts_gpu_pass_run(first->gpu, &ask, times, err) : rc;
}

/* ---- requests for errors of models */

static int check_errors(const struct ts_gpu_model *of, struct ts_err *err)
{
    if (of->gpu->observes)
        return check(of, err);
    if (!of->gpu->holds_out)
        return ts_fail(err, TS_EARG, "no GPU memory was set aside for errors at held-out cells");
    return 0;
}

static double *errors_of(const struct ts_gpu_replica *my)
{
    return my->errors;
}

static void add_cells(struct ts_cell_errors *to, const double *from)
{
    to->n += from[0];
    to->sum += from[1];
    to->squares += from[2];
    to->inner += from[3];
    to->left += from[4];
}

static void add_share(const struct ts_request *of, const double *share)
{
    add_cells(&of->errors->kept, share);
    add_cells(&of->errors->held, share + TS_ERRORS_SUMS / 2);
}

int ts_gpu_observed_errors(const struct ts_request *of, uint32_t n, uint32_t mode,
                           struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_gpu *g = ((struct ts_gpu_model *)of[0].be)->gpu;
    const struct ts_gpu_request ask = {
        .mode = mode, .feed = feed, .kind = TS_REQUEST_ERRORS, .n = n, .of = of
    };
    const struct ts_gpu_sums_pass pass = { &ask, TS_ERRORS_SUMS, errors_of, add_share,
                                           "errors of a model" };
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++)
        rc = check_errors(of[k].be, err); /* all processes get the same result of this check */
    if (rc == 0 && g->cells != NULL) {
        rc = ts_gpu_pass_run(g, &ask, times, err);
        return rc == 0 ? ts_gpu_cells_add_errors(g, of[0].errors, err) : rc;
    }
    for (uint32_t k = 0; k < n && rc == 0; k++)
        of[k].errors->kept = of[k].errors->held = (struct ts_cell_errors){ 0 };
    return rc == 0 ? ts_gpu_sums_run(g, &pass, times, err) : rc;
}
