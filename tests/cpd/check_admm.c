/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows on the simplex by ADMM, and factors within bounds, are those of a slow, obvious program;
 * they never get worse, end where their conditions of optimality hold, and have the same bits
 * however they are run. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cpd/rows/symm.h"
#include "cpu/rows/rowsolve.h"
#include "tests/cpd/cp_case.h"
#include "tests/cpd/constraint_case.h"
#include "tests/support/run_suite.h"
#include "tests/cpd/slow_cp.h"
#include "tests/format/tsh_writer.h"

/* ---- the update of rows ---- */

static const uint32_t ranks[] = { 1, 2, 3, 8, 10, 17, 32, 50, 130 };
static const uint64_t sizes[] = { 1, 31, 32, 33, 100, 1003 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])
#define N_SIZES (int)(sizeof sizes / sizeof sizes[0])

/* What ADMM is given beside G. */
static double make_inverse(uint32_t rank, const double *g, double *ret)
{
    double *v = malloc(rank * rank * sizeof *v), rho = 0;
    for (uint32_t r = 0; r < rank; r++)
        rho += g[r * rank + r] / rank;
    rho = rho > 0 ? rho : 1;
    memcpy(v, g, rank * rank * sizeof *v);
    for (uint32_t r = 0; r < rank; r++)
        v[r * rank + r] += rho;
    ck_assert_int_eq(ts_symm_pinv(rank, v, TS_SYMM_CUT, NULL, ret, NULL, NULL), 0);
    free(v);
    return rho;
}

/* Rows of either sign and any size before; roundings of sums of `rank` terms, some rounds long. */
START_TEST(rows_are_those_of_the_slow_way)
{
    const enum ts_isa isa = (enum ts_isa)(_i % TS_N_ISA);
    const uint32_t rank = ranks[_i / TS_N_ISA % N_RANKS];
    const enum ts_precision precision = _i / TS_N_ISA / N_RANKS ? TS_FLOAT32 : TS_FLOAT64;
    double *g, *inverse, weight[130];
    struct ts_rowsolve *s;
    if (!ts_isa_here(isa))
        return;
    g = malloc(rank * rank * sizeof *g);
    inverse = malloc(rank * rank * sizeof *inverse);
    for (uint32_t r = 0; r < rank; r++)
        weight[r] = r % 3 == 0 ? 1 : 0.5;
    ck_assert_int_eq(ts_rowsolve_new(1003, rank, isa, 2, &s, NULL), 0);
    ck_assert_int_eq(ts_rowsolve_own(s, NULL), 0);
    for (int k = 0; k < 4 * N_SIZES; k++) {
        /* as many rows of a high rank only take longer */
        const uint64_t n = rank > 32 && sizes[k / 4] > 300 ? 323 : sizes[k / 4];
        const uint32_t rounds = 1 + 3 * (uint32_t)(k % 4);
        double *m, *a, *got, *gram, inner, want_inner = 0;
        struct ts_row_update how = {
            .kind = TS_ROW_SIMPLEX, .matrix = g, .weight = weight, .rounds = rounds
        };
        struct ts_row_sums sums = { .inner = &inner };
        struct ts_fmat f, product;
        if (n * rank > 16000 && k % 4 != _i % 4) /* large ones take turns */
            continue;
        m = malloc(n * rank * sizeof *m);
        a = malloc(n * rank * sizeof *a);
        got = malloc(n * rank * sizeof *got);
        gram = malloc(rank * rank * sizeof *gram);
        sums.gram = gram;
        test_make_gram(rank, k % 4 == 3 ? 0 : k % 3 == 0 ? rank / 2 + 1 : rank + 3, g);
        how.rho = make_inverse(rank, g, inverse);
        how.inverse = inverse;
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &f, NULL), 0);
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &product, NULL), 0);
        for (uint64_t i = 0; i < n * rank; i++) {
            a[i] = test_draw(i + 77) * (i / rank % 5 == 0 ? 100 : 1);
            m[i] = k % 4 == 3 ? 0 : 3 * test_draw(i + 1000000);
            if (precision == TS_FLOAT32) {
                a[i] = (float)a[i];
                m[i] = (float)m[i];
            }
        }
        ts_fmat_put(&f, 0, n, a, 1);
        ts_fmat_put(&product, 0, n, m, 1);
        for (uint64_t i = 0; i < n * rank; i++)
            a[i] *= weight[i % rank];
        test_slow_simplex(n, rank, g, m, rounds, a);
        ts_rowsolve_run(s, &f, &product, &how, &sums, NULL, NULL);
        ts_fmat_get(&f, 0, n, got, 1);
        for (uint64_t i = 0; i < n; i++) {
            double sum = 0;
            for (uint32_t r = 0; r < rank; r++) {
                const double x = got[i * rank + r], want = a[i * rank + r];
                ck_assert_double_eq_tol(
                    x, want, precision == TS_FLOAT64 ? 1e-10 : want * FLT_EPSILON + 1e-10);
                ck_assert(x >= 0);
                sum += x;
                want_inner += m[i * rank + r] * x;
            }
            ck_assert_double_eq_tol(
                sum, 1, rank * TS_ROW_NONE + (precision == TS_FLOAT64 ? 1e-13 : 2 * FLT_EPSILON));
        }
        ck_assert_double_eq_tol(inner, want_inner, 1e-10 * (double)(n + 1));
        for (uint32_t i = 0; i < rank; i++)
            for (uint32_t j = 0; j < rank; j++) {
                double sum = 0;
                for (uint64_t x = 0; x < n; x++)
                    sum += got[x * rank + i] * got[x * rank + j];
                ck_assert_double_eq_tol(gram[i * rank + j], sum, 1e-10 * (1 + fabs(sum)));
            }
        ts_fmat_free(&f);
        ts_fmat_free(&product);
        free(m);
        free(a);
        free(got);
        free(gram);
    }
    ts_rowsolve_free(s);
    free(g);
    free(inverse);
}
END_TEST

