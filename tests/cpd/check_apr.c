/* SPDX-License-Identifier: BSD-3-Clause */
/* Poisson models are those of the textbook, and have the same bits however they are run. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "stream/loss.h"
#include "stream/loss_functions.h"
#include "tests/cpd/cp_case.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

#define GROW 0.01

static const struct ts_spec poisson = { .poisson = 1 };

/* ---- the textbook ---- */

/* Factors whose columns have the sum 1, and phi of the last round of each. */
struct slow {
    const struct test_coo *x;
    uint32_t rank;
    double *a[TS_MAX_ORDER], *phi[TS_MAX_ORDER], *weight;
};

/* The mode's columns get the sum 1, the weights the rest. */
static void norm_mode(struct slow *s, uint32_t mode)
{
    for (uint32_t r = 0; r < s->rank; r++) {
        double sum = 0;
        for (uint64_t i = 0; i < s->x->dim[mode]; i++)
            sum += s->a[mode][i * s->rank + r];
        for (uint64_t i = 0; i < s->x->dim[mode]; i++)
            s->a[mode][i * s->rank + r] /= sum > 0 ? sum : 1;
        s->weight[r] *= sum;
    }
}

static void new_slow(struct slow *s, const struct test_coo *x, uint32_t rank, uint64_t seed)
{
    *s = (struct slow){ .x = x, .rank = rank, .weight = malloc(rank * sizeof(double)) };
    for (uint32_t r = 0; r < rank; r++)
        s->weight[r] = 1;
    for (uint32_t m = 0; m < x->order; m++) {
        s->a[m] = malloc(x->dim[m] * rank * sizeof(double));
        s->phi[m] = calloc(x->dim[m] * rank, sizeof(double));
        for (uint64_t i = 0; i < x->dim[m] * rank; i++)
            s->a[m][i] = ts_init_entry(seed, m, i / rank, (uint32_t)(i % rank));
        norm_mode(s, m);
    }
}

static void free_slow(struct slow *s)
{
    for (uint32_t m = 0; m < s->x->order; m++) {
        free(s->a[m]);
        free(s->phi[m]);
    }
    free(s->weight);
}

static double model_at(const struct slow *s, uint64_t n, uint32_t mode, double *p)
{
    double sum = 0;
    for (uint32_t r = 0; r < s->rank; r++) {
        p[r] = 1;
        for (uint32_t m = 0; m < s->x->order; m++)
            p[r] *= m == mode ? 1 : s->a[m][s->x->idx[m][n] * (uint64_t)s->rank + r];
        sum += mode < s->x->order ? p[r] * s->a[mode][s->x->idx[mode][n] * (uint64_t)s->rank + r]
                                  : p[r] * s->weight[r];
    }
    return fmax(sum, TS_LOSS_LEAST);
}

/* Returns the violation of the first round. */
static double solve_mode(struct slow *s, uint32_t mode, uint32_t rounds)
{
    const uint64_t n_rows = s->x->dim[mode];
    double *a = s->a[mode], *phi = s->phi[mode], p[64], violation = 0;
    for (uint64_t i = 0; i < n_rows * s->rank; i++)
        a[i] = (a[i] + (a[i] < TS_ROW_ZERO && phi[i] > 1 ? GROW : 0)) * s->weight[i % s->rank];
    for (uint32_t k = 0; k < rounds; k++) {
        memset(phi, 0, n_rows * s->rank * sizeof *phi);
        for (uint64_t n = 0; n < s->x->nnz; n++) {
            const double m = model_at(s, n, mode, p);
            for (uint32_t r = 0; r < s->rank; r++)
                phi[s->x->idx[mode][n] * (uint64_t)s->rank + r] += s->x->val[n] / m * p[r];
        }
        for (uint64_t i = 0; i < n_rows * s->rank; i++) {
            if (k == 0)
                violation = fmax(violation, fabs(fmin(a[i], 1 - phi[i])));
            a[i] *= phi[i];
        }
    }
    for (uint32_t r = 0; r < s->rank; r++)
        s->weight[r] = 1;
    norm_mode(s, mode);
    return violation;
}

static double likelihood(const struct slow *s)
{
    double sum = 0, p[64];
    for (uint64_t n = 0; n < s->x->nnz; n++)
        sum += s->x->val[n] * log(model_at(s, n, s->x->order, p));
    for (uint32_t r = 0; r < s->rank; r++) {
        double all = s->weight[r];
        for (uint32_t m = 0; m < s->x->order; m++) {
            double column = 0;
            for (uint64_t i = 0; i < s->x->dim[m]; i++)
                column += s->a[m][i * s->rank + r];
            all *= column;
        }
        sum -= all;
    }
    return sum;
}

/* ---- runs ---- */

