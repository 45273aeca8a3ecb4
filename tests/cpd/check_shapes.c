/* SPDX-License-Identifier: BSD-3-Clause */
/* Factors with orthonormal columns, or with neighbouring rows alike, are those of a slow, obvious
 * program; what is minimised never rises, columns are drawn where nothing says what they are, and
 * the bits are the same however they are computed. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/cpd/cp_case.h"
#include "tests/cpd/constraint_case.h"
#include "tests/support/run_suite.h"
#include "tests/cpd/slow_cp.h"

static double most_of(double a, double b)
{
    return a > b ? a : b;
}

/* How far columns are from orthonormal. */
static double defect(const double *a, uint64_t n, uint32_t rank)
{
    double most = 0;
    for (uint32_t p = 0; p < rank; p++)
        for (uint32_t q = 0; q <= p; q++) {
            double sum = 0;
            for (uint64_t i = 0; i < n; i++)
                sum += a[i * rank + p] * a[i * rank + q];
            most = most_of(most, fabs(sum - (p == q)));
        }
    return most;
}

/* ---- whole runs beside a slow program ---- */

/* There is a penalty in it. */
static int has_objective(int which)
{
    return which == 2 || which > 3;
}

/* Once every mode was updated, what is minimised never rises, mode by mode: a random start keeps to
 * nothing. */
START_TEST(runs_are_those_of_the_slow_program)
{
    const struct test_shape *s = &test_shapes[_i / TEST_COLUMNED];
    struct test_coo x = test_coo_random(17, s->order, s->dim, s->nnz, 0, 0.5);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .shard_partitions = 1 };
    struct ts_spec spec;
    struct test_cp_conf conf = {
        .rank = s->rank, .iters = 4, .seed = 3, .threads = 2, .precision = TS_FLOAT64, .spec = &spec
    };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = s->rank };
    struct test_cp a;
    double before = INFINITY;
    int fits = 1;
    test_constraints(TEST_COLUMNS, _i % TEST_COLUMNED, s->order, &spec);
    test_tsh_write(test_case_dir, &x, &tc);
    for (uint32_t m = 0; m < x.order; m++)
        fits = fits && (!spec.mode[m].orthogonal || x.dim[m] >= s->rank);
    a = test_cp_run(test_case_dir, &conf);
    if (!fits) {
        ck_assert_int_eq(a.rc, TS_EARG);
        ck_assert_ptr_nonnull(strstr(a.err.text, "so no more of its columns"));
        test_cp_free(&a);
        test_coo_free(&x);
        return;
    }
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    test_slow_new(&b, conf.seed);
    test_slow_signs(&b);
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t m = 0; m < x.order; m++) {
            double now;
            test_slow_solve(&b, m);
            now = test_slow_objective(&b);
            ck_assert_msg(k == 0 || now <= before * (1 + 1e-9),
                          "sweep %u, mode %u: %.15g after %.15g", k + 1, m + 1, now, before);
            before = now;
        }
        if (a.last.n_singular > 0) /* rounding chooses among solutions */
            continue;
        ck_assert_double_eq_tol(a.fit[k], 1 - sqrt(test_slow_distance(&b) / b.size2), 1e-10);
        if (has_objective(_i % TEST_COLUMNED))
            ck_assert_double_eq_tol(a.objective[k], before, 1e-10 * b.size2);
        else
            ck_assert(isnan(a.objective[k]));
    }
    ck_assert(a.last.n_singular == 0 || s->dim[0] < s->rank);
    for (uint32_t k = 2; k < 4; k++)
        if (has_objective(_i % TEST_COLUMNED))
            ck_assert_double_le(a.objective[k], a.objective[k - 1] * (1 + 1e-9));
        else
            ck_assert_double_ge(a.fit[k], a.fit[k - 1] - 1e-10);
    for (uint32_t m = 0; m < x.order; m++) {
        if (spec.mode[m].orthogonal)
            ck_assert_double_le(defect(a.factor[m], x.dim[m], s->rank), 1e-12);
        for (uint32_t r = 0; r < s->rank && a.last.n_singular == 0; r++) {
            double norm = 0;
            for (uint64_t i = 0; i < x.dim[m]; i++)
                norm += b.a[m][i * s->rank + r] * b.a[m][i * s->rank + r];
            norm = norm > 0 && !spec.mode[m].bounded ? sqrt(norm) : 1;
            for (uint64_t i = 0; i < x.dim[m]; i++)
                ck_assert_double_eq_tol(a.factor[m][i * s->rank + r],
                                        b.a[m][i * s->rank + r] / norm, 1e-8);
        }
    }
    test_cp_free(&a);
    test_slow_free(&b);
    test_coo_free(&x);
}
END_TEST

