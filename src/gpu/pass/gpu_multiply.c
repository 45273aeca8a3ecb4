/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes on models of counts (Poisson): rows are multiplied with their weighted products, in
 * several rounds while a shard is on the device.
 *
 * The rows are stored in the buffer `apart` during the rounds, where other updates have their
 * products, and weighted products in `phi`. The factor does not change until all rounds are done. A
 * round of the shards of a launch computes the products, adds the edges (partial sums) inside the
 * shards, and multiplies the rows. A row that continues in another shard gets only one round, after
 * all shards: its partial sums of the first round are kept in shard_edge, and sent to all members.
 * Rows inside one shard are sent like products. */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/setting.h"
#include "gpu/rows/dense_kernel.h"
#include "gpu/sparse/edge_kernel.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/pass/gpu_sums.h"
#include "gpu/team/gpu_team.h"
#include "gpu/rows/multiply_kernel.h"
#include "gpu/sparse/weigh_kernel.h"

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "rounds of rows");
}

/* Returns the address on the device of the largest violation of the KKT conditions in the model's
 * rows. It follows the sums of columns in gram. */
static double *kkt_of(const struct ts_gpu_model *of, const struct ts_gpu_replica *my)
{
    return my->gram + of->ld;
}

static struct ts_gpu_rows rows_of(const struct ts_gpu_model *of, const struct ts_gpu_member *me,
                                  uint32_t mode)
{
    const struct ts_gpu *g = of->gpu;
    const struct ts_gpu_replica *my = &me->replica[of->number];
    return (struct ts_gpu_rows){
        .precision = g->precision,
        .a = my->factor[mode],
        .b = my->apart,
        .phi = my->phi,
        .n_rows = g->mode[mode].n_rows,
        .rank = of->rank,
        .ld = of->ld,
        .shard_row = me->shard_row[mode],
        .n_shards = g->mode[mode].n_shards,
        .kkt = kkt_of(of, my),
    };
}

ts_gpu_error ts_gpu_multiply_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream)
{
    const struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu_request *ask = p->ask;
    const enum ts_precision precision = p->g->precision;
    const struct ts_gpu_rows rows = rows_of(r->of, p->me, ask->mode);
    const struct ts_multiply *multiply = r->want->multiply;
    struct ts_gpu_weigh weigh = { .own = r->my->apart, .hold_out = multiply->hold_out };
    ts_gpu_error e = cudaSuccess;
    ts_gpu_find_levels(p->g, ask->mode, weigh.level);
    for (uint32_t k = 0; k < r->rounds && e == cudaSuccess; k++) {
        e = ts_weigh_launch(precision, args, &weigh, stream);
        if (k == 0 && !p->alone)
            TRY(e, ts_edge_fold_shards(precision, args, r->my->shard_edge, stream));
        TRY(e, ts_edge_fold_shards(precision, args, NULL, stream));
        TRY(e, ts_multiply_shards(&rows, args, k == 0, k + 1 == r->rounds, stream));
    }
    weigh.judged = r->my->judged;
    if (ask->judges && multiply->judge)
        TRY(e, ts_weigh_launch(precision, args, &weigh, stream));
    return e;
}

ts_gpu_error ts_gpu_multiply_spans(const struct ts_gpu_product *r)
{
    const struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu_rows rows = rows_of(r->of, p->me, p->ask->mode);
    return ts_multiply_spans(&rows, p->me->dense);
}

/* ---- work before and after the passes */

struct job {
    struct ts_gpu *g;
    const struct ts_request *of;
    uint32_t n, mode;
    uint32_t at; /* number of the model whose rows are finished and whose sums are fetched */
    /* TS_WEIGH_SUMS sums for each share (one thread block's nonzeros), for models to be evaluated;
     * without host memory if no model is */
    struct ts_gpu_sums judged;
};

static int any_judged(const struct job *j)
{
    for (uint32_t k = 0; k < j->n; k++)
        if (j->of[k].multiply->judge)
            return 1;
    return 0;
}

static ts_gpu_error begin_model(const struct job *j, const struct ts_request *want,
                                struct ts_gpu_member *me)
{
    const struct ts_gpu_model *of = want->be;
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const struct ts_gpu_rows rows = rows_of(of, me, j->mode);
    ts_gpu_error e;
    memset(my->host, 0, 8 * (size_t)of->ld);
    memcpy(my->host, want->multiply->weight, 8 * (size_t)of->rank);
    e = ts_dense_copy(my->w, my->host, 8 * (uint64_t)of->ld, me->dense);
    TRY(e, ts_multiply_begin(&rows, my->w, want->multiply->grow, me->dense));
    TRY(e, ts_gpu_sums_clear(&j->judged, me, my->judged));
    return e;
}

static int begin_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    ts_gpu_error e = cudaSuccess;
    (void)g;
    for (uint32_t k = 0; k < j->n && e == cudaSuccess; k++)
        e = begin_model(j, &j->of[k], me);
    TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : fail(err, e);
}

static int end_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    const struct ts_gpu_model *of = j->of[j->at].be;
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const struct ts_gpu_rows rows = rows_of(of, me, j->mode);
    ts_gpu_error e = ts_multiply_end(&rows, my->parts, my->gram, me->dense);
    (void)g;
    TRY(e, ts_dense_copy(my->host, my->gram, 8 * ((uint64_t)of->ld + 2), me->dense));
    if (j->of[j->at].multiply->judge)
        TRY(e, ts_gpu_sums_fetch(&j->judged, me, my->judged));
    TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* ---- answering a request */

static int any_spans(const struct ts_gpu_mode *m)
{
    for (uint64_t s = 1; s < m->n_shards; s++)
        if (m->shard[s - 1].row_last == m->shard[s].row_first)
            return 1;
    return 0;
}

