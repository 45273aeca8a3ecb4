/* SPDX-License-Identifier: BSD-3-Clause */
/* A model's score is that of the obvious loop over the nonzeros, and by several ranks it has the
 * bits of one process: sums, slices, largest residuals. Ranks are threads here. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/judge/score.h"
#include "cpu/cpu_backend.h"
#include "tests/mpi/comm_threads.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

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
    uint32_t order;
    uint64_t dim[5], nnz;
    double skew;
    uint32_t shard_partitions, stretch, rank;
    int counts, weights, slices;
    uint32_t mode, top;
    enum ts_precision precision;
};

static const struct conf confs[] = {
    { .order = 3,
      .dim = { 50, 900, 3000 },
      .nnz = 150000,
      .skew = 2,
      .shard_partitions = 1,
      .rank = 6,
      .counts = 1,
      .slices = 1,
      .mode = 0,
      .top = 50 },
    { .order = 3,
      .dim = { 50, 900, 300 },
      .nnz = 90000,
      .skew = 2,
      .shard_partitions = 3,
      .rank = 5,
      .slices = 1,
      .mode = 1,
      .top = 7,
      .precision = TS_FLOAT64 },
    { .order = 4,
      .dim = { 2, 700, 300, 12 },
      .nnz = 120000,
      .rank = 9,
      .counts = 1,
      .slices = 1,
      .mode = 0 }, /* slices over many partitions, one shard */
    { .order = 3,
      .dim = { 1, 4000, 50 },
      .nnz = 60000,
      .shard_partitions = 2,
      .rank = 1,
      .weights = 1,
      .slices = 1,
      .mode = 0,
      .top = 3 }, /* one slice is all there is */
    { .order = 2,
      .dim = { 6000, 300 },
      .nnz = 90000,
      .shard_partitions = 1,
      .stretch = 3,
      .rank = 3,
      .slices = 1,
      .mode = 1,
      .top = 100000,
      .precision = TS_FLOAT64 },
    { .order = 5,
      .dim = { 7, 30, 11, 5, 20 },
      .nnz = 60000,
      .shard_partitions = 1,
      .rank = 4,
      .weights = 1,
      .mode = 3,
      .top = 1,
      .precision = TS_FLOAT64 },
    { .order = 2,
      .dim = { 1, 1 },
      .nnz = 1,
      .rank = 2,
      .counts = 1,
      .slices = 1,
      .mode = 1,
      .top = 5 }, /* a nonzero */
};

/* What one rank does, and ends with. */
struct outcome {
    const struct conf *conf;
    const struct ts_kruskal *model;
    struct ts_comm *comm;
    uint32_t threads;
    uint64_t host_bytes;
    int fails;
    volatile sig_atomic_t stop;
    int rc;
    struct ts_err err;
    struct ts_score score;
};

static void *run_rank(void *ctx)
{
    struct outcome *o = ctx;
    const struct conf *c = o->conf;
    struct ts_tensor *t;
    struct ts_backend_conf bc = { .rank = c->rank,
                                  .precision = c->precision,
                                  .threads = o->threads,
                                  .only_mode = -1,
                                  .comm = o->comm };
    struct ts_feed_conf fc = {
        .host_bytes = o->host_bytes, .only_mode = -1, .checkers = 1, .stop = &o->stop
    };
    struct ts_score_conf sc = { .backend = &ts_backend_cpu,
                                .model = o->model,
                                .mode = c->mode,
                                .threads = o->threads,
                                .top = c->top,
                                .slices = c->slices,
                                .comm = o->comm,
                                .stop = &o->stop };
    ck_assert_int_eq(ts_tensor_open(dir, &t, &o->err), 0);
    bc.tensor = fc.tensor = sc.tensor = t;
    ck_assert_msg(ts_backend_cpu.open(&bc, &sc.be, &o->err) == 0, "%s", o->err.text);
    ts_backend_cpu.deal(sc.be, &fc.deal);
    ck_assert_msg(ts_feed_new(&fc, &sc.feed, &o->err) == 0, "%s", o->err.text);
    if (o->fails)
        ts_feed_fail_with(sc.feed, ts_fail(&o->err, TS_EIO, "the disk is gone"), &o->err);
    o->rc = ts_score_run(&sc, &o->score, &o->err);
    ts_feed_free(sc.feed);
    ts_backend_cpu.close(sc.be);
    ts_tensor_close(t);
    return NULL;
}

