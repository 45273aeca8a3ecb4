/* SPDX-License-Identifier: BSD-3-Clause */
/* A decomposition by several ranks has the bits of one process: weights, factors and fits, for
 * every number of ranks and threads, whatever rows are cut. Ranks are threads here. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/solver/solver.h"
#include "cpd/solver/solver_group.h"
#include "cpu/cpu_backend.h"
#include "cpu/ranks/share.h"
#include "stream/loss_functions.h"
#include "tests/mpi/comm_threads.h"
#include "tests/cpd/fit_cases.h"
#include "tests/support/run_suite.h"
#include "tests/cpd/spec_case.h"
#include "tests/format/tsh_writer.h"

#define MOST_SWEEPS 8u

static char *tmp, dir[4096];

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(dir, sizeof dir, "%s/x.tsh", tmp);
}

static void teardown(void)
{
    test_tsh_remove(dir);
    test_tsh_remove(tmp);
    free(tmp);
}

struct conf {
    uint32_t rank, iters, threads;
    enum ts_precision precision;
    uint64_t host_bytes; /* 0: 1 GiB */
    const struct ts_spec *spec;
    int accelerate, nvecs;
    uint32_t machines; /* on so many ranks share factors; 0: each has its own */
    int spreads;       /* rows may go to some ranks only: */
    enum ts_rows_to rows_to;
    struct ts_hold_out hold_out;
    uint32_t fails;               /* the rank whose disk fails in the first mode, from 1; 0: none */
    uint32_t fails_at, breaks_at; /* as in struct test_comm, fails_at of rank `fails_of` */
    uint32_t fails_of;
    int fails_with;
    uint32_t stops; /* the rank that is asked to stop after the second sweep, from 1; 0: none */
};

/* What one rank ends with. */
struct outcome {
    const struct conf *conf;
    struct ts_comm *comm;
    int rc, ended; /* ended: by what its comm was told to do */
    struct ts_err err;
    volatile sig_atomic_t stop;
    uint32_t order, sweeps;
    enum ts_rows_to rows_to[TS_MAX_ORDER];      /* in the last sweep */
    uint64_t row_bytes[TS_MAX_ORDER], told_nnz; /* of all ranks, in the last mode */
    uint32_t n_told;
    double fit[MOST_SWEEPS], objective[MOST_SWEEPS], told[MOST_SWEEPS][3];
    double weight[TS_MAX_RANK];
    uint64_t n_rows[TS_MAX_ORDER], slots, nnz;
    double *factor[TS_MAX_ORDER];
};

static void note_sweep(void *ctx, const struct ts_solver_sweep *s)
{
    struct outcome *o = ctx;
    o->fit[s->sweep - 1] = s->fit;
    o->objective[s->sweep - 1] = s->objective;
    o->told[s->sweep - 1][0] = s->held_out;
    o->told[s->sweep - 1][1] = s->held_out_loss;
    o->told[s->sweep - 1][2] = s->kkt;
    if (s->sweep == 2 && o->comm != NULL && o->comm->rank + 1 == o->conf->stops)
        o->stop = SIGTERM;
}

static void note_mode(void *ctx, const struct ts_solver_mode *m)
{
    struct outcome *o = ctx;
    const struct ts_device_times *told = ts_backend_told(m->times, &o->n_told);
    o->rows_to[m->mode] = m->times->rows_to;
    o->row_bytes[m->mode] = m->times->row_bytes;
    o->told_nnz = 0;
    for (uint32_t i = 0; i < o->n_told; i++) {
        ck_assert(o->comm == NULL || told[i].rank == i);
        o->told_nnz += told[i].nnz;
    }
}

static void note_nnz(void *ctx, uint64_t nnz)
{
    struct outcome *o = ctx;
    __atomic_fetch_add(&o->nnz, nnz, __ATOMIC_RELAXED);
}

static void take_factors(struct outcome *o, const struct ts_tensor *t, void *be)
{
    for (uint32_t m = 0; m < t->order; m++) {
        o->n_rows[m] = t->mode[m].disk.n_rows;
        if (o->comm != NULL && o->comm->rank > 0 && o->conf->spreads)
            continue; /* the first rank has all rows in the end */
        o->factor[m] = calloc(o->n_rows[m] * o->conf->rank + 1, sizeof(double));
        ts_backend_cpu.get_rows(be, m, 0, o->n_rows[m], o->factor[m], &o->err);
    }
}

