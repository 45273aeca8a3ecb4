/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes passes of multiplicative updates and gradients: a team of threads takes one shard after
 * another. Rows with nonzeros in several partitions or shards are summed between rounds. */
#include "cpu/losses/rounds.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine/fpmode.h"
#include "base/machine/machine.h"
#include "cpu/pass_loop.h"
#include "cpu/losses/rounds_state.h"
#include "cpu/ranks/share.h"

/* ---- rows with nonzeros in several partitions ---- */

/* Whether a row of shard `s` continues in the shard before or after it. */
static int spans(const struct ts_mode *m, uint64_t s, uint32_t row)
{
    return (s > 0 && m->shard[s - 1].row_last == row) ||
           (s + 1 < m->disk.n_shards && m->shard[s + 1].row_first == row);
}

static double *span_at(const struct ts_rounds *r, uint64_t shard, int last)
{
    return r->span + (2 * shard + (uint64_t)last) * r->stride;
}

/* Ends a round of a row whose parts (sums over single partitions) in the shard were added:
 * multiplies the row by its sum, or keeps the sum if the row continues in other shards. */
static void end_row(struct ts_rounds_run *u, uint32_t row, uint32_t round, const double *sum)
{
    const struct ts_rounds *r = u->r;
    const struct ts_mode *m = &r->tensor->mode[u->mode];
    const uint64_t s = u->view->shard;
    double violation;
    if (spans(m, s, row)) {
        if (round == 0)
            memcpy(span_at(r, s, row != u->view->entry->row_first), sum, r->stride * sizeof *sum);
        return;
    }
    violation = ts_rounds_take_sum(u, sum, round + 1 == u->n_rounds, row);
    if (round == 0 && violation > u->kkt)
        u->kkt = violation;
}

/* Adds up the parts of rows that several partitions of the shard share, and updates these rows. A
 * part is the sum of a row over one partition. */
static void fold(struct ts_rounds_run *u, uint32_t round, double *sum)
{
    const struct ts_rounds *r = u->r;
    const struct ts_mode *m = &r->tensor->mode[u->mode];
    const uint32_t n = ts_shard_partitions(u->view->entry);
    int open = 0;
    uint32_t row = 0;
    u->cut = 0;
    for (uint32_t i = 0; i < 2 * n; i++) {
        struct ts_rounds_ends *e = &r->ends[i / 2];
        const uint32_t of = i % 2 == 0 ? e->first : e->last;
        if (i % 2 == 1 && e->n_last == 0)
            continue;
        if (round == 0)
            e->cut[i % 2] = !spans(m, u->view->shard, of);
        u->cut |= e->cut[i % 2];
        if (round > 0 && !e->cut[i % 2])
            continue;
        if (open && row != of)
            end_row(u, row, round, sum);
        if (!open || row != of)
            memset(sum, 0, r->stride * sizeof *sum);
        open = 1;
        row = of;
        ts_rounds_add_row(r, ts_rounds_part(r, i / 2, (int)(i % 2)), sum);
    }
    if (open)
        end_row(u, row, round, sum);
}

/* Adds the parts (sums over single shards) of rows that continue in other shards, after all shards
 * were visited, and updates these rows. Returns the number of these rows. */
static uint64_t fold_spans(struct ts_rounds_run *u, double *sum)
{
    const struct ts_rounds *r = u->r;
    const struct ts_mode *m = &r->tensor->mode[u->mode];
    uint64_t found = 0;
    uint32_t row = 0;
    int open = 0;
    for (uint64_t i = 0; i <= 2 * m->disk.n_shards; i++) {
        const struct ts_disk_shard *e = &m->shard[i / 2];
        const int end = i == 2 * m->disk.n_shards;
        const uint32_t of = end ? 0 : i % 2 == 0 ? e->row_first : e->row_last;
        if (!end && ((i % 2 == 1 && e->row_first == e->row_last) || !spans(m, i / 2, of)))
            continue;
        if (open && (end || row != of)) {
            const double violation = ts_rounds_take_sum(u, sum, 1, row);
            u->kkt = violation > u->kkt ? violation : u->kkt;
            found++;
        }
        if (end)
            break;
        if (!open || row != of)
            memset(sum, 0, r->stride * sizeof *sum);
        open = 1;
        row = of;
        ts_rounds_add_row(r, span_at(r, i / 2, (int)(i % 2)), sum);
    }
    return found;
}