/* Groups whole, and in two steps. */
START_TEST(bits_of_rows_do_not_depend_on_threads)
{
    static const uint32_t threads[] = { 1, 2, 5 };
    static const uint64_t n_rows[] = { 2503, 230, 4096 };
    const uint32_t rank = ranks[1 + 2 * (_i / 2 % 3)];
    const enum ts_isa isa = (enum ts_isa)(_i / 6);
    const uint64_t n = n_rows[_i % 3], square = (uint64_t)rank * rank;
    double *g, *inverse, *m, *old, *gram[3], *a[3], inner[3], rho;
    if (!ts_isa_here(isa))
        return;
    g = malloc(square * sizeof *g);
    inverse = malloc(square * sizeof *inverse);
    m = malloc(n * rank * sizeof *m);
    old = malloc(n * rank * sizeof *old);
    test_make_gram(rank, rank + 1, g);
    rho = make_inverse(rank, g, inverse);
    for (uint64_t i = 0; i < n * rank; i++) {
        m[i] = 3 * test_draw(i);
        old[i] = test_draw(i + 5) + 0.5;
    }
    for (int t = 0; t < 3; t++) {
        const struct ts_row_update how = {
            .kind = TS_ROW_SIMPLEX, .matrix = g, .inverse = inverse, .rho = rho, .rounds = 5
        };
        const enum ts_precision precision = (enum ts_precision)(_i % 2);
        struct ts_fmat f, product;
        struct ts_rowsolve *s;
        gram[t] = malloc(square * sizeof(double));
        a[t] = malloc(n * rank * sizeof(double));
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &f, NULL), 0);
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &product, NULL), 0);
        ts_fmat_put(&f, 0, n, old, 1);
        ts_fmat_put(&product, 0, n, m, 1);
        ck_assert_int_eq(ts_rowsolve_new(n + 1000 * (unsigned)t, rank, isa, threads[t], &s, NULL),
                         0);
        ck_assert_int_eq(ts_rowsolve_own(s, NULL), 0);
        ts_rowsolve_run(s, &f, &product, &how,
                        &(struct ts_row_sums){ .gram = gram[t], .inner = &inner[t] }, NULL, NULL);
        ts_fmat_get(&f, 0, n, a[t], 1);
        ck_assert(inner[t] == inner[0]);
        ck_assert_mem_eq(gram[t], gram[0], square * sizeof(double));
        ck_assert_mem_eq(a[t], a[0], n * rank * sizeof(double));
        ts_fmat_free(&f);
        ts_fmat_free(&product);
        ts_rowsolve_free(s);
    }
    for (int t = 0; t < 3; t++) {
        free(gram[t]);
        free(a[t]);
    }
    free(g);
    free(inverse);
    free(m);
    free(old);
}
END_TEST

