/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of observed cells on GPUs are the best there are: the gradient of what they lower, from an
 * obvious loop in float64, vanishes where bounds allow it. Sizes and errors are those of such a
 * loop, too. At orders 2 to 8, several ranks, bounds, l2, means and shares that are held out, and
 * weights of cells, of which those of 1 change no bit; with the same bits for any number of
 * devices, whether shards stay there or pass through. So are rows whose Gram matrices lie in device
 * memory. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "tests/gpu/gpu_rig.h"

#define MOST_RANK         513
#define N_WEIGHTED_SHAPES 4 /* the first, of which bits are compared with weights, too */

static const uint32_t ranks[] = { 32, 64, 25, 9, 128, 8, 7, 16, 1, 100, 31, 33 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* Rows of fewer and of more nonzeros than columns, than a batch of them, and that reach over
 * shards; of these ranks. */
static const struct rig_shape long_shapes[] = {
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

/* Rows of fewer nonzeros than columns, whose S is nearly singular: l2 is all that it has beside
 * them. Coordinate descent does not end there. Of few columns, of as many as a thread block holds,
 * and of more. */
static const struct rig_shape flat_shape = { 3, 2500, 0, { 110, 130, 90 }, 0 };
static const struct demand flat_demands[] = {
    { 0.01, 0, INFINITY, 0, 0, 0 },
    { 0.01, -0.125, 0.5, 0, 0, 0 },
    { 0.003, -INFINITY, 0.25, 1.5, 0, 1 },
};
static const uint32_t flat_ranks[] = { 160, 30, 130, 64, 200, 513 };
#define N_FLAT_DEMANDS (int)(sizeof flat_demands / sizeof flat_demands[0])
#define N_FLAT_RANKS   (int)(sizeof flat_ranks / sizeof flat_ranks[0])

static double complete(struct rig_run *r, uint32_t mode)
{
    const struct demand *want = r->ask->demand;
    const struct ts_row_update how = { .kind = TS_ROW_OBSERVED,
                                       .l2 = want->l2,
                                       .by_count = want->by_count,
                                       .lower = want->lower,
                                       .upper = want->upper,
                                       .mean = want->mean,
                                       .hold_out = r->ask->hold_out };
    double size = NAN;
    const struct ts_row_sums sums = { .size = &size };
    rig_pass(r, (struct ts_request){ .kind = TS_REQUEST_ROWS, .update = &how, .sums = &sums },
             mode);
    rig_get(r, mode, r->a[mode]);
    return size;
}

static struct ts_error_sums errors(struct rig_run *r, uint32_t mode)
{
    struct ts_error_sums sums = { .hold_out = r->ask->hold_out, .mean = r->ask->demand->mean };
    rig_pass(r, (struct ts_request){ .kind = TS_REQUEST_ERRORS, .errors = &sums }, mode);
    return sums;
}

/* ---- the obvious loop */

static double weight_of(const struct rig_run *r, uint64_t i)
{
    return r->d->x.weight == NULL ? 1 : (double)r->d->x.weight[i];
}

/* Of a row: the gradient (S + l2 I) a - m, sizes that say what rounding leaves of it, and how many
 * nonzeros or how much weight. */
struct slope {
    double *g, trace, m, count, left;
};

/* Those of all rows of a mode, from the rows a. */
static struct slope *slopes(const struct rig_run *r, uint32_t mode)
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
        if (rig_is_held(r, i))
            continue;
        rig_products(r, i, mode, p);
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

/* Of the gradient beside what it is a sum of, with bounds or not. With an l2 of 0 a column of which
 * at most c = 8 roundings are left beside others becomes 0, and sqrt(c) of the gradient may be left
 * there. */
static double tolerance_of(const struct rig_ask *ask)
{
    const int wide = ask->precision == TS_FLOAT64;
    if (ask->demand->l2 == 0)
        return wide ? 1e-6 : 5e-3;
    return wide ? 1e-9 : 1e-5;
}

/* Products of factors below the least normal number count as zero. */
static double lost_of(const struct rig_ask *ask)
{
    return ask->precision == TS_FLOAT64 ? DBL_MIN : FLT_MIN;
}

/* Returns the size of the rows. */
static double check_rows(const struct rig_run *r, uint32_t mode)
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

static struct rig_ask asked(struct rig_ask ask)
{
    ask.needs = 1u << TS_ROW_OBSERVED;
    ask.hold_out = (struct ts_hold_out){ .share = ask.demand->share, .seed = 11 };
    return ask;
}

/* Case i: a shape, a rank, a precision, what is asked of rows. */
static struct rig_ask ask_of(int i)
{
    const enum ts_precision precision = i / RIG_N_SHAPES % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    const uint32_t most = rig_be->most_rank(
        &(struct ts_backend_conf){ .needs = 1u << TS_ROW_OBSERVED, .precision = precision });
    const uint32_t rank = ranks[(i + i / RIG_N_SHAPES) % N_RANKS];
    return asked((struct rig_ask){ .rank = rank < most ? rank : most,
                                   .members = 1,
                                   .precision = precision,
                                   .demand = &demands[(i + i / RIG_N_SHAPES / 2) % N_DEMANDS],
                                   .host_bytes = RIG_HOST_BYTES });
}
#define N_CASES (6 * RIG_N_SHAPES)

/* The same of long rows: each shape with four of five demands. */
static struct rig_ask long_ask_of(int i)
{
    const int j = i / N_LONG_SHAPES;
    return asked((struct rig_ask){
        .rank = long_ranks[(i + j) % (j % 2 == 0 ? N_LONG_RANKS : N_LONG_RANKS - 1)],
        .members = 1,
        .precision = j % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32,
        .demand = &demands[(i + j) % N_DEMANDS],
        .host_bytes = RIG_HOST_BYTES });
}
#define N_LONG_CASES (4 * N_LONG_SHAPES)

/* Each rank in both precisions, each precision with all demands. */
static struct rig_ask flat_ask_of(int i)
{
    return asked((struct rig_ask){ .rank = flat_ranks[i % N_FLAT_RANKS],
                                   .members = 1,
                                   .precision = i < N_FLAT_RANKS ? TS_FLOAT64 : TS_FLOAT32,
                                   .demand = &flat_demands[(i + i / N_FLAT_RANKS) % N_FLAT_DEMANDS],
                                   .host_bytes = RIG_HOST_BYTES });
}
#define N_FLAT_CASES (2 * N_FLAT_RANKS)

static void check_best(const struct rig_shape *shape, enum rig_weights weights,
                       const struct rig_ask *ask)
{
    struct rig_disk d = rig_values(shape, weights);
    const double tolerance = ask->precision == TS_FLOAT64 ? 1e-10 : 1e-5;
    const double of_errors = ask->precision == TS_FLOAT64 ? 1e-9
                             : ask->demand->l2 == 0       ? 0.05 /* rows may be long */
                                                          : 1e-3;
    struct rig_run r = rig_open(&d, ask, rig_signed);
    for (uint32_t m = 0; m < d.x.order; m++) {
        const double size = complete(&r, m), want = check_rows(&r, m);
        rig_near("size", size, want, want, tolerance);
    }
    for (uint32_t m = 0; m < d.x.order; m++) {
        const struct ts_error_sums sums = errors(&r, m);
        rig_check_errors(&r, ask->demand->mean, of_errors, &sums);
    }
    rig_close(&r);
    rig_disk_free(&d);
}

/* From N_CASES on cells have weights. */
START_TEST(rows_are_the_best_there_are)
{
    const struct rig_ask ask = ask_of(_i);
    check_best(&rig_shapes[_i % RIG_N_SHAPES], _i < N_CASES ? RIG_NONE : RIG_ANY, &ask);
}
END_TEST

/* In every other one of the second half they have. */
START_TEST(long_rows_are_the_best_there_are)
{
    const struct rig_ask ask = long_ask_of(_i);
    check_best(&long_shapes[_i % N_LONG_SHAPES],
               _i >= N_LONG_CASES / 2 && _i % 2 == 0 ? RIG_ANY : RIG_NONE, &ask);
}
END_TEST

START_TEST(flat_rows_are_the_best_there_are)
{
    const struct rig_ask ask = flat_ask_of(_i);
    check_best(&flat_shape, RIG_NONE, &ask);
}
END_TEST

/* ---- bits */

/* Two sweeps and their errors. */
static void compute(const struct rig_disk *d, const struct rig_ask *ask, struct rig_bits *ret)
{
    struct rig_run r = rig_open(d, ask, rig_signed);
    struct ts_error_sums sums;
    for (uint32_t k = 0; k < 2 * d->x.order; k++) {
        const double size = complete(&r, k % d->x.order);
        rig_keep(ret, "size", &size, sizeof size);
    }
    sums = errors(&r, d->x.order - 1);
    rig_keep(ret, "errors", &sums.kept, sizeof sums.kept);
    rig_keep(ret, "errors of held cells", &sums.held, sizeof sums.held);
    for (uint32_t m = 0; m < d->x.order; m++)
        rig_keep(ret, "rows", r.a[m], d->x.dim[m] * ask->rank * sizeof *r.a[m]);
    rig_close(&r);
}

static void check_bits(const struct rig_shape *shape, enum rig_weights weights, struct rig_ask ask)
{
    struct rig_disk d = rig_values(shape, weights);
    rig_check_bits(&d, ask, compute);
    rig_disk_free(&d);
}

/* From RIG_N_SHAPES on cells have weights. */
START_TEST(bits_do_not_depend_on_devices_or_memory)
{
    check_bits(&rig_shapes[_i % RIG_N_SHAPES], _i < RIG_N_SHAPES ? RIG_NONE : RIG_ANY,
               ask_of(_i + RIG_N_SHAPES * (_i % 2)));
}
END_TEST

START_TEST(bits_of_long_rows_do_not_either)
{
    check_bits(&long_shapes[_i], _i % 2 == 0 ? RIG_NONE : RIG_ANY,
               long_ask_of(_i + N_LONG_SHAPES * (_i % 2)));
}
END_TEST

START_TEST(weights_of_1_change_no_bit)
{
    const struct rig_ask ask = ask_of(_i);
    rig_check_ones(&rig_shapes[_i % RIG_N_SHAPES], &ask, compute);
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
    struct rig_disk d = rig_values(&rig_shapes[3], RIG_NONE);
    const uint32_t most = rig_be->most_rank(
        &(struct ts_backend_conf){ .needs = 1u << TS_ROW_OBSERVED, .precision = TS_FLOAT32 });
    const struct ts_row_update how = { .kind = TS_ROW_OBSERVED, .l2 = 1 };
    const struct ts_row_sums sums = { 0 };
    rig_check_refused(
        &d,
        asked((struct rig_ask){
            .rank = most + 1, .members = 1, .demand = &demands[0], .host_bytes = RIG_HOST_BYTES }),
        (struct ts_request){ .kind = TS_REQUEST_ROWS, .update = &how, .sums = &sums },
        "a rank of at most");
    rig_disk_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = rig_suite("gpu_observed");
    if (suite == NULL)
        return 77;
    test_add(suite, "rows", rows_are_the_best_there_are, 2 * N_CASES);
    test_add(suite, "bits", bits_do_not_depend_on_devices_or_memory,
             RIG_N_SHAPES + N_WEIGHTED_SHAPES);
    test_add(suite, "long rows", long_rows_are_the_best_there_are, N_LONG_CASES);
    test_add(suite, "flat rows", flat_rows_are_the_best_there_are, N_FLAT_CASES);
    test_add(suite, "bits of long rows", bits_of_long_rows_do_not_either, N_LONG_SHAPES);
    test_add(suite, "weights of 1", weights_of_1_change_no_bit, N_CASES);
    rig_add_gpu(suite, "refused", what_is_not_there_is_refused, 1);
    return test_run_suite(suite, CK_NOFORK);
}
