/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompositions with constraints are those of a slow, obvious program, never get worse, end where
 * their conditions of optimality hold, and have the same bits however they are run. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cpu/rows/rowsolve.h"
#include "tests/cpd/cp_case.h"
#include "tests/cpd/constraint_case.h"
#include "tests/cpd/slow_cp.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

/* ---- the update of rows ---- */

static const uint32_t ranks[] = { 1, 2, 3, 8, 10, 17, 32, 50, 130 };
static const uint64_t sizes[] = { 1, 31, 32, 33, 64, 100, 1003 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])
#define N_FEW   (N_RANKS / 2)
#define N_SIZES (int)(sizeof sizes / sizeof sizes[0])

/* Roundings of sums of `rank` terms, some rounds long, the size of entries being up to 100. */
START_TEST(rows_descend_as_the_slow_way_has_them)
{
    const enum ts_isa isa = (enum ts_isa)(_i % TS_N_ISA);
    const uint32_t rank = ranks[_i / TS_N_ISA % N_RANKS];
    const enum ts_precision precision = _i / TS_N_ISA / N_RANKS ? TS_FLOAT32 : TS_FLOAT64;
    double *g, weight[130];
    struct ts_rowsolve *s;
    if (!ts_isa_here(isa))
        return;
    g = malloc(rank * rank * sizeof *g);
    for (uint32_t r = 0; r < rank; r++)
        weight[r] = r % 3 == 0 ? 1 : 0.5;
    ck_assert_int_eq(ts_rowsolve_new(1003, rank, isa, 2, &s, NULL), 0);
    ck_assert_int_eq(ts_rowsolve_own(s, NULL), 0);
    for (int k = 0; k < 4 * N_SIZES; k++) {
        /* as many rows of a high rank only take longer */
        const uint64_t n = rank > 32 && sizes[k / 4] > 300 ? 323 : sizes[k / 4];
        if (n * rank > 4000 && k % 4 != _i % 4) /* large ones take turns */
            continue;
        const double l1 = k % 4 < 2 ? 0 : 0.3, lower = k % 2 == 0 ? 0 : -INFINITY;
        double *m = malloc(n * rank * sizeof *m), *a = malloc(n * rank * sizeof *a);
        double *gram = malloc(rank * rank * sizeof *gram), inner, size, want_inner = 0, want = 0;
        double *got = malloc(n * rank * sizeof *got);
        struct ts_fmat f, product;
        const struct ts_row_update how = { .kind = TS_ROW_COORDINATE,
                                           .matrix = g,
                                           .weight = weight,
                                           .l1 = l1,
                                           .lower = lower,
                                           .upper = INFINITY,
                                           .rounds = 3 + (uint32_t)k % 4 };
        const struct ts_row_sums sums = { .gram = gram, .inner = &inner, .size = &size };
        test_make_gram(rank, k % 3 == 0 ? rank / 2 + 1 : rank + 3, g);
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &f, NULL), 0);
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &product, NULL), 0);
        for (uint64_t i = 0; i < n * rank; i++) {
            a[i] = fabs(test_draw(i + 77));
            m[i] = 3 * test_draw(i + 1000000);
            if (precision == TS_FLOAT32) {
                a[i] = (float)a[i];
                m[i] = (float)m[i];
            }
        }
        ts_fmat_put(&f, 0, n, a, 1);
        ts_fmat_put(&product, 0, n, m, 1);
        for (uint64_t i = 0; i < n * rank; i++)
            a[i] *= weight[i % rank];
        test_slow_descend(n, rank, g, m, &(struct ts_constraint){ .l1 = l1, .nonneg = lower == 0 },
                          3 + (uint32_t)k % 4, a);
        ts_rowsolve_run(s, &f, &product, &how, &sums, NULL, NULL);
        ts_fmat_get(&f, 0, n, got, 1);
        for (uint64_t i = 0; i < n * rank; i++) {
            ck_assert_double_eq_tol(
                got[i], a[i], precision == TS_FLOAT64 ? 1e-10 : fabs(a[i]) * FLT_EPSILON + 1e-10);
            want_inner += m[i] * got[i];
            want += fabs(got[i]);
        }
        ck_assert_double_eq_tol(inner, want_inner, 1e-10 * (1 + fabs(want)));
        ck_assert_double_eq_tol(size, want, 1e-12 * (1 + want));
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
}
END_TEST