/* ---- whole runs beside a slow program ---- */

static void check_factor(const struct ts_constraint *c, const double *a, uint64_t n, uint32_t rank,
                         double rounding)
{
    for (uint64_t i = 0; i < n; i++) {
        double sum = 0;
        for (uint32_t r = 0; r < rank; r++) {
            const double x = a[i * rank + r];
            ck_assert(!c->bounded || (x >= c->lower - rounding && x <= c->upper + rounding));
            ck_assert((!c->simplex && !c->nonneg) || x >= 0);
            sum += x;
        }
        ck_assert(!c->simplex || fabs(sum - 1) <= rank * rounding);
    }
}

/* Once every mode was updated, what is minimised never rises, mode by mode: a random start keeps to
 * nothing. */
START_TEST(runs_are_those_of_the_slow_program)
{
    const struct test_shape *s = &test_shapes[_i / TEST_BOUNDED];
    struct test_coo x = test_coo_random(17, s->order, s->dim, s->nnz, 0, 0.5);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .shard_partitions = 1 };
    struct ts_spec spec;
    struct test_cp_conf conf = {
        .rank = s->rank, .iters = 4, .seed = 3, .threads = 2, .precision = TS_FLOAT64, .spec = &spec
    };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = s->rank };
    struct test_cp a;
    double before = INFINITY;
    int unique;
    test_constraints(TEST_BOUNDS, _i % TEST_BOUNDED, s->order, &spec);
    if (s->rank > s->dim[0] && s->dim[0] > 1 && _i % TEST_BOUNDED == 0) {
        test_coo_free(&x); /* G is singular but for rounding, which chooses among solutions */
        return;
    }
    test_tsh_write(test_case_dir, &x, &tc);
    test_slow_new(&b, conf.seed);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    unique = a.last.n_singular == 0; /* else rounding chooses among solutions */
    ck_assert(unique || _i / TEST_BOUNDED != 1);
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
        if (!unique)
            continue;
        ck_assert_double_eq_tol(a.fit[k], 1 - sqrt(test_slow_distance(&b) / b.size2), 1e-10);
        if (_i % TEST_BOUNDED == 2)
            ck_assert_double_eq_tol(a.objective[k], before, 1e-10 * b.size2);
        else
            ck_assert(isnan(a.objective[k]));
    }
    for (uint32_t m = 0; m < x.order; m++) {
        if (ts_constraint_rigid(&spec.mode[m])) /* as it is held */
            check_factor(&spec.mode[m], a.factor[m], x.dim[m], s->rank, TS_ROW_NONE);
        for (uint32_t r = 0; r < s->rank; r++) {
            double norm = 0;
            for (uint64_t i = 0; i < x.dim[m]; i++)
                norm += b.a[m][i * s->rank + r] * b.a[m][i * s->rank + r];
            norm = norm > 0 && !ts_constraint_rigid(&spec.mode[m]) ? sqrt(norm) : 1;
            ck_assert(!ts_constraint_rigid(&spec.mode[m]) ||
                      a.norm[m * s->rank + r] == TS_AS_IT_IS);
            for (uint64_t i = 0; i < x.dim[m]; i++)
                if (unique && _i / TEST_BOUNDED != 2 && _i / TEST_BOUNDED != 3)
                    ck_assert_double_eq_tol(a.factor[m][i * s->rank + r],
                                            b.a[m][i * s->rank + r] / norm, 1e-8);
        }
    }
    test_cp_free(&a);
    test_slow_free(&b);
    test_coo_free(&x);
}
END_TEST

/* ---- where it ends ---- */

