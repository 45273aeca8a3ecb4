/* SPDX-License-Identifier: BSD-3-Clause */
/* A decomposition by several ranks with GPUs has the bits of one process with one GPU: weights,
 * factors and fits, for numbers of ranks and of GPUs of each, shards that stay and shards that pass
 * through, each update that GPUs have, and several models. Ranks are threads here. With one GPU
 * they share it, and rows pass through host memory; where there is one for each, they travel by
 * NCCL as well. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/solver/solver.h"
#include "cpd/solver/solver_group.h"
#include "gpu/exchange/exchange.h"
#include "stream/loss_functions.h"
#include "tests/mpi/comm_threads.h"
#include "tests/gpu/gpu_rig.h"

#define MOST_SWEEPS 6u
#define MODELS      3u

static char *tmp, dir[4096];
static const struct ts_backend *const gpu = &ts_backend_gpu;

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

static const uint32_t model_rank[MODELS] = { 5, 13, 70 };

struct conf {
    uint32_t rank, iters;
    uint32_t n_models; /* 0, or MODELS instead of one of `rank` */
    uint32_t here;     /* GPUs of each process */
    enum ts_precision precision;
    enum ts_exchange_kind exchange;
    const struct ts_spec *spec;
    int accelerate;
    int streams;    /* devices have room for a few shards */
    uint32_t fails; /* the rank whose disk fails in the first mode, from 1; 0: none */
    uint32_t stops; /* the rank that is asked to stop after the second sweep, from 1; 0: none */
};

/* What a model ends with. */
struct outcome {
    struct process *process;
    uint32_t rank, sweeps, order;
    double fit[MOST_SWEEPS], objective[MOST_SWEEPS], kkt[MOST_SWEEPS];
    double weight[TS_MAX_RANK];
    uint64_t n_rows[TS_MAX_ORDER];
    double *factor[TS_MAX_ORDER];
};

struct process {
    const struct conf *conf;
    struct ts_comm *comm; /* NULL: alone */
    struct ts_tensor *t;
    struct ts_solver *run[MODELS];
    void *be;
    uint32_t n; /* models */
    struct outcome o[MODELS];
    volatile sig_atomic_t stop;
    uint64_t slot_bytes, n_devices;
    char link[200];
    int rc;
    struct ts_err err;
};

static void note_sweep(void *ctx, const struct ts_solver_sweep *s)
{
    struct outcome *o = ctx;
    struct process *p = o->process;
    o->fit[s->sweep - 1] = s->fit;
    o->objective[s->sweep - 1] = s->objective;
    o->kkt[s->sweep - 1] = s->kkt;
    if (s->sweep == 2 && p->comm != NULL && p->comm->rank + 1 == p->conf->stops)
        p->stop = SIGTERM;
}

static void note_mode(void *ctx, const struct ts_solver_mode *m)
{
    struct process *p = ((struct outcome *)ctx)->process;
    uint64_t nnz = 0;
    p->n_devices = m->times->n_devices;
    for (uint32_t i = 0; i < m->times->n_devices; i++)
        nnz += m->times->device[i].nnz;
    ck_assert_uint_eq(nnz, p->t->nnz); /* every nonzero is some GPU's, of all ranks */
}

static int end_model(void *ctx, uint32_t k, struct ts_err *e)
{
    struct process *p = ctx;
    struct outcome *o = &p->o[k];
    struct ts_solver_result result;
    const int rc = ts_solver_result(p->run[k], &result, e);
    if (rc < 0)
        return rc;
    o->sweeps = result.sweeps;
    memcpy(o->weight, result.weight, o->rank * sizeof(double));
    free(result.weight);
    for (uint32_t m = 0; m < p->t->order; m++) {
        o->n_rows[m] = p->t->mode[m].disk.n_rows;
        o->factor[m] = calloc(o->n_rows[m] * o->rank + 1, sizeof(double));
        ck_assert_int_eq(gpu->get_rows(gpu->model(p->be, k), m, 0, o->n_rows[m], o->factor[m], e),
                         0);
    }
    return 0;
}

/* ---- one process ---- */