/* The first fields of each are set. */
static void run_ranks(uint32_t n, struct outcome *o)
{
    struct test_comm comm[TEST_COMM_MOST];
    pthread_t thread[TEST_COMM_MOST];
    struct test_comm_group *g = test_comm_new(n, comm);
    for (uint32_t r = 0; r < n; r++) {
        o[r].comm = &comm[r].comm;
        ck_assert_int_eq(pthread_create(&thread[r], NULL, run_rank, &o[r]), 0);
    }
    for (uint32_t r = 0; r < n; r++)
        pthread_join(thread[r], NULL);
    test_comm_free(g);
}

static struct test_coo write_tensor(const struct conf *c, uint64_t seed)
{
    const struct test_tsh_conf how = { .kind = TS_VALUE_F32,
                                       .shard_partitions = c->shard_partitions,
                                       .stretch = c->stretch };
    struct test_coo x = test_coo_random(seed, c->order, c->dim, c->nnz, c->counts ? 9 : 0, c->skew);
    for (uint64_t i = 0; i < x.nnz; i++)
        x.val[i] = (float)x.val[i];
    if (c->weights)
        test_coo_weigh(&x, seed + 1, 0);
    test_tsh_write(dir, &x, &how);
    return x;
}

/* A row for each index of the tensor; entries above 0 for counts. */
static struct ts_kruskal *draw_model(const struct conf *c)
{
    struct ts_kruskal *k;
    struct ts_tensor *t;
    struct ts_err err;
    uint64_t n[TS_MAX_ORDER];
    ck_assert_int_eq(ts_tensor_open(dir, &t, &err), 0);
    for (uint32_t m = 0; m < c->order; m++)
        n[m] = t->mode[m].disk.dim;
    ts_tensor_close(t);
    ck_assert_int_eq(ts_kruskal_new(c->order, c->rank, TS_FLOAT64, n, n, &k, &err), 0);
    for (uint32_t r = 0; r < c->rank; r++)
        k->weight[r] = 1 + 0.25 * r;
    for (uint32_t m = 0; m < c->order; m++)
        for (uint64_t i = 0; i < n[m] * c->rank; i++) /* float32 holds them */
            ((double *)k->factor[m])[i] =
                (float)(ts_unit(ts_mix(31 * m + i)) + (c->counts ? 0.1 : -0.4));
    return k;
}

static double value_of(const struct ts_kruskal *k, const struct test_coo *x, uint64_t i,
                       const struct test_tsh_conf *how)
{
    double sum = 0;
    for (uint32_t r = 0; r < k->rank; r++) {
        double term = k->weight[r];
        for (uint32_t m = 0; m < k->order; m++)
            term *=
                ((const double *)k->factor[m])[test_tsh_index(how, m, x->idx[m][i]) * k->rank + r];
        sum += term;
    }
    return sum;
}

/* Values of the model have the precision of the backend; sums are of numbers of either sign, and so
 * the bound is by that of their magnitudes. */
static void ck_near(double got, double want, double magnitudes, const struct conf *c)
{
    const double eps = c->precision == TS_FLOAT64 ? 1e-13 : 1e-5;
    ck_assert_msg(fabs(got - want) <= eps * (magnitudes + fabs(want)), "%.17g, not %.17g", got,
                  want);
}

static void ck_sums(const struct ts_score_sums *got, const struct ts_score_sums *want,
                    const struct conf *c)
{
    const double all = want->magnitudes + fabs(want->value) + fabs(want->model);
    ck_assert_uint_eq(got->n, want->n);
    ck_near(got->weight, want->weight, 0, c);
    ck_near(got->value, want->value, 0, c);
    ck_near(got->model, want->model, all, c);
    ck_near(got->squares, want->squares, want->squares + all, c);
    ck_near(got->magnitudes, want->magnitudes, all, c);
}

static void add(struct ts_score_sums *to, double value, double model, double weight)
{
    to->n++;
    to->weight += weight;
    to->value += weight * value;
    to->model += weight * model;
    to->squares += weight * (value - model) * (value - model);
    to->magnitudes += weight * fabs(value - model);
}

static int falling(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y;
}