/* Every row of shares: with g the gradient and t its mean where the row is above 0, g = t there and
 * g >= t elsewhere, to 1e-3 of the parts of g: few rounds a sweep get slow near the end. */
START_TEST(the_end_is_optimal)
{
    static const uint64_t dim[3] = { 24, 18, 12 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct test_coo x = test_coo_random(5, 3, dim, 2500, 0, 0.3);
    struct ts_spec spec = { .mode = { { 0 } } };
    struct test_cp_conf conf = {
        .rank = 4, .iters = 4000, .seed = 2, .tol = 1e-14, .precision = TS_FLOAT64, .spec = &spec
    };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = 4 };
    struct test_cp a;
    const uint32_t mode = (uint32_t)_i;
    double m[24 * 4], v[16], worst = 0, scale = 0;
    spec.mode[mode].simplex = 1;
    spec.mode[(mode + 1) % 3].nonneg = 1;
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    test_slow_new(&b, 1);
    for (uint32_t k = 0; k < 3; k++)
        for (uint64_t i = 0; i < dim[k] * 4; i++)
            b.a[k][i] = a.factor[k][i] * (k == (mode + 1) % 3 ? a.weight[i % 4] : 1);
    test_slow_product(&b, mode, m);
    test_slow_grams(&b, mode, v);
    for (uint64_t i = 0; i < dim[mode]; i++) {
        double g[4], t = 0;
        uint32_t n = 0;
        for (uint32_t r = 0; r < 4; r++) {
            g[r] = -m[i * 4 + r];
            for (uint32_t s = 0; s < 4; s++)
                g[r] += b.a[mode][i * 4 + s] * v[s * 4 + r];
            scale = fmax(scale, fabs(m[i * 4 + r]));
            t += b.a[mode][i * 4 + r] > 0 ? g[r] : 0;
            n += b.a[mode][i * 4 + r] > 0;
        }
        for (uint32_t r = 0; r < 4; r++)
            worst = fmax(worst, b.a[mode][i * 4 + r] > 0 ? fabs(g[r] - t / n) : t / n - g[r]);
    }
    ck_assert_msg(worst <= 1e-3 * scale, "%g of %g after %u sweeps", worst, scale, a.sweeps);
    test_slow_free(&b);
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
    test_constraints(TEST_BOUNDS, _i / 2, 3, &spec);
    test_case_write(41, &tc);
    a = test_case_streamed(&(struct test_cp_conf){ .rank = 7,
                                                   .iters = 4,
                                                   .seed = 3,
                                                   .threads = 1,
                                                   .precision = (enum ts_precision)(_i % 2),
                                                   .spec = &spec });
    for (uint32_t m = 0; m < 3; m++)
        if (ts_constraint_rigid(&spec.mode[m]))
            check_factor(&spec.mode[m], a.factor[m], a.n_rows[m], 7, FLT_EPSILON);
    test_cp_free(&a);
}
END_TEST

/* Every product is given up once. */
START_TEST(a_run_that_was_stopped_has_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec;
    test_constraints(TEST_BOUNDS, _i / 2, 3, &spec);
    test_case_write(42, &tc);
    test_case_stopped(&(struct test_cp_conf){ .rank = 3,
                                              .iters = 3,
                                              .seed = 1,
                                              .threads = 1,
                                              .precision = (enum ts_precision)(_i % 2),
                                              .spec = &spec },
                      _i / 2 != 1 && _i / 2 != 4); /* the mode that takes the signs */
}
END_TEST

/* Weights of a start go where lengths are free, so that a run that starts from a result goes on
 * from its fit. */
