/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients of losses on GPUs are those of an obvious loop in float64 over the nonzeros and, with what is drawn for cells that are not
 * listed, those of CPU cores in float64; steps are Adam's; sums of a loss are those of the loop. Of all losses, at orders 2 to 8,
 * several ranks, with l2 and shares that are held out; with the same bits for any number of devices, whether shards stay there or pass
 * through. */
#include <check.h>
#include <cuda_runtime.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "gpu/gpu_backend.h"
#include "tests/loss_case.h"
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
    { 3, 30000, 0, { 9000, 700, 40 }, 0 },                      /* short rows, and long ones */
    { 3, 3 * TS_PARTITION_NNZ - 300, 1, { 9000, 3, 4000 }, 0 }, /* rows that reach over shards */
    { 3, 2 * TS_PARTITION_NNZ, 1, { 9000, 7000, 200 }, 4 },     /* a giant row and many of one */
    { 2, 5000, 0, { 310, 400 }, 0 },
    { 4, 40000, 1, { 51, 2, 116, 900 }, 0 },
    { 5, 30000, 1, { 9, 80, 7, 300, 13 }, 1 },
    { 6, 20000, 0, { 9, 8, 7, 11, 13, 17 }, 0 },
    { 7, 20000, 1, { 5, 6, 7, 3, 9, 4, 5 }, 0 },
    { 8, 20000, 1, { 5, 4, 3, 5, 4, 3, 5, 40 }, 0 },
    { 3, 1, 0, { 1, 1, 1 }, 0 },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const uint32_t ranks[] = { 32, 25, 9, 64, 7, 16, 1, 100, 31, 128, 33 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* Rows of more columns than a warp holds; the first of these ranks in float64. */
static const struct shape wide_shapes[] = {
    { 3, 9000, 0, { 900, 300, 40 }, 0 },
    { 3, 2 * TS_PARTITION_NNZ - 300, 1, { 600, 3, 400 }, 1 },
    { 2, 4000, 0, { 210, 300 }, 0 },
    { 4, 5000, 0, { 51, 2, 116, 90 }, 0 },
    { 8, 4000, 0, { 5, 4, 3, 5, 4, 3, 5, 40 }, 0 },
};
#define N_WIDE_SHAPES (int)(sizeof wide_shapes / sizeof wide_shapes[0])

static const uint32_t wide_ranks[] = { 65, 129, 300, 200, 513 };
#define N_WIDE_RANKS (int)(sizeof wide_ranks / sizeof wide_ranks[0])

/* What stands for cells that are not listed, and the rest. */
static const struct demand {
    int observed;
    uint32_t n_drawn;
    uint64_t n_cells;
    double share, l2;
} demands[] = {
    { 1, 0, 0, 0, 0.01 }, { 0, 300, 0, 0, 0.02 }, { 0, 0, 1 << 14, 0.2, 0 },
    { 1, 0, 0, 0.3, 0 },  { 0, 64, 0, 0.1, 0 },   { 0, 0, 1 << 16, 0, 0.01 },
    { 0, 1000, 0, 0, 0 },
};
#define N_DEMANDS (int)(sizeof demands / sizeof demands[0])

struct disk {
    char *top, *dir;
    struct test_coo x;
    struct ts_tensor *tensor;
};

static struct disk disk_new(const struct shape *s, int kind)
{
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32,
                                        .stretch = s->order == 3 ? 2 : 0,
                                        .shard_partitions = s->partitions };
    struct disk d = { .top = test_tsh_tmp() };
    d.dir = malloc(strlen(d.top) + 8);
    d.x = test_coo_random(23, s->order, s->dim, s->nnz, 0, s->skew);
    for (uint64_t n = 0; n < d.x.nnz; n++)
        d.x.val[n] = test_loss_value(kind, ts_unit(ts_mix(n)));
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
    int kind;
    uint32_t rank, members;
    enum ts_precision precision;
    const struct demand *demand;
    uint64_t device_bytes, host_bytes;
};