/* Every cell: components of which each is `ratio` of the one before. */
static struct test_coo make_low_rank(const uint64_t dim[3], uint32_t n_parts, double ratio)
{
    struct test_coo x = { .order = 3, .nnz = dim[0] * dim[1] * dim[2] };
    x.val = malloc(x.nnz * sizeof *x.val);
    for (uint32_t m = 0; m < 3; m++) {
        x.dim[m] = dim[m];
        x.idx[m] = malloc(x.nnz * sizeof *x.idx[m]);
    }
    for (uint64_t k = 0; k < x.nnz; k++) {
        const uint64_t at[3] = { k / dim[2] / dim[1], k / dim[2] % dim[1], k % dim[2] };
        x.val[k] = 0;
        for (uint32_t c = 0; c < n_parts; c++) {
            double p = pow(ratio, c);
            for (uint32_t m = 0; m < 3; m++)
                p *= ts_unit(ts_mix(ts_mix(m * 100 + c) + at[m])) - 0.3;
            x.val[k] += p;
        }
        for (uint32_t m = 0; m < 3; m++)
            x.idx[m][k] = (uint32_t)at[m];
    }
    return x;
}

/* ---- neighbours ---- */

/* Indices that no nonzero has are between those of rows, and the start is read from a file. */
START_TEST(empty_slices_lie_on_the_curve)
{
    static const int which[] = { 0, 4, 5 };
    const struct test_shape *s = &test_shapes[which[_i % 9 / 3]];
    struct test_coo x = test_coo_random(19, s->order, s->dim, s->nnz, 0, 0.5);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .stretch = 2 + (uint32_t)(_i % 3) };
    struct ts_spec spec = { .mode = { { 0 } } };
    struct test_cp_conf conf = { .rank = s->rank,
                                 .iters = 3,
                                 .seed = 3,
                                 .threads = 2,
                                 .precision = TS_FLOAT64,
                                 .init = test_case_model,
                                 .spec = &spec };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = s->rank, .conf = &tc };
    struct test_cp a;
    spec.mode[0].smooth = _i % 3 == 0   ? 0.01
                          : _i % 3 == 1 ? 3
                          : _i < 9      ? 1000
                                        : 20; /* the slow one is */
    spec.mode[0].nonneg = _i >= 9;
    spec.mode[0].l1 = _i >= 9 && _i % 2 == 0 ? 0.01 : 0;
    spec.mode[1].l2 = 0.1;
    test_tsh_write(test_case_dir, &x, &tc);
    test_slow_new(&b, conf.seed);
    test_slow_write(&b, &tc, test_case_model);
    a = test_case_run(&conf);
    test_slow_signs(&b);
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t m = 0; m < x.order; m++)
            test_slow_solve(&b, m);
        ck_assert_double_eq_tol(a.fit[k], 1 - sqrt(test_slow_distance(&b) / b.size2), 1e-10);
        ck_assert_double_eq_tol(a.objective[k], test_slow_objective(&b), 1e-10 * b.size2);
    }
    test_cp_free(&a);
    test_slow_free(&b);
    test_coo_free(&x);
    test_tsh_remove(test_case_model);
}
END_TEST

/* What is asked of the first mode beside that its neighbours are alike. */
static void ask_within(int which, struct ts_constraint *c)
{
    c->smooth = which / 4 == 0 ? 0.3 : 30;
    c->nonneg = which % 4 == 0 || which % 4 == 1;
    c->l1 = which % 4 == 1 || which % 4 == 2 ? 0.3 : 0;
    c->bounded = which % 4 == 3;
    c->lower = c->bounded ? -0.1 : 0;
    c->upper = c->bounded ? 0.25 : 0;
}

/* The condition of a solution, entry by entry, beside the sizes of what a slope is the sum of; x:
 * with entries of empty slices. */
