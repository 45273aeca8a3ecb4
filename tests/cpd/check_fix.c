/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs that keep factors as they are given are those of a slow, obvious program, and have the same
 * bits however they are run. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/cpd/cp_case.h"
#include "tests/support/run_suite.h"
#include "tests/cpd/slow_cp.h"
#include "tests/format/tsh_writer.h"

/* Which modes are fixed. */
static void demand(int which, uint32_t order, struct ts_spec *spec)
{
    struct ts_constraint *c = spec->mode;
    *spec = ts_spec_plain;
    for (uint32_t m = 0; m < order; m++)
        switch (which) {
        case 0: /* the first */
            c[m].fixed = m == 0;
            break;
        case 1: /* the last */
            c[m].fixed = m + 1 == order;
            break;
        case 2: /* all but one in the middle */
            c[m].fixed = m != order / 2;
            break;
        default: /* all but the first, which has a penalty */
            c[m] = (struct ts_constraint){ .fixed = m > 0, .l2 = m == 0 ? 0.3 : 0 };
        }
}
#define N_DEMANDS 4

/* Entries have a size of 1 or so; roundings of 1e-16 grow by the condition of G and with the
 * sweeps. Half the slices are empty: what the start has for them is not in the model. */
START_TEST(runs_are_those_of_the_slow_program)
{
    const struct test_shape *s = &test_shapes[_i / N_DEMANDS];
    struct test_coo x = test_coo_random(17, s->order, s->dim, s->nnz, 0, 0.5);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .shard_partitions = 1, .stretch = 2 };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = s->rank,
                                 .iters = 4,
                                 .threads = 2,
                                 .precision = TS_FLOAT64,
                                 .init = test_case_model,
                                 .spec = &spec };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = s->rank };
    struct test_cp a;
    double before = INFINITY;
    demand(_i % N_DEMANDS, s->order, &spec);
    test_tsh_write(test_case_dir, &x, &tc);
    test_slow_new(&b, 3);
    test_slow_write(&b, &tc, test_case_model);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t m = 0; m < x.order; m++)
            test_slow_solve(&b, m);
        ck_assert_double_eq_tol(a.fit[k], 1 - sqrt(test_slow_distance(&b) / b.size2), 1e-10);
        ck_assert(k < 1 || test_slow_distance(&b) <= before * (1 + 1e-9));
        before = test_slow_distance(&b);
    }
    for (uint32_t m = 0; m < x.order; m++)
        for (uint32_t r = 0; r < s->rank; r++) {
            double norm = 0;
            for (uint64_t i = 0; i < x.dim[m]; i++)
                norm += b.a[m][i * s->rank + r] * b.a[m][i * s->rank + r];
            norm = norm > 0 ? sqrt(norm) : 1;
            ck_assert(!spec.mode[m].fixed || fabs(a.norm[m * s->rank + r] - norm) <= 1e-12 * norm);
            for (uint64_t i = 0; i < x.dim[m]; i++)
                if (spec.mode[m].fixed || (_i / N_DEMANDS != 2 && _i / N_DEMANDS != 3))
                    ck_assert_double_eq_tol(a.factor[m][i * s->rank + r],
                                            b.a[m][i * s->rank + r] / norm, 1e-8);
        }
    test_cp_free(&a);
    test_slow_free(&b);
    test_coo_free(&x);
}
END_TEST

/* ---- the same bits ---- */

/* Near rank 2, so that float32's sums are too coarse for the fit and the last mode's product is
 * taken twice. */
static void write_tensor(void)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct test_coo x = { .order = 3, .nnz = 12 * 11 * 10, .dim = { 12, 11, 10 } };
    struct ts_spec spec = { .mode = { { 0 } } };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = 2 };
    for (uint32_t m = 0; m < 3; m++)
        x.idx[m] = malloc(x.nnz * sizeof(uint32_t));
    x.val = calloc(x.nnz, sizeof(double));
    for (uint64_t n = 0; n < x.nnz; n++) {
        x.idx[0][n] = (uint32_t)(n / 110);
        x.idx[1][n] = (uint32_t)(n / 10 % 11);
        x.idx[2][n] = (uint32_t)(n % 10);
        x.val[n] = (float)((double)(n / 110 + 1) * (double)(n % 10 + 1) +
                           0.01 * (double)(n / 10 % 11) * (double)(n % 7));
    }
    test_tsh_write(test_case_dir, &x, &tc);
    test_slow_new(&b, 5);
    for (uint32_t k = 0; k < 9; k++) /* so that what is fixed fits well */
        for (uint32_t m = 0; m < 3; m++)
            test_slow_solve(&b, m);
    test_slow_write(&b, &tc, test_case_model);
    test_slow_free(&b);
    test_coo_free(&x);
}

