/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of observed cells on GPUs are the best there are: the gradient of what they lower, from an obvious loop in float64,
 * vanishes where bounds allow it. Sizes and errors are those of such a loop, too. At orders 2 to 8, several ranks, bounds, l2, means and
 * shares that are held out, and weights of cells, of which those of 1 change no bit; with the same bits for any number of devices,
 * whether shards stay there or pass through. So are rows whose Gram matrices lie in device memory. */
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
#define MOST_RANK 513

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
#define N_SHAPES          (int)(sizeof shapes / sizeof shapes[0])
#define N_WEIGHTED_SHAPES 4 /* the first, of which bits are compared with weights, too */

static const uint32_t ranks[] = { 32, 64, 25, 9, 128, 8, 7, 16, 1, 100, 31, 33 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* Rows of fewer and of more nonzeros than columns, than a batch of them, and that reach over shards; of these ranks. */
static const struct shape long_shapes[] = {
    { 3, 9000, 0, { 30, 700, 60 }, 0 },
    { 3, 2 * TS_PARTITION_NNZ - 300, 1, { 3000, 2, 150 }, 0 },
    { 2, 4000, 0, { 25, 310 }, 0 },
    { 4, TS_PARTITION_NNZ + 2000, 1, { 51, 2, 116, 900 }, 2 },
    { 5, 6000, 0, { 9, 80, 7, 300, 13 }, 1 },
    { 8, 5000, 0, { 5, 4, 3, 5, 4, 3, 5, 40 }, 0 },
};
#define N_LONG_SHAPES (int)(sizeof long_shapes / sizeof long_shapes[0])

static const uint32_t long_ranks[] = { 129, 300, 200, 513, 65 };
#define N_LONG_RANKS (int)(sizeof long_ranks / sizeof long_ranks[0])

/* What is asked of rows. */
static const struct demand {
    double l2, lower, upper, mean, share;
    int by_count;
} demands[] = {
    { 0.3, -INFINITY, INFINITY, 0, 0, 0 },   { 0.1, -INFINITY, INFINITY, 2.5, 0.2, 1 },
    { 0.2, 0, INFINITY, 0, 0.1, 0 },         { 0.05, -0.125, 0.5, 1.5, 0, 1 },
    { 0, -INFINITY, INFINITY, 0.5, 0.3, 0 }, /* of rows with fewer nonzeros than columns, too */
};
#define N_DEMANDS (int)(sizeof demands / sizeof demands[0])

/* Rows of fewer nonzeros than columns, whose S is nearly singular: l2 is all that it has beside them. Coordinate descent does not end
 * there. Of few columns, of as many as a thread block holds, and of more. */
static const struct shape flat_shape = { 3, 2500, 0, { 110, 130, 90 }, 0 };
static const struct demand flat_demands[] = {
    { 0.01, 0, INFINITY, 0, 0, 0 },
    { 0.01, -0.125, 0.5, 0, 0, 0 },
    { 0.003, -INFINITY, 0.25, 1.5, 0, 1 },
};
static const uint32_t flat_ranks[] = { 160, 30, 130, 64, 200, 513 };
#define N_FLAT_DEMANDS (int)(sizeof flat_demands / sizeof flat_demands[0])
#define N_FLAT_RANKS   (int)(sizeof flat_ranks / sizeof flat_ranks[0])

struct disk {
    char *top, *dir;
    struct test_coo x;
    struct ts_tensor *tensor;
};

/* The weights of cells, of which one and more are 0. */
enum weights { NONE, ANY, ONES };

/* Values are written as float32, so that both precisions have them exactly. */
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
    const struct demand *demand;
    uint64_t device_bytes, host_bytes;
};

static struct ts_hold_out hold_out(const struct ask *ask)
{
    return (struct ts_hold_out){ .share = ask->demand->share, .seed = 11 };
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
                                    .needs = 1u << TS_ROW_OBSERVED };
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
    struct run r = { .d = d, .ask = ask };
    OK(ts_backend_gpu.open(&conf, &r.be, &err));
    OK(ts_backend_gpu.own_rows(r.be, 0, &err));
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

static double complete(struct run *r, uint32_t mode)
{
    const struct demand *want = r->ask->demand;
    const struct ts_row_update how = { .kind = TS_ROW_OBSERVED,
                                       .l2 = want->l2,
                                       .by_count = want->by_count,
                                       .lower = want->lower,
                                       .upper = want->upper,
                                       .mean = want->mean,
                                       .hold_out = hold_out(r->ask) };
    double size = NAN;
    const struct ts_row_sums sums = { .size = &size };
    struct ts_backend_times times;
    uint64_t nnz = 0;
    ts_feed_rewind(r->feed);
    OK(ts_backend_gpu.pass(
        &(struct ts_request){ .be = r->be, .kind = TS_REQUEST_ROWS, .how = &how, .sums = &sums }, 1,
        mode, r->feed, &times, &err));
    for (uint32_t i = 0; i < times.n_devices; i++)
        nnz += times.device[i].nnz;
    ck_assert_uint_eq(nnz, r->d->x.nnz);
    OK(ts_backend_gpu.get_rows(r->be, mode, 0, r->d->x.dim[mode], r->a[mode], &err));
    return size;
}