static int any_spans(const struct ts_mode *m)
{
    for (uint64_t s = 1; s < m->disk.n_shards; s++)
        if (m->shard[s - 1].row_last == m->shard[s].row_first)
            return 1;
    return 0;
}

/* ---- passes over shards ---- */

static void rounds_of_shard(struct ts_rounds_run *u, struct ts_rounds_worker *w, uint32_t n)
{
#pragma omp for schedule(dynamic, 1)
    for (uint32_t k = 0; k < n; k++)
        ts_rounds_first(u, w, k);
    for (uint32_t round = 0; round < u->n_rounds; round++) {
#pragma omp single
        fold(u, round, w->phi);
        if (!u->cut || round + 1 == u->n_rounds)
            break;
#pragma omp for schedule(dynamic, 1)
        for (uint32_t k = 0; k < n; k++)
            ts_rounds_next(u, w, k);
    }
}

/* Computes updates, gradients or losses of one model from the nonzeros of the present shard. */
static void work_shard(struct ts_rounds_run *u)
{
    struct ts_rounds_worker *w = &u->r->worker[omp_get_thread_num()];
    const uint32_t n = ts_shard_partitions(u->view->entry);
    if (u->rounds)
        rounds_of_shard(u, w, n);
    if (u->judge) {
#pragma omp for schedule(dynamic, 1)
        for (uint32_t k = 0; k < n; k++)
            ts_rounds_judge(u, w, k);
    }
}

/* The models of a pass, for which all threads visit each shard. */
struct team {
    struct ts_rounds_run *run;
    uint32_t n;
};

/* A visitor of the pass loop: all threads of the team visit a shard together. */
static int visit(void *ctx, const struct ts_loan *loan, struct ts_err *err)
{
    const struct team *t = ctx;
    const uint64_t mode = ts_fpmode_flush();
    (void)loan;
    (void)err;
    for (uint32_t k = 0; k < t->n; k++)
        work_shard(&t->run[k]);
    ts_fpmode_restore(mode);
    return 0;
}

/* Waits until all ranks have finished their part of the pass. rc: the result of this rank. */
static int meet(struct ts_rounds_run *u, int rc)
{
    const uint64_t start = ts_clock_ns();
    rc = ts_share_shards(u->share, u->mode, rc, u->err);
    u->exchange_ns += ts_clock_ns() - start;
    return rc;
}

/* Makes a pass for n models. rounds: updates rows; judge: computes the losses of models that ask
 * for them. */
static int pass(struct ts_rounds_run *u, uint32_t n, int rounds, int judge)
{
    struct team team = { u, n };
    struct ts_loan loan;
    struct ts_pass_loop loop = { .feed = u->feed,
                                 .mode = u->mode,
                                 .threads = u->r->threads,
                                 .share = u->share,
                                 .loan = &loan,
                                 .shard = visit,
                                 .ctx = &team,
                                 .err = u->err };
    const int keep = ts_plain_keeps(u->r->plain, u->mode);
    int rc = 0, passed;
    for (uint32_t k = 0; k < n; k++) {
        u[k].view = &loan.view;
        u[k].rounds = rounds;
        u[k].judge = judge && u[k].multiply->judge;
        u[k].keep = keep;
        ts_plain_conf(u[k].r->tensor, u->mode, 1, &u[k].plain_conf);
        for (uint32_t i = 0; i < u->r->threads; i++)
            u[k].r->worker[i].kkt = 0;
    }
    passed = ts_pass_loop_run(&loop);
    u->wait_ns += loop.wait_ns;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        for (uint32_t i = 0; i < u->r->threads; i++)
            u[k].kkt = u[k].r->worker[i].kkt > u[k].kkt ? u[k].r->worker[i].kkt : u[k].kkt;
        rc = u[k].share == NULL ? passed : meet(&u[k], passed);
    }
    return rc;
}