static void *run_rank(void *ctx)
{
    struct outcome *o = ctx;
    const struct conf *c = o->conf;
    struct ts_tensor *t;
    struct ts_backend_conf bc = {
        .rank = c->rank, .precision = c->precision, .threads = c->threads, .only_mode = -1
    };
    struct ts_feed_conf fc = { .host_bytes = c->host_bytes > 0 ? c->host_bytes : 1 << 30,
                               .only_mode = -1,
                               .checkers = 1,
                               .stop = &o->stop,
                               .done = note_nnz,
                               .done_ctx = o };
    struct ts_solver_conf ac = { .iters = c->iters,
                                 .accelerate = c->accelerate,
                                 .hold_out = c->hold_out,
                                 .inner = 5,
                                 .all_ranks = 1,
                                 .ctx = o };
    struct ts_solver_result result;
    struct ts_feed_stats stats;
    volatile sig_atomic_t never = 0;
    void *be;
    int done;
    ck_assert_int_eq(ts_tensor_open(dir, &t, &o->err), 0);
    bc.tensor = fc.tensor = t;
    bc.comm = o->comm;
    bc.own_rows = ts_spec_own(c->spec, t->order);
    bc.needs = ts_spec_updates(c->spec, t->order);
    ck_assert_msg(ts_backend_cpu.open(&bc, &be, &o->err) == 0, "%s", o->err.text);
    ts_backend_cpu.deal(be, &fc.deal);
    ck_assert_msg(ts_feed_new(&fc, &ac.feed, &o->err) == 0, "%s", o->err.text);
    ts_feed_stats(ac.feed, &stats);
    o->slots = stats.n_slots;
    o->order = t->order;
    if (o->comm != NULL && c->fails == o->comm->rank + 1)
        ts_feed_fail_with(ac.feed, ts_fail(&o->err, TS_EIO, "the disk is gone"), &o->err);
    if (o->comm != NULL && (c->machines > 0 || c->spreads)) {
        const struct ts_spread how = { .own = c->machines == 0,
                                       .skipped = ts_spec_skipped(c->spec, t->order),
                                       .rows_to = c->spreads ? c->rows_to : TS_ROWS_TO_ALL };
        o->rc = ts_backend_cpu.spread(be, &how, &o->err);
    }
    ck_assert_msg(o->rc == 0 || c->fails_at > 0 || c->breaks_at > 0, "%s", o->err.text);
    ac.precision = c->precision;
    ac.sweep = note_sweep;
    ac.mode = note_mode;
    ac.init = (struct ts_init_conf){ .tensor = t,
                                     .backend = &ts_backend_cpu,
                                     .be = be,
                                     .rank = c->rank,
                                     .threads = c->threads,
                                     .seed = 3,
                                     .spec = c->spec,
                                     .nvecs = c->nvecs,
                                     .stop = &never };
    if (o->rc == 0)
        o->rc = ts_solver_run(&ac, &result, &o->err);
    else
        result.weight = NULL;
    done = o->rc == 0;
    if (o->comm != NULL) /* as the programs do */
        o->rc = o->comm->ops->agree(o->comm, o->rc, &o->err);
    if (done && o->rc < 0)
        free(result.weight);
    if (o->rc == 0) {
        o->sweeps = result.sweeps;
        memcpy(o->weight, result.weight, c->rank * sizeof(double));
        free(result.weight);
        take_factors(o, t, be);
    }
    ts_feed_free(ac.feed);
    ts_backend_cpu.close(be);
    ts_tensor_close(t);
    return NULL;
}

static void free_outcome(struct outcome *o)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(o->factor[m]);
}

/* shuffle: not 0, then processes get other ranges than in their order, and differ in threads and in
 * memory. */
static void run_ranks_as(const struct conf *c, uint64_t shuffle, uint32_t n, struct outcome *ret)
{
    static struct conf each[TEST_COMM_MOST];
    struct test_comm comm[TEST_COMM_MOST];
    pthread_t thread[TEST_COMM_MOST];
    uint32_t rank[TEST_COMM_MOST];
    struct test_comm_group *g = test_comm_new(n, comm);
    if (c->machines > 0)
        test_comm_place(g, c->machines < n ? c->machines : n);
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t with = shuffle == 0 ? r : (uint32_t)(ts_mix(shuffle + r) % (r + 1));
        each[r] = *c;
        if (shuffle != 0) {
            each[r].threads = 1 + (uint32_t)(ts_mix(shuffle * 31 + r) % 3);
            each[r].host_bytes = r % 2 == 0 ? 0 : c->host_bytes;
        }
        if (with != r)
            rank[r] = rank[with];
        rank[with] = r;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t r = rank[i];
        memset(&ret[r], 0, sizeof ret[r]);
        ret[r].conf = &each[i];
        ret[r].comm = &comm[r].comm;
        comm[r].fails_at = c->fails_of == r ? c->fails_at : 0;
        comm[r].fails_with = c->fails_with;
        comm[r].breaks_at = c->breaks_at;
        ck_assert_int_eq(pthread_create(&thread[r], NULL, run_rank, &ret[r]), 0);
    }
    for (uint32_t r = 0; r < n; r++)
        pthread_join(thread[r], NULL);
    for (uint32_t r = 0; r < n; r++)
        ret[r].ended =
            (c->fails_at > 0 && comm[c->fails_of].n_agreed >= c->fails_at) || comm[r].broken;
    test_comm_free(g);
}

static void run_ranks(const struct conf *c, uint32_t n, struct outcome *ret)
{
    run_ranks_as(c, 0, n, ret);
}