static struct ts_backend_conf conf_of(const struct process *p)
{
    const struct conf *c = p->conf;
    struct ts_backend_conf bc = {
        .tensor = p->t,
        .rank = c->rank,
        .n_models = c->n_models,
        .ranks = c->n_models > 0 ? model_rank : NULL,
        .precision = c->precision,
        .n_devices = p->comm == NULL ? 1 : c->here,
        .only_mode = -1,
        .exchange = p->comm == NULL ? TS_EXCHANGE_AUTO : (int)c->exchange,
        .comm = p->comm,
        .own_rows = ts_spec_own(c->spec, p->t->order),
        .needs = ts_spec_updates(c->spec, p->t->order),
        .stop = &p->stop,
    };
    for (uint32_t i = 0; i < bc.n_devices && p->comm != NULL; i++)
        bc.device[i] = (int)((p->comm->rank * bc.n_devices + i) % (uint32_t)rig_n_devices);
    return bc;
}

/* What the backend takes without shards is seen once it is open; then it is opened with little
 * more. */
static int open_backend(struct process *p)
{
    struct ts_backend_conf bc = conf_of(p);
    struct ts_device_memory memory[TS_MAX_DEVICES];
    int rc = gpu->open(&bc, &p->be, &p->err);
    if (rc < 0)
        return rc;
    gpu->memory(p->be, memory);
    if (p->conf->streams) {
        bc.device_bytes = memory[0].driver_bytes + memory[0].factor_bytes + memory[0].sum_bytes +
                          3 * (rig_largest_shard(p->t) + 512);
        gpu->close(p->be);
        p->be = NULL;
        rc = gpu->open(&bc, &p->be, &p->err);
    }
    if (rc == 0)
        gpu->memory(p->be, memory);
    p->slot_bytes = memory[0].slot_bytes;
    if (rc == 0 && gpu->link(p->be) != NULL)
        snprintf(p->link, sizeof p->link, "%s", gpu->link(p->be));
    return rc;
}

static void run_models(struct process *p, struct ts_feed *feed)
{
    static const volatile sig_atomic_t never;
    struct ts_solver_conf ac[MODELS];
    uint32_t failed = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        struct outcome *o = &p->o[k];
        o->process = p;
        o->rank = p->conf->n_models > 0 ? model_rank[k] : p->conf->rank;
        o->order = p->t->order;
        ac[k] = (struct ts_solver_conf){ .feed = feed,
                                         .iters = p->conf->iters +
                                                  (p->n > 1 ? k : 0), /* not all at once */
                                         .precision = p->conf->precision,
                                         .accelerate = p->conf->accelerate,
                                         .inner = 5,
                                         .sweep = note_sweep,
                                         .mode = p->n == 1 ? note_mode : NULL,
                                         .ctx = o,
                                         .init = { .tensor = p->t,
                                                   .backend = gpu,
                                                   .be = gpu->model(p->be, k),
                                                   .rank = o->rank,
                                                   .threads = 1,
                                                   .seed = 3,
                                                   .spec = p->conf->spec,
                                                   .stop = &never } };
        ck_assert_msg(ts_solver_new(&ac[k], &p->run[k], &p->err) == 0, "%s", p->err.text);
    }
    if (p->n > 1) {
        p->rc = ts_solver_group_run(p->run, p->n, end_model, p, &failed, &p->err);
    } else {
        while ((p->rc = ts_solver_next(p->run[0], &p->err)) > 0) {
            p->rc = ts_solver_multiply(p->run[0], &p->err);
            if (p->rc < 0)
                break;
        }
        if (p->rc == 0)
            p->rc = end_model(p, 0, &p->err);
    }
    for (uint32_t k = 0; k < p->n; k++)
        ts_solver_free(p->run[k]);
}

static void *run_process(void *ctx)
{
    struct process *p = ctx;
    struct ts_feed_conf fc = { .host_bytes = 1 << 30,
                               .only_mode = -1,
                               .checkers = 1,
                               .pin = gpu->pin,
                               .unpin = gpu->unpin,
                               .pin_bytes = 1 << 18,
                               .stop = &p->stop };
    struct ts_feed *feed = NULL;
    p->n = p->conf->n_models > 0 ? p->conf->n_models : 1;
    ck_assert_int_eq(ts_tensor_open(dir, &p->t, &p->err), 0);
    fc.tensor = p->t;
    p->rc = open_backend(p);
    if (p->rc == 0) {
        gpu->deal(p->be, &fc.deal);
        fc.pin_ctx = p->be;
        p->rc = ts_feed_new(&fc, &feed, &p->err);
        ck_assert_msg(p->rc == 0, "%s", p->err.text);
        if (p->comm != NULL && p->conf->fails == p->comm->rank + 1)
            ts_feed_fail_with(feed, ts_fail(&p->err, TS_EIO, "the disk is gone"), &p->err);
        run_models(p, feed);
        ts_feed_free(feed);
        gpu->close(p->be);
    }
    ts_tensor_close(p->t);
    return NULL;
}

