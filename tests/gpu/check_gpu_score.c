/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of residuals on GPUs, of all nonzeros and of slices of each mode, are those of an obvious
 * loop in float64; at orders 2 to 8, several ranks, with weights and without; those of 1 change no
 * bit; with the same bits for any number of devices, whether shards stay there or pass through. */
#include <math.h>
#include <stdlib.h>

#include "tests/gpu/gpu_rig.h"

static const uint32_t ranks[] = { 32, 64, 25, 9, 128, 8, 7, 16, 1, 100, 31, 33 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

/* Rows of more columns than a warp holds. */
static const struct rig_shape wide_shapes[] = {
    { 3, 9000, 0, { 900, 300, 40 }, 0 },
    { 3, 2 * TS_PARTITION_NNZ - 300, 1, { 3000, 3, 400 }, 1 },
    { 4, 6000, 0, { 51, 2, 116, 900 }, 0 },
    { 7, 5000, 0, { 5, 6, 7, 3, 9, 4, 5 }, 0 },
};
#define N_WIDE_SHAPES (int)(sizeof wide_shapes / sizeof wide_shapes[0])

static const uint32_t wide_ranks[] = { 129, 200, 300, 513 };

/* Case i: a shape, a rank, a precision. */
static struct rig_ask ask_of(int i)
{
    const enum ts_precision precision = i / RIG_N_SHAPES % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    const uint32_t most = rig_be->most_rank(
        &(struct ts_backend_conf){ .needs = TS_CAN(SCORES), .precision = precision });
    const uint32_t rank = ranks[(i + i / RIG_N_SHAPES) % N_RANKS];
    return (struct rig_ask){ .rank = rank < most ? rank : most,
                             .members = 1,
                             .precision = precision,
                             .needs = TS_CAN(SCORES) | TS_CAN(SLICES),
                             .host_bytes = RIG_HOST_BYTES };
}
#define N_CASES (4 * RIG_N_SHAPES)

static struct rig_ask wide_ask_of(int i)
{
    struct rig_ask ask = ask_of(0);
    ask.precision = i / N_WIDE_SHAPES % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    ask.rank = wide_ranks[(i + i / N_WIDE_SHAPES) % 4];
    return ask;
}
#define N_WIDE_CASES (4 * N_WIDE_SHAPES)

static double entry(const struct rig_ask *ask, uint32_t mode, double u)
{
    (void)ask;
    return 1.5 * u - (mode == 1 ? 0.1 : 0);
}

static struct ts_scores scores_of(struct rig_run *r, uint32_t mode, int slices)
{
    struct ts_scores s = { .counts = r->d->x.weight == NULL };
    if (slices)
        s.slice = calloc(r->d->x.dim[mode], sizeof *s.slice);
    rig_pass(r, (struct ts_request){ .kind = TS_REQUEST_SCORES, .scores = &s }, mode);
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

/* Of the mode; *size[0] those of all, size[1 + row] of rows: sums of the magnitudes of terms, which
 * say what rounding leaves. */
static struct ts_scores want_of(const struct rig_run *r, uint32_t mode, double *size)
{
    const struct test_coo *c = &r->d->x;
    struct ts_scores s = { .counts = c->weight == NULL,
                           .slice = calloc(c->dim[mode], sizeof *s.slice) };
    double *p = malloc(r->ask->rank * sizeof *p);
    for (uint64_t i = 0; i < c->nnz; i++) {
        const double x = c->val[i], w = c->weight == NULL ? 1 : (double)c->weight[i];
        const uint32_t row = c->idx[mode][i];
        double m = 0, terms = 0;
        rig_products(r, i, c->order, p);
        for (uint32_t k = 0; k < r->ask->rank; k++) {
            m += p[k];
            terms += fabs(p[k]);
        }
        add(&s.all, x, m, w);
        add(&s.slice[row], x, m, w);
        size[0] += w * (fabs(x) + terms) * (1 + fabs(x) + terms);
        size[1 + row] += w * (fabs(x) + terms) * (1 + fabs(x) + terms);
        s.counts &= x >= 0 && x == floor(x) && m > 0;
        s.logs += s.counts ? x * log(m) : 0;
    }
    free(p);
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

static void check_loop(const struct rig_shape *shape, enum rig_weights weights, struct rig_ask ask)
{
    struct rig_disk d = rig_values(shape, weights);
    const double tolerance = ask.precision == TS_FLOAT64 ? 1e-12 : 2e-6;
    struct rig_run r = rig_open(&d, &ask, entry);
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
    rig_close(&r);
    rig_disk_free(&d);
}

/* The second half of the cases has weights. */
START_TEST(sums_are_those_of_a_loop)
{
    check_loop(&rig_shapes[_i % RIG_N_SHAPES], _i < N_CASES ? RIG_NONE : RIG_ANY, ask_of(_i));
}
END_TEST

START_TEST(sums_of_many_columns_are)
{
    check_loop(&wide_shapes[_i % N_WIDE_SHAPES], _i < N_WIDE_CASES / 2 ? RIG_NONE : RIG_ANY,
               wide_ask_of(_i));
}
END_TEST

/* ---- bits */

/* logs: with the sum that is of counts alone, which have no weights. */
static void keep(const struct rig_disk *d, const struct rig_ask *ask, int logs,
                 struct rig_bits *ret)
{
    struct rig_run r = rig_open(d, ask, entry);
    for (uint32_t m = 0; m < d->x.order; m++) {
        const struct ts_scores s = scores_of(&r, m, 1);
        rig_keep(ret, "sums", &s.all, sizeof s.all);
        rig_keep(ret, "sums of slices", s.slice, d->x.dim[m] * sizeof *s.slice);
        if (logs && s.counts)
            rig_keep(ret, "logarithms", &s.logs, sizeof s.logs);
        free(s.slice);
    }
    rig_close(&r);
}

static void compute(const struct rig_disk *d, const struct rig_ask *ask, struct rig_bits *ret)
{
    keep(d, ask, 1, ret);
}

static void compute_sums(const struct rig_disk *d, const struct rig_ask *ask, struct rig_bits *ret)
{
    keep(d, ask, 0, ret);
}

static void check_bits(const struct rig_shape *shape, enum rig_weights weights, struct rig_ask ask)
{
    struct rig_disk d = rig_values(shape, weights);
    rig_check_bits(&d, ask, compute);
    rig_disk_free(&d);
}

START_TEST(bits_do_not_depend_on_devices_or_memory)
{
    check_bits(&rig_shapes[_i % RIG_N_SHAPES], _i % 2 == 0 ? RIG_NONE : RIG_ANY,
               ask_of(_i + RIG_N_SHAPES * (_i % 2)));
}
END_TEST

START_TEST(bits_of_many_columns_do_not_either)
{
    check_bits(&wide_shapes[_i], _i % 2 == 0 ? RIG_NONE : RIG_ANY, wide_ask_of(_i));
}
END_TEST

START_TEST(weights_of_1_change_no_bit)
{
    const struct rig_ask ask = ask_of(_i);
    rig_check_ones(&rig_shapes[_i % RIG_N_SHAPES], &ask, compute_sums);
}
END_TEST

int main(void)
{
    Suite *suite = rig_suite("gpu_score");
    if (suite == NULL)
        return 77;
    test_add(suite, "sums", sums_are_those_of_a_loop, 2 * N_CASES);
    test_add(suite, "bits", bits_do_not_depend_on_devices_or_memory, RIG_N_SHAPES);
    test_add(suite, "many columns", sums_of_many_columns_are, N_WIDE_CASES);
    test_add(suite, "bits of many columns", bits_of_many_columns_do_not_either, N_WIDE_SHAPES);
    test_add(suite, "weights of 1", weights_of_1_change_no_bit, 2 * RIG_N_SHAPES);
    return test_run_suite(suite, CK_NOFORK);
}
