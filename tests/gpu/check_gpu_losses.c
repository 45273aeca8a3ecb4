/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients of losses on GPUs are those of an obvious loop in float64 over the nonzeros and, with
 * what is drawn for cells that are not listed, those of CPU cores in float64; steps are Adam's;
 * sums of a loss are those of the loop. Of all losses, at orders 2 to 8, several ranks, with l2 and
 * shares that are held out; with the same bits for any number of devices, whether shards stay there
 * or pass through. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/gpu/gpu_rig.h"
#include "tests/support/loss_case.h"

#define MOST_RANK 513

static const struct rig_shape shapes[] = {
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
static const struct rig_shape wide_shapes[] = {
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

static struct rig_disk disk_new(const struct rig_shape *s, int kind)
{
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32,
                                        .stretch = s->order == 3 ? 2 : 0,
                                        .shard_partitions = s->partitions };
    struct test_coo x = test_coo_random(23, s->order, s->dim, s->nnz, 0, s->skew);
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = test_loss_value(kind, ts_unit(ts_mix(n)));
    return rig_disk_of(x, &conf);
}

static double entry(const struct rig_ask *ask, uint32_t mode, double u)
{
    (void)mode;
    return ts_loss_of((enum ts_loss_kind)ask->kind)->lower == 0 ? 0.1 + u : u - 0.5;
}

static struct ts_descent descent_of(const struct rig_ask *ask)
{
    const struct ts_loss *loss = ts_loss_of((enum ts_loss_kind)ask->kind);
    return (struct ts_descent){ .loss = loss,
                                .at = test_loss_number(ask->kind),
                                .observed = ask->demand->observed || !loss->zeros,
                                .hold_out = ask->hold_out,
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

static uint64_t entries(const struct rig_run *r, uint32_t mode)
{
    return r->d->x.dim[mode] * r->ask->rank;
}

static void descend(struct rig_run *r, uint32_t mode, const struct ts_descent *how)
{
    rig_pass(r, (struct ts_request){ .kind = TS_REQUEST_DESCEND, .descend = how }, mode);
}

/* In float64, whatever the run's precision. */
static double *gradient_of(struct rig_run *r, uint32_t mode)
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

static double zeros_of(struct rig_run *r, uint32_t mode)
{
    const struct ts_descent how = descent_of(r->ask);
    double ret = NAN;
    OK(r->backend->zeros(r->be, mode, &how, &ret, &err));
    return ret;
}

static struct ts_loss_sums sums_of(struct rig_run *r, uint32_t mode)
{
    const struct ts_descent how = descent_of(r->ask);
    struct ts_loss_sums sums = {
        .loss = how.loss, .at = how.at, .observed = how.observed, .hold_out = how.hold_out
    };
    rig_pass(r, (struct ts_request){ .kind = TS_REQUEST_LOSSES, .losses = &sums }, mode);
    return sums;
}

/* ---- the obvious loop */

/* p of a nonzero; returns the model there. */
static double terms(const struct rig_run *r, uint64_t i, uint32_t mode, double *p)
{
    double model = 0;
    rig_products(r, i, mode, p);
    for (uint32_t k = 0; k < r->ask->rank; k++)
        model += p[k] * r->a[mode][(size_t)r->d->x.idx[mode][i] * r->ask->rank + k];
    return model;
}

/* Of observed cells alone: the gradient, and the sum of the magnitudes of its terms. */
static void loop(const struct rig_run *r, uint32_t mode, double *g, double *size)
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
        if (rig_is_held(r, i))
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

static void check_sums(const struct rig_run *r, const struct ts_loss_sums *got)
{
    const struct ts_descent how = descent_of(r->ask);
    const double tolerance = r->ask->precision == TS_FLOAT64 ? 1e-10 : 1e-5;
    struct ts_cell_losses want[2] = { { 0 } };
    double size[2] = { 0 };
    static const double zero;
    for (uint64_t i = 0; i < r->d->x.nnz; i++) {
        const int held = rig_is_held(r, i);
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
        rig_near("sum of the loss", g->loss, w->loss, size[k], tolerance);
        rig_near("sum of values", g->x, w->x, size[k], tolerance);
        rig_near("loss of reference", g->reference, w->reference, fabs(w->reference) + w->n,
                 tolerance);
    }
}

static struct rig_ask with(struct rig_ask ask, const struct demand *demand)
{
    ask.demand = demand;
    ask.hold_out.share = demand->share;
    return ask;
}

/* Case i: a shape, a precision, a loss, each of them with each; a rank, and a demand. */
static struct rig_ask ask_of(int i)
{
    const int j = i / N_SHAPES;
    const enum ts_precision precision = j % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    const uint32_t most = rig_be->most_rank(
        &(struct ts_backend_conf){ .needs = 1u << TS_ROW_DESCEND, .precision = precision });
    const uint32_t rank = ranks[(i + j) % N_RANKS];
    const struct rig_ask ask = { .kind = 1 + (j / 2 + i) % (TS_N_GCP - 1),
                                 .rank = rank < most ? rank : most,
                                 .members = 1,
                                 .precision = precision,
                                 .needs = 1u << TS_ROW_DESCEND,
                                 .own = 1,
                                 .hold_out = { .seed = 9 },
                                 .host_bytes = RIG_HOST_BYTES };
    return with(ask, &demands[(i + j) % N_DEMANDS]);
}
#define N_CASES (2 * (TS_N_GCP - 1) * N_SHAPES)

static struct rig_ask wide_ask_of(int i)
{
    const int j = i / N_WIDE_SHAPES;
    struct rig_ask ask = ask_of(0);
    ask.kind = 1 + i % (TS_N_GCP - 1);
    ask.precision = j % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    ask.rank = wide_ranks[j % 2 == 0 ? (i + j) % N_WIDE_RANKS : 1 + (i + j) % (N_WIDE_RANKS - 1)];
    return with(ask, &demands[(i + 2 * j) % N_DEMANDS]);
}
#define N_WIDE_CASES (4 * N_WIDE_SHAPES)

/* Rounding of a term is that of the model, a sum of products, times what the slope changes with it.
 * Where terms cancel in the slope itself, the largest entry of the mode stands for their size. */
static void check_gradients(const struct rig_shape *shape, struct rig_ask ask)
{
    struct rig_disk d = disk_new(shape, ask.kind);
    const double tolerance = ask.precision == TS_FLOAT64 ? 1e-10 : 1e-5;
    struct rig_ask exact = ask;
    struct rig_run gpu = rig_open(&d, &ask, entry), cpu;
    exact.precision = TS_FLOAT64;
    exact.backend = &ts_backend_cpu;
    cpu = rig_open(&d, &exact, entry);
    for (uint32_t m = 0; m < d.x.order; m++) {
        const uint64_t n = entries(&gpu, m);
        double *got = gradient_of(&gpu, m), *want = gradient_of(&cpu, m);
        double *g = malloc(n * sizeof *g), *size = malloc(n * sizeof *size), most = 0;
        loop(&gpu, m, g, size);
        for (uint64_t i = 0; i < n; i++)
            most = fmax(most, fabs(want[i]));
        for (uint64_t i = 0; i < n; i++) {
            if (descent_of(&ask).observed)
                rig_near("CPU cores", want[i], g[i], size[i] + 1e-6 * most, 1e-10);
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
            rig_near("loss at zeros", zeros_of(&gpu, m), want, fabs(want), 1e-9);
        }
    }
    rig_close(&cpu);
    rig_close(&gpu);
    rig_disk_free(&d);
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
    const struct rig_ask ask = ask_of(_i);
    const enum ts_precision precision = ask.precision;
    struct rig_disk d = disk_new(&shapes[_i % N_SHAPES], ask.kind);
    struct rig_run r = rig_open(&d, &ask, entry);
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
            rig_get(&r, m, r.a[m]);
            for (uint64_t i = 0; i < n; i++) {
                double to;
                u[i] = 0.9 * u[i] + 0.1 * g[i];
                v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
                to = was[i] - how.rate * (u[i] / (1 - pow(0.9, (double)how.step))) /
                                  (sqrt(v[i] / (1 - pow(0.999, (double)how.step))) + 1e-8);
                to = fmin(fmax(to, how.lower), how.upper);
                rig_near("first moment", item(how.moment[0], i, precision), u[i],
                         fabs(u[i]) + 0.1 * fabs(g[i]), near);
                rig_near("second moment", item(how.moment[1], i, precision), v[i], v[i] + 1e-30,
                         10 * near);
                rig_near("entry", r.a[m][i], to, 1, 10 * near);
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
    rig_close(&r);
    rig_disk_free(&d);
}
END_TEST

/* ---- bits */

/* Two steps in each mode, then gradients and sums. */
static void compute(const struct rig_disk *d, const struct rig_ask *ask, struct rig_bits *ret)
{
    struct rig_run r = rig_open(d, ask, entry);
    struct ts_loss_sums sums;
    for (uint32_t m = 0; m < d->x.order; m++) {
        const uint64_t n = entries(&r, m);
        double *rows = malloc(n * sizeof *rows);
        struct ts_descent how = descent_of(ask);
        for (int k = 0; k < 2; k++)
            how.moment[k] = calloc(n, sizeof(double));
        for (how.step = 1; how.step <= 2; how.step++)
            descend(&r, m, &how);
        rig_get(&r, m, rows);
        rig_keep(ret, "rows", rows, n * sizeof *rows);
        for (int k = 0; k < 2; k++)
            free(how.moment[k]);
        free(rows);
    }
    for (uint32_t m = 0; m < d->x.order; m++) {
        double *g = gradient_of(&r, m);
        rig_keep(ret, "gradient", g, entries(&r, m) * sizeof *g);
        free(g);
    }
    sums = sums_of(&r, d->x.order - 1);
    rig_keep(ret, "losses", &sums.kept, sizeof sums.kept);
    rig_keep(ret, "losses of held cells", &sums.held, sizeof sums.held);
    if (!descent_of(ask).observed) {
        const double zeros = zeros_of(&r, d->x.order - 1);
        rig_keep(ret, "loss at zeros", &zeros, sizeof zeros);
    }
    rig_close(&r);
}

static void check_bits(const struct rig_shape *shape, struct rig_ask ask)
{
    struct rig_disk d = disk_new(shape, ask.kind);
    rig_check_bits(&d, ask, compute);
    rig_disk_free(&d);
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
    struct rig_ask ask = ask_of(3);
    const struct ts_descent how = descent_of(&ask);
    struct rig_disk d = disk_new(&shapes[3], ask.kind);
    ask.needs = 1u << TS_ROW_LEAST_SQUARES;
    rig_check_refused(&d, ask, (struct ts_request){ .kind = TS_REQUEST_DESCEND, .descend = &how },
                      "set aside");
    rig_disk_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = rig_suite("gpu_losses");
    if (suite == NULL)
        return 77;
    test_add(suite, "gradients", gradients_are_those_of_the_loop_and_of_cpu_cores, N_CASES);
    test_add(suite, "steps", steps_are_those_of_adam, 2 * N_SHAPES);
    test_add(suite, "bits", bits_do_not_depend_on_devices_or_memory, N_SHAPES);
    test_add(suite, "many columns", gradients_of_many_columns_are, N_WIDE_CASES);
    test_add(suite, "bits of many columns", bits_of_many_columns_do_not_either, N_WIDE_SHAPES);
    rig_add_gpu(suite, "refused", what_is_not_there_is_refused, 1);
    return test_run_suite(suite, CK_NOFORK);
}