/* ---- several ---- */

static void run_ranks(const struct conf *c, uint32_t n, struct process *ret)
{
    struct test_comm comm[TEST_COMM_MOST];
    pthread_t thread[TEST_COMM_MOST];
    struct test_comm_group *g = test_comm_new(n, comm);
    for (uint32_t r = 0; r < n; r++) {
        memset(&ret[r], 0, sizeof ret[r]);
        ret[r].conf = c;
        ret[r].comm = &comm[r].comm;
        ck_assert_int_eq(pthread_create(&thread[r], NULL, run_process, &ret[r]), 0);
    }
    for (uint32_t r = 0; r < n; r++)
        pthread_join(thread[r], NULL);
    test_comm_free(g);
}

static void free_process(struct process *p)
{
    for (uint32_t k = 0; k < MODELS; k++)
        for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
            free(p->o[k].factor[m]);
}

static void ck_same(const struct process *a, const struct process *b)
{
    ck_assert_msg(b->rc == 0, "%s", b->err.text);
    for (uint32_t k = 0; k < a->n; k++) {
        const struct outcome *x = &a->o[k], *y = &b->o[k];
        ck_assert_uint_eq(x->sweeps, y->sweeps);
        ck_assert_mem_eq(x->fit, y->fit, sizeof x->fit);
        ck_assert_mem_eq(x->objective, y->objective, sizeof x->objective);
        ck_assert_mem_eq(x->kkt, y->kkt, sizeof x->kkt);
        ck_assert_mem_eq(x->weight, y->weight, sizeof x->weight);
        for (uint32_t m = 0; m < x->order; m++)
            ck_assert_mem_eq(x->factor[m], y->factor[m], x->n_rows[m] * x->rank * sizeof(double));
    }
}

/* The same by one process with one GPU, and by processes of so many. */
static void ck_ranks(struct conf c, uint32_t n, uint32_t here)
{
    static struct process alone, p[TEST_COMM_MOST];
    const int each = (uint32_t)rig_n_devices >= n * here; /* each has GPUs of its own */
    memset(&alone, 0, sizeof alone);
    alone.conf = &c;
    run_process(&alone);
    ck_assert_msg(alone.rc == 0, "%s", alone.err.text);
    ck_assert(!c.streams || alone.slot_bytes > 0);
    c.here = here;
    run_ranks(&c, n, p);
    for (uint32_t r = 0; r < n; r++) {
        ck_same(&alone, &p[r]);
        ck_assert(!c.streams || p[r].slot_bytes > 0);
        ck_assert(p[r].n == MODELS || p[r].n_devices == n * here);
        ck_assert_msg(each || strstr(p[r].link, "host memory") != NULL, "%s", p[r].link);
        free_process(&p[r]);
    }
    free_process(&alone);
}

/* Values of 1, or counts up to `most`. */
static void write_tensor(uint64_t seed, uint32_t order, const uint64_t *dim, uint64_t nnz, int skew,
                         uint32_t shard_partitions, uint32_t most)
{
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32,
                                        .shard_partitions = shard_partitions };
    struct test_coo x = test_coo_random(seed, order, dim, nnz, 0, skew);
    for (uint64_t i = 0; i < x.nnz && most > 0; i++)
        x.val[i] = (float)(1 + ts_mix(i) % most);
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
}

/* Rows over several shards, more members than shards, members without a row, ranks that are padded;
 * two GPUs of a rank, and three. */