/* Devices are named more than once where there are fewer. */
static struct ts_backend_conf conf_of(const struct disk *d, const struct ask *ask)
{
    struct ts_backend_conf conf = { .tensor = d->tensor,
                                    .rank = ask->rank,
                                    .precision = ask->precision,
                                    .n_devices = ask->members,
                                    .device_bytes = ask->device_bytes,
                                    .only_mode = -1,
                                    .own_rows = (1u << d->tensor->order) - 1,
                                    .needs = 1u << TS_ROW_DESCEND };
    for (uint32_t i = 0; i < ask->members; i++)
        conf.device[i] = ask->members > 1 ? (int)i % n_devices : 0;
    return conf;
}

/* Of a processor: a backend with factors, which `a` has, too. */
struct run {
    const struct ts_backend *backend;
    const struct disk *d;
    const struct ask *ask;
    void *be;
    struct ts_feed *feed;
    double *a[MODES];
};

static struct ts_feed *open_feed(const struct run *r)
{
    struct ts_feed_conf conf = { .tensor = r->d->tensor,
                                 .host_bytes = r->ask->host_bytes,
                                 .only_mode = -1,
                                 .checkers = 2,
                                 .pin = r->backend->pin,
                                 .unpin = r->backend->unpin,
                                 .pin_bytes = 1 << 18,
                                 .pin_ctx = r->be };
    struct ts_feed *feed;
    r->backend->deal(r->be, &conf.deal);
    OK(ts_feed_new(&conf, &feed, &err));
    return feed;
}

/* Entries are numbers of float32, so that both precisions have them exactly. */
static struct run run_new(const struct ts_backend *backend, const struct disk *d,
                          const struct ask *ask)
{
    const struct ts_backend_conf conf = conf_of(d, ask);
    const int positive = ts_loss_of((enum ts_loss_kind)ask->kind)->lower == 0;
    struct run r = { .backend = backend, .d = d, .ask = ask };
    OK(backend->open(&conf, &r.be, &err));
    OK(backend->own_rows(r.be, conf.own_rows, &err));
    r.feed = open_feed(&r);
    for (uint32_t m = 0; m < d->x.order; m++) {
        const uint64_t n = d->x.dim[m] * ask->rank;
        r.a[m] = malloc(n * sizeof *r.a[m]);
        for (uint64_t i = 0; i < n; i++) {
            const double u = ts_unit(ts_mix(1000003 * m + i));
            r.a[m][i] = (float)(positive ? 0.1 + u : u - 0.5);
        }
        OK(backend->put_rows(r.be, m, 0, d->x.dim[m], r.a[m], &err));
    }
    return r;
}

static void run_free(struct run *r)
{
    ts_feed_free(r->feed);
    r->backend->close(r->be);
    for (uint32_t m = 0; m < r->d->x.order; m++)
        free(r->a[m]);
}

static struct ts_descent descent_of(const struct ask *ask)
{
    const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)ask->kind);
    return (struct ts_descent){ .loss = loss,
                                .at = test_loss_number(ask->kind),
                                .observed = ask->demand->observed || !loss->zeros,
                                .hold_out = { .share = ask->demand->share, .seed = 9 },
                                .n_drawn = ask->demand->n_drawn,
                                .n_cells = ask->demand->n_cells,
                                .seed = 5,
                                .draw = 3,
                                .l2 = ask->demand->l2,
                                .lower = loss->lower,
                                .upper = INFINITY,
                                .rate = 0.01,
                                .step = 1 };
}

static uint64_t entries(const struct run *r, uint32_t mode)
{
    return r->d->x.dim[mode] * r->ask->rank;
}

static void descend(struct run *r, uint32_t mode, const struct ts_descent *how)
{
    struct ts_backend_times times;
    uint64_t nnz = 0;
    ts_feed_rewind(r->feed);
    OK(r->backend->pass(
        &(struct ts_request){ .be = r->be, .kind = TS_REQUEST_DESCEND, .descend = how }, 1, mode,
        r->feed, &times, &err));
    for (uint32_t i = 0; i < times.n_devices; i++)
        nnz += times.device[i].nnz;
    ck_assert_uint_eq(nnz, r->d->x.nnz);
}

