/* SPDX-License-Identifier: BSD-3-Clause */
/* pass_loop.c - threads take partitions, or visit shards together, until the feed has no more
 * shards. */
#include "cpu/pass_loop.h"

#include "base/clock.h"
#include "cpu/ranks/share.h"

/* Ends the pass if a visitor has failed (rc < 0): no thread takes another partition. */
static void end_early(struct ts_pass_loop *l, int rc, const struct ts_err *err)
{
    if (rc >= 0)
        return;
    omp_set_lock(&l->lock);
    if (l->rc >= 0 && l->err != NULL)
        *l->err = *err;
    if (l->rc >= 0)
        l->rc = rc;
    omp_unset_lock(&l->lock);
}

/* Borrows the next shard or slab from the feed, while other threads wait for the lock. */
static void borrow(struct ts_pass_loop *l, struct ts_loan *loan)
{
    struct ts_slabs *slabs = ts_feed_slabs(l->feed);
    if (slabs != NULL)
        l->rc = ts_slabs_next(slabs, &loan->slab, l->err);
    else if (l->share != NULL && ts_share_poll(l->share))
        l->rc = ts_fail(l->err, TS_ESTOP, "another rank has stopped");
    else
        l->rc = ts_feed_next(l->feed, l->mode, 0, &loan->view, l->err);
}

static void give_back(struct ts_pass_loop *l, const struct ts_shard_view *view)
{
    if (ts_feed_slabs(l->feed) == NULL)
        ts_feed_done(l->feed, view);
}

/* Borrows a shard and divides it into partitions. The caller holds the lock. */
static void renew(struct ts_pass_loop *l)
{
    struct ts_loan *loan = l->loan;
    uint64_t first;
    /* at least one of the threads + 1 loans (lent shards) is free, because each other thread holds
     * at most one */
    while (atomic_load(&loan->left) > 0)
        loan++;
    borrow(l, loan);
    l->newest = NULL;
    if (l->rc <= 0)
        return;
    first = loan->view.first_partition;
    loan->end = ts_shard_partitions(loan->view.entry);
    if (l->end - first < loan->end)
        loan->end = (uint32_t)(l->end - first);
    l->next = l->begin > first ? (uint32_t)(l->begin - first) : 0;
    atomic_store(&loan->left, loan->end - l->next);
    l->newest = loan;
}

/* Returns the loan (lent shard) of the thread's next partition, and sets *ret to its number. NULL
 * at the end. */
static struct ts_loan *take_partition(struct ts_pass_loop *l, uint32_t *ret)
{
    const uint64_t begin = ts_clock_ns();
    struct ts_loan *loan = NULL;
    omp_set_lock(&l->lock);
    if (l->rc > 0 && (l->newest == NULL || l->next == l->newest->end))
        renew(l);
    if (l->rc > 0) {
        loan = l->newest;
        *ret = l->next++;
    }
    l->wait_ns += ts_clock_ns() - begin;
    omp_unset_lock(&l->lock);
    return loan;
}

static void visit_partitions(struct ts_pass_loop *l)
{
    struct ts_loan *loan;
    struct ts_err err;
    uint32_t k;
    if (l->start != NULL)
        end_early(l, l->start(l->ctx, &err), &err);
    while ((loan = take_partition(l, &k)) != NULL) {
        end_early(l, l->partition(l->ctx, &loan->view, k, &err), &err);
        /* a copy, because another thread may reuse the loan (the lent shard) once all its
         * partitions are done */
        const struct ts_shard_view view = loan->view;
        if (atomic_fetch_sub(&loan->left, 1) == 1)
            give_back(l, &view);
    }
}

/* Borrows the next shard. One thread of the team calls this. */
static void next_shard(struct ts_pass_loop *l)
{
    const uint64_t begin = ts_clock_ns();
    if (l->rc > 0)
        borrow(l, l->loan);
    l->wait_ns += ts_clock_ns() - begin;
    l->more = l->rc > 0;
}

static void visit_shards(struct ts_pass_loop *l)
{
    struct ts_err err;
#pragma omp single
    next_shard(l);
    while (l->more) {
        end_early(l, l->shard(l->ctx, l->loan, &err), &err);
#pragma omp barrier
#pragma omp single
        {
            give_back(l, &l->loan->view);
            next_shard(l);
        }
    }
}

int ts_pass_loop_run(struct ts_pass_loop *l)
{
    l->rc = 1;
    omp_init_lock(&l->lock);
    if (ts_feed_slabs(l->feed) != NULL)
        ts_slabs_rewind(ts_feed_slabs(l->feed));
    if (l->partition != NULL) {
#pragma omp parallel num_threads(l->threads)
        visit_partitions(l);
        l->wait_ns /= l->threads;
        /* returns the shards of a pass that ended early */
        for (uint32_t i = 0; i <= l->threads; i++)
            if (atomic_exchange(&l->loan[i].left, 0) > 0)
                give_back(l, &l->loan[i].view);
    } else if (l->threads > 0) {
#pragma omp parallel num_threads(l->threads)
        visit_shards(l);
    } else {
        visit_shards(l);
    }
    omp_destroy_lock(&l->lock);
    return l->rc;
}