static void ck_same(const struct outcome *a, const struct outcome *b)
{
    ck_assert_msg(b->rc == 0, "%s", b->err.text);
    ck_assert(b->comm == NULL || b->n_told == 0 ||
              (b->n_told == b->comm->n && b->told_nnz == a->told_nnz)); /* each tells of its own */
    ck_assert_uint_eq(a->sweeps, b->sweeps);
    ck_assert_mem_eq(a->fit, b->fit, sizeof a->fit);
    ck_assert_mem_eq(a->objective, b->objective, sizeof a->objective);
    ck_assert_mem_eq(a->told, b->told, sizeof a->told);
    ck_assert_mem_eq(a->weight, b->weight, sizeof a->weight);
    for (uint32_t m = 0; m < a->order && b->factor[m] != NULL; m++)
        ck_assert_mem_eq(a->factor[m], b->factor[m], a->n_rows[m] * a->conf->rank * sizeof(double));
}

/* What shards cost to compute, by which ranks divide them: as it is, or drawn, from 1 to 2^23; the
 * linker has the library call this (--wrap). */
static uint64_t drawn_costs;
double __real_ts_balance_cost(const struct ts_disk_shard *s);
double __wrap_ts_balance_cost(const struct ts_disk_shard *s);
double __wrap_ts_balance_cost(const struct ts_disk_shard *s)
{
    return drawn_costs == 0 ? __real_ts_balance_cost(s)
                            : exp2((double)(ts_mix(drawn_costs ^ s->offset) % 24));
}

/* The same by one process and by ranks of several numbers, each with its own factors, or sharing
 * them on one machine to three; returns how many of the former were streamed. Ways take turns: each
 * goes with 2 and 7 ranks or with 3 and 4, and in the case after this one, or where TS_OTHER_RANKS
 * is set, with the others. */
static uint32_t ck_ranks(struct conf c, uint64_t least_bytes, int turn)
{
    static const uint32_t ranks[] = { 1, 2, 3, 4, 7 };
    static struct outcome alone, o[TEST_COMM_MOST];
    uint32_t streamed = 0;
    memset(&alone, 0, sizeof alone);
    alone.conf = &c;
    c.threads = 2;
    run_rank(&alone);
    ck_assert_msg(alone.rc == 0, "%s", alone.err.text);
    turn += getenv("TS_OTHER_RANKS") != NULL;
    for (uint32_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
        c.threads = k % 2 == 0 ? 3 : 1;
        c.host_bytes = k < 3 ? least_bytes : 0; /* one of more ranks has too little to stream */
        for (uint32_t how = 0; how < 5; how++) {
            const int shared = how == 1 || how == 3;
            c.spreads = how >= 2;
            c.rows_to = how == 4 ? TS_ROWS_STAY : TS_ROWS_TO_NEEDING;
            if (how > 0 && (ranks[k] == 1 || c.accelerate)) /* the method changes rows */
                break;
            if (shared && c.nvecs)
                continue;
            if (ranks[k] > 1 && (k == 1 || k == 4) != ((turn + (int)how) % 2 == 0))
                continue;
            c.machines = shared ? 1 + k % 3 : 0;
            run_ranks_as(&c, k % 2 == 1 ? ranks[k] + c.rank : 0, ranks[k], o);
            for (uint32_t r = 0; r < ranks[k]; r++) {
                ck_same(&alone, &o[r]);
                streamed += how == 0 && o[r].slots > 0;
                free_outcome(&o[r]);
            }
        }
    }
    free_outcome(&alone);
    return streamed;
}

/* Values of 1, or counts up to `most`. */
static void write_counts(uint64_t seed, uint32_t order, const uint64_t *dim, uint64_t nnz,
                         uint32_t shard_partitions, uint32_t most)
{
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32,
                                        .shard_partitions = shard_partitions };
    struct test_coo x = test_coo_random(seed, order, dim, nnz, 0, 2);
    for (uint64_t i = 0; i < x.nnz; i++)
        x.val[i] = (float)(1 + ts_mix(i) % most);
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
}

static void write_tensor(uint64_t seed, uint32_t order, const uint64_t *dim, uint64_t nnz, int skew,
                         uint32_t shard_partitions)
{
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32,
                                        .shard_partitions = shard_partitions };
    struct test_coo x = test_coo_random(seed, order, dim, nnz, 0, skew);
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
}

