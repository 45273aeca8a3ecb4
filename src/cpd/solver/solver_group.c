/* SPDX-License-Identifier: BSD-3-Clause */
/* Advances several runs together: each continues to its next product, and products of the same mode
 * are computed in one pass. */
#include "cpd/solver/solver_group.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cpd/solver/solver_struct.h"

struct member {
    struct ts_solver *run;    /* the run; `ended` may free it */
    int over;                 /* 1: the run has ended or failed */
    int waits;                /* 1: the run waits for a pass */
    struct ts_request wanted; /* the run's request for the next pass */
    uint64_t wanted_ns;       /* time at which the run began to wait */
};

struct group {
    struct member *member;
    struct ts_request *wanted; /* the requests of the runs that take part in the next pass */
    uint32_t n, order, mode;
    enum ts_request_kind kind; /* kind of the requests in the pass */
    const struct ts_backend *backend;
    struct ts_feed *feed;
    int (*ended)(void *ctx, uint32_t k, struct ts_err *err);
    void *ctx;
};

/* Sets the times of a run's last pass. Time spent waiting for other runs is included. */
static void take_times(struct member *m, const struct ts_backend_times *times)
{
    const uint64_t now = ts_clock_ns();
    m->run->times = *times;
    m->run->times.total_ns = now - m->wanted_ns;
}

/* Advances a run until it needs a product, or to its end. */
static int go_on(struct group *g, uint32_t k, struct ts_err *err)
{
    struct member *m = &g->member[k];
    int rc = ts_solver_next(m->run, err);
    m->waits = rc > 0;
    m->wanted_ns = ts_clock_ns();
    if (rc > 0)
        return ts_solver_request(m->run, &m->wanted, err);
    m->over = 1;
    return rc == 0 ? g->ended(g->ctx, k, err) : rc;
}

/* Chooses mode and kind of the next pass. Returns 0 if no run waits for one. */
static int choose_mode(struct group *g)
{
    for (uint32_t i = 1; i <= g->order; i++) {
        const uint32_t mode = (g->mode + i) % g->order;
        for (uint32_t k = 0; k < g->n; k++)
            if (g->member[k].waits && g->member[k].run->product == mode) {
                g->mode = mode;
                g->kind = g->member[k].wanted.kind;
                return 1;
            }
    }
    return 0;
}

static int is_in(const struct group *g, uint32_t k)
{
    const struct member *m = &g->member[k];
    return m->waits && m->run->product == g->mode && m->wanted.kind == g->kind;
}

static int pass(struct group *g, struct ts_backend_times *times, struct ts_err *err)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < g->n; k++)
        if (is_in(g, k))
            g->wanted[n++] = g->member[k].wanted;
    ts_feed_rewind(g->feed);
    return g->backend->pass(g->wanted, n, g->mode, g->feed, times, err);
}

/* After a failure or a stop, saves the states of all runs that are not over. */
static void give_up(struct group *g, int rc)
{
    for (uint32_t k = 0; k < g->n; k++)
        if (!g->member[k].over)
            ts_solver_fail(g->member[k].run, rc);
}

/* Continues all runs that took part in a finished pass. Their rows are already updated, some from
 * their old values. So if one run stops or fails, the others still continue to a point from which
 * they can be resumed. */
static int end_pass(struct group *g, const struct ts_backend_times *times, uint32_t *failed,
                    struct ts_err *err)
{
    struct ts_err later;
    int rc = 0;
    for (uint32_t k = 0; k < g->n && rc != TS_EARG; k++) {
        int one;
        if (!is_in(g, k))
            continue;
        take_times(&g->member[k], times);
        one = go_on(g, k, rc == 0 ? err : &later);
        if (rc == 0 && one < 0) {
            *failed = k;
            rc = one;
        }
    }
    return rc;
}

static int run_all(struct group *g, uint32_t *failed, struct ts_err *err)
{
    struct ts_backend_times times = { 0 };
    int rc = 0;
    for (uint32_t k = 0; k < g->n && rc == 0; k++) {
        *failed = k;
        rc = go_on(g, k, err);
    }
    while (rc == 0 && choose_mode(g)) {
        *failed = g->n;
        rc = pass(g, &times, err);
        if (rc < 0) {
            give_up(g, rc);
            return rc;
        }
        rc = end_pass(g, &times, failed, err);
    }
    if (rc < 0) /* after TS_EARG, the runs have nothing that can be saved */
        give_up(g, rc == TS_EARG ? rc : TS_ESTOP);
    return rc;
}

int ts_solver_group_run(struct ts_solver *const run[], uint32_t n,
                        int (*ended)(void *ctx, uint32_t k, struct ts_err *err), void *ctx,
                        uint32_t *failed, struct ts_err *err)
{
    const struct ts_solver_conf *c = run[0]->conf;
    struct group g = { .n = n,
                       .order = run[0]->order,
                       .mode = run[0]->order - 1,
                       .backend = c->init.backend,
                       .feed = c->feed,
                       .ended = ended,
                       .ctx = ctx };
    int rc;
    assert(n > 0);
    *failed = n;
    g.member = calloc(n, sizeof *g.member);
    g.wanted = calloc(n, sizeof *g.wanted);
    for (uint32_t k = 0; k < n && g.member != NULL; k++)
        g.member[k].run = run[k];
    rc = g.member == NULL || g.wanted == NULL
             ? ts_fail(err, TS_ENOMEM, "out of memory for %u runs", n)
             : run_all(&g, failed, err);
    free(g.member);
    free(g.wanted);
    return rc;
}
