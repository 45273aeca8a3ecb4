/* SPDX-License-Identifier: BSD-3-Clause */
/* Products on GPUs from which nonzeros are held out are those of an obvious loop in float64 without them, and the errors at the
 * nonzeros, those held out apart, too: at orders 2 to 8, several ranks and both precisions; with the same bits for any number of
 * devices, whether shards stay there or pass through, and beside models that hold out others or none. */
#include <check.h>
#include <cuda_runtime.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "gpu/gpu_backend.h"
#include "tests/run_suite.h"
#include "tests/tsh_writer.h"

#define OK(call)  ck_assert_msg((call) == 0, "%s", err.text)
#define MODES     8
#define MOST_RANK 200

static struct ts_err err;
static int n_devices;

static const struct shape {
    uint32_t order, nnz, partitions; /* of a shard; 0: one shard */
    uint64_t dim[MODES];
    double skew;
} shapes[] = {
    { 3, 30000, 0, { 9000, 700, 40 }, 0 },                       /* short rows, and long ones */
    { 3, 5 * TS_PARTITION_NNZ - 300, 1, { 30000, 3, 9000 }, 0 }, /* rows that reach over shards */
    { 3, 3 * TS_PARTITION_NNZ, 1, { 20000, 30000, 200 }, 4 },    /* a giant row and many of one */
    { 2, 5000, 0, { 310, 400 }, 0 },
    { 4, 40000, 1, { 51, 2, 116, 900 }, 0 },
    { 5, 30000, 1, { 9, 80, 7, 300, 13 }, 1 },
    { 6, 20000, 0, { 9, 8, 7, 11, 13, 17 }, 0 },
    { 7, 20000, 1, { 5, 6, 7, 3, 9, 4, 5 }, 0 },
    { 8, 20000, 1, { 5, 4, 3, 5, 4, 3, 5, 40 }, 0 },
    { 3, 1, 0, { 1, 1, 1 }, 0 },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const uint32_t ranks[] = { 32, 64, 25, 9, 128, 8, 7, 16, 1, 200, 31, 33 };

static const double shares[] = { 0.1, 0.5, 0.25, 0.02, 0.9 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

struct disk {
    char *top, *dir;
    struct test_coo x;
    struct ts_tensor *tensor;
};

/* Values are written as float32, so that both precisions have them exactly. */
static struct disk disk_new(const struct shape *s)
{
    const struct test_tsh_conf conf = { .kind = s->order % 2 == 0 ? TS_VALUE_INT : TS_VALUE_F32,
                                        .stretch = s->order == 3 ? 2 : 0,
                                        .shard_partitions = s->partitions };
    struct disk d = { .top = test_tsh_tmp() };
    d.dir = malloc(strlen(d.top) + 8);
    d.x = test_coo_random(23, s->order, s->dim, s->nnz, s->order % 2 == 0 ? 5 : 0, s->skew);
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
    enum ts_precision precision, summed; /* summed: the products of the last mode */
    double share, from;
    uint64_t device_bytes, host_bytes;
};

static struct ts_hold_out hold_out(const struct ask *ask)
{
    return (struct ts_hold_out){ .share = ask->share, .seed = 11, .from = ask->from };
}

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
                                    .needs = 1u << TS_ROW_LEAST_SQUARES | TS_CAN(HELD_OUT) };
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
                                 .pin = ts_backend_gpu.pin,
                                 .unpin = ts_backend_gpu.unpin,
                                 .pin_bytes = 1 << 18,
                                 .pin_ctx = be };
    struct ts_feed *feed;
    ts_backend_gpu.deal(be, &conf.deal);
    OK(ts_feed_new(&conf, &feed, &err));
    return feed;
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
    const struct ts_hold_out h = hold_out(ask);
    struct run r = { .d = d, .ask = ask };
    OK(ts_backend_gpu.open(&conf, &r.be, &err));
    OK(ts_backend_gpu.own_rows(r.be, 0, &err));
    ts_backend_gpu.hold_out(r.be, &h);
    ts_backend_gpu.sum_in(r.be, ask->summed);
    r.feed = open_feed(d, ask, r.be);
    for (uint32_t m = 0; m < d->x.order; m++) {
        const uint64_t n = d->x.dim[m] * ask->rank;
        r.a[m] = malloc(n * sizeof *r.a[m]);
        for (uint64_t i = 0; i < n; i++)
            r.a[m][i] = (float)(1.5 * ts_unit(ts_mix(1000003 * m + i)) - 0.5);
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

/* The product, and the factor back in its place. */
static double *multiply(struct run *r, uint32_t mode)
{
    const uint64_t n = r->d->x.dim[mode];
    double *ret = malloc(n * r->ask->rank * sizeof *ret);
    struct ts_backend_times times;
    uint64_t nnz = 0;
    ts_feed_rewind(r->feed);
    OK(ts_backend_gpu.pass(&(struct ts_request){ .be = r->be }, 1, mode, r->feed, &times, &err));
    for (uint32_t i = 0; i < times.n_devices; i++)
        nnz += times.device[i].nnz;
    ck_assert_uint_eq(nnz, r->d->x.nnz);
    OK(ts_backend_gpu.get_rows(r->be, mode, 0, n, ret, &err));
    OK(ts_backend_gpu.put_rows(r->be, mode, 0, n, r->a[mode], &err));
    return ret;
}

static struct ts_error_sums errors(struct run *r, uint32_t mode)
{
    struct ts_error_sums sums = { .hold_out = hold_out(r->ask) };
    struct ts_backend_times times;
    ts_feed_rewind(r->feed);
    OK(ts_backend_gpu.pass(
        &(struct ts_request){ .be = r->be, .kind = TS_REQUEST_ERRORS, .errors = &sums }, 1, mode,
        r->feed, &times, &err));
    return sums;
}

/* ---- the obvious loop */

static int is_held(const struct run *r, uint64_t i)
{
    const struct ts_hold_out h = hold_out(r->ask);
    uint64_t hash = ts_hold_out_begin(&h);
    for (uint32_t m = 0; m < r->d->x.order; m++)
        hash = ts_hold_out_add(hash, r->d->x.idx[m][i]);
    return ts_hold_out_held(&h, hash);
}

static void products(const struct run *r, uint64_t i, uint32_t but, double *p)
{
    for (uint32_t k = 0; k < r->ask->rank; k++) {
        p[k] = 1;
        for (uint32_t m = 0; m < r->d->x.order; m++)
            p[k] *= m == but ? 1 : r->a[m][(size_t)r->d->x.idx[m][i] * r->ask->rank + k];
    }
}

/* Beside the sum of the magnitudes of what is added; a product in float64 is rounded to floats, as are parts of it. */
static double tolerance_of(const struct ask *ask, uint32_t mode)
{
    if (ask->precision == TS_FLOAT64)
        return 1e-12;
    return ask->summed == TS_FLOAT64 && mode + 1 == MODES ? 3e-7 : 1e-5;
}

static void check_product(const struct run *r, uint32_t mode, const double *got)
{
    const uint32_t n = r->ask->rank;
    const uint64_t n_entries = r->d->x.dim[mode] * n;
    const double tolerance = tolerance_of(r->ask, mode + 1 == r->d->x.order ? MODES - 1 : 0);
    double *want = calloc(n_entries, sizeof *want), *size = calloc(n_entries, sizeof *size);
    uint64_t n_held = 0;
    for (uint64_t i = 0; i < r->d->x.nnz; i++) {
        const uint64_t row = (uint64_t)r->d->x.idx[mode][i] * n;
        double p[MOST_RANK];
        if (is_held(r, i)) {
            n_held++;
            continue;
        }
        products(r, i, mode, p);
        for (uint32_t k = 0; k < n; k++) {
            want[row + k] += r->d->x.val[i] * p[k];
            size[row + k] += fabs(r->d->x.val[i] * p[k]);
        }
    }
    ck_assert(r->d->x.nnz == 1 || (n_held > 0 && n_held < r->d->x.nnz));
    for (uint64_t k = 0; k < n_entries; k++)
        ck_assert_msg(fabs(got[k] - want[k]) <= tolerance * size[k],
                      "mode %u, row %" PRIu64 ": %.17g, by the loop %.17g of %g", mode + 1, k / n,
                      got[k], want[k], size[k]);
    free(want);
    free(size);
}

static void check_near(const char *what, double got, double want, double scale, double tolerance)
{
    ck_assert_msg(fabs(got - want) <= tolerance * scale, "%s: %.17g, by the loop %.17g", what, got,
                  want);
}

static void check_errors(const struct run *r, const struct ts_error_sums *got)
{
    const double tolerance = r->ask->precision == TS_FLOAT64 ? 1e-11 : 1e-4;
    struct ts_cell_errors want[2] = { { 0 } };
    for (uint64_t i = 0; i < r->d->x.nnz; i++) {
        struct ts_cell_errors *w = &want[is_held(r, i)];
        const double x = r->d->x.val[i];
        double p[MOST_RANK], m = 0;
        products(r, i, r->d->x.order, p);
        for (uint32_t k = 0; k < r->ask->rank; k++)
            m += p[k];
        w->n++;
        w->sum += x;
        w->squares += x * x;
        w->inner += x * m;
        w->left += (x - m) * (x - m);
    }
    for (int k = 0; k < 2; k++) {
        const struct ts_cell_errors *g = k == 0 ? &got->kept : &got->held, *w = &want[k];
        const double scale = w->squares + w->left;
        ck_assert_double_eq(g->n, w->n);
        check_near("sum of values", g->sum, w->sum, scale, tolerance);
        check_near("sum of squares", g->squares, w->squares, w->squares, tolerance);
        check_near("inner product", g->inner, w->inner, scale, tolerance);
        check_near("squares of errors", g->left, w->left, scale, tolerance);
    }
}

/* Case i: a shape, a rank, a precision, a share. */
static struct ask ask_of(int i)
{
    const int kind = i / N_SHAPES % 3;
    return (struct ask){ .rank = ranks[(i + i / N_SHAPES) % N_RANKS],
                         .members = 1,
                         .precision = kind == 0 ? TS_FLOAT64 : TS_FLOAT32,
                         .summed = kind == 1 ? TS_FLOAT32 : TS_FLOAT64,
                         .share = shares[i % 5],
                         .from = i % 2 == 0 ? 0 : 0.1,
                         .host_bytes = 64 << 20 };
}
#define N_CASES (6 * N_SHAPES)

START_TEST(products_are_without_held_cells)
{
    struct disk d = disk_new(&shapes[_i % N_SHAPES]);
    const struct ask ask = ask_of(_i);
    struct run r = run_new(&d, &ask);
    for (uint32_t m = 0; m < d.x.order; m++) {
        double *got = multiply(&r, m);
        check_product(&r, m, got);
        free(got);
    }
    for (uint32_t m = 0; m < d.x.order; m++) {
        const struct ts_error_sums sums = errors(&r, m);
        check_errors(&r, &sums);
    }
    run_free(&r);
    disk_free(&d);
}
END_TEST

/* ---- bits */

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
    OK(ts_backend_gpu.open(&conf, &gpu, &err));
    ts_backend_gpu.memory(gpu, memory);
    ts_backend_gpu.close(gpu);
    return memory[0].factor_bytes + memory[0].sum_bytes + memory[0].driver_bytes +
           4 * largest_shard(d);
}

