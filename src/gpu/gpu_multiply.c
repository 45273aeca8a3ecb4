/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of counts on GPUs: rows that are multiplied with their weighted products, several rounds
 * while a shard is on the device.
 *
 * Rows b lie where other updates have their products (`apart`), their products in `phi`; the factor
 * stays as it is until all is done. A round of the shards of a launch is the products, the edges inside
 * the shards, and the rows. A row that goes on in another shard gets one round, when all shards were
 * there: its parts of the first round are kept in shard_edge, and all members get them. Rows that lie
 * in one shard are sent as products are. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/setting.h"
#include "gpu/dense_kernel.h"
#include "gpu/edge_kernel.h"
#include "gpu/gpu_fail.h"
#include "gpu/gpu_state.h"
#include "gpu/multiply_kernel.h"
#include "gpu/weigh_kernel.h"

static int fail(struct ts_err *err, cudaError_t e)
{
    return ts_gpu_fail(err, e, "rounds of rows");
}

/* Where the sums are: those of columns come first. */
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

cudaError_t ts_gpu_multiply_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                   cudaStream_t stream)
{
    const struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu_request *ask = p->ask;
    const enum ts_precision precision = p->g->precision;
    const struct ts_gpu_rows rows = rows_of(r->of, p->me, ask->mode);
    const struct ts_multiply *how = r->want->multiply;
    struct ts_gpu_weigh weigh = { .own = r->my->apart, .hold_out = how->hold_out };
    cudaError_t e = cudaSuccess;
    ts_gpu_find_levels(p->g, ask->mode, weigh.level);
    for (uint32_t k = 0; k < r->rounds && e == cudaSuccess; k++) {
        e = ts_weigh_launch(precision, args, &weigh, stream);
        if (k == 0 && !p->alone)
            TRY(e, ts_edge_fold_shards(precision, args, r->my->shard_edge, stream));
        TRY(e, ts_edge_fold_shards(precision, args, NULL, stream));
        TRY(e, ts_multiply_shards(&rows, args, k == 0, k + 1 == r->rounds, stream));
    }
    weigh.judged = r->my->judged;
    if (ask->judges && how->judge)
        TRY(e, ts_weigh_launch(precision, args, &weigh, stream));
    return e;
}

cudaError_t ts_gpu_multiply_spans(const struct ts_gpu_product *r)
{
    const struct ts_gpu_pass *p = r->pass;
    const struct ts_gpu_rows rows = rows_of(r->of, p->me, p->ask->mode);
    return ts_multiply_spans(&rows, p->me->dense);
}

/* ---- before and after the passes */

struct job {
    struct ts_gpu *g;
    const struct ts_request *of;
    uint32_t n, mode;
    uint32_t at; /* whose rows end, and sums are fetched: */
    double *judged
        [TS_MAX_TEAM]; /* of members here: TS_WEIGH_SUMS of each share, on the host; NULL: no model is judged */
};

static uint64_t judged_bytes(const struct job *j)
{
    return 8 * TS_WEIGH_SUMS * j->g->mode[j->mode].n_shares;
}

static int any_judged(const struct job *j)
{
    for (uint32_t k = 0; k < j->n; k++)
        if (j->of[k].multiply->judge)
            return 1;
    return 0;
}

/* Where a member's sums of the model that ends come to; NULL: it is not judged. */
static double *judged_of(const struct job *j, uint32_t member)
{
    return j->of[j->at].multiply->judge ? j->judged[member] : NULL;
}

static cudaError_t begin_model(const struct job *j, const struct ts_request *want,
                               struct ts_gpu_member *me)
{
    const struct ts_gpu_model *of = want->be;
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const struct ts_gpu_rows rows = rows_of(of, me, j->mode);
    cudaError_t e;
    memset(my->host, 0, 8 * (size_t)of->ld);
    memcpy(my->host, want->multiply->weight, 8 * (size_t)of->rank);
    e = ts_dense_copy(my->w, my->host, 8 * (uint64_t)of->ld, me->dense);
    TRY(e, ts_multiply_begin(&rows, my->w, want->multiply->grow, me->dense));
    if (judged_bytes(j) > 0)
        TRY(e, cudaMemsetAsync(my->judged, 0, judged_bytes(j), me->dense));
    return e;
}