/* In float64, whatever the run's precision. */
static double *gradient_of(struct run *r, uint32_t mode)
{
    const uint64_t n = entries(r, mode);
    double *ret = malloc(n * sizeof *ret);
    void *got = malloc(n * sizeof(double));
    struct ts_descent how = descent_of(r->ask);
    how.gradient = got;
    descend(r, mode, &how);
    for (uint64_t i = 0; i < n; i++)
        ret[i] = r->ask->precision == TS_FLOAT32 ? (double)((float *)got)[i] : ((double *)got)[i];
    free(got);
    return ret;
}

static double zeros_of(struct run *r, uint32_t mode)
{
    const struct ts_descent how = descent_of(r->ask);
    double ret = NAN;
    OK(r->backend->zeros(r->be, mode, &how, &ret, &err));
    return ret;
}

static struct ts_loss_sums sums_of(struct run *r, uint32_t mode)
{
    const struct ts_descent how = descent_of(r->ask);
    struct ts_loss_sums sums = {
        .loss = how.loss, .at = how.at, .observed = how.observed, .hold_out = how.hold_out
    };
    struct ts_backend_times times;
    ts_feed_rewind(r->feed);
    OK(r->backend->pass(
        &(struct ts_request){ .be = r->be, .kind = TS_REQUEST_LOSSES, .losses = &sums }, 1, mode,
        r->feed, &times, &err));
    return sums;
}

/* ---- the obvious loop */

static int is_held(const struct run *r, const struct ts_hold_out *h, uint64_t i)
{
    uint64_t hash = ts_hold_out_begin(h);
    for (uint32_t m = 0; m < r->d->x.order; m++)
        hash = ts_hold_out_add(hash, r->d->x.idx[m][i]);
    return h->share > 0 && ts_hold_out_held(h, hash);
}

/* p of a nonzero; returns the model there. */
static double terms(const struct run *r, uint64_t i, uint32_t mode, double *p)
{
    double model = 0;
    for (uint32_t k = 0; k < r->ask->rank; k++) {
        p[k] = 1;
        for (uint32_t m = 0; m < r->d->x.order; m++)
            p[k] *= m == mode ? 1 : r->a[m][(size_t)r->d->x.idx[m][i] * r->ask->rank + k];
        model += p[k] * r->a[mode][(size_t)r->d->x.idx[mode][i] * r->ask->rank + k];
    }
    return model;
}

/* Of observed cells alone: the gradient, and the sum of the magnitudes of its terms. */
static void loop(const struct run *r, uint32_t mode, double *g, double *size)
{
    const struct ts_descent how = descent_of(r->ask);
    static const double zero;
    for (uint64_t i = 0; i < entries(r, mode); i++) {
        g[i] = how.l2 * r->a[mode][i];
        size[i] = fabs(g[i]);
    }
    for (uint64_t i = 0; i < r->d->x.nnz; i++) {
        const size_t at = (size_t)r->d->x.idx[mode][i] * r->ask->rank;
        double p[MOST_RANK], slope, less = 0;
        const double model = terms(r, i, mode, p);
        if (is_held(r, &how.hold_out, i))
            continue;
        how.loss->weigh(1, &r->d->x.val[i], &model, how.at, &slope);
        if (!how.observed)
            how.loss->weigh(1, &zero, &model, how.at, &less);
        for (uint32_t k = 0; k < r->ask->rank; k++) {
            g[at + k] += (slope - less) * p[k];
            size[at + k] += (fabs(slope) + fabs(less)) * fabs(p[k]);
        }
    }
}

static void check_near(const char *what, double got, double want, double scale, double tolerance)
{
    ck_assert_msg(fabs(got - want) <= tolerance * scale, "%s: %.17g, not %.17g of %g", what, got,
                  want, scale);
}