/* Groups whole, and in two steps; kept rows, too. */
START_TEST(bits_of_rows_do_not_depend_on_threads)
{
    static const uint32_t threads[] = { 1, 2, 5 };
    static const uint64_t n_rows[] = { 2503, 230, 4096 };
    const uint32_t rank = ranks[2 * (_i / 2 % N_FEW)];
    const enum ts_isa isa = (enum ts_isa)(_i / 2 / N_FEW);
    const uint64_t n = n_rows[_i % 3], square = (uint64_t)rank * rank;
    double *g, *m, *old, *gram[3], *a[3], inner[3], kept[3], size[3];
    if (!ts_isa_here(isa))
        return;
    g = malloc(square * sizeof *g);
    m = malloc(n * rank * sizeof *m);
    old = malloc(n * rank * sizeof *old);
    test_make_gram(rank, rank + 1, g);
    for (uint64_t i = 0; i < n * rank; i++) {
        m[i] = 3 * test_draw(i);
        old[i] = fabs(test_draw(i + 5));
    }
    for (int t = 0; t < 3; t++) {
        const struct ts_row_update how = {
            .kind = TS_ROW_COORDINATE, .matrix = g, .upper = 0.9, .rounds = 3
        };
        const struct ts_row_update keep = { .kind = TS_ROW_KEEP };
        struct ts_fmat f, product;
        struct ts_rowsolve *s;
        double *unused = malloc(square * sizeof *unused);
        gram[t] = malloc(square * sizeof(double));
        a[t] = malloc(n * rank * sizeof(double));
        ck_assert_int_eq(ts_fmat_new(n, rank, (enum ts_precision)(_i % 2), "test", &f, NULL), 0);
        ck_assert_int_eq(ts_fmat_new(n, rank, (enum ts_precision)(_i % 2), "test", &product, NULL),
                         0);
        ts_fmat_put(&f, 0, n, old, 1);
        ts_fmat_put(&product, 0, n, m, 1);
        ck_assert_int_eq(ts_rowsolve_new(n + 1000 * (unsigned)t, rank, isa, threads[t], &s, NULL),
                         0);
        ck_assert_int_eq(ts_rowsolve_own(s, NULL), 0);
        ts_rowsolve_run(s, &f, &product, &how,
                        &(struct ts_row_sums){ gram[t], &inner[t], &size[t] }, NULL, NULL);
        ts_fmat_get(&f, 0, n, a[t], 1);
        ts_rowsolve_run(s, &f, &product, &keep,
                        &(struct ts_row_sums){ .gram = unused, .inner = &kept[t] }, NULL, NULL);
        ck_assert_mem_eq(unused, gram[t], square * sizeof *unused);
        ck_assert(kept[t] == inner[t]);
        ck_assert(inner[t] == inner[0] && size[t] == size[0]);
        ck_assert_mem_eq(gram[t], gram[0], square * sizeof(double));
        ck_assert_mem_eq(a[t], a[0], n * rank * sizeof(double));
        for (uint64_t i = 0; i < n * rank; i++)
            ck_assert(a[t][i] >= 0 && a[t][i] <= 0.9 + FLT_EPSILON);
        ts_fmat_free(&f);
        ts_fmat_free(&product);
        ts_rowsolve_free(s);
        free(unused);
    }
    for (int t = 0; t < 3; t++) {
        free(gram[t]);
        free(a[t]);
    }
    free(g);
    free(m);
    free(old);
}
END_TEST

/* ---- whole runs beside a slow program ---- */

/* Entries have a size of 1 or so; roundings of 1e-16 grow by the condition of G and with the
 * sweeps. */