/* Rows that are cut, shards that are cut, more ranks than partitions, ranks without a row. */
START_TEST(bits_do_not_depend_on_ranks)
{
    static const struct {
        uint32_t order;
        uint64_t dim[5], nnz;
        int skew;
        uint32_t shard_partitions, rank;
    } c[] = {
        { 3, { 50, 9000, 3000 }, 110000, 2, 1, 8 },
        { 3, { 50, 9000, 3000 }, 110000, 2, 3, 13 },
        { 4, { 2, 700, 300, 12 }, 120000, 2, 0, 17 }, /* rows over many partitions, one shard */
        { 3, { 1, 40000, 5 }, 100000, 0, 2, 5 },      /* one row is all there is */
        { 2, { 60000, 3 }, 90000, 0, 1, 3 },
        { 5, { 7, 30, 11, 5, 20 }, 60000, 1, 1, 4 },
        { 3, { 4, 5, 6 }, 1, 0, 0, 2 }, /* a nonzero */
    };
    const int i = _i % (int)(sizeof c / sizeof *c);
    const struct conf conf = { .rank = c[i].rank,
                               .iters = 2,
                               .precision = _i == i ? TS_FLOAT32 : TS_FLOAT64 };
    uint32_t streamed;
    write_tensor(40 + (uint64_t)_i, c[i].order, c[i].dim, c[i].nnz, c[i].skew,
                 c[i].shard_partitions);
    streamed = ck_ranks(conf, c[i].shard_partitions == 1 ? 400000 : 0, _i);
    ck_assert(c[i].shard_partitions != 1 || streamed > 0);
}
END_TEST

/* Ranges that are far from even: of no shard, of parts of one, of nearly all. */
START_TEST(bits_do_not_depend_on_ranges)
{
    static const uint64_t dim[3] = { 50, 9000, 3000 };
    struct conf conf = { .rank = 7,
                         .iters = 2,
                         .precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64 };
    const struct ts_spec observed = { .observed = 1,
                                      .mode = { { .l2 = 0.1 }, { .l2 = 0.1 }, { .l2 = 0.1 } } };
    uint64_t even[5], drawn[5];
    struct ts_tensor *t;
    struct ts_err err;
    conf.spec = _i % 4 == 3 ? &observed : NULL;
    write_tensor(60 + (uint64_t)_i, 3, dim, 200000, 2, 1 + (uint32_t)_i % 3);
    ck_assert_int_eq(ts_tensor_open(dir, &t, &err), 0);
    ts_share_cut(t->mode[1].shard, t->mode[1].disk.n_shards, 4, even);
    drawn_costs = 1 + (uint64_t)_i;
    ts_share_cut(t->mode[1].shard, t->mode[1].disk.n_shards, 4, drawn);
    ck_assert_mem_ne(even, drawn, sizeof even);
    ts_tensor_close(t);
    ck_ranks(conf, 0, _i);
    drawn_costs = 0;
}
END_TEST

/* Updates that read the old rows, their objective, and second factors. */
START_TEST(constraints_go_along)
{
    static const uint64_t dim[3] = { 50, 9000, 3000 };
    struct ts_spec nonneg = { .mode = {
                                  { .nonneg = 1 }, { .nonneg = 1 }, { .nonneg = 1, .l1 = 0.1 } } };
    struct ts_spec simplex = { .mode = { { .simplex = 1 }, { .l2 = 0.5 }, { .simplex = 1 } } };
    struct ts_spec polar = { .mode = { { 0 }, { .orthogonal = 1 }, { 0 } } };
    struct ts_spec smooth = { .mode = { { .smooth = 2 }, { .smooth = 3, .l2 = 0.1 }, { 0 } } };
    struct ts_spec curves = {
        .mode = { { .smooth = 2, .nonneg = 1 }, { .l2 = 0.1 }, { .smooth = 3, .l1 = 0.1 } }
    };
    struct ts_spec sparse = { .mode = { { .l1 = 0.2 }, { 0 }, { .l1 = 0.1 } } };
    struct ts_spec bounds = { .mode = { { .bounded = 1, .lower = -0.5, .upper = 0.5 },
                                        { .bounded = 1, .lower = 0, .upper = INFINITY },
                                        { 0 } } };
    const struct ts_spec *const all[] = { &nonneg, &simplex, NULL,    &polar, NULL,
                                          &smooth, &sparse,  &bounds, &curves };
    struct conf conf = { .rank = 6,
                         .iters = 3,
                         .precision = _i % 4 == 1 ? TS_FLOAT64 : TS_FLOAT32 };
    conf.spec = all[_i];
    conf.nvecs = _i == 4;
    conf.accelerate = _i == 2;
    conf.iters = _i == 2 ? MOST_SWEEPS : 3;
    write_tensor(7, 3, dim, 120000, 2, 2);
    ck_ranks(conf, 0, _i);
}
END_TEST