static void check_sums(const struct run *r, const struct ts_loss_sums *got)
{
    const struct ts_descent how = descent_of(r->ask);
    const double tolerance = r->ask->precision == TS_FLOAT64 ? 1e-10 : 1e-5;
    struct ts_cell_losses want[2] = { { 0 } };
    double size[2] = { 0 };
    static const double zero;
    for (uint64_t i = 0; i < r->d->x.nnz; i++) {
        const int held = is_held(r, &how.hold_out, i);
        struct ts_cell_losses *w = &want[held];
        const double *x = &r->d->x.val[i];
        double p[MOST_RANK], less;
        const double model = terms(r, i, 0, p), cost = how.loss->judge(1, x, &model, how.at);
        less = how.observed || held ? 0 : how.loss->judge(1, &zero, &model, how.at);
        w->n++;
        w->loss += cost - less;
        w->x += *x;
        w->reference += ts_loss_reference(how.loss->kind, *x, how.at);
        size[held] += fabs(cost) + fabs(less) + fabs(*x) + 1;
    }
    for (int k = 0; k < 2; k++) {
        const struct ts_cell_losses *g = k == 0 ? &got->kept : &got->held, *w = &want[k];
        ck_assert_double_eq(g->n, w->n);
        check_near("sum of the loss", g->loss, w->loss, size[k], tolerance);
        check_near("sum of values", g->x, w->x, size[k], tolerance);
        check_near("loss of reference", g->reference, w->reference, fabs(w->reference) + w->n, tolerance);
    }
}

/* Case i: a shape, a precision, a loss, each of them with each; a rank, and a demand. */
static struct ask ask_of(int i)
{
    const int j = i / N_SHAPES;
    const enum ts_precision precision = j % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    const uint32_t most = ts_backend_gpu.most_rank(
        &(struct ts_backend_conf){ .needs = 1u << TS_ROW_DESCEND, .precision = precision });
    const uint32_t rank = ranks[(i + j) % N_RANKS];
    return (struct ask){ .kind = 1 + (j / 2 + i) % (TS_N_GCP - 1),
                         .rank = rank < most ? rank : most,
                         .members = 1,
                         .precision = precision,
                         .demand = &demands[(i + j) % N_DEMANDS],
                         .host_bytes = 64 << 20 };
}
#define N_CASES (2 * (TS_N_GCP - 1) * N_SHAPES)

static struct ask wide_ask_of(int i)
{
    const int j = i / N_WIDE_SHAPES;
    struct ask ask = ask_of(0);
    ask.kind = 1 + i % (TS_N_GCP - 1);
    ask.precision = j % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    ask.rank = wide_ranks[j % 2 == 0 ? (i + j) % N_WIDE_RANKS : 1 + (i + j) % (N_WIDE_RANKS - 1)];
    ask.demand = &demands[(i + 2 * j) % N_DEMANDS];
    return ask;
}
#define N_WIDE_CASES (4 * N_WIDE_SHAPES)

/* Rounding of a term is that of the model, a sum of products, times what the slope changes with it. Where terms cancel
 * in the slope itself, the largest entry of the mode stands for their size. */