START_TEST(runs_are_those_of_the_slow_program)
{
    const struct test_shape *s = &test_shapes[_i / TEST_DESCENDS];
    struct test_coo x = test_coo_random(17, s->order, s->dim, s->nnz, s->value_range, 0.5);
    const struct test_tsh_conf tc = { .kind = s->value_range > 0 ? TS_VALUE_INT : TS_VALUE_F32,
                                      .shard_partitions = 1 };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = s->rank,
                                 .iters = 4,
                                 .seed = 3,
                                 .threads = 2,
                                 .precision = TS_FLOAT64,
                                 .each_mode = 1,
                                 .spec = &spec };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = s->rank };
    struct test_cp a;
    double before;
    test_constraints(TEST_DESCEND, _i % TEST_DESCENDS, s->order, &spec);
    if (s->rank > s->dim[0] && s->dim[0] > 1 && _i % TEST_DESCENDS == 1) {
        test_coo_free(&x); /* G is singular but for rounding, which chooses among solutions */
        return;
    }
    test_tsh_write(test_case_dir, &x, &tc);
    test_slow_new(&b, conf.seed);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    test_slow_signs(&b);
    before = test_slow_objective(&b);
    for (uint32_t k = 0; k < 4; k++) {
        double fit;
        for (uint32_t m = 0; m < x.order; m++) {
            double now;
            test_slow_solve(&b, m);
            now = test_slow_objective(&b);
            ck_assert_msg(now <= before * (1 + 1e-9), "sweep %u, mode %u: %.15g after %.15g", k + 1,
                          m + 1, now, before);
            if (k > 0 || m >= 1 || spec.mode[1].l1 == 0) /* the start's sum is not known */
                ck_assert_double_eq_tol(a.each_mode[k * x.order + m], now, 1e-10 * b.size2);
            else
                ck_assert(isnan(a.each_mode[m]));
            before = now;
        }
        fit = 1 - sqrt(test_slow_distance(&b) / b.size2);
        ck_assert_double_eq_tol(a.fit[k], fit, 1e-10);
        if (b.balanced)
            ck_assert_double_eq_tol(a.objective[k], before, 1e-10 * b.size2);
        else
            ck_assert(isnan(a.objective[k]));
    }
    for (uint32_t m = 0; m < x.order; m++)
        for (uint32_t r = 0; r < s->rank; r++) {
            double norm = 0, sign = 1;
            for (uint64_t i = 0; i < x.dim[m]; i++)
                norm += b.a[m][i * s->rank + r] * b.a[m][i * s->rank + r];
            norm = norm > 0 ? sqrt(norm) : 1;
            for (uint64_t i = 0; i < x.dim[m]; i++) {
                ck_assert(!spec.mode[m].nonneg || a.factor[m][i * s->rank + r] >= 0);
                if (_i / TEST_DESCENDS != 2 &&
                    _i / TEST_DESCENDS != 3) /* whose solutions are not unique */
                    ck_assert_double_eq_tol(a.factor[m][i * s->rank + r],
                                            sign * b.a[m][i * s->rank + r] / norm, 1e-8);
            }
        }
    test_cp_free(&a);
    test_slow_free(&b);
    test_coo_free(&x);
}
END_TEST

/* ---- where it ends ---- */

static void write_tensor(uint64_t seed)
{
    static const uint64_t dim[3] = { 90, 60, 30 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32, .stretch = 2, .shard_partitions = 1 };
    struct test_coo x = test_coo_random(seed, 3, dim, 50000, 0, 0.5);
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = (float)(x.val[n] - 0.1);
    test_tsh_write(test_case_dir, &x, &conf);
    test_coo_free(&x);
}

/* Every mode: with g the gradient, g >= 0 where the entry is 0, and 0 elsewhere, to 1e-4 of its
 * parts. */