/* The products of all modes, twice, so that shards that stay are there; and the errors. */
struct outcome {
    double *rows;
    uint64_t n;
    struct ts_error_sums errors;
};

static struct outcome compute(const struct disk *d, const struct ask *ask)
{
    struct run r = run_new(d, ask);
    struct outcome o = { 0 };
    uint64_t at = 0;
    for (uint32_t m = 0; m < d->x.order; m++)
        o.n += 2 * d->x.dim[m] * ask->rank;
    o.rows = malloc(o.n * sizeof *o.rows);
    for (uint32_t k = 0; k < 2 * d->x.order; k++) {
        const uint32_t m = k % d->x.order;
        double *got = multiply(&r, m);
        memcpy(o.rows + at, got, d->x.dim[m] * ask->rank * sizeof *o.rows);
        at += d->x.dim[m] * ask->rank;
        free(got);
    }
    o.errors = errors(&r, d->x.order - 1);
    run_free(&r);
    return o;
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    ck_assert(memcmp(a->rows, b->rows, a->n * sizeof *a->rows) == 0);
    ck_assert_mem_eq(&a->errors.kept, &b->errors.kept, sizeof a->errors.kept);
    ck_assert_mem_eq(&a->errors.held, &b->errors.held, sizeof a->errors.held);
}