static double first_defect(const struct test_slow *b, const double *m, const double *v)
{
    const struct ts_constraint *c = &b->spec->mode[0];
    const double lower = c->bounded ? c->lower : c->nonneg ? 0 : -INFINITY;
    const double upper = c->bounded ? c->upper : INFINITY;
    const uint64_t n = b->x->dim[0];
    double most = 0, size = 0;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < b->rank; r++) {
            const double *a = b->a[0] + r;
            const uint32_t k = b->rank;
            double s = -m[i * k + r], x = a[i * k], low, high;
            for (uint32_t q = 0; q < k; q++)
                s += b->a[0][i * k + q] * v[q * k + r];
            for (uint64_t d = i; d < i + 3; d++)
                if (d > 1 && d < n)
                    s += c->smooth * (a[d * k] - 2 * a[(d - 1) * k] + a[(d - 2) * k]) *
                         (d == i + 1 ? -2 : 1);
            low = x <= lower ? -INFINITY : s + (x > 0 ? c->l1 : -c->l1);
            high = x >= upper ? INFINITY : s + (x < 0 ? -c->l1 : c->l1);
            most = most_of(most, most_of(low, -high));
            size = most_of(size, fabs(m[i * k + r]));
        }
    return most / size;
}

/* With the others fixed, sweeps come to the one solution of all rows and columns together, whose
 * conditions hold. */
START_TEST(a_mode_within_bounds_is_solved_in_the_end)
{
    static const int which[] = { 0, 4, 5 };
    const struct test_shape *s = &test_shapes[which[_i % 3]];
    struct test_coo x = test_coo_random(23, s->order, s->dim, s->nnz, 0, 0.5);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64 };
    struct ts_spec spec = { .mode = { { 0 } } };
    struct test_cp_conf conf = { .rank = s->rank,
                                 .iters = 150,
                                 .seed = 3,
                                 .threads = 1,
                                 .precision = TS_FLOAT64,
                                 .spec = &spec };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = s->rank, .to_the_end = 1 };
    double *m = malloc(s->dim[0] * s->rank * sizeof *m), *v = malloc(s->rank * s->rank * sizeof *v);
    struct test_cp a;
    double most = 0;
    ask_within(_i / 3, &spec.mode[0]);
    spec.mode[0].l2 = 0.1;
    for (uint32_t k = 1; k < s->order; k++)
        spec.mode[k].fixed = 1;
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    test_slow_new(&b, conf.seed);
    test_slow_solve(&b, 0);
    ck_assert_double_eq_tol(a.last.objective, test_slow_objective(&b), 1e-10 * b.size2);
    test_slow_product(&b, 0, m);
    test_slow_grams(&b, 0, v);
    for (uint32_t r = 0; r < s->rank; r++)
        v[r * s->rank + r] += spec.mode[0].l2;
    ck_assert_msg(first_defect(&b, m, v) < 1e-9, "%g", first_defect(&b, m, v));
    for (uint32_t r = 0; r < s->rank; r++) {
        double norm = 0, with = 0;
        for (uint64_t i = 0; i < x.dim[0]; i++) {
            norm += pow(b.a[0][i * s->rank + r], 2);
            with += pow(a.factor[0][i * s->rank + r], 2);
        }
        for (uint64_t i = 0; i < x.dim[0] && norm > 0; i++)
            most = most_of(most, fabs(a.factor[0][i * s->rank + r] / sqrt(with) -
                                      b.a[0][i * s->rank + r] / sqrt(norm)));
    }
    ck_assert_msg(most < 1e-7, "%g", most);
    free(m);
    free(v);
    test_cp_free(&a);
    test_slow_free(&b);
    test_coo_free(&x);
}
END_TEST

/* A curve with noise in the mode of 25: the more smoothing, the straighter the column that is
 * found. */
START_TEST(columns_become_smooth)
{
    static const double mu[] = { 0, 1, 100, 1e6 };
    const uint64_t dim[3] = { 25, 20, 15 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64 };
    struct test_coo x = make_low_rank(dim, 1, 1);
    double before = INFINITY;
    test_tsh_write(test_case_dir, &x, &tc);
    for (int k = 0; k < 4; k++) {
        const struct ts_spec spec = { .mode = { { .smooth = mu[k] }, { .l2 = 1 }, { .l2 = 1 } } };
        struct test_cp a = test_case_run(&(struct test_cp_conf){
            .rank = 1, .iters = 30, .seed = 5, .precision = (enum ts_precision)_i, .spec = &spec });
        double rough = 0;
        for (uint64_t i = 2; i < dim[0]; i++) {
            const double bend = a.factor[0][i] - 2 * a.factor[0][i - 1] + a.factor[0][i - 2];
            rough += bend * bend;
        }
        /* what rounding to float32 leaves of a straight line */
        ck_assert_msg(rough < before * (k > 0 ? 0.9 : 1) || rough < 1e-12, "%g after %g", rough,
                      before);
        before = rough;
        test_cp_free(&a);
    }
    ck_assert_double_le(before, 1e-6);
    test_coo_free(&x);
}
END_TEST