START_TEST(the_end_is_optimal)
{
    static const uint64_t dim[3] = { 24, 18, 12 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct test_coo x = test_coo_random(5, 3, dim, 2500, 0, 0.3);
    struct ts_spec spec = { .mode = { { .nonneg = 1 }, { .nonneg = 1 }, { .nonneg = 1 } } };
    struct test_cp_conf conf = {
        .rank = 4, .iters = 3000, .seed = 2, .tol = 1e-13, .precision = TS_FLOAT64, .spec = &spec
    };
    struct test_slow b = { .x = &x, .spec = &spec, .rank = 4 };
    struct test_cp a;
    for (uint32_t m = 0; m < 3; m++)
        spec.mode[m].l1 = _i == 0 ? 0 : 0.2;
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    ck_assert_int_eq(a.converged, 1);
    test_slow_new(&b, 1);
    for (uint32_t m = 0; m < 3; m++) {
        double m_[24 * 4], v[16], worst = 0, scale = 0;
        for (uint32_t k = 0; k < 3; k++) /* lengths in balance, as they are with penalties */
            for (uint64_t i = 0; i < dim[k] * 4; i++)
                b.a[k][i] = a.factor[k][i];
        for (uint32_t k = 0; k < 3; k++)
            for (uint64_t i = 0; i < dim[k] * 4 && k != m; i++)
                b.a[k][i] *= _i == 0 ? 1 : a.norm[k * 4 + i % 4];
        for (uint64_t i = 0; i < dim[m] * 4; i++)
            b.a[m][i] *= _i == 0 ? a.weight[i % 4] : a.norm[m * 4 + i % 4];
        test_slow_product(&b, m, m_);
        test_slow_grams(&b, m, v);
        for (uint64_t i = 0; i < dim[m] * 4; i++) {
            double g = spec.mode[m].l1 - m_[i];
            for (uint32_t s = 0; s < 4; s++)
                g += b.a[m][i / 4 * 4 + s] * v[s * 4 + i % 4];
            scale = fmax(scale, fabs(m_[i]));
            worst = fmax(worst, b.a[m][i] > 0 ? fabs(g) : -g);
        }
        ck_assert_msg(worst <= 1e-4 * scale, "mode %u: %g of %g", m + 1, worst, scale);
    }
    test_slow_free(&b);
    test_cp_free(&a);
    test_coo_free(&x);
}
END_TEST

/* ---- the same bits ---- */

START_TEST(threads_and_memory_do_not_matter)
{
    struct ts_spec spec;
    struct test_cp a;
    test_constraints(TEST_DESCEND, _i / 2, 3, &spec);
    write_tensor(41);
    a = test_case_streamed(
        &(struct test_cp_conf){ .rank = 7,
                                .iters = 4,
                                .seed = 3,
                                .threads = 1,
                                .precision = _i % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32,
                                .spec = &spec });
    test_cp_free(&a);
}
END_TEST

/* Every product of a run is given up once, and the run goes on from the state with other threads.
 * Values near rank 2 make float32's sums too coarse for the fit, so that the last mode's product is
 * taken twice. */
START_TEST(a_run_that_was_stopped_has_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 2, .iters = 6, .seed = 1, .threads = 1, .spec = &spec };
    struct test_coo x = { .order = 3, .nnz = 12 * 11 * 10, .dim = { 12, 11, 10 } };
    uint32_t more;
    test_constraints(TEST_DESCEND, _i / 2, 3, &spec);
    conf.precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
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
    test_coo_free(&x);
    more = test_case_stopped(&conf, _i / 2 == 1); /* the mode that takes the signs */
    ck_assert(conf.precision == TS_FLOAT64 || more > 0);
}
END_TEST

START_TEST(a_state_with_other_constraints_is_refused)
{
    struct ts_spec spec = { .mode = { { 0 }, { .nonneg = 1, .l1 = 0.5 }, { 0 } } };
    struct test_cp_conf conf = {
        .rank = 3, .iters = 3, .seed = 1, .states = test_case_states, .stop_sweep = 2, .spec = &spec
    };
    struct test_cp a;
    char from[4200];
    snprintf(from, sizeof from, "%s/" TS_STATE_NAME_1, test_case_states);
    write_tensor(43);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_ESTOP);
    test_cp_free(&a);
    conf.from = from;
    conf.spec = NULL;
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text,
                         "mode 2 of the run has these constraints: nonnegative, l1 0.5; "
                         "it cannot continue with: none") != NULL,
                  "%s", a.err.text);
    test_cp_free(&a);
}
END_TEST

/* ---- what cannot be, and what dies ---- */

START_TEST(a_penalty_that_leaves_nothing_ends_well)
{
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 3, .iters = 9, .tol = 1e-6, .seed = 1, .spec = &spec };
    struct test_cp a;
    test_constraints(TEST_DESCEND, 3, 3, &spec);
    spec.mode[0].l1 = 1e9;
    conf.precision = (enum ts_precision)_i;
    write_tensor(44);
    a = test_case_run(&conf);
    ck_assert_uint_eq(a.last.n_dead, 3);
    ck_assert_double_eq(a.fit[a.sweeps - 1], 0);
    ck_assert_uint_lt(a.sweeps, 9);
    for (uint32_t r = 0; r < 3; r++)
        ck_assert(a.weight[r] == 0);
    test_cp_free(&a);
}
END_TEST