START_TEST(bits_do_not_depend_on_ranks)
{
    static const struct {
        uint32_t order;
        uint64_t dim[5], nnz;
        int skew;
        uint32_t shard_partitions, rank, n, here;
        int streams;
    } c[] = {
        { 3, { 50, 9000, 3000 }, 150000, 2, 1, 8, 2, 1, 0 },
        { 3, { 50, 9000, 3000 }, 150000, 2, 1, 13, 3, 1, 1 },
        { 4, { 2, 700, 300, 12 }, 120000, 2, 0, 17, 2, 1, 0 }, /* one shard a mode */
        { 3, { 1, 40000, 5 }, 100000, 0, 2, 5, 2, 2, 0 },      /* one row is all there is */
        { 2, { 60000, 3 }, 90000, 0, 1, 3, 2, 1, 1 },
        { 5, { 7, 30, 11, 5, 20 }, 60000, 1, 1, 66, 2, 3, 0 },
        { 3, { 4, 5, 6 }, 1, 0, 0, 2, 2, 1, 0 }, /* a nonzero */
    };
    const int i = _i % (int)(sizeof c / sizeof *c);
    const struct conf conf = { .rank = c[i].rank,
                               .iters = 3,
                               .streams = c[i].streams,
                               .precision = _i == i ? TS_FLOAT32 : TS_FLOAT64 };
    write_tensor(40 + (uint64_t)_i, c[i].order, c[i].dim, c[i].nnz, c[i].skew,
                 c[i].shard_partitions, 0);
    ck_ranks(conf, c[i].n, c[i].here);
}
END_TEST

/* Updates that read the old rows, their objective, what the method makes of products, and second
 * factors; from 64 columns on members divide the rows. */
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
    const struct ts_spec *const all[] = { &nonneg, &simplex, &polar, &smooth, NULL, &curves };
    const struct conf conf = { .rank = _i < 2 ? 66 : 6,
                               .iters = _i == 4 ? MOST_SWEEPS : 3,
                               .accelerate = _i == 4,
                               .spec = all[_i],
                               .precision = _i % 2 == 1 ? TS_FLOAT64 : TS_FLOAT32 };
    write_tensor(7, 3, dim, 120000, 2, 2, 0);
    ck_ranks(conf, 2 + (uint32_t)_i % 2, 1);
}
END_TEST

/* Rows that are multiplied, with what is judged; rows over shards, which are judged in a second
 * pass. */
START_TEST(counts_go_along)
{
    static const uint64_t dim[3] = { 50, 2000, 300 }, one[3] = { 1, 3000, 2 };
    const struct ts_spec all = { .poisson = 1 };
    const struct conf conf = { .rank = 5,
                               .iters = 3,
                               .streams = _i == 2,
                               .spec = &all,
                               .precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64 };
    write_tensor(70 + (uint64_t)_i, 3, _i == 1 ? one : dim, 60000, 2, 1, 4);
    ck_ranks(conf, 2, 1 + (uint32_t)(_i == 1));
}
END_TEST

START_TEST(models_go_along)
{
    static const uint64_t dim[3] = { 50, 9000, 3000 };
    struct ts_spec nonneg = { .mode = { { .nonneg = 1 }, { 0 }, { .nonneg = 1 } } };
    const struct conf conf = { .n_models = MODELS,
                               .iters = 2,
                               .spec = _i == 1 ? &nonneg : NULL,
                               .precision = _i == 0 ? TS_FLOAT32 : TS_FLOAT64 };
    write_tensor(11, 3, dim, 120000, 2, 2, 0);
    ck_ranks(conf, 2 + (uint32_t)_i, 1);
}
END_TEST

/* Of counts, of observed cells and by another loss: what models want of a pass is one thing for all
 * of them, and what is summed over nonzeros comes model after model. */
START_TEST(models_of_all_kinds_go_along)
{
    static const uint64_t dim[3] = { 50, 2000, 300 };
    static const struct ts_spec kind[] = {
        { .poisson = 1 },
        { .observed = 1, .mode = { { .l2 = 0.1 }, { .l2 = 0.1 }, { .l2 = 0.1 } } },
        { .loss = TS_GCP_HUBER, .loss_at = 0.5 },
    };
    const struct conf conf = { .n_models = MODELS,
                               .iters = 2,
                               .streams = _i == 1,
                               .spec = &kind[_i],
                               .precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64 };
    write_tensor(71, 3, dim, 120000, 2, 1, 4);
    ck_ranks(conf, 2 + (uint32_t)_i % 2, 1);
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
    ck_ranks(conf, 2, 1);
}
END_TEST