/* Gathers from all ranks the parts (sums over shards) of rows that continue in other shards, and
 * updates these rows. */
static int fold_all(struct ts_rounds_run *u)
{
    struct ts_rounds *r = u->r;
    const uint64_t start = ts_clock_ns();
    int rc = 0;
    if (u->share != NULL)
        rc = ts_share_gather(u->share, r->span, 2 * r->stride * sizeof *r->span,
                             ts_share_first_shards(u->share, u->mode), u->err);
    u->exchange_ns += ts_clock_ns() - start;
    if (rc == 0)
        fold_spans(u, r->worker[0].phi);
    return rc;
}

static void fill_job(const struct ts_rounds *r, uint32_t mode, const struct ts_fmat *factor,
                     const struct ts_loss *loss, struct ts_rounds_job *job)
{
    const struct ts_tensor *t = r->tensor;
    /* factors from this size on do not fit the second-level cache of a core */
    const uint64_t far = ts_machine_cache_bytes();
    *job = (struct ts_rounds_job){ .order = t->order, .stride = r->stride, .loss = loss };
    for (uint32_t l = 1; l < t->order; l++) {
        const struct ts_fmat *f = &factor[t->mode[mode].disk.level[l]];
        job->table[l] = f->data;
        job->far[l] = f->bytes > far;
    }
}

static void add_judged(const struct ts_rounds *r, uint32_t mode, struct ts_multiply_sums *ret)
{
    uint64_t k = 0;
    for (uint64_t s = 0; s < r->tensor->mode[mode].disk.n_shards; s++)
        for (uint32_t i = 0; i < ts_shard_partitions(&r->tensor->mode[mode].shard[s]); i++, k++) {
            const double *from = r->judged + TS_ROUNDS_JUDGED * k;
            ret->loss += from[0];
            ret->inner += from[1];
            ret->held_n += from[2];
            ret->held_loss += from[3];
            ret->held_model += from[4];
            ret->held_squares += from[5];
        }
}

/* Sends the losses of partitions, and the rows of each rank, to all ranks. */
static int gather(struct ts_rounds_run *u, int judged)
{
    const uint64_t start = ts_clock_ns();
    int rc = 0;
    if (u->share == NULL)
        return 0;
    if (judged)
        rc = ts_share_gather_parts(u->share, u->mode, u->r->judged,
                                   TS_ROUNDS_JUDGED * sizeof *u->r->judged, u->err);
    if (rc == 0)
        rc = ts_share_largest(u->share, &u->kkt, u->err);
    if (rc == 0)
        rc = ts_share_gather_rows(u->share, u->apart, ts_share_rows(u->share), u->err);
    u->exchange_ns += ts_clock_ns() - start;
    return rc;
}

/* Returns a struct ts_rounds_run for a call with one model and one mode. */
static struct ts_rounds_run run_of(const struct ts_rounds_of *model, uint32_t mode,
                                   struct ts_feed *feed, struct ts_err *err)
{
    return (struct ts_rounds_run){ .r = model->r,
                                   .share = model->share,
                                   .mode = mode,
                                   .feed = feed,
                                   .apart = model->apart,
                                   .err = err };
}

static void begin_rounds(struct ts_rounds_run *u, const struct ts_rounds_of *model)
{
    struct ts_multiply_sums *ret = model->ret;
    u->multiply = model->multiply;
    u->hold_out = &model->multiply->hold_out;
    u->own = model->apart;
    u->n_rounds = model->multiply->rounds;
    ret->kkt = ret->loss = ret->inner = 0;
    ret->held_n = ret->held_loss = ret->held_model = ret->held_squares = 0;
    ts_rounds_begin_rows(model->r, &model->factor[u->mode], model->multiply, model->apart);
}

static int any_judged(const struct ts_rounds_run *u, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (u[k].multiply->judge)
            return 1;
    return 0;
}