/* ---- products that do not say all ---- */

/* Two components, rank 4: two columns are drawn. Or four of very different sizes: nothing is, and
 * M' M alone is not enough. The mode that is orthonormal has 25 used indices, or as many as the
 * rank. */
START_TEST(columns_stay_orthonormal)
{
    const uint64_t dim[3] = { _i / 4 % 2 ? 4 : 25, 20, 15 };
    const int drawn = _i / 2 % 2;
    const enum ts_precision precision = (enum ts_precision)(_i % 2);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64 };
    struct test_coo x = make_low_rank(dim, drawn ? 2 : 4, drawn ? 0.5 : 0.01);
    const struct ts_spec spec = { .mode = { { .orthogonal = 1 }, { 0 }, { 0 } } };
    struct test_cp a;
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_case_run(&(struct test_cp_conf){
        .rank = 4, .iters = 12, .seed = 5, .precision = precision, .spec = &spec });
    ck_assert_double_le(defect(a.factor[0], dim[0], 4), precision == TS_FLOAT64 ? 1e-11 : 1e-5);
    ck_assert(!drawn || a.last.n_singular > 0);
    for (uint32_t k = 1; k < a.sweeps; k++)
        ck_assert_msg(a.fit[k] >= a.fit[k - 1] - (precision == TS_FLOAT64 ? 1e-7 : 1e-5),
                      "sweep %u: %.12g after %.12g", k + 1, a.fit[k], a.fit[k - 1]);
    ck_assert_double_ge(a.fit[a.sweeps - 1], 0.5);
    test_cp_free(&a);
    test_coo_free(&x);
}
END_TEST

/* ---- the same bits ---- */

START_TEST(threads_and_memory_do_not_matter)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .stretch = 2, .shard_partitions = 1 };
    struct ts_spec spec;
    struct test_cp a;
    test_constraints(TEST_COLUMNS, _i / 2, 3, &spec);
    test_case_write(41, &tc);
    a = test_case_streamed(&(struct test_cp_conf){ .rank = 7,
                                                   .iters = 4,
                                                   .seed = 3,
                                                   .threads = 1,
                                                   .precision = (enum ts_precision)(_i % 2),
                                                   .spec = &spec });
    for (uint32_t m = 0; m < 3; m++)
        ck_assert(!spec.mode[m].orthogonal || defect(a.factor[m], a.n_rows[m], 7) < 1e-5);
    test_cp_free(&a);
}
END_TEST

START_TEST(a_run_that_was_stopped_has_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec;
    test_constraints(TEST_COLUMNS, _i / 2, 3, &spec);
    test_case_write(42, &tc);
    test_case_stopped(&(struct test_cp_conf){ .rank = 3,
                                              .iters = 3,
                                              .seed = 1,
                                              .threads = 1,
                                              .precision = (enum ts_precision)(_i % 2),
                                              .spec = &spec },
                      _i / 2 == 1 || _i / 2 == 5); /* the mode that takes the signs */
}
END_TEST

/* Between two columns, and on the way to one, in every part of a run. */
START_TEST(a_run_that_was_stopped_in_a_column_has_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 3,
                                 .iters = 3,
                                 .seed = 1,
                                 .threads = 1,
                                 .precision = (enum ts_precision)(_i % 2),
                                 .spec = &spec };
    struct test_cp whole, a;
    uint32_t n_saved = 0;
    int rc = TS_ESTOP;
    test_constraints(TEST_COLUMNS, 7 + _i / 2, 3, &spec);
    test_case_write(42, &tc);
    whole = test_case_run(&conf);
    for (uint32_t k = 1; rc == TS_ESTOP; k += 1 + k / 8) {
        struct test_cp_conf part = conf;
        part.states = test_case_states;
        part.stop_step = k;
        a = test_cp_run(test_case_dir, &part);
        rc = a.rc;
        ck_assert(rc == 0 || rc == TS_ESTOP);
        part.stop_step = 0;
        part.threads = 2;
        part.from = a.saved_sweep > 0 ? test_case_state : NULL;
        n_saved += rc == TS_ESTOP && part.from != NULL;
        test_cp_free(&a);
        if (rc == 0)
            break;
        a = test_case_run(&part);
        test_case_same(&whole, &a);
        test_cp_free(&a);
    }
    ck_assert_uint_gt(n_saved, 10);
    test_cp_free(&whole);
}
END_TEST