/* A failure of one is told by all, in its words; a stop of one is one of all. */
START_TEST(ranks_end_together)
{
    static const uint64_t dim[3] = { 50, 900, 300 };
    static struct process p[TEST_COMM_MOST];
    const struct conf conf = { .rank = 4,
                               .iters = MOST_SWEEPS,
                               .here = 1,
                               .exchange = _i < 2 ? TS_EXCHANGE_HOST : TS_EXCHANGE_AUTO,
                               .precision = TS_FLOAT32,
                               .fails = _i % 2 == 0 ? 2 : 0,
                               .stops = _i % 2 == 1 ? 2 : 0 };
    write_tensor(5, 3, dim, 120000, 2, 1, 0);
    run_ranks(&conf, 2, p);
    for (uint32_t r = 0; r < 2; r++) {
        ck_assert_int_eq(p[r].rc, _i % 2 == 0 ? TS_EIO : TS_ESTOP);
        ck_assert_msg(_i % 2 == 1 || strcmp(p[r].err.text, "rank 1: the disk is gone") == 0, "%s",
                      p[r].err.text);
        free_process(&p[r]);
    }
}
END_TEST

/* What cannot be is refused by all, in one sentence. */
START_TEST(ways_that_ranks_have_not)
{
    static const uint64_t dim[3] = { 5, 9, 3 };
    static struct process p[TEST_COMM_MOST];
    const struct conf conf = { .rank = 4,
                               .iters = 1,
                               .here = _i == 0 ? 1 : (uint32_t)rig_n_devices,
                               .exchange = _i == 0 ? TS_EXCHANGE_COPY : TS_EXCHANGE_NCCL };
    write_tensor(5, 3, dim, 50, 0, 1, 0);
    if (_i == 1 && rig_n_devices > (int)TS_MAX_DEVICES)
        return; /* more than a process takes */
    run_ranks(&conf, 2, p);
    for (uint32_t r = 0; r < 2; r++) {
        ck_assert_int_eq(p[r].rc, TS_EARG);
        ck_assert_msg(strstr(p[r].err.text, _i == 0 ? "by NCCL, or" : "share a GPU") != NULL, "%s",
                      p[r].err.text);
    }
}
END_TEST

/* By each way there is, where ranks have GPUs of their own. */
START_TEST(ways_have_the_same_bits)
{
    static const uint64_t dim[3] = { 200000, 90000, 3000 };
    const struct conf conf = { .rank = 32,
                               .iters = 3,
                               .exchange = _i == 0 ? TS_EXCHANGE_NCCL : TS_EXCHANGE_HOST,
                               .precision = TS_FLOAT32 };
    write_tensor(23, 3, dim, 400000, 1, 1, 0);
    ck_ranks(conf, 2, 1);
}
END_TEST

static int has_nccl(void)
{
    const int device[2] = { 0, 1 };
    struct ts_exchange *x = NULL;
    const int rc = rig_n_devices < 2 ? TS_ELIMIT
                                     : ts_exchange_new(device, 2, TS_EXCHANGE_NCCL, NULL, &x, &err);
    if (rig_n_devices >= 2 && rc < 0)
        printf("no NCCL: %s\n", err.text);
    ts_exchange_free(x);
    return rc == 0;
}

int main(void)
{
    Suite *suite = rig_suite("gpu_ranks");
    TCase *tc = tcase_create("all");
    if (suite == NULL || rig_n_devices == 0)
        return 77;
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, bits_do_not_depend_on_ranks, 0, 14);
    tcase_add_loop_test(tc, constraints_go_along, 0, 6);
    tcase_add_loop_test(tc, counts_go_along, 0, 3);
    tcase_add_loop_test(tc, models_go_along, 0, 2);
    tcase_add_loop_test(tc, models_of_all_kinds_go_along, 0, 3);
    tcase_add_test(tc, products_in_float64_go_along);
    tcase_add_loop_test(tc, ranks_end_together, 0, 4);
    tcase_add_loop_test(tc, ways_that_ranks_have_not, 0, 2);
    if (has_nccl())
        tcase_add_loop_test(tc, ways_have_the_same_bits, 0, 2);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