/* Factors of two modes are positive, those of the third negative, or of both signs: a mode that may
 * be negative has to take the signs before the others become zeros. */
START_TEST(a_free_mode_takes_the_signs)
{
    static const struct ts_spec some[4] = {
        { .mode = { { .nonneg = 1 }, { .nonneg = 1 } } },
        { .mode = { { .nonneg = 1 }, { .nonneg = 1 }, { .l1 = 1e-6 } } },
        { .mode = { { .nonneg = 1, .l2 = 1e-6 }, { .nonneg = 1, .l2 = 1e-6 }, { .l2 = 1e-6 } } },
        { .mode = { { .nonneg = 1 } } },
    };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64 };
    struct test_cp_conf conf = { .rank = 2, .iters = 90, .precision = TS_FLOAT64 };
    struct test_coo x = { .order = 3, .nnz = 4000, .dim = { 20, 20, 10 } };
    for (uint32_t m = 0; m < 3; m++)
        x.idx[m] = malloc(x.nnz * sizeof(uint32_t));
    x.val = calloc(x.nnz, sizeof(double));
    for (uint64_t n = 0; n < x.nnz; n++) {
        const uint64_t at[3] = { n / 200, n / 10 % 20, n % 10 };
        for (uint32_t r = 0; r < 2; r++) {
            double p = _i % 2 == 0 || at[2] % 3 == r ? -1 : 1;
            for (uint32_t m = 0; m < 3; m++)
                p *= test_draw(1000 * m + 100 * r + at[m]) + 0.5;
            x.val[n] += p;
        }
        for (uint32_t m = 0; m < 3; m++)
            x.idx[m][n] = (uint32_t)at[m];
    }
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
    conf.spec = &some[_i / 2];
    for (conf.seed = 1; conf.seed <= 5; conf.seed++) {
        struct test_cp a = test_case_run(&conf);
        ck_assert_uint_eq(a.last.n_dead, 0);
        ck_assert_msg(a.fit[a.sweeps - 1] > 0.999, "seed %d: %.9g", (int)conf.seed,
                      a.fit[a.sweeps - 1]);
        test_cp_free(&a);
    }
}
END_TEST

START_TEST(what_cannot_be_asked_is_refused)
{
    static const struct {
        struct ts_spec spec;
        const char *says;
    } cases[] = {
        { { .mode = { { .l1 = -1 } } }, "mode 1: a penalty must be a number of 0 or more" },
        { { .mode = { { 0 }, { .l2 = INFINITY } } }, "mode 2: a penalty must be" },
        { { .mode = { { .fixed = 1, .l1 = 1 } } }, "mode 1: its factor is fixed" },
        { { .mode = { { .fixed = 1 }, { .fixed = 1 }, { .fixed = 1 } } }, "nothing to compute" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ts_err err;
        ck_assert_int_eq(ts_spec_check(&cases[i].spec, 3, &err), TS_EARG);
        ck_assert_msg(strstr(err.text, cases[i].says) != NULL, "%s", err.text);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("constraint");
    TCase *c = tcase_create("constraint");
    tcase_add_checked_fixture(c, test_case_setup, test_case_teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, rows_descend_as_the_slow_way_has_them, 0, 2 * N_RANKS * TS_N_ISA);
    tcase_add_loop_test(c, bits_of_rows_do_not_depend_on_threads, 0, 2 * N_FEW * TS_N_ISA);
    tcase_add_loop_test(c, runs_are_those_of_the_slow_program, 0, TEST_SHAPES * TEST_DESCENDS);
    tcase_add_loop_test(c, the_end_is_optimal, 0, 2);
    tcase_add_loop_test(c, threads_and_memory_do_not_matter, 0, 2 * TEST_DESCENDS);
    tcase_add_loop_test(c, a_run_that_was_stopped_has_the_same_bits, 0, 2 * TEST_DESCENDS);
    tcase_add_test(c, a_state_with_other_constraints_is_refused);
    tcase_add_loop_test(c, a_penalty_that_leaves_nothing_ends_well, 0, 2);
    tcase_add_loop_test(c, a_free_mode_takes_the_signs, 0, 8);
    tcase_add_test(c, what_cannot_be_asked_is_refused);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