static int make_rounds(struct ts_rounds_run *u, const struct ts_rounds_of *model, uint32_t n)
{
    const int again = any_spans(&u->r->tensor->mode[u->mode]);
    int rc;
    for (uint32_t k = 0; k < n; k++)
        fill_job(u[k].r, u->mode, model[k].factor, u[k].multiply->loss, &u[k].job);
    rc = pass(u, n, 1, !again);
    for (uint32_t k = 0; k < n && rc == 0; k++)
        rc = fold_all(&u[k]);
    if (rc == 0 && again && any_judged(u, n)) {
        ts_feed_rewind(u->feed);
        rc = pass(u, n, 0, 1);
    }
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        rc = gather(&u[k], u[k].multiply->judge);
        if (rc == 0 && u[k].multiply->judge)
            add_judged(u[k].r, u->mode, model[k].ret);
    }
    return rc;
}

static void end_rounds(const struct ts_rounds_run *u, const struct ts_rounds_of *model)
{
    ts_rounds_sum_columns(u->r, u->apart, model->ret->column);
    ts_rounds_end_rows(u->r, u->apart, model->ret->column, &model->factor[u->mode]);
    model->ret->kkt = u->kkt;
}

static struct ts_rounds_run *runs_new(const struct ts_rounds_of *model, uint32_t n, uint32_t mode,
                                      struct ts_feed *feed, struct ts_err *err)
{
    struct ts_rounds_run *u = calloc(n, sizeof *u);
    if (u == NULL)
        ts_fail(err, TS_ENOMEM, "%s: out of memory", model->r->tensor->path);
    for (uint32_t k = 0; k < n && u != NULL; k++)
        u[k] = run_of(&model[k], mode, feed, err);
    return u;
}

static uint64_t exchange_of(const struct ts_rounds_run *u, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += u[k].exchange_ns;
    return sum;
}

int ts_rounds_run(const struct ts_rounds_of *model, uint32_t n, uint32_t mode, struct ts_feed *feed,
                  struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_rounds_run *u = runs_new(model, n, mode, feed, err);
    uint64_t kernel_ns = 0, wait_ns, exchange_ns, total_ns;
    int rc = u == NULL ? TS_ENOMEM : 0;
    for (uint32_t k = 0; k < n && rc == 0; k++)
        begin_rounds(&u[k], &model[k]);
    if (feed != NULL && rc == 0) {
        const uint64_t begin = ts_clock_ns();
        rc = make_rounds(u, model, n);
        kernel_ns = ts_clock_ns() - begin;
    }
    for (uint32_t k = 0; k < n && rc == 0; k++)
        end_rounds(&u[k], &model[k]);
    wait_ns = u != NULL ? u->wait_ns : 0;
    exchange_ns = u != NULL ? exchange_of(u, n) : 0;
    free(u);
    total_ns = ts_clock_ns() - start;
    if (times != NULL && rc == 0)
        *times = ts_pass_times(total_ns, feed != NULL ? model->r->tensor->nnz : 0, wait_ns,
                               exchange_ns, total_ns - kernel_ns);
    return rc;
}

static const struct ts_multiply no_rounds;

static void begin_gradient(struct ts_rounds_run *u, const struct ts_rounds_of *model)
{
    const struct ts_descent *descent = model->descend;
    u->multiply = &no_rounds;
    u->own = &model->factor[u->mode];
    u->descend = descent;
    u->hold_out = &descent->hold_out;
    u->n_rounds = 1;
    fill_job(u->r, u->mode, model->factor, descent->loss, &u->job);
    u->job.at = descent->at;
    u->job.zeros = !descent->observed;
}

int ts_rounds_gradient(const struct ts_rounds_of *model, uint32_t n, uint32_t mode,
                       struct ts_feed *feed, uint64_t *wait_ns, uint64_t *exchange_ns,
                       struct ts_err *err)
{
    struct ts_rounds_run *u = runs_new(model, n, mode, feed, err);
    int rc;
    if (u == NULL)
        return TS_ENOMEM;
    for (uint32_t k = 0; k < n; k++)
        begin_gradient(&u[k], &model[k]);
    rc = pass(u, n, 1, 0);
    for (uint32_t k = 0; k < n && rc == 0; k++)
        rc = fold_all(&u[k]);
    *wait_ns = u->wait_ns;
    *exchange_ns = exchange_of(u, n);
    free(u);
    return rc;
}