START_TEST(a_start_keeps_its_weights)
{
    static const uint64_t dim[3] = { 30, 20, 10 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct test_coo x = test_coo_random(9, 3, dim, 2000, 0, 0.5);
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 3,
                                 .iters = 20,
                                 .seed = 1,
                                 .threads = 1,
                                 .precision = TS_FLOAT64,
                                 .out = test_case_model,
                                 .formats = 1,
                                 .spec = &spec };
    struct test_cp first, second;
    test_constraints(TEST_BOUNDS, _i == 0 ? 1 : 3, 3, &spec);
    test_tsh_write(test_case_dir, &x, &tc);
    first = test_case_run(&conf);
    conf.init = test_case_model;
    conf.out = NULL;
    conf.iters = 1;
    second = test_case_run(&conf);
    ck_assert_double_ge(second.fit[0], first.fit[19] - 1e-9);
    test_cp_free(&first);
    test_cp_free(&second);
    test_coo_free(&x);
    test_tsh_remove(test_case_model);
}
END_TEST

START_TEST(a_state_with_other_bounds_is_refused)
{
    static const struct ts_constraint others[] = { { .bounded = 1, .upper = 2 },
                                                   { .bounded = 1, .lower = -1, .upper = 1 },
                                                   { .simplex = 1 },
                                                   { 0 } };
    static const char *const says[] = { "bounds 0:2", "bounds -1:1", "simplex", "none" };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec = { .mode = { { 0 }, { .bounded = 1, .upper = 1 }, { 0 } } };
    struct test_cp_conf conf = {
        .rank = 3, .iters = 3, .seed = 1, .states = test_case_states, .stop_sweep = 2, .spec = &spec
    };
    struct test_cp a;
    char from[4200], text[200];
    snprintf(from, sizeof from, "%s/" TS_STATE_NAME_1, test_case_states);
    snprintf(text, sizeof text, "these constraints: bounds 0:1; it cannot continue with: %s",
             says[_i]);
    test_case_write(43, &tc);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_ESTOP);
    test_cp_free(&a);
    conf.from = from;
    spec.mode[1] = others[_i];
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text, text) != NULL, "%s", a.err.text);
    test_cp_free(&a);
}
END_TEST

START_TEST(what_cannot_be_asked_is_refused)
{
    static const struct {
        struct ts_constraint c;
        const char *says;
    } cases[] = {
        { { .simplex = 1, .l1 = 0.1 }, "rows that sum to 1 cannot have an l1" },
        { { .simplex = 1, .bounded = 1, .upper = 1 }, "rows that sum to 1 cannot have bounds" },
        { { .simplex = 1, .fixed = 1 }, "its factor is fixed" },
        { { .bounded = 1, .upper = 1, .fixed = 1 }, "its factor is fixed" },
        { { .bounded = 1, .lower = 1, .upper = 0 }, "give a lower and an upper one" },
        { { .bounded = 1, .lower = -INFINITY, .upper = INFINITY },
          "give a lower and an upper one" },
        { { .bounded = 1, .lower = NAN, .upper = 1 }, "give a lower and an upper one" },
        { { .bounded = 1, .lower = -2, .upper = -1, .nonneg = 1 }, "nonnegative and at most -1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct ts_spec spec = { .mode = { { 0 }, cases[i].c, { 0 } } };
        struct ts_err err;
        ck_assert_int_eq(ts_spec_check(&spec, 3, &err), TS_EARG);
        ck_assert_msg(strstr(err.text, cases[i].says) != NULL, "%s", err.text);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("admm");
    TCase *c = tcase_create("admm");
    tcase_add_checked_fixture(c, test_case_setup, test_case_teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, rows_are_those_of_the_slow_way, 0, 2 * N_RANKS * TS_N_ISA);
    tcase_add_loop_test(c, bits_of_rows_do_not_depend_on_threads, 0, 6 * TS_N_ISA);
    tcase_add_loop_test(c, runs_are_those_of_the_slow_program, 0, TEST_SHAPES * TEST_BOUNDED);
    tcase_add_loop_test(c, the_end_is_optimal, 0, 3);
    tcase_add_loop_test(c, threads_and_memory_do_not_matter, 0, 2 * TEST_BOUNDED);
    tcase_add_loop_test(c, a_run_that_was_stopped_has_the_same_bits, 0, 2 * TEST_BOUNDED);
    tcase_add_loop_test(c, a_start_keeps_its_weights, 0, 2);
    tcase_add_loop_test(c, a_state_with_other_bounds_is_refused, 0, 4);
    tcase_add_test(c, what_cannot_be_asked_is_refused);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