/* Rows with Gram matrices of their own, cells that are held out, bounds, and sums over cells. */
START_TEST(observed_cells_go_along)
{
    static const struct {
        uint32_t order;
        uint64_t dim[4], nnz;
        uint32_t shard_partitions, rank;
        struct ts_spec first; /* of all modes what is asked of the first */
        double held;
    } c[] = {
        { 3, { 50, 9000, 3000 }, 150000, 2, 6, { .observed = 1, .mode = { { .l2 = 0.1 } } }, 0.1 },
        { 3,
          { 1, 4000, 5 },
          100000,
          1,
          5,
          { .observed = 1, .by_count = 1, .mean = 1, .mode = { { .l2 = 0.1 } } },
          0.1 },
        { 4,
          { 2, 700, 300, 12 },
          120000,
          0,
          9,
          { .observed = 1, .mode = { { .l2 = 0.1, .nonneg = 1, .upper = INFINITY } } },
          0.2 },
        { 2, { 60000, 3 }, 90000, 1, 3, { .observed = 1 }, 0 },
        { 3, { 50, 900, 300 }, 60000, 1, 6, { .held = 1 }, 0.1 },
    };
    const int i = _i % (int)(sizeof c / sizeof *c);
    const struct ts_spec all = test_spec_each(c[i].first);
    const struct conf conf = { .rank = c[i].rank,
                               .iters = 2,
                               .precision = _i == i ? TS_FLOAT32 : TS_FLOAT64,
                               .spec = &all,
                               .hold_out = { .share = c[i].held, .seed = 5 } };
    write_tensor(60 + (uint64_t)i, c[i].order, c[i].dim, c[i].nnz, 2, c[i].shard_partitions);
    ck_ranks(conf, 0, _i);
}
END_TEST

/* Rows of shards that several ranks have, all rounds of the others, gradients, drawn cells,
 * moments. */
START_TEST(losses_go_along)
{
    static const struct ts_spec loss[] = {
        { .poisson = 1 },
        { .loss = TS_GCP_BERNOULLI },
        { .loss = TS_GCP_BERNOULLI_LOGIT, .mode = { { .l2 = 0.1 } } },
        { .loss = TS_GCP_GAMMA, .observed = 1 },
        { .loss = TS_GCP_POISSON_LOG },
        { .loss = TS_GCP_HUBER, .loss_at = 1 },
        { .loss = TS_GCP_HUBER, .loss_at = 1, .observed = 1, .mode = { { .l2 = 0.1 } } },
        { .loss = TS_GCP_GAMMA, .observed = 1, .lbfgsb = 1 },
        { .loss = TS_GCP_BERNOULLI_LOGIT, .lbfgsb = 1 },
        { .poisson = 1, .held = 1 },
        { .loss = TS_GCP_BERNOULLI },
    };
    static const uint64_t dim[3] = { 50, 2000, 300 }, one[3] = { 1, 3000, 2 };
    /* rows that lie in shards of all ranks, and ranks without a row of their own */
    const int spans = _i >= 9;
    const struct ts_spec all = test_spec_each(loss[_i]);
    const struct conf conf = { .rank = _i % 3 == 0 ? 5 : 8,
                               .iters = 3,
                               .precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64,
                               .spec = &all,
                               .hold_out = { .share = _i == 6 || _i == 9 ? 0.1 : 0, .seed = 5 } };
    write_counts(70 + (uint64_t)_i, 3, spans ? one : dim, 60000, _i % 3 == 2 ? 0 : 1,
                 loss[_i].loss == TS_GCP_BERNOULLI || loss[_i].loss == TS_GCP_BERNOULLI_LOGIT ? 1
                                                                                              : 4);
    ck_ranks(conf, 0, _i);
}
END_TEST

/* ---- several models at once ---- */

#define MODELS 4u
static const uint32_t model_rank[MODELS] = { 5, 13, 150, 5 };

/* The models of one rank, each as an outcome of its own. */
struct group {
    struct conf conf[MODELS];
    struct ts_comm *comm;
    struct outcome *o; /* MODELS */
    struct ts_tensor *t;
    struct ts_solver *run[MODELS];
    void *be;
    struct ts_err err;
    int rc;
};

static int end_model(void *ctx, uint32_t k, struct ts_err *err)
{
    struct group *g = ctx;
    struct outcome *o = &g->o[k];
    struct ts_solver_result result;
    const int rc = ts_solver_result(g->run[k], &result, err);
    if (rc < 0)
        return rc;
    o->sweeps = result.sweeps;
    memcpy(o->weight, result.weight, o->conf->rank * sizeof(double));
    free(result.weight);
    take_factors(o, g->t, ts_backend_cpu.model(g->be, k));
    return 0;
}