static struct ts_error_sums errors(struct run *r, uint32_t mode)
{
    struct ts_error_sums sums = { .hold_out = hold_out(r->ask), .mean = r->ask->demand->mean };
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
    return h.share > 0 && ts_hold_out_held(&h, hash);
}

static double weight_of(const struct run *r, uint64_t i)
{
    return r->d->x.weight == NULL ? 1 : (double)r->d->x.weight[i];
}

static void products(const struct run *r, uint64_t i, uint32_t but, double *p)
{
    for (uint32_t k = 0; k < r->ask->rank; k++) {
        p[k] = 1;
        for (uint32_t m = 0; m < r->d->x.order; m++)
            p[k] *= m == but ? 1 : r->a[m][(size_t)r->d->x.idx[m][i] * r->ask->rank + k];
    }
}

/* Of a row: the gradient (S + l2 I) a - m, sizes that say what rounding leaves of it, and how many nonzeros or how much weight. */
struct slope {
    double *g, trace, m, count, left;
};

/* Those of all rows of a mode, from the rows a. */
static struct slope *slopes(const struct run *r, uint32_t mode)
{
    const struct demand *want = r->ask->demand;
    const uint32_t n = r->ask->rank;
    struct slope *s = calloc(r->d->x.dim[mode], sizeof *s);
    double *g = calloc(r->d->x.dim[mode] * n, sizeof *g);
    for (uint64_t row = 0; row < r->d->x.dim[mode]; row++)
        s[row].g = g + row * n;
    for (uint64_t i = 0; i < r->d->x.nnz; i++) {
        const uint32_t row = r->d->x.idx[mode][i];
        const double *a = r->a[mode] + (size_t)row * n, x = r->d->x.val[i] - want->mean;
        const double weight = weight_of(r, i);
        double p[MOST_RANK], model = 0;
        if (is_held(r, i))
            continue;
        products(r, i, mode, p);
        for (uint32_t k = 0; k < n; k++)
            model += p[k] * a[k];
        for (uint32_t k = 0; k < n; k++) {
            s[row].g[k] += weight * p[k] * (model - x);
            s[row].trace += weight * p[k] * p[k];
            s[row].m += fabs(weight * p[k] * x);
        }
        s[row].left += weight * fabs(model - x);
        s[row].count += weight;
    }
    for (uint64_t row = 0; row < r->d->x.dim[mode]; row++) {
        const double l2 = want->l2 * (want->by_count ? s[row].count : 1);
        for (uint32_t k = 0; k < n; k++)
            s[row].g[k] += l2 * r->a[mode][row * n + k];
        s[row].trace += l2;
    }
    return s;
}

/* Of the gradient beside what it is a sum of, with bounds or not. With an l2 of 0 a column of which at most
 * c = 8 roundings are left beside others becomes 0, and sqrt(c) of the gradient may be left there. */
static double tolerance_of(const struct ask *ask)
{
    const int wide = ask->precision == TS_FLOAT64;
    if (ask->demand->l2 == 0)
        return wide ? 1e-6 : 5e-3;
    return wide ? 1e-9 : 1e-5;
}

/* Products of factors below the least normal number count as zero. */
static double lost_of(const struct ask *ask)
{
    return ask->precision == TS_FLOAT64 ? DBL_MIN : FLT_MIN;
}

/* Returns the size of the rows. */
static double check_rows(const struct run *r, uint32_t mode)
{
    const struct demand *want = r->ask->demand;
    const uint32_t n = r->ask->rank;
    const double tolerance = tolerance_of(r->ask);
    struct slope *s = slopes(r, mode);
    double size = 0;
    for (uint64_t row = 0; row < r->d->x.dim[mode]; row++) {
        const double *a = r->a[mode] + row * n;
        double square = 0, least;
        for (uint32_t k = 0; k < n; k++)
            square += a[k] * a[k];
        least =
            tolerance * (s[row].trace * sqrt(square) + s[row].m) + lost_of(r->ask) * s[row].left;
        size += (want->by_count ? s[row].count : 1) * square;
        for (uint32_t k = 0; k < n; k++) {
            const double g = s[row].g[k];
            ck_assert_msg(isfinite(a[k]), "mode %u, row %" PRIu64 ": not finite", mode + 1, row);
            if (s[row].count == 0) {
                ck_assert_msg(a[k] == 0, "mode %u, row %" PRIu64 " has no nonzeros", mode + 1, row);
                continue;
            }
            ck_assert_msg(a[k] >= want->lower && a[k] <= want->upper,
                          "mode %u, row %" PRIu64 ": %g is out of bounds", mode + 1, row, a[k]);
            ck_assert_msg(
                (g <= least || a[k] == want->lower) && (g >= -least || a[k] == want->upper),
                "mode %u, row %" PRIu64 " of %g nonzeros: gradient %g, at most %g by rounding",
                mode + 1, row, s[row].count, g, least);
        }
    }
    free(s->g); /* of all rows */
    free(s);
    return size;
}