/* Every product is given up once; the run goes on without the file that it started from. */
START_TEST(a_run_that_was_stopped_has_the_same_bits)
{
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 2,
                                 .iters = 5,
                                 .precision = (enum ts_precision)(_i % 2),
                                 .init = test_case_model,
                                 .states = test_case_states,
                                 .spec = &spec };
    struct test_cp whole, a;
    char from[4200];
    uint32_t n_passes;
    snprintf(from, sizeof from, "%s/" TS_STATE_NAME_1, test_case_states);
    demand(_i / 2, 3, &spec);
    n_passes = 3 - (uint32_t)__builtin_popcount(ts_spec_skipped(&spec, 3));
    write_tensor();
    conf.threads = 1;
    whole = test_case_run(&conf);
    if (conf.precision == TS_FLOAT64)
        ck_assert_uint_eq(whole.n_products, n_passes * whole.sweeps);
    else if (_i / 2 < 3) /* a penalty leaves more than float32's rounding */
        ck_assert_uint_gt(whole.n_products, n_passes * whole.sweeps);
    for (uint32_t k = 1; k <= whole.n_products; k++) {
        conf.stop_product = k;
        conf.init = test_case_model;
        a = test_cp_run(test_case_dir, &conf);
        ck_assert_int_eq(a.rc, TS_ESTOP);
        ck_assert_uint_gt(a.saved_sweep, 0);
        test_cp_free(&a);
        conf.stop_product = 0;
        conf.threads = 2;
        conf.from = from;
        conf.init = NULL;
        a = test_case_run(&conf);
        test_case_same(&whole, &a);
        conf.from = NULL;
        conf.threads = 1;
        test_cp_free(&a);
    }
    test_cp_free(&whole);
}
END_TEST

START_TEST(threads_and_memory_do_not_matter)
{
    static const uint64_t dim[3] = { 90, 60, 30 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .stretch = 2, .shard_partitions = 1 };
    struct test_coo x = test_coo_random(41, 3, dim, 50000, 0, 0.5);
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 7,
                                 .iters = 4,
                                 .threads = 1,
                                 .precision = (enum ts_precision)(_i % 2),
                                 .init = test_case_model,
                                 .spec = &spec };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = 7 };
    struct test_cp one, many;
    demand(_i / 2, 3, &spec);
    test_tsh_write(test_case_dir, &x, &tc);
    test_slow_new(&b, 2);
    test_slow_write(&b, &tc, test_case_model);
    one = test_case_run(&conf);
    conf.threads = 3;
    conf.host_bytes = 200000;
    many = test_case_run(&conf);
    ck_assert_uint_eq(one.n_slots, 0);
    ck_assert_uint_gt(many.n_slots, 0);
    test_case_same(&one, &many);
    ck_assert_uint_eq(one.n_products,
                      4 * (3 - (uint32_t)__builtin_popcount(ts_spec_skipped(&spec, 3))));
    test_cp_free(&one);
    test_cp_free(&many);
    test_slow_free(&b);
    test_coo_free(&x);
}
END_TEST

START_TEST(a_state_with_another_mode_fixed_is_refused)
{
    struct ts_spec spec = { .mode = { { .fixed = 1 } } };
    struct test_cp_conf conf = { .rank = 2,
                                 .iters = 3,
                                 .init = test_case_model,
                                 .states = test_case_states,
                                 .stop_sweep = 2,
                                 .spec = &spec };
    struct test_cp a;
    char from[4200];
    snprintf(from, sizeof from, "%s/" TS_STATE_NAME_1, test_case_states);
    write_tensor();
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_ESTOP);
    test_cp_free(&a);
    conf.from = from;
    conf.init = NULL;
    spec.mode[1].fixed = 1;
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text, "mode 2 of the run has these constraints: none; "
                                     "it cannot continue with: fixed") != NULL,
                  "%s", a.err.text);
    test_cp_free(&a);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("fix");
    TCase *c = tcase_create("fix");
    tcase_add_checked_fixture(c, test_case_setup, test_case_teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, runs_are_those_of_the_slow_program, 0, TEST_SHAPES * N_DEMANDS);
    tcase_add_loop_test(c, a_run_that_was_stopped_has_the_same_bits, 0, 2 * N_DEMANDS);
    tcase_add_loop_test(c, threads_and_memory_do_not_matter, 0, 2 * N_DEMANDS);
    tcase_add_test(c, a_state_with_another_mode_fixed_is_refused);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