static void *run_group(void *ctx)
{
    struct group *g = ctx;
    const struct conf *c = g->conf;
    struct ts_backend_conf bc = { .n_models = MODELS,
                                  .ranks = model_rank,
                                  .precision = c->precision,
                                  .threads = c->threads,
                                  .comm = g->comm,
                                  .only_mode = -1 };
    struct ts_feed_conf fc = { .host_bytes = c->host_bytes > 0 ? c->host_bytes : 1 << 30,
                               .only_mode = -1,
                               .checkers = 1 };
    struct ts_solver_conf ac[MODELS];
    struct ts_feed *feed;
    uint32_t failed;
    ck_assert_int_eq(ts_tensor_open(dir, &g->t, &g->err), 0);
    bc.tensor = fc.tensor = g->t;
    bc.own_rows = ts_spec_own(c->spec, g->t->order);
    bc.needs = ts_spec_updates(c->spec, g->t->order);
    bc.spare_bytes = c->host_bytes > 0 ? 0 : 1 << 20; /* of some blocks that are decoded */
    ck_assert_int_eq(ts_backend_cpu.open(&bc, &g->be, &g->err), 0);
    ts_backend_cpu.deal(g->be, &fc.deal);
    ck_assert_int_eq(ts_feed_new(&fc, &feed, &g->err), 0);
    for (uint32_t k = 0; k < MODELS; k++) {
        struct outcome *o = &g->o[k];
        o->conf = &g->conf[k];
        o->comm = g->comm;
        o->order = g->t->order;
        ac[k] = (struct ts_solver_conf){ .feed = feed,
                                         .iters = g->conf[k].iters,
                                         .inner = 5,
                                         .hold_out = c->hold_out,
                                         .precision = c->precision,
                                         .sweep = note_sweep,
                                         .mode = note_mode,
                                         .all_ranks = g->comm != NULL,
                                         .ctx = o,
                                         .init = { .tensor = g->t,
                                                   .backend = &ts_backend_cpu,
                                                   .be = ts_backend_cpu.model(g->be, k),
                                                   .rank = model_rank[k],
                                                   .threads = c->threads,
                                                   .seed = 3,
                                                   .spec = c->spec } };
        ck_assert_int_eq(ts_solver_new(&ac[k], &g->run[k], &g->err), 0);
    }
    g->rc = ts_solver_group_run(g->run, MODELS, end_model, g, &failed, &g->err);
    for (uint32_t k = 0; k < MODELS; k++)
        ts_solver_free(g->run[k]);
    ts_feed_free(feed);
    ts_backend_cpu.close(g->be);
    ts_tensor_close(g->t);
    return NULL;
}

/* Models of several ranks and lengths have the bits of each alone: by n processes, or 0: by this
 * one. */
static void ck_models(const struct conf *conf, uint32_t n)
{
    static struct outcome alone[MODELS], o[TEST_COMM_MOST][MODELS];
    struct test_comm comm[TEST_COMM_MOST];
    pthread_t thread[TEST_COMM_MOST];
    struct group g[TEST_COMM_MOST];
    struct conf one[MODELS];
    struct test_comm_group *ranks = n > 0 ? test_comm_new(n, comm) : NULL;
    memset(alone, 0, sizeof alone);
    memset(o, 0, sizeof o);
    for (uint32_t k = 0; k < MODELS; k++) {
        one[k] = *conf;
        one[k].host_bytes = 0;
        one[k].rank = model_rank[k];
        one[k].iters = 2 + k % 3; /* some are over before others */
        alone[k].conf = &one[k];
        run_rank(&alone[k]);
    }
    for (uint32_t r = 0; r < n || r == 0; r++) {
        memset(&g[r], 0, sizeof g[r]);
        memcpy(g[r].conf, one, sizeof one);
        g[r].conf[0].threads = 1 + r % 3;
        g[r].conf[0].host_bytes = conf->host_bytes;
        g[r].comm = n > 0 ? &comm[r].comm : NULL;
        g[r].o = o[r];
        ck_assert_int_eq(pthread_create(&thread[r], NULL, run_group, &g[r]), 0);
    }
    for (uint32_t r = 0; r < n || r == 0; r++)
        pthread_join(thread[r], NULL);
    for (uint32_t r = 0; r < n || r == 0; r++) {
        ck_assert_msg(g[r].rc == 0, "%s", g[r].err.text);
        if (n > 0 && conf->spec != NULL && conf->spec->poisson) /* all, then one */
            ck_assert_uint_gt(o[r][0].row_bytes[2], o[r][2].row_bytes[2]);
        for (uint32_t k = 0; k < MODELS; k++) {
            ck_same(&alone[k], &o[r][k]);
            free_outcome(&o[r][k]);
        }
    }
    for (uint32_t k = 0; k < MODELS; k++)
        free_outcome(&alone[k]);
    if (ranks != NULL)
        test_comm_free(ranks);
}

START_TEST(models_go_along)
{
    static const uint64_t dim[2][3] = { { 50, 9000, 3000 },
                                        { 30000, 3, 300 } }; /* columns travel in pieces */
    struct ts_spec nonneg = { .mode = { { .nonneg = 1 }, { 0 }, { .simplex = 1 } } };
    struct conf conf = { .precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64, .threads = 2 };
    conf.spec = _i == 1 ? &nonneg : NULL;
    write_tensor(11, 3, dim[_i / 2], 120000, 2, 2);
    ck_models(&conf, _i < 2 ? 3 : 5);
}
END_TEST

