/* SPDX-License-Identifier: BSD-3-Clause */
/* pass_loop.h - makes every pass over a mode: borrows shards from the feed, lets threads visit
 * them, and gives them back.
 *
 * A visitor does the arithmetic. It visits either partitions or whole shards:
 *
 *   partition  each thread takes the next partition of the newest shard. The thread that finishes
 *              the last partition of a shard gives the shard back, while other threads work on the
 *              next shard.
 *   shard      all threads of the team visit one shard after another together, and may share its
 *              work by `omp for` and `omp single`. With `threads` = 0, the calling thread visits
 *              alone, and opens parallel regions of its own.
 *
 * The feed of a dense tensor lends slabs instead of shards.
 *
 *   owner    the caller owns the loop and its loans, and the data of the visitor
 *   units    partitions are counted over the mode; ns
 *   threads  one thread calls; a visitor is called by all threads of the team
 *   errors   `rc` is 0 or the negative ts_code of the first failure, of the feed or of a visitor;
 *            after a failure no thread takes another partition
 */
#ifndef TS_CPU_PASS_LOOP_H
#define TS_CPU_PASS_LOOP_H

#include <omp.h>
#include <stdatomic.h>

#include "stream/backend.h"
#include "stream/feed/feed.h"
#include "stream/feed/slabs.h"

/* A shard or slab that the feed has lent. */
struct ts_loan {
    union {
        struct ts_shard_view view;
        struct ts_slab_view slab;
    };
    uint32_t end;     /* number of the last partition to be visited, plus 1 */
    atomic_uint left; /* partitions that are not finished; 0: the loan is free */
};

/* ts_visit_partition visits partition k of the shard. ts_visit_shard visits the whole shard or
 * slab. */
typedef int ts_visit_partition(void *ctx, const struct ts_shard_view *view, uint32_t k,
                               struct ts_err *err);
typedef int ts_visit_shard(void *ctx, const struct ts_loan *loan, struct ts_err *err);

struct ts_share;

struct ts_pass_loop {
    struct ts_feed *feed;
    uint32_t mode, threads;
    struct ts_share *share; /* how processes divide the work; NULL: this process alone */
    struct ts_loan *loan;   /* threads + 1 loans for partitions; 1 loan for shards */
    uint64_t begin, end;    /* the partitions to be visited: begin .. end - 1 */
    int (*start)(void *ctx,
                 /* called by each thread before its first partition; or NULL */
                 struct ts_err *err);
    ts_visit_partition *partition; /* `partition` or `shard` is set, and the other one NULL */
    ts_visit_shard *shard;
    void *ctx;

    int rc;           /* 1: there are more shards; 0: there are none; negative: the failure */
    uint64_t wait_ns; /* time that a thread waited for shards, on average */
    struct ts_err *err;
    omp_lock_t lock;        /* guards all members below, and rc, err and wait_ns */
    struct ts_loan *newest; /* the loan whose partitions are being taken */
    uint32_t next;          /* number of the next partition in `newest` */
    /* if whole shards are visited: 1 if the loan holds one that is to be visited */
    int more;
};

/* Visits all partitions or shards. Returns 0 or the failure in rc. */
int ts_pass_loop_run(struct ts_pass_loop *l);

/* Returns the times of a pass on CPU cores. Time that is neither waiting nor exchange counts as
 * kernel time. */
static inline struct ts_backend_times ts_pass_times(uint64_t total_ns, uint64_t nnz,
                                                    uint64_t wait_ns, uint64_t exchange_ns,
                                                    uint64_t solve_ns)
{
    return (struct ts_backend_times){
        .total_ns = total_ns,
        .n_devices = 1,
        .device[0] = { .number = -1,
                       .nnz = nnz,
                       .wait_ns = wait_ns,
                       .kernel_ns = total_ns - wait_ns - exchange_ns - solve_ns,
                       .exchange_ns = exchange_ns,
                       .exposed_ns = exchange_ns,
                       .solve_ns = solve_ns,
                       .share = 1 },
    };
}

#endif