/* Adds the times of a second pass to those of the first. */
static void add_times(struct ts_backend_times *to, const struct ts_backend_times *more)
{
    for (uint32_t i = 0; i < to->n_devices; i++) {
        struct ts_device_times *a = &to->device[i];
        const struct ts_device_times *b = &more->device[i];
        a->bytes += b->bytes;
        a->early_bytes += b->early_bytes;
        a->wait_ns += b->wait_ns;
        a->copy_ns += b->copy_ns;
        a->kernel_ns += b->kernel_ns;
        a->solve_ns += b->solve_ns;
        a->exchange_ns += b->exchange_ns;
        a->exposed_ns += b->exposed_ns;
        a->idle_ns += b->idle_ns;
        a->share = b->share;
    }
}

static int passes(const struct job *j, struct ts_feed *feed, struct ts_backend_times *times,
                  struct ts_err *err)
{
    struct ts_gpu *g = j->g;
    const int again = any_spans(&g->mode[j->mode]);
    struct ts_gpu_request ask = {
        .mode = j->mode,
        .feed = feed,
        .kind = TS_REQUEST_MULTIPLY,
        .n = j->n,
        .of = j->of,
        .multiplies = 1,
        .judges = !again,
    };
    struct ts_backend_times more;
    int rc = ts_gpu_pass_run(g, &ask, times, err);
    if (rc < 0 || !again || !any_judged(j))
        return rc;
    ask.multiplies = 0;
    ask.judges = 1;
    ts_feed_rewind(feed);
    rc = ts_gpu_pass_run(g, &ask, &more, err);
    if (rc == 0)
        add_times(times, &more);
    return rc;
}

/* Adds up the sums of all shares (one thread block's nonzeros each), from all members (GPUs), that
 * evaluate the fit of the model. */
static int add_judged(const struct job *j, struct ts_multiply_sums *ret, struct ts_err *err)
{
    const double *share;
    const int rc = ts_gpu_sums_join(&j->judged, &share, err);
    for (uint64_t k = 0; k < j->g->mode[j->mode].n_shares; k++, share += TS_WEIGH_SUMS) {
        ret->loss += share[0];
        ret->inner += share[1];
        ret->held_n += share[2];
        ret->held_loss += share[3];
        ret->held_model += share[4];
        ret->held_squares += share[5];
    }
    return rc;
}

/* Adds up the sums of a model. Its violation of the KKT conditions (kkt) is the largest one of all
 * members (GPUs) of all processes. */
static int add_up(const struct job *j, struct ts_err *err)
{
    struct ts_gpu *g = j->g;
    const struct ts_gpu_model *of = j->of[j->at].be;
    struct ts_multiply_sums *ret = j->of[j->at].multiplied;
    uint64_t first[TS_MAX_TEAM + 1];
    double kkt[TS_MAX_TEAM];
    int rc;
    memcpy(ret->column, ts_gpu_first(g)->replica[of->number].host, of->rank * sizeof *ret->column);
    ret->kkt = ret->loss = ret->inner = 0;
    ret->held_n = ret->held_loss = ret->held_model = ret->held_squares = 0;
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++)
        kkt[i] = ((const double *)g->member[i].replica[of->number].host)[of->ld];
    for (uint32_t i = 0; i <= g->n_members; i++)
        first[i] = i;
    rc = ts_gpu_ranks_gather(g, kkt, sizeof *kkt, first, err);
    for (uint32_t i = 0; i < g->n_members && rc == 0; i++)
        ret->kkt = kkt[i] > ret->kkt ? kkt[i] : ret->kkt;
    return rc == 0 && j->of[j->at].multiply->judge ? add_judged(j, ret, err) : rc;
}

/* Finishes one model after another, because their sums are fetched to the same arrays. */
static int end_all(struct job *j, struct ts_err *err)
{
    int rc = 0;
    for (j->at = 0; j->at < j->n && rc == 0; j->at++) {
        rc = ts_gpu_team_run(j->g, end_job, j, NULL, err);
        rc = ts_gpu_ranks_end(j->g, rc, err);
        if (rc == 0)
            rc = add_up(j, err);
    }
    return rc;
}

static int run_pass(struct job *j, struct ts_feed *feed, struct ts_backend_times *times,
                    struct ts_err *err)
{
    int rc = ts_gpu_team_run(j->g, begin_job, j, NULL, err);
    if (rc == 0 && feed != NULL)
        rc = passes(j, feed, times, err);
    return rc == 0 ? end_all(j, err) : ts_gpu_ranks_end(j->g, rc, err);
}

int ts_gpu_multiply(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                    struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_gpu *g = ((struct ts_gpu_model *)of[0].be)->gpu;
    struct job j = {
        .g = g,
        .of = of,
        .n = n,
        .mode = mode,
        .judged = { .g = g, .mode = mode, .each = TS_WEIGH_SUMS },
    };
    struct ts_backend_times none;
    struct ts_backend_times *to = times != NULL ? times : &none;
    int rc = 0;
    if (!g->multiplies || !ts_gpu_owns(g, mode))
        return ts_fail(err, TS_EARG, TS_NTH_MODE ": no GPU memory was set aside for its rows",
                       mode + 1);
    *to = (struct ts_backend_times){ .n_devices = g->n_here };
    for (uint32_t i = 0; i < g->n_here; i++)
        to->device[i].number = g->member[g->first_here + i].device;
    if (any_judged(&j))
        rc = ts_gpu_sums_new(&j.judged, g, mode, TS_WEIGH_SUMS, err);
    rc = rc == 0 ? run_pass(&j, feed, to, err) : ts_gpu_ranks_end(g, rc, err);
    to->total_ns = ts_clock_ns() - start;
    ts_gpu_sums_free(&j.judged);
    return rc;
}