static void check_near(const char *what, double got, double want, double scale, double tolerance)
{
    ck_assert_msg(fabs(got - want) <= tolerance * scale, "%s: %.17g, by the loop %.17g", what, got,
                  want);
}

static void check_errors(const struct run *r, const struct ts_error_sums *got)
{
    const double tolerance = r->ask->precision == TS_FLOAT64 ? 1e-9
                             : r->ask->demand->l2 == 0       ? 0.05 /* rows may be long */
                                                             : 1e-3;
    struct ts_cell_errors want[2] = { { 0 } };
    for (uint64_t i = 0; i < r->d->x.nnz; i++) {
        struct ts_cell_errors *w = &want[is_held(r, i)];
        const double x = r->d->x.val[i], weight = weight_of(r, i);
        double p[MOST_RANK], m = r->ask->demand->mean;
        products(r, i, r->d->x.order, p);
        for (uint32_t k = 0; k < r->ask->rank; k++)
            m += p[k];
        w->n += weight;
        w->sum += weight * x;
        w->squares += weight * x * x;
        w->inner += weight * x * m;
        w->left += weight * (x - m) * (x - m);
    }
    for (int k = 0; k < 2; k++) {
        const struct ts_cell_errors *g = k == 0 ? &got->kept : &got->held, *w = &want[k];
        const double scale = w->squares + w->left;
        check_near("count", g->n, w->n, w->n, r->d->x.weight == NULL ? 0 : 1e-12);
        check_near("sum of values", g->sum, w->sum, w->sum, tolerance);
        check_near("sum of squares", g->squares, w->squares, w->squares, tolerance);
        check_near("inner product", g->inner, w->inner, scale, tolerance);
        check_near("squares of errors", g->left, w->left, scale, tolerance);
    }
}

/* Case i: a shape, a rank, a precision, what is asked of rows. */
static struct ask ask_of(int i)
{
    const enum ts_precision precision = i / N_SHAPES % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    const uint32_t most = ts_backend_gpu.most_rank(
        &(struct ts_backend_conf){ .needs = 1u << TS_ROW_OBSERVED, .precision = precision });
    const uint32_t rank = ranks[(i + i / N_SHAPES) % N_RANKS];
    return (struct ask){ .rank = rank < most ? rank : most,
                         .members = 1,
                         .precision = precision,
                         .demand = &demands[(i + i / N_SHAPES / 2) % N_DEMANDS],
                         .host_bytes = 64 << 20 };
}
#define N_CASES (6 * N_SHAPES)

/* The same of long rows: each shape with four of five demands. */
static struct ask long_ask_of(int i)
{
    const int j = i / N_LONG_SHAPES;
    return (struct ask){ .rank =
                             long_ranks[(i + j) % (j % 2 == 0 ? N_LONG_RANKS : N_LONG_RANKS - 1)],
                         .members = 1,
                         .precision = j % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32,
                         .demand = &demands[(i + j) % N_DEMANDS],
                         .host_bytes = 64 << 20 };
}
#define N_LONG_CASES (4 * N_LONG_SHAPES)

/* Each rank in both precisions, each precision with all demands. */
static struct ask flat_ask_of(int i)
{
    return (struct ask){ .rank = flat_ranks[i % N_FLAT_RANKS],
                         .members = 1,
                         .precision = i < N_FLAT_RANKS ? TS_FLOAT64 : TS_FLOAT32,
                         .demand = &flat_demands[(i + i / N_FLAT_RANKS) % N_FLAT_DEMANDS],
                         .host_bytes = 64 << 20 };
}
#define N_FLAT_CASES (2 * N_FLAT_RANKS)

static void check_best(const struct shape *shape, enum weights weights, const struct ask *asked)
{
    struct disk d = disk_new(shape, weights);
    const struct ask ask = *asked;
    const double tolerance = ask.precision == TS_FLOAT64 ? 1e-10 : 1e-5;
    struct run r = run_new(&d, &ask);
    for (uint32_t m = 0; m < d.x.order; m++) {
        const double size = complete(&r, m), want = check_rows(&r, m);
        check_near("size", size, want, want, tolerance);
    }
    for (uint32_t m = 0; m < d.x.order; m++) {
        const struct ts_error_sums sums = errors(&r, m);
        check_errors(&r, &sums);
    }
    run_free(&r);
    disk_free(&d);
}