/* The same where rows are made nonzero by nonzero: each model has matrices of its own. */
START_TEST(models_of_cells_go_along)
{
    static const struct {
        struct ts_spec first; /* of all modes what is asked of the first */
        double held;
    } way[] = {
        { { .observed = 1, .mode = { { .l2 = 0.1 } } }, 0.1 },
        { { .observed = 1,
            .by_count = 1,
            .mean = 1,
            .mode = { { .l2 = 0.1, .nonneg = 1, .upper = INFINITY } } },
          0 },
        { { .poisson = 1 }, 0 },
        { { .poisson = 1, .held = 1 }, 0.1 },
        { { .loss = TS_GCP_BERNOULLI }, 0 },
        { { .loss = TS_GCP_HUBER, .loss_at = 1, .observed = 1, .mode = { { .l2 = 0.1 } } }, 0.1 },
        { { .loss = TS_GCP_BERNOULLI_LOGIT, .lbfgsb = 1 }, 0 },
        { { .held = 1 }, 0.1 },
    };
    static const uint64_t dim[2][3] = { { 50, 900, 300 }, { 1, 3000, 2 } }; /* rows span shards */
    const struct ts_spec all = test_spec_each(way[_i].first);
    const int bits = way[_i].first.loss == TS_GCP_BERNOULLI || way[_i].first.lbfgsb;
    struct conf conf = { .precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64,
                         .threads = 2,
                         .spec = &all,
                         .hold_out = { .share = way[_i].held, .seed = 5 } };
    write_counts(80 + (uint64_t)_i, 3, dim[_i % 3 == 2], 40000, 1, bits ? 1 : 4);
    ck_models(&conf, 3);
    conf.host_bytes = 200000; /* shards are streamed */
    ck_models(&conf, 0);
}
END_TEST

/* Near a fit of 1, where float32 rows are summed in float64. */
START_TEST(products_in_float64_go_along)
{
    static const uint64_t dim[3] = { 60, 45, 50 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .shard_partitions = 1 };
    const struct conf conf = { .rank = 4, .iters = 6, .precision = TS_FLOAT32 };
    struct test_coo x = test_coo_random(9, 3, dim, 60 * 45 * 50, 0, 0);
    for (uint64_t i = 0; i < x.nnz; i++)
        x.val[i] = (float)((1.0 + x.idx[0][i]) * (2.0 + x.idx[1][i] % 7) / (3.0 + x.idx[2][i]));
    test_tsh_write(dir, &x, &tc);
    test_coo_free(&x);
    ck_ranks(conf, 0, 0);
}
END_TEST

/* By the rule few rows of a tensor that has few nonzeros a row go to each rank, and of one that has
 * many all to all; what is not cheaper is not done, and everything may be asked for. */
START_TEST(rows_go_where_that_is_cheaper)
{
    static const uint64_t sparse[3] = { 40000, 30000, 20000 }, full[3] = { 300, 200, 100 };
    static struct outcome alone, o[TEST_COMM_MOST];
    const int few = _i % 2 == 0;
    struct conf conf = { .rank = 9,
                         .iters = 3,
                         .threads = 8,
                         .precision = TS_FLOAT32,
                         .spreads = 1,
                         .machines = _i / 2 % 2 == 1 ? 6 : 0 };
    write_tensor(90, 3, few ? sparse : full, few ? 30000 : 60000, 0, 0);
    if (_i >= 4)
        conf.rows_to = few ? TS_ROWS_TO_ALL : TS_ROWS_TO_NEEDING;
    memset(&alone, 0, sizeof alone);
    alone.conf = &conf;
    run_rank(&alone);
    run_ranks(&conf, 7, o);
    for (uint32_t r = 0; r < 7; r++) {
        ck_same(&alone, &o[r]);
        for (uint32_t m = 0; m < 3; m++) {
            const uint64_t rows = alone.n_rows[m], copies = conf.machines > 0 ? 5 : 6;
            ck_assert_int_eq(o[r].rows_to[m],
                             few == (_i < 4) ? TS_ROWS_TO_NEEDING : TS_ROWS_TO_ALL);
            if (few && _i < 4)
                ck_assert_uint_lt(o[r].row_bytes[m], rows * copies * 9 * sizeof(float) / 2);
            else if (_i >= 4 && !few)
                ck_assert_uint_le(o[r].row_bytes[m], rows * copies * 9 * sizeof(float));
            else
                ck_assert_uint_eq(o[r].row_bytes[m], rows * copies * 16 * sizeof(float));
        }
        free_outcome(&o[r]);
    }
    free_outcome(&alone);
}
END_TEST

/* A failure of one is told by all, in its words; a stop of one is one of all. */
START_TEST(ranks_end_together)
{
    static const uint64_t dim[3] = { 50, 900, 300 };
    static struct outcome o[TEST_COMM_MOST];
    const struct conf conf = { .rank = 4,
                               .iters = MOST_SWEEPS,
                               .threads = 2,
                               .precision = TS_FLOAT32,
                               .fails = _i % 2 == 0 ? 2 : 0,
                               .stops = _i % 2 == 1 ? 3 : 0,
                               .spreads = _i >= 2, /* the first rank is to get all rows then */
                               .machines = _i >= 4 ? 2 : 0,
                               .rows_to = TS_ROWS_TO_NEEDING };
    write_tensor(5, 3, dim, 120000, 2, 1);
    run_ranks(&conf, 3, o);
    for (uint32_t r = 0; r < 3; r++) {
        ck_assert_int_eq(o[r].rc, _i % 2 == 0 ? TS_EIO : TS_ESTOP);
        ck_assert(_i % 2 == 1 || strcmp(o[r].err.text, "rank 1: the disk is gone") == 0);
        free_outcome(&o[r]);
    }
}
END_TEST

