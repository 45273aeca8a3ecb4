/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of models of counts on GPUs are those of CPU cores within rounding, with what is judged, at several orders,
 * ranks, numbers of rounds and shares that are held out; with the same bits for any number of devices, whether shards stay there or pass
 * through. */
#include <check.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "gpu/gpu_backend.h"
#include "stream/loss.h"
#include "tests/run_suite.h"
#include "tests/tsh_writer.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", err.text)
#define MODES    6

static struct ts_err err;
static int n_devices;

static const struct shape {
    uint32_t order, nnz, partitions; /* of a shard; 0: one shard */
    uint64_t dim[MODES];
} shapes[] = {
    { 2, 4000, 0, { 310, 400 } },
    { 3, 6 * TS_PARTITION_NNZ - 500, 1, { 700, 3, 9000 } }, /* rows that reach over shards */
    { 3, 5 * TS_PARTITION_NNZ, 1, { 40000, 30000, 200 } },
    { 4, 40000, 1, { 51, 2, 116, 900 } },
    { 5, 30000, 1, { 9, 80, 7, 300, 13 } },
    { 6, 20000, 0, { 9, 8, 7, 11, 13, 17 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const uint32_t ranks[] = { 1, 5, 16, 31, 64, 128 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* Rows of more columns than a warp holds. */
static const struct shape wide_shapes[] = {
    { 2, 4000, 0, { 310, 400 } },
    { 3, 2 * TS_PARTITION_NNZ - 500, 1, { 700, 3, 900 } },
    { 3, 6000, 0, { 400, 300, 20 } },
    { 5, 5000, 0, { 9, 80, 7, 300, 13 } },
};
#define N_WIDE_SHAPES (int)(sizeof wide_shapes / sizeof wide_shapes[0])

static const uint32_t wide_ranks[] = { 129, 200, 300, 513 };

struct disk {
    char *top, *dir;
    struct test_coo x;
    struct ts_tensor *tensor;
};

static struct disk disk_new(const struct shape *s)
{
    const struct test_tsh_conf conf = { .kind = TS_VALUE_INT, .shard_partitions = s->partitions };
    struct disk d = { .top = test_tsh_tmp() };
    d.dir = malloc(strlen(d.top) + 8);
    d.x = test_coo_random(21, s->order, s->dim, s->nnz, 9, 1);
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

/* What two sweeps leave: rows of all modes, one after the other, and the sums of each mode. */
struct outcome {
    double *rows, *column;
    uint64_t n_rows, n_column;
    double kkt[2 * MODES], loss, inner, held[4];
};

static void outcome_free(struct outcome *o)
{
    free(o->rows);
    free(o->column);
}

struct ask {
    const struct ts_backend *be;
    uint32_t rank, members, rounds;
    double share; /* that is held out */
    enum ts_precision precision;
    uint64_t device_bytes, host_bytes;
};

static struct ts_backend_conf conf_of(const struct disk *d, const struct ask *ask)
{
    struct ts_backend_conf conf = { .tensor = d->tensor,
                                    .rank = ask->rank,
                                    .precision = ask->precision,
                                    .threads = 2,
                                    .n_devices = ask->be == &ts_backend_gpu ? ask->members : 0,
                                    .device_bytes = ask->device_bytes,
                                    .only_mode = -1,
                                    .needs = 1u << TS_ROW_MULTIPLY,
                                    .own_rows = (1u << d->tensor->order) - 1 };
    for (uint32_t i = 0; i < ask->members; i++)
        conf.device[i] = ask->members > 1 ? (int)i % n_devices : 0;
    return conf;
}

static struct ts_feed *open_feed(const struct disk *d, const struct ask *ask, void *be)
{
    struct ts_feed_conf conf = { .tensor = d->tensor,
                                 .host_bytes = ask->host_bytes,
                                 .only_mode = -1,
                                 .checkers = 2,
                                 .pin = ask->be->pin,
                                 .unpin = ask->be->unpin,
                                 .pin_bytes = 1 << 18,
                                 .pin_ctx = be };
    struct ts_feed *feed;
    if (ask->be->deal != NULL)
        ask->be->deal(be, &conf.deal);
    OK(ts_feed_new(&conf, &feed, &err));
    return feed;
}

/* Some entries are 0, those that may not stay so; with float32, whether one grows may be a matter of rounding. */
static void put_start(const struct disk *d, const struct ask *ask, void *be)
{
    for (uint32_t m = 0; m < d->tensor->order; m++) {
        const uint64_t n = d->tensor->mode[m].disk.n_rows * ask->rank;
        double *a = malloc(n * sizeof *a);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t z = ts_mix(100 * m + i);
            a[i] = ask->precision == TS_FLOAT64 && z % 23 == 0 ? 0 : (float)(ts_unit(z) + 0.05);
        }
        OK(ask->be->put_rows(be, m, 0, d->tensor->mode[m].disk.n_rows, a, &err));
        free(a);
    }
}

static void sweep(const struct disk *d, const struct ask *ask, void *be, struct ts_feed *feed,
                  double *weight, uint32_t number, struct outcome *o)
{
    for (uint32_t m = 0; m < d->tensor->order; m++) {
        const struct ts_multiply how = { .loss = &ts_loss_poisson,
                                         .weight = weight,
                                         .grow = 0.01,
                                         .rounds = ask->rounds,
                                         .judge = m + 1 == d->tensor->order,
                                         .hold_out = { .share = ask->share, .seed = 7 } };
        double *column = o->column + (number * MODES + m) * ask->rank;
        struct ts_multiply_sums sums = { .column = column };
        struct ts_backend_times times;
        uint64_t nnz = 0;
        ts_feed_rewind(feed);
        OK(ask->be->pass(
            &(struct ts_request){
                .be = be, .kind = TS_REQUEST_MULTIPLY, .multiply = &how, .multiplied = &sums },
            1, m, feed, &times, &err));
        for (uint32_t i = 0; i < times.n_devices; i++)
            nnz += times.device[i].nnz;
        ck_assert_uint_eq(nnz, d->tensor->nnz);
        memcpy(weight, column, ask->rank * sizeof *weight);
        o->kkt[number * MODES + m] = sums.kkt;
        if (how.judge) {
            o->loss = sums.loss;
            o->inner = sums.inner;
            memcpy(
                o->held,
                (const double[]){ sums.held_n, sums.held_loss, sums.held_model, sums.held_squares },
                sizeof o->held);
        }
    }
}

static struct outcome compute(const struct disk *d, const struct ask *ask)
{
    const struct ts_backend_conf conf = conf_of(d, ask);
    struct outcome o = { .n_column = 2 * MODES * ask->rank };
    double *weight = malloc(ask->rank * sizeof *weight);
    struct ts_feed *feed;
    void *be;
    uint64_t at = 0;
    OK(ask->be->open(&conf, &be, &err));
    OK(ask->be->own_rows(be, conf.own_rows, &err));
    feed = open_feed(d, ask, be);
    put_start(d, ask, be);
    o.column = calloc(o.n_column, sizeof *o.column);
    for (uint32_t r = 0; r < ask->rank; r++)
        weight[r] = 1;
    for (uint32_t m = 0; m < d->tensor->order; m++) { /* columns of the sum 1 */
        const struct ts_multiply how = { .weight = weight };
        struct ts_multiply_sums sums = { .column = o.column };
        OK(ask->be->divide_columns(be, m, &how, &sums, &err));
        o.n_rows += d->tensor->mode[m].disk.n_rows * ask->rank;
    }
    for (uint32_t r = 0; r < ask->rank; r++)
        weight[r] = (double)d->tensor->nnz * (r + 1);
    for (uint32_t k = 0; k < 2; k++)
        sweep(d, ask, be, feed, weight, k, &o);
    o.rows = malloc(o.n_rows * sizeof *o.rows);
    for (uint32_t m = 0; m < d->tensor->order; m++) {
        const uint64_t n = d->tensor->mode[m].disk.n_rows;
        OK(ask->be->get_rows(be, m, 0, n, o.rows + at, &err));
        at += n * ask->rank;
    }
    free(weight);
    ts_feed_free(feed);
    ask->be->close(be);
    return o;
}

/* Rounding of products of small numbers grows with the rounds. */
static void check_near(const char *what, double got, double want, double tolerance)
{
    ck_assert_msg(fabs(got - want) <= tolerance * (fabs(want) + 1e-3),
                  "%s: %.17g, on CPU cores %.17g", what, got, want);
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    ck_assert(memcmp(a->rows, b->rows, a->n_rows * sizeof *a->rows) == 0);
    ck_assert(memcmp(a->column, b->column, a->n_column * sizeof *a->column) == 0);
    ck_assert(memcmp(a->kkt, b->kkt, sizeof a->kkt) == 0);
    ck_assert(memcmp(&a->loss, &b->loss, sizeof a->loss) == 0);
    ck_assert(memcmp(&a->inner, &b->inner, sizeof a->inner) == 0);
    ck_assert(memcmp(a->held, b->held, sizeof a->held) == 0);
}

static uint64_t largest_shard(const struct disk *d)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < d->tensor->order; m++)
        for (uint64_t i = 0; i < d->tensor->mode[m].disk.n_shards; i++)
            if (d->tensor->mode[m].shard[i].raw_bytes > most)
                most = d->tensor->mode[m].shard[i].raw_bytes;
    return most + 4096;
}

/* A budget with room for four of the largest shards. */
static uint64_t budget(const struct disk *d, const struct ask *ask)
{
    const struct ts_backend_conf conf = conf_of(d, ask);
    struct ts_device_memory memory[TS_MAX_DEVICES];
    void *gpu;
    OK(ask->be->open(&conf, &gpu, &err));
    ask->be->memory(gpu, memory);
    ask->be->close(gpu);
    return memory[0].factor_bytes + memory[0].sum_bytes + memory[0].driver_bytes +
           4 * largest_shard(d);
}

/* Case i: a shape, a rank, a precision. */
static struct ask ask_of(int i)
{
    const enum ts_precision precision = i / N_SHAPES % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    const uint32_t rank = ranks[(i % N_SHAPES + i / N_SHAPES) % N_RANKS];
    return (struct ask){ .be = &ts_backend_gpu,
                         .rank = rank,
                         .members = 1,
                         .rounds = 1 + (uint32_t)(i % 4) * 2,
                         .share = i / N_SHAPES % 4 < 2 ? 0 : 0.15 * (1 + i % 3),
                         .precision = precision,
                         .host_bytes = 64 << 20 };
}
#define N_CASES (4 * N_SHAPES)

static struct ask wide_ask_of(int i)
{
    const int j = i / N_WIDE_SHAPES;
    struct ask ask = ask_of(i);
    ask.precision = j % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    ask.rank = wide_ranks[(i + j) % 4];
    ask.share = i % 3 == 0 ? 0.2 : 0;
    return ask;
}
#define N_WIDE_CASES (3 * N_WIDE_SHAPES)

static void check_rows(const struct shape *shape, struct ask gpu)
{
    struct disk d = disk_new(shape);
    struct ask cpu = gpu;
    const double tolerance = gpu.precision == TS_FLOAT64 ? 1e-10 : 2e-4;
    struct outcome got, want;
    cpu.be = &ts_backend_cpu;
    got = compute(&d, &gpu);
    want = compute(&d, &cpu);
    check_near("log-likelihood", got.loss, want.loss, tolerance);
    check_near("inner product", got.inner, want.inner, tolerance);
    ck_assert_double_eq(got.held[0], want.held[0]);
    ck_assert_double_eq(got.held[3], want.held[3]);
    ck_assert((got.held[0] > 0) == (gpu.share > 0));
    check_near("loss of held-out cells", got.held[1], want.held[1], tolerance);
    check_near("sum of the model there", got.held[2], want.held[2], tolerance);
    for (uint32_t k = 0; k < 2 * MODES; k++)
        check_near("violation", 1 + got.kkt[k], 1 + want.kkt[k],
                   10 * tolerance); /* what is left of sums near 1 */
    for (uint64_t k = 0; k < got.n_column; k++)
        check_near("sum of a column", got.column[k], want.column[k], tolerance);
    for (uint64_t k = 0; k < got.n_rows; k++)
        check_near("entry", got.rows[k], want.rows[k], 10 * tolerance);
    outcome_free(&got);
    outcome_free(&want);
    disk_free(&d);
}

START_TEST(rows_are_those_of_cpu_cores)
{
    check_rows(&shapes[_i % N_SHAPES], ask_of(_i));
}
END_TEST

START_TEST(rows_of_many_columns_are)
{
    check_rows(&wide_shapes[_i % N_WIDE_SHAPES], wide_ask_of(_i));
}
END_TEST

static void check_bits(const struct shape *shape, struct ask ask)
{
    struct disk d = disk_new(shape);
    struct outcome want = compute(&d, &ask);
    for (uint32_t members = 1; members < 4; members++) {
        struct outcome got;
        ask.members = members;
        ask.host_bytes = 64 << 20;
        ask.device_bytes = 0;
        got = compute(&d, &ask);
        check_same(&got, &want);
        outcome_free(&got);
        if (d.tensor->mode[0].disk.n_shards == 1)
            continue;
        ask.device_bytes = budget(&d, &ask);
        for (int from_disk = 0; from_disk < 2; from_disk++) {
            ask.host_bytes = from_disk ? UINT64_C(768) << 10 : 64 << 20;
            got = compute(&d, &ask);
            check_same(&got, &want);
            outcome_free(&got);
        }
    }
    outcome_free(&want);
    disk_free(&d);
}

START_TEST(bits_do_not_depend_on_devices_or_memory)
{
    check_bits(&shapes[_i % N_SHAPES], ask_of(_i));
}
END_TEST

START_TEST(bits_of_many_columns_do_not_either)
{
    check_bits(&wide_shapes[_i % N_WIDE_SHAPES], wide_ask_of(_i));
}
END_TEST

static void add(Suite *suite, const char *name, const TTest *test, int n)
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, test, 0, n);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = suite_create("gpu_counts");
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0)
        return 77;
    add(suite, "rows", rows_are_those_of_cpu_cores, N_CASES);
    add(suite, "bits", bits_do_not_depend_on_devices_or_memory, N_CASES);
    add(suite, "many columns", rows_of_many_columns_are, N_WIDE_CASES);
    add(suite, "bits of many columns", bits_of_many_columns_do_not_either, 2 * N_WIDE_SHAPES);
    return test_run_suite(suite, CK_NOFORK);
}