static int begin_job(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err)
{
    const struct job *j = arg;
    cudaError_t e = cudaSuccess;
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
    double *judged = judged_of(j, me->number);
    cudaError_t e = ts_multiply_end(&rows, my->parts, my->gram, me->dense);
    (void)g;
    TRY(e, ts_dense_copy(my->host, my->gram, 8 * ((uint64_t)of->ld + 2), me->dense));
    if (judged != NULL && judged_bytes(j) > 0)
        TRY(e, cudaMemcpyAsync(judged, my->judged, judged_bytes(j), cudaMemcpyDeviceToHost,
                               me->dense));
    TRY(e, cudaStreamSynchronize(me->dense));
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* ---- the call */

static int any_spans(const struct ts_gpu_mode *m)
{
    for (uint64_t s = 1; s < m->n_shards; s++)
        if (m->shard[s - 1].row_last == m->shard[s].row_first)
            return 1;
    return 0;
}

/* Adds what a second pass took. */
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

/* Of members of other processes: their largest violations, and what they judged, which the first here gets. Those have
 * computed all shares of their ranges. */
static int hear_others(const struct job *j, double *kkt, struct ts_err *err)
{
    struct ts_gpu *g = j->g;
    double *judged = judged_of(j, g->first_here);
    uint64_t first[TS_MAX_TEAM + 1];
    int rc;
    for (uint32_t i = 0; i <= g->n_members; i++)
        first[i] = i;
    rc = ts_gpu_ranks_gather(g, kkt, sizeof *kkt, first, err);
    if (rc == 0 && judged != NULL)
        rc = ts_gpu_ranks_shares(g, j->mode, judged, TS_WEIGH_SUMS * sizeof(double), err);
    return rc;
}

/* Each share was judged by one member; the others have zeros. */
static int add_up(const struct job *j, struct ts_err *err)
{
    struct ts_gpu *g = j->g;
    const struct ts_gpu_model *of = j->of[j->at].be;
    struct ts_multiply_sums *ret = j->of[j->at].multiplied;
    const uint32_t end = g->first_here + g->n_here;
    double kkt[TS_MAX_TEAM], *sum = judged_of(j, g->first_here);
    int rc;
    memcpy(ret->column, ts_gpu_first(g)->replica[of->number].host, of->rank * sizeof *ret->column);
    ret->kkt = ret->loss = ret->inner = 0;
    ret->held_n = ret->held_loss = ret->held_model = ret->held_squares = 0;
    for (uint32_t i = g->first_here; i < end; i++)
        kkt[i] = ((const double *)g->member[i].replica[of->number].host)[of->ld];
    for (uint64_t k = 0; sum != NULL && k < TS_WEIGH_SUMS * g->mode[j->mode].n_shares; k++)
        for (uint32_t i = g->first_here + 1; i < end; i++)
            sum[k] += j->judged[i][k];
    rc = hear_others(j, kkt, err);
    for (uint32_t i = 0; i < g->n_members && rc == 0; i++)
        ret->kkt = kkt[i] > ret->kkt ? kkt[i] : ret->kkt;
    for (uint64_t k = 0; sum != NULL && k < g->mode[j->mode].n_shares; k++) {
        const double *share = sum + TS_WEIGH_SUMS * k;
        ret->loss += share[0];
        ret->inner += share[1];
        ret->held_n += share[2];
        ret->held_loss += share[3];
        ret->held_model += share[4];
        ret->held_squares += share[5];
    }
    return rc;
}

/* One model after the other: what is judged is fetched to the same arrays. */
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

static int run(struct job *j, struct ts_feed *feed, struct ts_backend_times *times,
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
    struct job j = { .g = g, .of = of, .n = n, .mode = mode };
    const int judged = any_judged(&j);
    struct ts_backend_times none;
    struct ts_backend_times *to = times != NULL ? times : &none;
    int rc = 0;
    if (!g->multiplies || !ts_gpu_owns(g, mode))
        return ts_fail(err, TS_EARG, TS_NTH_MODE ": no GPU memory was set aside for its rows",
                       mode + 1);
    *to = (struct ts_backend_times){ .n_devices = g->n_here };
    for (uint32_t i = 0; i < g->n_here; i++)
        to->device[i].number = g->member[g->first_here + i].device;
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here && judged && rc == 0; i++) {
        j.judged[i] = calloc(1, judged_bytes(&j) + 1);
        if (j.judged[i] == NULL)
            rc = ts_fail(err, TS_ENOMEM, "out of memory for the sums of shares");
    }
    rc = rc == 0 ? run(&j, feed, to, err) : ts_gpu_ranks_end(g, rc, err);
    to->total_ns = ts_clock_ns() - start;
    for (uint32_t i = g->first_here; i < g->first_here + g->n_here; i++)
        free(j.judged[i]);
    return rc;
}