static void check_gradients(const struct shape *shape, struct ask ask)
{
    struct disk d = disk_new(shape, ask.kind);
    const double tolerance = ask.precision == TS_FLOAT64 ? 1e-10 : 1e-5;
    struct ask exact = ask;
    struct run gpu = run_new(&ts_backend_gpu, &d, &ask), cpu;
    exact.precision = TS_FLOAT64;
    cpu = run_new(&ts_backend_cpu, &d, &exact);
    for (uint32_t m = 0; m < d.x.order; m++) {
        const uint64_t n = entries(&gpu, m);
        double *got = gradient_of(&gpu, m), *want = gradient_of(&cpu, m);
        double *g = malloc(n * sizeof *g), *size = malloc(n * sizeof *size), most = 0;
        loop(&gpu, m, g, size);
        for (uint64_t i = 0; i < n; i++)
            most = fmax(most, fabs(want[i]));
        for (uint64_t i = 0; i < n; i++) {
            if (descent_of(&ask).observed)
                check_near("CPU cores", want[i], g[i], size[i] + 1e-6 * most, 1e-10);
            ck_assert_msg(fabs(got[i] - want[i]) <= tolerance * (size[i] + fabs(want[i]) + most),
                          "%s, mode %u, entry %" PRIu64 " of rank %u: gradient %.17g, not %.17g",
                          descent_of(&ask).loss->name, m + 1, i, ask.rank, got[i], want[i]);
        }
        free(got);
        free(want);
        free(g);
        free(size);
    }
    for (uint32_t m = 0; m < d.x.order; m++) {
        const struct ts_loss_sums sums = sums_of(&gpu, m);
        check_sums(&gpu, &sums);
        if (!descent_of(&ask).observed) {
            const double want = zeros_of(&cpu, m);
            check_near("loss at zeros", zeros_of(&gpu, m), want, fabs(want), 1e-9);
        }
    }
    run_free(&cpu);
    run_free(&gpu);
    disk_free(&d);
}

START_TEST(gradients_are_those_of_the_loop_and_of_cpu_cores)
{
    check_gradients(&shapes[_i % N_SHAPES], ask_of(_i));
}
END_TEST

START_TEST(gradients_of_many_columns_are)
{
    check_gradients(&wide_shapes[_i % N_WIDE_SHAPES], wide_ask_of(_i));
}
END_TEST

/* ---- steps */