START_TEST(likelihoods_are_those_of_the_textbook)
{
    const struct test_shape *shape = &test_shapes[_i / 2];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    /* In a mode of one index columns are parallel and phi nears 1: which zeros grow there is a
     * matter of rounding. */
    const double tol = precision == TS_FLOAT32 ? 1e-5 : _i / 2 == 3 ? 1e-8 : 1e-10;
    const struct test_tsh_conf tc = { .kind = TS_VALUE_INT };
    struct test_cp_conf conf = { .rank = shape->rank,
                                 .iters = 5,
                                 .inner = 1 + 9 * ((uint32_t)_i / 2 % 2),
                                 .seed = 3,
                                 .threads = 1 + (uint32_t)_i % 2,
                                 .precision = precision,
                                 .spec = &poisson };
    struct test_coo x = test_coo_random(9, shape->order, shape->dim, shape->nnz, 9, 0);
    struct slow s;
    struct test_cp a;
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_case_run(&conf);
    ck_assert_uint_eq(a.sweeps, 5);
    new_slow(&s, &x, shape->rank, 3);
    for (uint32_t k = 0; k < 5; k++) {
        double want, violation = 0;
        for (uint32_t m = 0; m < x.order; m++)
            violation = fmax(violation, solve_mode(&s, m, conf.inner));
        want = likelihood(&s);
        if (!(fabs(-a.objective[k] - want) <= tol * (1 + fabs(want))))
            ck_abort_msg("shape %d, sweep %u: %.17g, expected %.17g", _i / 2, k + 1,
                         -a.objective[k], want);
        if (k == 4 && !(fabs(a.last.kkt - violation) <= 100 * tol * (1 + violation)))
            ck_abort_msg("shape %d: violation %.17g, expected %.17g", _i / 2, a.last.kkt,
                         violation);
    }
    free_slow(&s);
    test_cp_free(&a);
    test_coo_free(&x);
}
END_TEST

/* Of rows that lie in several shards, too, the likelihood told is that of the factors at the
 * end. */
START_TEST(likelihoods_are_of_the_factors)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64, .shard_partitions = 1 };
    static const uint64_t dim[3] = { 90, 60, 30 };
    struct test_cp_conf conf = {
        .rank = 6, .iters = 4, .inner = 5, .seed = 1, .precision = TS_FLOAT64, .spec = &poisson
    };
    struct test_coo x = test_coo_random(5, 3, dim, 50000, 0, 0.5);
    struct slow s = { .x = &x, .rank = 6 };
    struct test_cp a;
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_case_run(&conf);
    for (uint32_t m = 0; m < 3; m++)
        s.a[m] = a.factor[m];
    s.weight = a.weight;
    ck_assert_double_eq_tol(-a.objective[3] / likelihood(&s), 1, 1e-10);
    for (int k = 1; k < 4; k++)
        ck_assert_double_lt(a.objective[k], a.objective[k - 1]);
    test_cp_free(&a);
    test_coo_free(&x);
}
END_TEST

START_TEST(threads_and_memory_do_not_matter)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .shard_partitions = 1 };
    const struct test_cp_conf conf = { .rank = 7,
                                       .iters = 3,
                                       .inner = 4,
                                       .seed = 3,
                                       .threads = 1,
                                       .precision = _i == 0 ? TS_FLOAT32 : TS_FLOAT64,
                                       .spec = &poisson };
    struct test_cp a;
    test_case_write(41, &tc);
    a = test_case_streamed(&conf);
    test_cp_free(&a);
}
END_TEST

START_TEST(a_run_that_was_stopped_has_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_INT };
    static const uint64_t dim[3] = { 40, 30, 20 };
    const struct test_cp_conf conf = { .rank = 9, /* some zeros want to grow */
                                       .iters = 4,
                                       .tol = 1e-12, /* a violation of 0 would end it */
                                       .inner = 30,
                                       .seed = 3,
                                       .precision = _i == 0 ? TS_FLOAT32 : TS_FLOAT64,
                                       .spec = &poisson };
    struct test_coo x = test_coo_random(9, 3, dim, 700, 9, 0);
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
    test_case_stopped(&conf, 0);
}
END_TEST

START_TEST(it_converges)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_INT };
    static const uint64_t dim[3] = { 10, 9, 8 };
    struct test_cp_conf conf = { .rank = 1,
                                 .iters = 90,
                                 .tol = 1e-6,
                                 .inner = 10,
                                 .seed = 3,
                                 .precision = TS_FLOAT64,
                                 .spec = &poisson };
    struct test_coo x = test_coo_random(9, 3, dim, 300, 9, 0);
    struct test_cp a;
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
    a = test_case_run(&conf);
    ck_assert(a.converged);
    ck_assert_double_lt(a.last.kkt, 1e-6);
    ck_assert_uint_lt(a.sweeps, 90);
    test_cp_free(&a);
}
END_TEST

START_TEST(what_cannot_be_asked_is_refused)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64 };
    static const uint64_t dim[3] = { 10, 9, 8 };
    struct test_cp_conf conf = {
        .rank = 2, .iters = 2, .inner = 2, .seed = 3, .precision = TS_FLOAT64, .spec = &poisson
    };
    const struct ts_spec sparse = { .poisson = 1, .mode = { { 0 }, { .l1 = 1 } } };
    const struct ts_spec observed = { .poisson = 1, .observed = 1 };
    struct test_coo x = test_coo_random(9, 3, dim, 300, 9, 0);
    char where[100];
    struct test_cp a;
    x.val[77] = -2;
    snprintf(where, sizeof where, "(%u, %u, %u) is -2: ", x.idx[0][77] + 1, x.idx[1][77] + 1,
             x.idx[2][77] + 1);
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text, where) != NULL, "%s, not %s", a.err.text, where);
    conf.inner = 0;
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    conf.inner = 2;
    conf.spec = &sparse;
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    conf.spec = &observed;
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("apr");
    TCase *t = tcase_create("apr");
    tcase_add_checked_fixture(t, test_case_setup, test_case_teardown);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, likelihoods_are_those_of_the_textbook, 0, 2 * TEST_SHAPES);
    tcase_add_test(t, likelihoods_are_of_the_factors);
    tcase_add_loop_test(t, threads_and_memory_do_not_matter, 0, 2);
    tcase_add_loop_test(t, a_run_that_was_stopped_has_the_same_bits, 0, 2);
    tcase_add_test(t, it_converges);
    tcase_add_test(t, what_cannot_be_asked_is_refused);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