START_TEST(a_state_with_another_demand_is_refused)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    static const struct ts_constraint demands[] = { { .orthogonal = 1 }, { .smooth = 0.5 } };
    static const char *const says[] = { "orthogonal", "smooth 0.5" };
    struct ts_spec spec = { .mode = { { 0 }, demands[_i], { 0 } } };
    struct test_cp_conf conf = {
        .rank = 3, .iters = 3, .seed = 1, .states = test_case_states, .stop_sweep = 2, .spec = &spec
    };
    struct test_cp a;
    char text[200];
    snprintf(text, sizeof text, "these constraints: %s; it cannot continue with: none", says[_i]);
    test_case_write(43, &tc);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_ESTOP);
    test_cp_free(&a);
    conf.from = test_case_state;
    spec.mode[1] = (struct ts_constraint){ 0 };
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text, text) != NULL, "%s", a.err.text);
    test_cp_free(&a);
}
END_TEST

START_TEST(what_cannot_be_asked_is_refused)
{
    static const struct {
        struct ts_constraint c, others;
        const char *says;
    } cases[] = {
        { { .orthogonal = 1, .l1 = 0.1 }, { 0 }, "nothing else can be asked of it" },
        { { .orthogonal = 1, .l2 = 0.1 }, { 0 }, "nothing else can be asked of it" },
        { { .orthogonal = 1, .smooth = 1 }, { 0 }, "nothing else can be asked of it" },
        { { .smooth = 1, .fixed = 1 }, { 0 }, "nothing else can be asked of it" },
        { { .smooth = 1, .simplex = 1 }, { 0 }, "alike cannot have a sum of 1" },
        { { .smooth = 1, .nonneg = 1, .bounded = 1, .lower = -2, .upper = -1 },
          { 0 },
          "no entry is nonnegative and at most -1" },
        { { .smooth = -1 }, { 0 }, "must be a number of 0 or more" },
        { { .orthogonal = 1, .nonneg = 1 }, { 0 }, "nothing else can be asked of it" },
        { { .orthogonal = 1, .simplex = 1 }, { 0 }, "nothing else can be asked of it" },
        { { .orthogonal = 1, .bounded = 1, .upper = 1 }, { 0 }, "nothing else can be asked of it" },
        { { .orthogonal = 1, .fixed = 1 }, { 0 }, "nothing else can be asked of it" },
        { { .orthogonal = 1 },
          { .orthogonal = 1 },
          "another mode must be free to carry the scale" },
        { { .orthogonal = 1 }, { .fixed = 1 }, "another mode must be free to carry the scale" },
        { { .orthogonal = 1 }, { .simplex = 1 }, "another mode must be free to carry the scale" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct ts_spec spec = { .mode = { cases[i].others, cases[i].c, cases[i].others } };
        struct ts_err err;
        ck_assert_int_eq(ts_spec_check(&spec, 3, &err), TS_EARG);
        ck_assert_msg(strstr(err.text, cases[i].says) != NULL, "%s", err.text);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("shapes");
    TCase *c = tcase_create("shapes");
    tcase_add_checked_fixture(c, test_case_setup, test_case_teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, runs_are_those_of_the_slow_program, 0, TEST_SHAPES * TEST_COLUMNED);
    tcase_add_loop_test(c, empty_slices_lie_on_the_curve, 0, 18);
    tcase_add_loop_test(c, a_mode_within_bounds_is_solved_in_the_end, 0, 24);
    tcase_add_loop_test(c, columns_become_smooth, 0, 2);
    tcase_add_loop_test(c, columns_stay_orthonormal, 0, 8);
    tcase_add_loop_test(c, threads_and_memory_do_not_matter, 0, 2 * TEST_COLUMNED);
    tcase_add_loop_test(c, a_run_that_was_stopped_has_the_same_bits, 0, 2 * TEST_COLUMNED);
    tcase_add_loop_test(c, a_run_that_was_stopped_in_a_column_has_the_same_bits, 0, 6);
    tcase_add_loop_test(c, a_state_with_another_demand_is_refused, 0, 2);
    tcase_add_test(c, what_cannot_be_asked_is_refused);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
