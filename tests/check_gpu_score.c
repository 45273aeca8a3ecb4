/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of residuals on GPUs, of all nonzeros and of slices of each mode, are those of an obvious loop in float64; at orders 2 to 8,
 * several ranks, with weights and without; those of 1 change no bit; with the same bits for any number of devices, whether shards
 * stay there or pass through. */
#include <check.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "gpu/gpu_backend.h"
#include "tests/run_suite.h"
#include "tests/tsh_writer.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", err.text)
#define MODES    8

static struct ts_err err;
static int n_devices;

static const struct shape {
    uint32_t order, nnz, partitions; /* of a shard; 0: one shard */
    uint64_t dim[MODES];
    double skew;
} shapes[] = {
    { 3, 30000, 0, { 9000, 700, 40 }, 0 },
    { 3, 5 * TS_PARTITION_NNZ - 300, 1, { 30000, 3, 9000 }, 0 }, /* slices that reach over shards */
    { 3, 3 * TS_PARTITION_NNZ, 1, { 20000, 30000, 200 }, 4 },    /* a giant slice and many of one */
    { 2, 5000, 0, { 310, 400 }, 0 },
    { 4, 40000, 1, { 51, 2, 116, 900 }, 0 },
    { 5, 30000, 1, { 9, 80, 7, 300, 13 }, 1 },
    { 6, 20000, 0, { 9, 8, 7, 11, 13, 17 }, 0 },
    { 7, 20000, 1, { 5, 6, 7, 3, 9, 4, 5 }, 0 },
    { 8, 20000, 1, { 5, 4, 3, 5, 4, 3, 5, 40 }, 0 },
    { 3, 1, 0, { 1, 1, 1 }, 0 },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const uint32_t ranks[] = { 32, 64, 25, 9, 128, 8, 7, 16, 1, 100, 31, 33 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* Rows of more columns than a warp holds. */
static const struct shape wide_shapes[] = {
    { 3, 9000, 0, { 900, 300, 40 }, 0 },
    { 3, 2 * TS_PARTITION_NNZ - 300, 1, { 3000, 3, 400 }, 1 },
    { 4, 6000, 0, { 51, 2, 116, 900 }, 0 },
    { 7, 5000, 0, { 5, 6, 7, 3, 9, 4, 5 }, 0 },
};
#define N_WIDE_SHAPES (int)(sizeof wide_shapes / sizeof wide_shapes[0])

static const uint32_t wide_ranks[] = { 129, 200, 300, 513 };

/* The weights of cells, of which one and more are 0. */
enum weights { NONE, ANY, ONES };

struct disk {
    char *top, *dir;
    struct test_coo x;
    struct ts_tensor *tensor;
};

/* Values of even orders are counts. */
static struct disk disk_new(const struct shape *s, enum weights weights)
{
    const struct test_tsh_conf conf = { .kind = s->order % 2 == 0 ? TS_VALUE_INT : TS_VALUE_F32,
                                        .stretch = s->order == 3 ? 2 : 0,
                                        .shard_partitions = s->partitions };
    struct disk d = { .top = test_tsh_tmp() };
    d.dir = malloc(strlen(d.top) + 8);
    d.x = test_coo_random(23, s->order, s->dim, s->nnz, s->order % 2 == 0 ? 5 : 0, s->skew);
    if (weights != NONE)
        test_coo_weigh(&d.x, 7, weights == ONES);
    strcat(strcpy(d.dir, d.top), "/t.tsh");
    test_tsh_write(d.dir, &d.x, &conf);
    OK(ts_tensor_open(d.dir, &d.tensor, &err));
    return d;
}

static void disk_free(struct disk *d)
{
    ts_tensor_close(d->tensor);
    test_tsh_remove(d->dir);
    test_tsh_remove(d->top);
    free(d->dir);
    free(d->top);
    test_coo_free(&d->x);
}

struct ask {
    uint32_t rank, members;
    enum ts_precision precision;
    uint64_t device_bytes, host_bytes;
};

/* Case i: a shape, a rank, a precision. */
static struct ask ask_of(int i)
{
    const enum ts_precision precision = i / N_SHAPES % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    const uint32_t most = ts_backend_gpu.most_rank(
        &(struct ts_backend_conf){ .needs = TS_CAN(SCORES), .precision = precision });
    const uint32_t rank = ranks[(i + i / N_SHAPES) % N_RANKS];
    return (struct ask){ .rank = rank < most ? rank : most,
                         .members = 1,
                         .precision = precision,
                         .host_bytes = 64 << 20 };
}
#define N_CASES (4 * N_SHAPES)

static struct ask wide_ask_of(int i)
{
    struct ask ask = ask_of(0);
    ask.precision = i / N_WIDE_SHAPES % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    ask.rank = wide_ranks[(i + i / N_WIDE_SHAPES) % 4];
    return ask;
}
#define N_WIDE_CASES (4 * N_WIDE_SHAPES)

/* Devices are named more than once where there are fewer. */
static struct ts_backend_conf conf_of(const struct disk *d, const struct ask *ask)
{
    struct ts_backend_conf conf = { .tensor = d->tensor,
                                    .rank = ask->rank,
                                    .precision = ask->precision,
                                    .threads = 2,
                                    .n_devices = ask->members,
                                    .device_bytes = ask->device_bytes,
                                    .only_mode = -1,
                                    .needs = TS_CAN(SCORES) | TS_CAN(SLICES) };
    for (uint32_t i = 0; i < ask->members; i++)
        conf.device[i] = ask->members > 1 ? (int)i % n_devices : 0;
    return conf;
}

/* A backend with factors, which `a` has, too. */
struct run {
    const struct disk *d;
    const struct ask *ask;
    void *be;
    struct ts_feed *feed;
    double *a[MODES];
};

static struct run run_new(const struct disk *d, const struct ask *ask)
{
    const struct ts_backend_conf conf = conf_of(d, ask);
    struct run r = { .d = d, .ask = ask };
    struct ts_feed_conf feed = { .tensor = d->tensor,
                                 .host_bytes = ask->host_bytes,
                                 .only_mode = -1,
                                 .checkers = 2,
                                 .pin = ts_backend_gpu.pin,
                                 .unpin = ts_backend_gpu.unpin,
                                 .pin_bytes = 1 << 18 };
    OK(ts_backend_gpu.open(&conf, &r.be, &err));
    feed.pin_ctx = r.be;
    ts_backend_gpu.deal(r.be, &feed.deal);
    OK(ts_feed_new(&feed, &r.feed, &err));
    for (uint32_t m = 0; m < d->x.order; m++) {
        const uint64_t n = d->x.dim[m] * ask->rank;
        r.a[m] = malloc(n * sizeof *r.a[m]);
        for (uint64_t i = 0; i < n; i++)
            r.a[m][i] = (float)(1.5 * ts_unit(ts_mix(1000003 * m + i)) - (m == 1 ? 0.1 : 0));
        OK(ts_backend_gpu.put_rows(r.be, m, 0, d->x.dim[m], r.a[m], &err));
    }
    return r;
}

static void run_free(struct run *r)
{
    ts_feed_free(r->feed);
    ts_backend_gpu.close(r->be);
    for (uint32_t m = 0; m < r->d->x.order; m++)
        free(r->a[m]);
}

static struct ts_scores scores_of(struct run *r, uint32_t mode, int slices)
{
    struct ts_scores s = { .counts = r->d->x.weight == NULL };
    struct ts_backend_times times;
    if (slices)
        s.slice = calloc(r->d->x.dim[mode], sizeof *s.slice);
    ts_feed_rewind(r->feed);
    OK(ts_backend_gpu.pass(
        &(struct ts_request){ .be = r->be, .kind = TS_REQUEST_SCORES, .scores = &s }, 1, mode,
        r->feed, &times, &err));
    return s;
}

/* ---- the obvious loop */

static void add(struct ts_score_sums *to, double x, double m, double weight)
{
    to->n++;
    to->weight += weight;
    to->value += weight * x;
    to->model += weight * m;
    to->squares += weight * (x - m) * (x - m);
    to->magnitudes += weight * fabs(x - m);
}

/* Of the mode; *size[0] those of all, size[1 + row] of rows: sums of the magnitudes of terms, which say what rounding leaves. */
static struct ts_scores want_of(const struct run *r, uint32_t mode, double *size)
{
    const struct test_coo *c = &r->d->x;
    struct ts_scores s = { .counts = c->weight == NULL,
                           .slice = calloc(c->dim[mode], sizeof *s.slice) };
    for (uint64_t i = 0; i < c->nnz; i++) {
        const double x = c->val[i], w = c->weight == NULL ? 1 : (double)c->weight[i];
        const uint32_t row = c->idx[mode][i];
        double m = 0, terms = 0;
        for (uint32_t k = 0; k < r->ask->rank; k++) {
            double p = 1;
            for (uint32_t l = 0; l < c->order; l++)
                p *= r->a[l][(size_t)c->idx[l][i] * r->ask->rank + k];
            m += p;
            terms += fabs(p);
        }
        add(&s.all, x, m, w);
        add(&s.slice[row], x, m, w);
        size[0] += w * (fabs(x) + terms) * (1 + fabs(x) + terms);
        size[1 + row] += w * (fabs(x) + terms) * (1 + fabs(x) + terms);
        s.counts &= x >= 0 && x == floor(x) && m > 0;
        s.logs += s.counts ? x * log(m) : 0;
    }
    return s;
}

static void check_sums(const struct ts_score_sums *got, const struct ts_score_sums *want,
                       double size, double tolerance)
{
    const double g[] = { got->weight, got->value, got->model, got->squares, got->magnitudes };
    const double w[] = { want->weight, want->value, want->model, want->squares, want->magnitudes };
    ck_assert_uint_eq(got->n, want->n);
    for (int k = 0; k < 5; k++)
        ck_assert_msg(fabs(g[k] - w[k]) <= tolerance * (size + w[0]),
                      "sum %d: %.17g, by the loop %.17g", k, g[k], w[k]);
}

static void check_loop(const struct shape *shape, enum weights weights, struct ask ask)
{
    struct disk d = disk_new(shape, weights);
    const double tolerance = ask.precision == TS_FLOAT64 ? 1e-12 : 2e-6;
    struct run r = run_new(&d, &ask);
    for (uint32_t m = 0; m < d.x.order; m++) {
        double *size = calloc(d.x.dim[m] + 1, sizeof *size);
        const struct ts_scores want = want_of(&r, m, size);
        const struct ts_scores got = scores_of(&r, m, 1), alone = scores_of(&r, m, 0);
        check_sums(&got.all, &want.all, size[0], tolerance);
        for (uint64_t i = 0; i < d.x.dim[m]; i++)
            check_sums(&got.slice[i], &want.slice[i], size[1 + i], tolerance);
        ck_assert_mem_eq(&got.all, &alone.all, sizeof got.all);
        ck_assert_int_eq(got.counts, want.counts);
        if (want.counts)
            ck_assert_double_eq_tol(got.logs, want.logs, 1e-4 * (fabs(want.logs) + want.all.value));
        free(size);
        free(want.slice);
        free(got.slice);
    }
    run_free(&r);
    disk_free(&d);
}

/* The second half of the cases has weights. */
START_TEST(sums_are_those_of_a_loop)
{
    check_loop(&shapes[_i % N_SHAPES], _i < N_CASES ? NONE : ANY, ask_of(_i));
}
END_TEST

START_TEST(sums_of_many_columns_are)
{
    check_loop(&wide_shapes[_i % N_WIDE_SHAPES], _i < N_WIDE_CASES / 2 ? NONE : ANY,
               wide_ask_of(_i));
}
END_TEST

/* ---- bits */

/* Of all modes. */
struct outcome {
    struct ts_scores of[MODES];
};

static struct outcome compute(const struct disk *d, const struct ask *ask)
{
    struct run r = run_new(d, ask);
    struct outcome o;
    for (uint32_t m = 0; m < d->x.order; m++)
        o.of[m] = scores_of(&r, m, 1);
    run_free(&r);
    return o;
}

static void check_same(const struct disk *d, const struct outcome *a, const struct outcome *b)
{
    for (uint32_t m = 0; m < d->x.order; m++) {
        ck_assert_mem_eq(&a->of[m].all, &b->of[m].all, sizeof a->of[m].all);
        ck_assert_mem_eq(a->of[m].slice, b->of[m].slice, d->x.dim[m] * sizeof *a->of[m].slice);
        if (a->of[m].counts && b->of[m].counts)
            ck_assert_mem_eq(&a->of[m].logs, &b->of[m].logs, sizeof a->of[m].logs);
    }
}

static void outcome_free(const struct disk *d, struct outcome *o)
{
    for (uint32_t m = 0; m < d->x.order; m++)
        free(o->of[m].slice);
}

/* A budget with room for four of the largest shards. */
static uint64_t budget(const struct disk *d, const struct ask *ask)
{
    const struct ts_backend_conf conf = conf_of(d, ask);
    struct ts_device_memory memory[TS_MAX_DEVICES];
    uint64_t most = 0;
    void *gpu;
    for (uint32_t m = 0; m < d->tensor->order; m++)
        for (uint64_t i = 0; i < d->tensor->mode[m].disk.n_shards; i++)
            if (d->tensor->mode[m].shard[i].raw_bytes > most)
                most = d->tensor->mode[m].shard[i].raw_bytes;
    OK(ts_backend_gpu.open(&conf, &gpu, &err));
    ts_backend_gpu.memory(gpu, memory);
    ts_backend_gpu.close(gpu);
    return memory[0].factor_bytes + memory[0].sum_bytes + memory[0].driver_bytes +
           4 * (most + 4096);
}

static void check_bits(const struct shape *shape, enum weights weights, struct ask ask)
{
    struct disk d = disk_new(shape, weights);
    struct outcome want = compute(&d, &ask);
    for (uint32_t members = 1; members < 4; members++) {
        struct outcome got;
        ask.members = members;
        ask.host_bytes = 64 << 20;
        ask.device_bytes = 0;
        got = compute(&d, &ask);
        check_same(&d, &got, &want);
        outcome_free(&d, &got);
        if (d.tensor->mode[0].disk.n_shards == 1)
            continue;
        ask.device_bytes = budget(&d, &ask);
        for (int from_disk = 0; from_disk < 2; from_disk++) {
            ask.host_bytes = from_disk ? UINT64_C(768) << 10 : 64 << 20;
            got = compute(&d, &ask);
            check_same(&d, &got, &want);
            outcome_free(&d, &got);
        }
    }
    outcome_free(&d, &want);
    disk_free(&d);
}

START_TEST(bits_do_not_depend_on_devices_or_memory)
{
    check_bits(&shapes[_i % N_SHAPES], _i % 2 == 0 ? NONE : ANY, ask_of(_i + N_SHAPES * (_i % 2)));
}
END_TEST

START_TEST(bits_of_many_columns_do_not_either)
{
    check_bits(&wide_shapes[_i], _i % 2 == 0 ? NONE : ANY, wide_ask_of(_i));
}
END_TEST

START_TEST(weights_of_1_change_no_bit)
{
    const struct ask ask = ask_of(_i);
    struct outcome want, got;
    struct disk d = disk_new(&shapes[_i % N_SHAPES], NONE);
    want = compute(&d, &ask);
    disk_free(&d);
    d = disk_new(&shapes[_i % N_SHAPES], ONES);
    got = compute(&d, &ask);
    check_same(&d, &got, &want);
    outcome_free(&d, &got);
    outcome_free(&d, &want);
    disk_free(&d);
}
END_TEST

static void add_case(Suite *suite, const char *name, const TTest *test, int n)
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, test, 0, n);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = suite_create("gpu_score");
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0)
        return 77;
    add_case(suite, "sums", sums_are_those_of_a_loop, 2 * N_CASES);
    add_case(suite, "bits", bits_do_not_depend_on_devices_or_memory, N_SHAPES);
    add_case(suite, "many columns", sums_of_many_columns_are, N_WIDE_CASES);
    add_case(suite, "bits of many columns", bits_of_many_columns_do_not_either, N_WIDE_SHAPES);
    add_case(suite, "weights of 1", weights_of_1_change_no_bit, 2 * N_SHAPES);
    return test_run_suite(suite, CK_NOFORK);
}