START_TEST(bits_do_not_depend_on_devices_or_memory)
{
    struct disk d = disk_new(&shapes[_i]);
    struct ask ask = ask_of(_i + N_SHAPES * (_i % 3));
    struct outcome want = compute(&d, &ask);
    for (uint32_t members = 1; members < 4; members++) {
        struct outcome got;
        ask.members = members;
        ask.host_bytes = 64 << 20;
        ask.device_bytes = 0;
        got = compute(&d, &ask);
        check_same(&got, &want);
        free(got.rows);
        if (d.tensor->mode[0].disk.n_shards == 1)
            continue;
        ask.device_bytes = budget(&d, &ask);
        for (int from_disk = 0; from_disk < 2; from_disk++) {
            ask.host_bytes = from_disk ? UINT64_C(768) << 10 : 64 << 20;
            got = compute(&d, &ask);
            check_same(&got, &want);
            free(got.rows);
        }
    }
    free(want.rows);
    disk_free(&d);
}
END_TEST

/* Four models in one pass: two hold out other cells, two none. */
START_TEST(models_hold_out_their_own)
{
    const struct shape *s = &shapes[_i % N_SHAPES];
    struct disk d = disk_new(s);
    struct ask ask = { .rank = 16, .members = 1, .host_bytes = 64 << 20 };
    struct ts_backend_conf conf = conf_of(&d, &ask);
    const uint32_t rank[] = { 16, 16, 16, 16 };
    const double share[] = { 0.2, 0.4, 0, 0 };
    struct ts_backend_times times;
    struct run r = run_new(&d, &ask); /* its factors are those of all models */
    struct ts_feed *feed;
    void *be;
    conf.n_models = 4;
    conf.ranks = rank;
    OK(ts_backend_gpu.open(&conf, &be, &err));
    feed = open_feed(&d, &ask, be);
    for (uint32_t mode = 0; mode < d.x.order; mode++) {
        struct ts_request of[4] = { { 0 } };
        for (uint32_t k = 0; k < 4; k++) {
            const struct ts_hold_out h = { .share = share[k], .seed = 11 };
            of[k].be = ts_backend_gpu.model(be, k);
            for (uint32_t m = 0; m < d.x.order; m++)
                OK(ts_backend_gpu.put_rows(of[k].be, m, 0, d.x.dim[m], r.a[m], &err));
            ts_backend_gpu.hold_out(of[k].be, &h);
        }
        ts_feed_rewind(feed);
        OK(ts_backend_gpu.pass(of, 4, mode, feed, &times, &err));
        for (uint32_t k = 0; k < 4; k++) {
            const uint64_t n = d.x.dim[mode] * ask.rank;
            const struct ts_hold_out h = { .share = share[k], .seed = 11 };
            double *got = malloc(n * sizeof *got), *want;
            ts_backend_gpu.hold_out(r.be, &h);
            want = multiply(&r, mode);
            OK(ts_backend_gpu.get_rows(of[k].be, mode, 0, d.x.dim[mode], got, &err));
            ck_assert_msg(memcmp(got, want, n * sizeof *got) == 0, "mode %u, model %u: other bits",
                          mode + 1, k + 1);
            free(got);
            free(want);
        }
    }
    ts_feed_free(feed);
    ts_backend_gpu.close(be);
    run_free(&r);
    disk_free(&d);
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
    struct disk d = disk_new(&shapes[3]);
    struct ask ask = { .rank = 8, .members = 1, .host_bytes = 64 << 20 };
    struct ts_backend_conf conf = conf_of(&d, &ask);
    struct ts_error_sums sums = { .mean = 0 };
    struct ts_backend_times times;
    struct ts_feed *feed;
    void *be;
    conf.needs = 1u << TS_ROW_LEAST_SQUARES;
    OK(ts_backend_gpu.open(&conf, &be, &err));
    feed = open_feed(&d, &ask, be);
    ck_assert_int_eq(
        ts_backend_gpu.pass(
            &(struct ts_request){ .be = be, .kind = TS_REQUEST_ERRORS, .errors = &sums }, 1, 0,
            feed, &times, &err),
        TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "set aside"));
    ts_feed_free(feed);
    ts_backend_gpu.close(be);
    disk_free(&d);
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
    Suite *suite = suite_create("gpu_held");
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0)
        return 77;
    add(suite, "products", products_are_without_held_cells, N_CASES);
    add(suite, "bits", bits_do_not_depend_on_devices_or_memory, N_SHAPES);
    add(suite, "models", models_hold_out_their_own, N_SHAPES);
    add(suite, "refused", what_is_not_there_is_refused, 1);
    return test_run_suite(suite, CK_NOFORK);
}
