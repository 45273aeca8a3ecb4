/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of models of counts on GPUs are those of CPU cores within rounding, with what is judged, at
 * several orders, ranks, numbers of rounds and shares that are held out; with the same bits for any
 * number of devices, whether shards stay there or pass through. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "stream/loss.h"
#include "tests/gpu/gpu_rig.h"

#define MODES 6

static const struct rig_shape shapes[] = {
    { 2, 4000, 0, { 310, 400 }, 1 },
    { 3, 6 * TS_PARTITION_NNZ - 500, 1, { 700, 3, 9000 }, 1 }, /* rows that reach over shards */
    { 3, 5 * TS_PARTITION_NNZ, 1, { 40000, 30000, 200 }, 1 },
    { 4, 40000, 1, { 51, 2, 116, 900 }, 1 },
    { 5, 30000, 1, { 9, 80, 7, 300, 13 }, 1 },
    { 6, 20000, 0, { 9, 8, 7, 11, 13, 17 }, 1 },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const uint32_t ranks[] = { 1, 5, 16, 31, 64, 128 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* Rows of more columns than a warp holds. */
static const struct rig_shape wide_shapes[] = {
    { 2, 4000, 0, { 310, 400 }, 1 },
    { 3, 2 * TS_PARTITION_NNZ - 500, 1, { 700, 3, 900 }, 1 },
    { 3, 6000, 0, { 400, 300, 20 }, 1 },
    { 5, 5000, 0, { 9, 80, 7, 300, 13 }, 1 },
};
#define N_WIDE_SHAPES (int)(sizeof wide_shapes / sizeof wide_shapes[0])

static const uint32_t wide_ranks[] = { 129, 200, 300, 513 };

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

/* Some entries are 0, those that may not stay so; with float32, whether one grows may be a matter
 * of rounding. */
static double entry(const struct rig_ask *ask, uint64_t z)
{
    return ask->precision == TS_FLOAT64 && z % 23 == 0 ? 0 : (float)(ts_unit(z) + 0.05);
}

static void put_start(const struct rig_disk *d, const struct rig_ask *ask, void *be)
{
    for (uint32_t m = 0; m < d->tensor->order; m++) {
        const uint64_t n = rig_rows(d, m) * ask->rank;
        double *a = malloc(n * sizeof *a);
        for (uint64_t i = 0; i < n; i++)
            a[i] = entry(ask, ts_mix(100 * m + i));
        rig_put(ask->backend, be, m, rig_rows(d, m), a);
        free(a);
    }
}

static void sweep(const struct rig_disk *d, const struct rig_ask *ask, void *be,
                  struct ts_feed *feed, double *weight, uint32_t number, struct outcome *o)
{
    for (uint32_t m = 0; m < d->tensor->order; m++) {
        const struct ts_multiply how = { .loss = &ts_loss_poisson,
                                         .weight = weight,
                                         .grow = 0.01,
                                         .rounds = ask->rounds,
                                         .judge = m + 1 == d->tensor->order,
                                         .hold_out = ask->hold_out };
        double *column = o->column + (number * MODES + m) * ask->rank;
        struct ts_multiply_sums sums = { .column = column };
        struct ts_backend_times times;
        const struct ts_request request = {
            .be = be, .kind = TS_REQUEST_MULTIPLY, .multiply = &how, .multiplied = &sums
        };
        rig_pass_of(ask->backend, d->tensor, feed, &request, 1, m, &times);
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

static struct outcome compute(const struct rig_disk *d, const struct rig_ask *ask)
{
    const struct ts_backend_conf conf = rig_conf(d->tensor, ask);
    struct outcome o = { .n_column = 2 * MODES * ask->rank };
    double *weight = malloc(ask->rank * sizeof *weight);
    struct ts_feed *feed;
    void *be;
    uint64_t at = 0;
    be = rig_backend_new(ask->backend, &conf);
    feed = rig_feed_new(ask->backend, d->tensor, be, ask->host_bytes);
    put_start(d, ask, be);
    o.column = calloc(o.n_column, sizeof *o.column);
    for (uint32_t r = 0; r < ask->rank; r++)
        weight[r] = 1;
    for (uint32_t m = 0; m < d->tensor->order; m++) { /* columns of the sum 1 */
        const struct ts_multiply how = { .weight = weight };
        struct ts_multiply_sums sums = { .column = o.column };
        OK(ask->backend->divide_columns(be, m, &how, &sums, &err));
        o.n_rows += rig_rows(d, m) * ask->rank;
    }
    for (uint32_t r = 0; r < ask->rank; r++)
        weight[r] = (double)d->tensor->nnz * (r + 1);
    for (uint32_t k = 0; k < 2; k++)
        sweep(d, ask, be, feed, weight, k, &o);
    o.rows = malloc(o.n_rows * sizeof *o.rows);
    for (uint32_t m = 0; m < d->tensor->order; m++) {
        const uint64_t n = rig_rows(d, m);
        OK(ask->backend->get_rows(be, m, 0, n, o.rows + at, &err));
        at += n * ask->rank;
    }
    free(weight);
    ts_feed_free(feed);
    ask->backend->close(be);
    return o;
}

static void compute_bits(const struct rig_disk *d, const struct rig_ask *ask, struct rig_bits *ret)
{
    struct outcome o = compute(d, ask);
    rig_keep(ret, "rows", o.rows, o.n_rows * sizeof *o.rows);
    rig_keep(ret, "columns", o.column, o.n_column * sizeof *o.column);
    rig_keep(ret, "violations", o.kkt, sizeof o.kkt);
    rig_keep(ret, "loss", &o.loss, sizeof o.loss);
    rig_keep(ret, "inner product", &o.inner, sizeof o.inner);
    rig_keep(ret, "held cells", o.held, sizeof o.held);
    outcome_free(&o);
}

/* Rounding of products of small numbers grows with the rounds. */
static void check_near(const char *what, double got, double want, double tolerance)
{
    rig_near(what, got, want, fabs(want) + 1e-3, tolerance);
}

/* Case i: a shape, a rank, a precision. */
static struct rig_ask ask_of(int i)
{
    const enum ts_precision precision = i / N_SHAPES % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    const uint32_t rank = ranks[(i % N_SHAPES + i / N_SHAPES) % N_RANKS];
    return (struct rig_ask){ .backend = rig_be,
                             .rank = rank,
                             .members = 1,
                             .rounds = 1 + (uint32_t)(i % 4) * 2,
                             .hold_out = { .share = i / N_SHAPES % 4 < 2 ? 0 : 0.15 * (1 + i % 3),
                                           .seed = 7 },
                             .precision = precision,
                             .needs = 1u << TS_ROW_MULTIPLY,
                             .own = 1,
                             .host_bytes = RIG_HOST_BYTES };
}
#define N_CASES (4 * N_SHAPES)

static struct rig_ask wide_ask_of(int i)
{
    const int j = i / N_WIDE_SHAPES;
    struct rig_ask ask = ask_of(i);
    ask.precision = j % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    ask.rank = wide_ranks[(i + j) % 4];
    ask.hold_out.share = i % 3 == 0 ? 0.2 : 0;
    return ask;
}
#define N_WIDE_CASES (3 * N_WIDE_SHAPES)

static void check_rows(const struct rig_shape *shape, struct rig_ask gpu)
{
    struct rig_disk d = rig_counts(shape);
    struct rig_ask cpu = gpu;
    const double tolerance = gpu.precision == TS_FLOAT64 ? 1e-10 : 2e-4;
    struct outcome got, want;
    cpu.backend = &ts_backend_cpu;
    got = compute(&d, &gpu);
    want = compute(&d, &cpu);
    check_near("log-likelihood", got.loss, want.loss, tolerance);
    check_near("inner product", got.inner, want.inner, tolerance);
    ck_assert_double_eq(got.held[0], want.held[0]);
    ck_assert_double_eq(got.held[3], want.held[3]);
    ck_assert((got.held[0] > 0) == (gpu.hold_out.share > 0));
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
    rig_disk_free(&d);
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

static void check_bits(const struct rig_shape *shape, struct rig_ask ask)
{
    struct rig_disk d = rig_counts(shape);
    rig_check_bits(&d, ask, compute_bits);
    rig_disk_free(&d);
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

int main(void)
{
    Suite *suite = rig_suite("gpu_counts");
    if (suite == NULL)
        return 77;
    test_add(suite, "rows", rows_are_those_of_cpu_cores, N_CASES);
    test_add(suite, "bits", bits_do_not_depend_on_devices_or_memory, N_CASES);
    test_add(suite, "many columns", rows_of_many_columns_are, N_WIDE_CASES);
    test_add(suite, "bits of many columns", bits_of_many_columns_do_not_either, 2 * N_WIDE_SHAPES);
    return test_run_suite(suite, CK_NOFORK);
}