/* What one of three ranks ends a run with before each call in which they agree, and the end of the
 * network before each that moves bytes, is what all end with; a run that has fewer such calls has
 * the bits of one process. */
START_TEST(ranks_end_wherever_one_does)
{
    static const uint64_t dim[3] = { 50, 400, 300 };
    static struct outcome alone, o[TEST_COMM_MOST];
    const struct ts_spec spec[] = {
        { 0 },
        { .mode = { { .nonneg = 1 }, { .simplex = 1 }, { .l1 = 0.1 } } },
        { .mode = { { .smooth = 2, .nonneg = 1 }, { .smooth = 2 }, { .orthogonal = 1 } } },
        { .observed = 1, .mode = { { .l2 = 0.1 }, { .l2 = 0.1 }, { .l2 = 0.1 } } },
        { .poisson = 1 },
        { .loss = TS_GCP_POISSON_LOG },
    };
    const int how = _i % 6, what = _i / 6; /* a failure, a stop, the network */
    struct conf conf = { .rank = 3,
                         .iters = 2,
                         .threads = 1,
                         .precision = TS_FLOAT32,
                         .spec = how == 0 ? NULL : &spec[how],
                         .nvecs = how == 0,
                         .spreads = how <= 1 || how == 3,
                         .machines = how == 1 ? 2 : 0,
                         .rows_to = TS_ROWS_TO_NEEDING,
                         .fails_with = what == 1 ? TS_ESTOP : TS_EIO };
    uint32_t k = 0, ended;
    if (how >= 4)
        write_counts(5, 3, dim, 9000, 1, 4);
    else
        write_tensor(5, 3, dim, 9000, 2, 1);
    memset(&alone, 0, sizeof alone);
    alone.conf = &conf;
    run_rank(&alone);
    do {
        conf.fails_at = what < 2 ? ++k : 0;
        conf.breaks_at = what == 2 ? ++k : 0;
        conf.fails_of = k % 3;
        run_ranks(&conf, 3, o);
        ended = o[0].ended;
        for (uint32_t r = 0; r < 3; r++) {
            const char *text = o[r].err.text;
            if (!ended)
                ck_same(&alone, &o[r]);
            else
                ck_assert_int_eq(o[r].rc, conf.fails_with);
            ck_assert_msg(
                !ended || what == 1 || /* ranks that learn of a stop end with words of their own */
                    strstr(text, what == 2 ? "the network is gone" : "it ends here"),
                "call %u, rank %u: %s", k, r, text);
            free_outcome(&o[r]);
        }
    } while (ended);
    ck_assert_uint_gt(k, 10);
    free_outcome(&alone);
}
END_TEST

/* A rank reads what it computes and no more. */
START_TEST(ranks_read_their_part)
{
    static const uint64_t dim[3] = { 50, 900, 300 };
    static struct outcome o[TEST_COMM_MOST];
    const struct conf conf = { .rank = 4, .iters = 1, .threads = 1, .precision = TS_FLOAT32 };
    struct ts_tensor *t;
    struct ts_err err;
    uint64_t sum = 0, whole;
    write_tensor(5, 3, dim, 400000, 0, 1);
    ck_assert_int_eq(ts_tensor_open(dir, &t, &err), 0);
    whole = 3 * t->nnz;
    ts_tensor_close(t);
    run_ranks(&conf, 4, o);
    for (uint32_t r = 0; r < 4; r++) {
        ck_assert_uint_le(o[r].nnz, whole / 3);
        ck_assert_uint_ge(o[r].nnz, whole / 5);
        sum += o[r].nnz;
        free_outcome(&o[r]);
    }
    ck_assert_uint_ge(sum, whole);
    ck_assert_uint_le(sum, whole + 3 * 3 * 16384); /* a shard between two ranks is read by both */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ranks");
    TCase *tc = tcase_create("ranks");
    tcase_set_timeout(tc, 600);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, bits_do_not_depend_on_ranks, 0, 14);
    tcase_add_loop_test(tc, bits_do_not_depend_on_ranges, 0, 8);
    tcase_add_loop_test(tc, constraints_go_along, 0, 9);
    tcase_add_loop_test(tc, observed_cells_go_along, 0, 6);
    tcase_add_loop_test(tc, losses_go_along, 0, 11);
    tcase_add_loop_test(tc, models_of_cells_go_along, 0, 8);
    tcase_add_loop_test(tc, models_go_along, 0, 4);
    tcase_add_test(tc, products_in_float64_go_along);
    tcase_add_loop_test(tc, rows_go_where_that_is_cheaper, 0, 8);
    tcase_add_loop_test(tc, ranks_end_together, 0, 6);
    tcase_add_loop_test(tc, ranks_end_wherever_one_does, 0, 18);
    tcase_add_test(tc, ranks_read_their_part);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