/* The score of one process against a loop over the nonzeros. */
static void ck_obvious(const struct ts_score *s, const struct conf *c, const struct test_coo *x,
                       const struct ts_kruskal *k)
{
    const struct test_tsh_conf how = { .stretch = c->stretch };
    struct ts_score_sums all = { 0 }, *slice = calloc(x->dim[c->mode] + 1, sizeof *slice);
    double *size = malloc(x->nnz * sizeof *size), logs = 0, total = 0;
    for (uint64_t i = 0; i < x->nnz; i++) {
        const double model = value_of(k, x, i, &how), w = x->weight == NULL ? 1 : x->weight[i];
        add(&all, x->val[i], model, w);
        add(&slice[x->idx[c->mode][i]], x->val[i], model, w);
        size[i] = fabs(x->val[i] - model);
        logs += c->counts ? x->val[i] * log(model) : 0;
    }
    ck_sums(&s->all, &all, c);
    for (uint64_t i = 0; i < x->dim[c->mode] && c->slices; i++)
        ck_sums(&s->slice[i], &slice[i], c);
    qsort(size, x->nnz, sizeof *size, falling);
    ck_assert_uint_eq(s->n_top, c->top < x->nnz ? c->top : x->nnz);
    for (uint32_t i = 0; i < s->n_top; i++)
        ck_near(fabs(s->top[i].value - s->top[i].model), size[i], 10, c);
    if (x->nnz > 1)
        ck_near(s->gaussian, -0.5 * all.weight * (1 + log(2 * M_PI * all.squares / all.weight)),
                all.weight, c);
    for (uint32_t r = 0; r < k->rank; r++) {
        double term = k->weight[r];
        for (uint32_t m = 0; m < k->order; m++) {
            double sum = 0;
            for (uint64_t i = 0; i < k->n_rows[m]; i++)
                sum += ((const double *)k->factor[m])[i * k->rank + r];
            term *= sum;
        }
        total += term;
    }
    if (c->counts)
        ck_near(s->poisson, logs - total, fabs(logs) + total, c);
    else
        ck_assert(isnan(s->poisson));
    free(slice);
    free(size);
}

static void ck_same(const struct ts_score *a, const struct ts_score *b)
{
    ck_assert_mem_eq(&a->all, &b->all, sizeof a->all);
    ck_assert_mem_eq(&a->gaussian, &b->gaussian, sizeof a->gaussian);
    ck_assert_mem_eq(&a->poisson, &b->poisson, sizeof a->poisson);
    ck_assert_uint_eq(a->n_slices, b->n_slices);
    if (a->n_slices > 0)
        ck_assert_mem_eq(a->slice, b->slice, a->n_slices * sizeof *a->slice);
    ck_assert_uint_eq(a->n_top, b->n_top);
    if (a->n_top > 0)
        ck_assert_mem_eq(a->top, b->top, a->n_top * sizeof *a->top);
}

START_TEST(scores_do_not_depend_on_ranks)
{
    static const uint32_t ranks[] = { 1, 2, 3, 4, 7 };
    static struct outcome alone, o[TEST_COMM_MOST];
    const struct conf *c = &confs[_i];
    struct test_coo x = write_tensor(c, 80 + (uint64_t)_i);
    struct ts_kruskal *k = draw_model(c);
    alone = (struct outcome){ .conf = c, .model = k, .threads = 2, .host_bytes = 1 << 30 };
    run_rank(&alone);
    ck_assert_msg(alone.rc == 0, "%s", alone.err.text);
    ck_obvious(&alone.score, c, &x, k);
    for (uint32_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        for (uint32_t r = 0; r < ranks[i]; r++)
            o[r] = (struct outcome){ .conf = c,
                                     .model = k,
                                     .threads = 1 + (r + i) % 3,
                                     .host_bytes = r % 2 == 0                 ? 1 << 30
                                                   : c->shard_partitions == 0 ? 4 << 20
                                                                              : 1 << 20 };
        run_ranks(ranks[i], o);
        for (uint32_t r = 0; r < ranks[i]; r++) {
            ck_assert_msg(o[r].rc == 0, "%u ranks: %s", ranks[i], o[r].err.text);
            ck_same(&alone.score, &o[r].score);
            ts_score_free(&o[r].score);
        }
    }
    ts_score_free(&alone.score);
    ts_kruskal_free(k);
    test_coo_free(&x);
}
END_TEST

/* A rank whose disk fails ends all, with its sentence. */
START_TEST(one_fails_all_end)
{
    static struct outcome o[3];
    struct test_coo x = write_tensor(&confs[0], 90);
    struct ts_kruskal *k = draw_model(&confs[0]);
    for (uint32_t r = 0; r < 3; r++) {
        o[r] =
            (struct outcome){ .conf = &confs[0], .model = k, .threads = 2, .host_bytes = 1 << 30 };
        o[r].fails = r == 1;
    }
    run_ranks(3, o);
    for (uint32_t r = 0; r < 3; r++) {
        ck_assert_int_eq(o[r].rc, TS_EIO);
        ck_assert_msg(strstr(o[r].err.text, "rank 1: the disk is gone") != NULL, "%s",
                      o[r].err.text);
    }
    ts_kruskal_free(k);
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("score_ranks");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, scores_do_not_depend_on_ranks, 0, sizeof confs / sizeof *confs);
    tcase_add_test(t, one_fails_all_end);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