/* From N_CASES on cells have weights. */
START_TEST(rows_are_the_best_there_are)
{
    const struct ask ask = ask_of(_i);
    check_best(&shapes[_i % N_SHAPES], _i < N_CASES ? NONE : ANY, &ask);
}
END_TEST

/* In every other one of the second half they have. */
START_TEST(long_rows_are_the_best_there_are)
{
    const struct ask ask = long_ask_of(_i);
    check_best(&long_shapes[_i % N_LONG_SHAPES], _i >= N_LONG_CASES / 2 && _i % 2 == 0 ? ANY : NONE,
               &ask);
}
END_TEST

START_TEST(flat_rows_are_the_best_there_are)
{
    const struct ask ask = flat_ask_of(_i);
    check_best(&flat_shape, NONE, &ask);
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

/* Two sweeps and their errors. */
struct outcome {
    double *rows, size[2 * MODES];
    uint64_t n;
    struct ts_error_sums errors;
};

static struct outcome compute(const struct disk *d, const struct ask *ask)
{
    struct run r = run_new(d, ask);
    struct outcome o = { 0 };
    uint64_t at = 0;
    for (uint32_t k = 0; k < 2 * d->x.order; k++)
        o.size[k] = complete(&r, k % d->x.order);
    o.errors = errors(&r, d->x.order - 1);
    for (uint32_t m = 0; m < d->x.order; m++)
        o.n += d->x.dim[m] * ask->rank;
    o.rows = malloc(o.n * sizeof *o.rows);
    for (uint32_t m = 0; m < d->x.order; at += d->x.dim[m++] * ask->rank)
        memcpy(o.rows + at, r.a[m], d->x.dim[m] * ask->rank * sizeof *o.rows);
    run_free(&r);
    return o;
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    ck_assert_mem_eq(a->rows, b->rows, a->n * sizeof *a->rows);
    ck_assert_mem_eq(a->size, b->size, sizeof a->size);
    ck_assert_mem_eq(&a->errors.kept, &b->errors.kept, sizeof a->errors.kept);
    ck_assert_mem_eq(&a->errors.held, &b->errors.held, sizeof a->errors.held);
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

/* From N_SHAPES on cells have weights. */
START_TEST(bits_do_not_depend_on_devices_or_memory)
{
    check_bits(&shapes[_i % N_SHAPES], _i < N_SHAPES ? NONE : ANY,
               ask_of(_i + N_SHAPES * (_i % 2)));
}
END_TEST

START_TEST(bits_of_long_rows_do_not_either)
{
    check_bits(&long_shapes[_i], _i % 2 == 0 ? NONE : ANY,
               long_ask_of(_i + N_LONG_SHAPES * (_i % 2)));
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
    disk_free(&d);
    check_same(&got, &want);
    free(got.rows);
    free(want.rows);
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
    struct disk d = disk_new(&shapes[3], NONE);
    const uint32_t most = ts_backend_gpu.most_rank(
        &(struct ts_backend_conf){ .needs = 1u << TS_ROW_OBSERVED, .precision = TS_FLOAT32 });
    const struct ask ask = {
        .rank = most + 1, .members = 1, .demand = &demands[0], .host_bytes = 64 << 20
    };
    const struct ts_backend_conf conf = conf_of(&d, &ask);
    const struct ts_row_update how = { .kind = TS_ROW_OBSERVED, .l2 = 1 };
    const struct ts_row_sums sums = { 0 };
    struct ts_backend_times times;
    struct ts_feed *feed;
    void *be;
    OK(ts_backend_gpu.open(&conf, &be, &err));
    feed = open_feed(&d, &ask, be);
    ck_assert_int_eq(
        ts_backend_gpu.pass(
            &(struct ts_request){ .be = be, .kind = TS_REQUEST_ROWS, .how = &how, .sums = &sums },
            1, 0, feed, &times, &err),
        TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "a rank of at most"));
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
    Suite *suite = suite_create("gpu_observed");
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0)
        return 77;
    add(suite, "rows", rows_are_the_best_there_are, 2 * N_CASES);
    add(suite, "bits", bits_do_not_depend_on_devices_or_memory, N_SHAPES + N_WEIGHTED_SHAPES);
    add(suite, "long rows", long_rows_are_the_best_there_are, N_LONG_CASES);
    add(suite, "flat rows", flat_rows_are_the_best_there_are, N_FLAT_CASES);
    add(suite, "bits of long rows", bits_of_long_rows_do_not_either, N_LONG_SHAPES);
    add(suite, "weights of 1", weights_of_1_change_no_bit, N_CASES);
    add(suite, "refused", what_is_not_there_is_refused, 1);
    return test_run_suite(suite, CK_NOFORK);
}
