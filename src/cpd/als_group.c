/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of ALS in step: all go on to their next products, and those of one mode are computed together. */
#include "cpd/als_group.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cpd/method.h"

struct member {
    struct ts_als *run; /* which `ended` may free */
    int over;           /* or failed */
    int waits;          /* for a product */
    uint64_t wanted_ns; /* since then */
};

struct group {
    struct member *member;
    struct ts_update *update;        /* of those that take part in a pass; */
    void **be;                       /* in one over cells these, */
    const struct ts_weighted **what; /* and what is wanted of each */
    uint32_t n, order, mode;
    int cells; /* the pass is one over cells */
    const struct ts_backend *backend;
    struct ts_feed *feed;
    int (*ended)(void *ctx, uint32_t k, struct ts_err *err);
    void *ctx;
};

/* What is not the run's own work counts as its pass: what it waited for others. */
static void take_times(struct member *m, const struct ts_backend_times *times)
{
    const uint64_t now = ts_clock_ns();
    m->run->times = *times;
    m->run->times.total_ns = now - m->wanted_ns;
}

/* To the run's next product, or to its end. */
static int go_on(struct group *g, uint32_t k, struct ts_err *err)
{
    struct member *m = &g->member[k];
    int rc = ts_als_next(m->run, err);
    m->waits = rc > 0;
    m->wanted_ns = ts_clock_ns();
    if (rc > 0)
        return 0;
    m->over = 1;
    return rc == 0 ? g->ended(g->ctx, k, err) : rc;
}

static int wants_cells(const struct ts_als *a)
{
    return a->at == TS_ALS_AGAIN && a->method->cells != NULL;
}

/* The mode of the next pass, and what it gives; 0: nobody waits for one. */
static int choose_mode(struct group *g)
{
    for (uint32_t i = 1; i <= g->order; i++) {
        const uint32_t mode = (g->mode + i) % g->order;
        for (uint32_t k = 0; k < g->n; k++)
            if (g->member[k].waits && g->member[k].run->product == mode) {
                g->mode = mode;
                g->cells = wants_cells(g->member[k].run);
                return 1;
            }
    }
    return 0;
}

static int is_in(const struct group *g, uint32_t k)
{
    return g->member[k].waits && g->member[k].run->product == g->mode &&
           wants_cells(g->member[k].run) == g->cells;
}

/* With a backend that has no pass of several models over cells. */
static int pass_cells_in_turn(struct group *g, struct ts_backend_times *times, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < g->n && rc == 0; k++)
        if (is_in(g, k)) {
            struct ts_als *a = g->member[k].run;
            a->solved = 0;
            ts_feed_rewind(g->feed);
            rc = a->method->pass(a, err);
            *times = a->times;
        }
    return rc;
}

static int pass_cells(struct group *g, struct ts_backend_times *times, struct ts_err *err)
{
    uint32_t n = 0;
    int rc = 0;
    if (g->backend->weighted_of == NULL)
        return pass_cells_in_turn(g, times, err);
    for (uint32_t k = 0; k < g->n && rc == 0; k++)
        if (is_in(g, k)) {
            struct ts_als *a = g->member[k].run;
            a->solved = 0;
            rc = a->method->cells(a, &g->what[n], err);
            g->be[n++] = a->conf->init.be;
        }
    ts_feed_rewind(g->feed);
    return rc == 0 ? g->backend->weighted_of(g->be, g->what, n, g->mode, g->feed, times, err) : rc;
}

static int pass(struct group *g, struct ts_backend_times *times, struct ts_err *err)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < g->n; k++)
        if (is_in(g, k)) {
            struct ts_als *a = g->member[k].run;
            void *be = a->conf->init.be;
            a->solved = ts_row_by_backend(a->how.kind);
            g->update[n++] = a->solved ? (struct ts_update){ be, &a->how, &a->sums }
                                       : (struct ts_update){ be, NULL, NULL };
        }
    ts_feed_rewind(g->feed);
    return g->backend->update_of(g->update, n, g->mode, g->feed, times, err);
}

/* One failed, or all are to stop: the others keep what they have. */
static void give_up(struct group *g, int rc)
{
    for (uint32_t k = 0; k < g->n; k++)
        if (!g->member[k].over)
            ts_als_fail(g->member[k].run, rc);
}

/* What follows the pass, of each run that was in it: their rows are solved already, some from the old ones, so where one of them
 * stops or fails the others first go on to a place from which they can. */
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
        rc = g->cells ? pass_cells(g, &times, err) : pass(g, &times, err);
        if (rc < 0) {
            give_up(g, rc);
            return rc;
        }
        rc = end_pass(g, &times, failed, err);
    }
    if (rc < 0) /* where what was asked for makes no sense there is nothing to go on with */
        give_up(g, rc == TS_EARG ? rc : TS_ESTOP);
    return rc;
}

int ts_als_group_run(struct ts_als *const run[], uint32_t n,
                     int (*ended)(void *ctx, uint32_t k, struct ts_err *err), void *ctx,
                     uint32_t *failed, struct ts_err *err)
{
    const struct ts_als_conf *c = run[0]->conf;
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
    g.be = calloc(n, sizeof *g.be);
    g.update = calloc(n, sizeof *g.update);
    g.what = calloc(n, sizeof *g.what);
    for (uint32_t k = 0; k < n && g.member != NULL; k++)
        g.member[k].run = run[k];
    rc = g.member == NULL || g.be == NULL || g.update == NULL || g.what == NULL
             ? ts_fail(err, TS_ENOMEM, "out of memory for %u runs", n)
             : run_all(&g, failed, err);
    free(g.member);
    free(g.be);
    free(g.update);
    free(g.what);
    return rc;
}