static double item(const void *at, uint64_t i, enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

/* The moments of a second step are those of two gradients, and the rows what Adam makes of them. */
START_TEST(steps_are_those_of_adam)
{
    const struct ask ask = ask_of(_i);
    const enum ts_precision precision = ask.precision;
    struct disk d = disk_new(&shapes[_i % N_SHAPES], ask.kind);
    struct run r = run_new(&ts_backend_gpu, &d, &ask);
    const double near = precision == TS_FLOAT64 ? 1e-12 : 1e-6;
    for (uint32_t m = 0; m < d.x.order; m++) {
        const uint64_t n = entries(&r, m);
        struct ts_descent how = descent_of(&ask);
        double *u = calloc(n, sizeof *u), *v = calloc(n, sizeof *v);
        for (int k = 0; k < 2; k++)
            how.moment[k] = calloc(n, sizeof(double));
        how.lower = fmax(how.lower, -0.45);
        how.upper = 1;
        for (how.step = 1; how.step <= 2; how.step++) {
            double *g = gradient_of(&r, m), *was = malloc(n * sizeof *was);
            memcpy(was, r.a[m], n * sizeof *was);
            descend(&r, m, &how);
            OK(ts_backend_gpu.get_rows(r.be, m, 0, d.x.dim[m], r.a[m], &err));
            for (uint64_t i = 0; i < n; i++) {
                double to;
                u[i] = 0.9 * u[i] + 0.1 * g[i];
                v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
                to = was[i] - how.rate * (u[i] / (1 - pow(0.9, (double)how.step))) /
                                  (sqrt(v[i] / (1 - pow(0.999, (double)how.step))) + 1e-8);
                to = fmin(fmax(to, how.lower), how.upper);
                check_near("first moment", item(how.moment[0], i, precision), u[i],
                           fabs(u[i]) + 0.1 * fabs(g[i]), near);
                check_near("second moment", item(how.moment[1], i, precision), v[i], v[i] + 1e-30,
                           10 * near);
                check_near("entry", r.a[m][i], to, 1, 10 * near);
                u[i] = item(how.moment[0], i, precision);
                v[i] = item(how.moment[1], i, precision);
            }
            free(was);
            free(g);
        }
        for (int k = 0; k < 2; k++)
            free(how.moment[k]);
        free(v);
        free(u);
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

/* Two sweeps, then gradients and sums. */
struct outcome {
    double *rows, zeros;
    uint64_t n;
    struct ts_loss_sums sums;
};

static struct outcome compute(const struct disk *d, const struct ask *ask)
{
    struct run r = run_new(&ts_backend_gpu, d, ask);
    struct outcome o = { 0 };
    uint64_t at = 0;
    for (uint32_t m = 0; m < d->x.order; m++)
        o.n += 2 * entries(&r, m);
    o.rows = malloc(o.n * sizeof *o.rows);
    for (uint32_t m = 0; m < d->x.order; m++) {
        struct ts_descent how = descent_of(ask);
        for (int k = 0; k < 2; k++)
            how.moment[k] = calloc(entries(&r, m), sizeof(double));
        for (how.step = 1; how.step <= 2; how.step++)
            descend(&r, m, &how);
        OK(ts_backend_gpu.get_rows(r.be, m, 0, d->x.dim[m], o.rows + at, &err));
        at += entries(&r, m);
        for (int k = 0; k < 2; k++)
            free(how.moment[k]);
    }
    for (uint32_t m = 0; m < d->x.order; m++) {
        double *g = gradient_of(&r, m);
        memcpy(o.rows + at, g, entries(&r, m) * sizeof *g);
        at += entries(&r, m);
        free(g);
    }
    o.sums = sums_of(&r, d->x.order - 1);
    o.zeros = descent_of(ask).observed ? 0 : zeros_of(&r, d->x.order - 1);
    run_free(&r);
    return o;
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    ck_assert_mem_eq(a->rows, b->rows, a->n * sizeof *a->rows);
    ck_assert_mem_eq(&a->zeros, &b->zeros, sizeof a->zeros);
    ck_assert_mem_eq(&a->sums.kept, &b->sums.kept, sizeof a->sums.kept);
    ck_assert_mem_eq(&a->sums.held, &b->sums.held, sizeof a->sums.held);
}

static void check_bits(const struct shape *shape, struct ask ask)
{
    struct disk d = disk_new(shape, ask.kind);
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

START_TEST(bits_do_not_depend_on_devices_or_memory)
{
    check_bits(&shapes[_i], ask_of(_i + N_SHAPES * (_i % 2)));
}
END_TEST

START_TEST(bits_of_many_columns_do_not_either)
{
    check_bits(&wide_shapes[_i], wide_ask_of(_i + N_WIDE_SHAPES * (_i % 2)));
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
    const struct ask ask = ask_of(3);
    struct disk d = disk_new(&shapes[3], ask.kind);
    struct ts_backend_conf conf = conf_of(&d, &ask);
    struct run r = { .backend = &ts_backend_gpu, .d = &d, .ask = &ask };
    struct ts_descent how = descent_of(&ask);
    struct ts_backend_times times;
    conf.needs = 1u << TS_ROW_LEAST_SQUARES;
    OK(ts_backend_gpu.open(&conf, &r.be, &err));
    r.feed = open_feed(&r);
    ck_assert_int_eq(
        ts_backend_gpu.pass(
            &(struct ts_request){ .be = r.be, .kind = TS_REQUEST_DESCEND, .descend = &how }, 1, 0,
            r.feed, &times, &err),
        TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "set aside"));
    ts_feed_free(r.feed);
    ts_backend_gpu.close(r.be);
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
    Suite *suite = suite_create("gpu_losses");
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0)
        return 77;
    add(suite, "gradients", gradients_are_those_of_the_loop_and_of_cpu_cores, N_CASES);
    add(suite, "steps", steps_are_those_of_adam, 2 * N_SHAPES);
    add(suite, "bits", bits_do_not_depend_on_devices_or_memory, N_SHAPES);
    add(suite, "many columns", gradients_of_many_columns_are, N_WIDE_CASES);
    add(suite, "bits of many columns", bits_of_many_columns_do_not_either, N_WIDE_SHAPES);
    add(suite, "refused", what_is_not_there_is_refused, 1);
    return test_run_suite(suite, CK_NOFORK);
}
