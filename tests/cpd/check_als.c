/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompositions have the fits of the textbook algorithm, also where it is awkward: rank-deficient
 * Gram matrices, rank above a mode's size, empty slices, one nonzero, an exact model. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/rng.h"
#include "cpd/solver/init.h"
#include "cpd/rows/symm.h"
#include "tests/cpd/run_cp.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

static char *tmp, dir[4096];

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(dir, sizeof dir, "%s/x.tsh", tmp);
}

static void teardown(void)
{
    test_tsh_remove(dir);
    test_tsh_remove(tmp);
    free(tmp);
}

/* ---- the textbook, on whole matrices with a row per index ---- */

struct book {
    const struct test_coo *x;
    struct test_tsh_conf conf;
    uint32_t rank;
    uint64_t dim[TS_MAX_ORDER]; /* with empty slices */
    double *a[TS_MAX_ORDER];    /* dim x rank */
};

static void book_new(struct book *b, uint64_t seed)
{
    for (uint32_t m = 0; m < b->x->order; m++) {
        b->dim[m] = test_tsh_index(&b->conf, m, b->x->dim[m] - 1) + 1;
        if (b->conf.stretch > 0) {
            struct ts_tensor *t;
            ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
            b->dim[m] = t->mode[m].disk.dim;
            ts_tensor_close(t);
        }
        b->a[m] = calloc(b->dim[m] * b->rank, sizeof(double));
        for (uint64_t i = 0; i < b->dim[m]; i++)
            for (uint32_t r = 0; r < b->rank; r++)
                b->a[m][i * b->rank + r] = ts_init_entry(seed, m, i, r);
    }
}

static double *row_of(const struct book *b, uint32_t mode, uint64_t nonzero)
{
    return b->a[mode] + test_tsh_index(&b->conf, mode, b->x->idx[mode][nonzero]) * b->rank;
}

/* v := elementwise product of the Gram matrices of all modes but `skip` */
static void book_grams(const struct book *b, uint32_t skip, double *v)
{
    for (uint32_t i = 0; i < b->rank; i++)
        for (uint32_t j = 0; j < b->rank; j++) {
            double p = 1;
            for (uint32_t m = 0; m < b->x->order; m++) {
                double g = 0;
                for (uint64_t k = 0; m != skip && k < b->dim[m]; k++)
                    g += b->a[m][k * b->rank + i] * b->a[m][k * b->rank + j];
                p *= m == skip ? 1 : g;
            }
            v[i * b->rank + j] = p;
        }
}

static void book_solve(struct book *b, uint32_t mode)
{
    const uint32_t rank = b->rank;
    double *v = malloc(rank * rank * sizeof *v), *w = malloc(rank * rank * sizeof *w);
    double *out = calloc(b->dim[mode] * rank, sizeof *out);
    for (uint64_t n = 0; n < b->x->nnz; n++)
        for (uint32_t r = 0; r < rank; r++) {
            double term = b->x->val[n];
            for (uint32_t m = 0; m < b->x->order; m++)
                term *= m == mode ? 1 : row_of(b, m, n)[r];
            out[test_tsh_index(&b->conf, mode, b->x->idx[mode][n]) * rank + r] += term;
        }
    book_grams(b, mode, v);
    ck_assert_int_eq(ts_symm_pinv(rank, v, TS_SYMM_CUT, NULL, w, NULL, NULL), 0);
    for (uint64_t i = 0; i < b->dim[mode]; i++)
        for (uint32_t r = 0; r < rank; r++) {
            double s = 0;
            for (uint32_t k = 0; k < rank; k++)
                s += out[i * rank + k] * w[k * rank + r];
            b->a[mode][i * rank + r] = s;
        }
    for (uint32_t r = 0; r < rank && mode + 1 < b->x->order; r++) { /* keeps numbers in range */
        double s = 0;
        for (uint64_t i = 0; i < b->dim[mode]; i++)
            s += b->a[mode][i * rank + r] * b->a[mode][i * rank + r];
        for (uint64_t i = 0; i < b->dim[mode]; i++)
            b->a[mode][i * rank + r] /= s > 0 ? sqrt(s) : 1;
    }
    free(v);
    free(w);
    free(out);
}

/* From <X, model> summed over the nonzeros, not from an MTTKRP. */
static double book_fit(const struct book *b)
{
    double *v = malloc(b->rank * b->rank * sizeof *v), norm2 = 0, inner = 0, model = 0, left;
    for (uint64_t n = 0; n < b->x->nnz; n++) {
        norm2 += b->x->val[n] * b->x->val[n];
        for (uint32_t r = 0; r < b->rank; r++) {
            double term = b->x->val[n];
            for (uint32_t m = 0; m < b->x->order; m++)
                term *= row_of(b, m, n)[r];
            inner += term;
        }
    }
    book_grams(b, TS_MAX_ORDER, v);
    for (uint32_t i = 0; i < b->rank * b->rank; i++)
        model += v[i];
    free(v);
    left = norm2 + model - 2 * inner;
    return 1 - sqrt(left > 0 ? left : 0) / sqrt(norm2);
}

static void book_free(struct book *b)
{
    for (uint32_t m = 0; m < b->x->order; m++)
        free(b->a[m]);
}

/* ---- the cases ---- */

static const struct shape {
    uint32_t order, nnz, value_range, rank, stretch;
    uint64_t dim[8];
} shapes[] = {
    { 2, 300, 9, 4, 0, { 31, 40 } },
    { 3, 2000, 0, 5, 0, { 40, 30, 20 } },
    { 3, 2000, 5, 7, 3, { 40, 30, 20 } }, /* two of three slices empty */
    { 3, 500, 1, 16, 0, { 3, 50, 40 } },  /* rank above a mode's size */
    { 3, 800, 0, 6, 0, { 1, 50, 40 } },   /* a mode of one index */
    { 4, 3000, 0, 8, 2, { 20, 15, 10, 9 } },
    { 5, 2500, 4, 3, 0, { 12, 9, 8, 7, 6 } },
    { 6, 2000, 0, 3, 0, { 6, 5, 7, 4, 8, 3 } },
    { 7, 1500, 3, 2, 0, { 4, 5, 3, 4, 5, 3, 4 } },
    { 8, 1500, 0, 2, 0, { 3, 4, 3, 2, 5, 3, 4, 2 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

START_TEST(fits_are_those_of_the_textbook)
{
    const struct shape *s = &shapes[_i / 2];
    const struct test_cp_conf conf = { .rank = s->rank,
                                       .iters = 4,
                                       .seed = 3,
                                       .threads = 2,
                                       .precision = _i % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32 };
    struct test_coo x = test_coo_random(17, s->order, s->dim, s->nnz, s->value_range, 0.5);
    struct book b = { .x = &x,
                      .rank = s->rank,
                      .conf = { .kind = s->value_range > 0 ? TS_VALUE_INT : TS_VALUE_F32,
                                .stretch = s->stretch,
                                .shard_partitions = 1 } };
    /* float64: rounding grows by the condition of the Gram matrices, below 1e8 or cut off; float32:
     * the bound of the issue */
    const double tolerance = conf.precision == TS_FLOAT64 ? 1e-8 : 2e-4;
    struct test_cp a;
    test_tsh_write(dir, &x, &b.conf);
    book_new(&b, conf.seed);
    a = test_cp_run(dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    ck_assert_uint_eq(a.sweeps, 4);
    for (uint32_t k = 0; k < 4; k++) {
        double want;
        for (uint32_t m = 0; m < x.order; m++)
            book_solve(&b, m);
        want = book_fit(&b);
        ck_assert_msg(fabs(a.fit[k] - want) < tolerance, "sweep %u: %.12f, expected %.12f", k + 1,
                      a.fit[k], want);
    }
    test_cp_free(&a);
    book_free(&b);
    test_coo_free(&x);
}
END_TEST

/* Every cell of a small box, with zeros. */
static struct test_coo whole_box(void)
{
    struct test_coo x = { .order = 3, .nnz = 14 * 11 * 9, .dim = { 14, 11, 9 } };
    for (uint32_t m = 0; m < 3; m++)
        x.idx[m] = malloc(x.nnz * sizeof(uint32_t));
    x.val = calloc(x.nnz, sizeof(double));
    for (uint64_t n = 0; n < x.nnz; n++) {
        x.idx[0][n] = (uint32_t)(n / (11 * 9));
        x.idx[1][n] = (uint32_t)(n / 9 % 11);
        x.idx[2][n] = (uint32_t)(n % 9);
    }
    return x;
}

/* From `rank` planted components. */
static void write_planted(uint32_t rank, uint32_t kind)
{
    struct test_coo x = whole_box();
    const struct test_tsh_conf conf = { .kind = kind };
    for (uint64_t n = 0; n < x.nnz; n++)
        for (uint32_t r = 0; r < rank; r++) {
            double term = 3 + r;
            for (uint32_t m = 0; m < 3; m++)
                term *= ts_unit(ts_mix(1000 * r + 100 * m + x.idx[m][n])) - 0.3;
            x.val[n] += term;
        }
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
}

START_TEST(planted_components_are_found)
{
    const struct test_cp_conf conf = {
        .rank = (uint32_t)_i, .iters = 100, .seed = 1, .precision = TS_FLOAT64
    };
    struct test_cp a;
    write_planted((uint32_t)_i, TS_VALUE_F64);
    a = test_cp_run(dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    /* ALS converges linearly; residuals are square roots of differences near 1e-16 */
    ck_assert_double_gt(a.fit[a.sweeps - 1], 1 - 1e-4);
    ck_assert_double_le(a.fit[a.sweeps - 1], 1);
    test_cp_free(&a);
}
END_TEST

/* Rank 1 planted, rank 4 asked for: the residual is rounding, Gram matrices are singular. */
START_TEST(more_components_than_there_are)
{
    struct test_cp_conf conf = { .rank = 4, .iters = 12, .seed = 2 };
    struct test_cp a;
    conf.precision = _i == 0 ? TS_FLOAT64 : TS_FLOAT32;
    write_planted(1, TS_VALUE_F64);
    a = test_cp_run(dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    ck_assert_double_gt(a.fit[11], 1 - 1e-5);
    for (uint32_t r = 0; r < 4; r++)
        ck_assert(isfinite(a.weight[r]) && a.weight[r] >= 0);
    test_cp_free(&a);
}
END_TEST

START_TEST(one_nonzero_is_fitted)
{
    static const uint64_t dim[3] = { 1, 1, 1 };
    struct test_coo x = test_coo_random(1, 3, dim, 1, 9, 0);
    const struct test_tsh_conf conf = { .kind = TS_VALUE_INT, .stretch = (uint32_t)_i % 2 * 5 };
    const struct test_cp_conf ac = { .rank = 1 + (uint32_t)_i,
                                     .iters = 5,
                                     .seed = 4,
                                     .precision = _i < 2 ? TS_FLOAT64 : TS_FLOAT32 };
    const double value = x.val[0];
    struct test_cp a;
    double sum = 0;
    test_tsh_write(dir, &x, &conf);
    a = test_cp_run(dir, &ac);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    ck_assert_double_gt(a.fit[a.sweeps - 1], 1 - 1e-6);
    for (uint32_t r = 0; r < a.rank; r++) {
        double p = a.weight[r];
        for (uint32_t m = 0; m < 3; m++)
            p *= a.factor[m][r];
        sum += p;
    }
    ck_assert_double_eq_tol(sum, value, 1e-6 * value);
    test_cp_free(&a);
    test_coo_free(&x);
}
END_TEST

START_TEST(columns_are_normed_and_it_stops)
{
    const struct test_cp_conf conf = {
        .rank = 3, .iters = 100, .tol = 1e-3, .seed = 1, .precision = TS_FLOAT64
    };
    struct test_cp a;
    write_planted(3, TS_VALUE_F64);
    a = test_cp_run(dir, &conf);
    ck_assert_int_eq(a.rc, 0);
    ck_assert_int_eq(a.converged, 1);
    ck_assert_uint_lt(a.sweeps, 100);
    ck_assert_double_lt(fabs(a.fit[a.sweeps - 1] - a.fit[a.sweeps - 2]), 1e-3);
    for (uint32_t k = 1; k + 1 < a.sweeps; k++)
        ck_assert_double_ge(fabs(a.fit[k] - a.fit[k - 1]), 1e-3);
    for (uint32_t m = 0; m < 3; m++)
        for (uint32_t r = 0; r < 3; r++) {
            double s = 0;
            for (uint64_t i = 0; i < a.n_rows[m]; i++)
                s += a.factor[m][i * 3 + r] * a.factor[m][i * 3 + r];
            ck_assert_double_eq_tol(s, 1, 1e-12);
        }
    test_cp_free(&a);
}
END_TEST

/* One value in every cell: rank 1 fits it. */
static struct test_cp run_constant(double value, enum ts_precision precision)
{
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64 };
    const struct test_cp_conf ac = { .rank = 1, .iters = 3, .seed = 4, .precision = precision };
    struct test_coo x = whole_box();
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = value;
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
    return test_cp_run(dir, &ac);
}

static const struct extreme {
    double value;
    enum ts_precision precision;
    int fits;
    const char *says, *never;
} extremes[] = {
    { 1e100, TS_FLOAT32, 0, "not finite", NULL },
    { 1e100, TS_FLOAT32, 0, "take precision float64", NULL },
    { 1e100, TS_FLOAT64, 1, NULL, NULL },
    { 3.5e152, TS_FLOAT64, 0, "not finite", "float64" }, /* the norm's square is just finite */
    { -3.5e152, TS_FLOAT64, 0, "up to 3.5e+152", "float64" },
    { 1e-30, TS_FLOAT32, 1, NULL, NULL },
    { 1e-42, TS_FLOAT32, 0, "scale them up", NULL },
    { -1e-42, TS_FLOAT32, 0, "or take precision float64", NULL },
    { 1e-42, TS_FLOAT64, 1, NULL, NULL },
    { 1e-150, TS_FLOAT64, 1, NULL, NULL },
    { 1e-158, TS_FLOAT64, 0, "scale them up", "float64" }, /* squares of few digits */
    { 1e-200, TS_FLOAT64, 0, "scale them up", "float64" }, /* squares of 0 */
    { 1e-200, TS_FLOAT32, 0, "scale them up", "float64" }, /* which would not help */
};
#define N_EXTREMES (int)(sizeof extremes / sizeof extremes[0])

START_TEST(values_beyond_the_precision_are_refused)
{
    const struct extreme *e = &extremes[_i];
    struct test_cp a = run_constant(e->value, e->precision);
    if (e->fits) {
        ck_assert_msg(a.rc == 0, "%s", a.err.text);
        ck_assert_double_gt(a.fit[a.sweeps - 1], 1 - 1e-3);
    } else {
        ck_assert_int_eq(a.rc, TS_ELIMIT);
        ck_assert_msg(strstr(a.err.text, e->says) != NULL, "%s", a.err.text);
        ck_assert_msg(e->never == NULL || strstr(a.err.text, e->never) == NULL, "%s", a.err.text);
    }
    test_cp_free(&a);
}
END_TEST

/* A shard that holds what no builder writes, with right checksums: it is the cause, not the
 * precision. */
START_TEST(a_value_that_is_not_finite_is_named)
{
    const struct test_tsh_conf conf = { .kind = _i ? TS_VALUE_F64 : TS_VALUE_F32 };
    const struct test_cp_conf ac = { .rank = 2, .iters = 3, .seed = 4, .precision = TS_FLOAT64 };
    struct test_coo x = whole_box();
    struct test_cp a;
    x.val[x.nnz / 2] = INFINITY;
    test_tsh_write(dir, &x, &conf);
    a = test_cp_run(dir, &ac);
    ck_assert_int_eq(a.rc, TS_EFORMAT);
    ck_assert_msg(strstr(a.err.text, "mode1.shards: shard 0, block ") != NULL, "%s", a.err.text);
    ck_assert_msg(strstr(a.err.text, "a value is not finite") != NULL, "%s", a.err.text);
    test_cp_free(&a);
    test_coo_free(&x);
}
END_TEST

/* ---- pseudo-inverses ---- */

START_TEST(pseudo_inverses_are_right)
{
    const uint32_t n = 1 + (uint32_t)_i % 20, k = _i < 20 ? n + 3 : (n + 1) / 2;
    double a[20 * 23], v[400], p[400], t[400];
    int singular;
    for (uint32_t i = 0; i < n * k; i++)
        a[i] = ts_unit(ts_mix((uint64_t)_i * 1000 + i)) - 0.2;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            v[i * n + j] = 0;
            for (uint32_t l = 0; l < k; l++)
                v[i * n + j] += a[i * k + l] * a[j * k + l];
        }
    ck_assert_int_eq(ts_symm_pinv(n, v, TS_SYMM_CUT, NULL, p, &singular, NULL), 0);
    ck_assert_int_eq(singular, k < n);
    for (uint32_t i = 0; i < n; i++) /* t := v p */
        for (uint32_t j = 0; j < n; j++) {
            t[i * n + j] = 0;
            for (uint32_t l = 0; l < n; l++)
                t[i * n + j] += v[i * n + l] * p[l * n + j];
        }
    for (uint32_t i = 0; i < n; i++) /* v p v = v, p symmetric */
        for (uint32_t j = 0; j < n; j++) {
            double s = 0;
            for (uint32_t l = 0; l < n; l++)
                s += t[i * n + l] * v[l * n + j];
            ck_assert_double_eq_tol(s, v[i * n + j], 1e-8 * n);
            ck_assert_double_eq(p[i * n + j], p[j * n + i]);
        }
}
END_TEST

START_TEST(zero_matrices_have_zero_inverses)
{
    double v[9] = { 0 }, p[9];
    ck_assert_int_eq(ts_symm_pinv(3, v, TS_SYMM_CUT, NULL, p, NULL, NULL), 0);
    for (int i = 0; i < 9; i++)
        ck_assert_double_eq(p[i], 0);
}
END_TEST

static volatile sig_atomic_t stop;

static void stop_now(int sig)
{
    stop = sig;
}

/* Half the rank that would be needed: half a second or more of reflections and rotations, most of
 * which a signal ends. */
START_TEST(a_pseudo_inverse_can_be_stopped)
{
    const uint32_t n = 1000, k = n / 2;
    const struct itimerval soon = { .it_value = { .tv_usec = 20000 } };
    double *a = malloc(n * k * sizeof *a), *v = calloc(n * n, sizeof *v);
    double *p = malloc(n * n * sizeof *p);
    struct ts_err err;
    for (uint32_t i = 0; i < n * k; i++)
        a[i] = ts_unit(ts_mix(i)) - 0.2;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            for (uint32_t l = 0; l < k; l++)
                v[i * n + j] += a[i * k + l] * a[j * k + l];
    stop = 0;
    signal(SIGALRM, stop_now);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &soon, NULL), 0);
    ck_assert_int_eq(ts_symm_pinv(n, v, TS_SYMM_CUT, &stop, p, NULL, &err), TS_ESTOP);
    ck_assert_str_eq(err.text, "stopped");
    ck_assert_int_eq(stop, SIGALRM);
    for (uint32_t i = 0; i < n; i++) /* well conditioned: done before it would be looked at */
        v[i * n + i] += n;
    ck_assert_int_eq(ts_symm_pinv(n, v, TS_SYMM_CUT, &stop, p, NULL, &err), 0);
    free(p);
    free(v);
    free(a);
}
END_TEST

/* A backend may take product and rows in one call, and then is asked for <X, model> in the last
 * mode alone. Its devices' times become one line. */
START_TEST(product_and_rows_in_one_call_are_those_of_two)
{
    const uint64_t dim[] = { 30, 20, 25 };
    struct test_coo x = test_coo_random(5, 3, dim, 2000, 9, 0.5);
    const struct test_tsh_conf conf = { 0 };
    struct test_cp_conf c = { .rank = 7, .iters = 4, .threads = 2, .seed = 3 };
    struct test_cp two, one;
    test_tsh_write(dir, &x, &conf);
    two = test_cp_run(dir, &c);
    c.one_call = 1;
    one = test_cp_run(dir, &c);
    ck_assert_msg(two.rc == 0, "%s", two.err.text);
    ck_assert_msg(one.rc == 0, "%s", one.err.text);
    ck_assert_uint_eq(two.n_modes, 12);
    ck_assert_uint_eq(one.n_modes, 12);
    ck_assert_mem_eq(one.fit, two.fit, 4 * sizeof *one.fit);
    for (uint32_t m = 0; m < 3; m++)
        ck_assert_mem_eq(one.factor[m], two.factor[m], one.n_rows[m] * 7 * sizeof(double));
    ck_assert_double_eq(two.last.imbalance, 1);
    ck_assert_uint_eq(two.last.exposed_ns, 0);
    ck_assert_double_eq_tol(one.last.imbalance, 1.5, 1e-12);
    ck_assert_uint_eq(one.last.kernel_ns, 6000000);
    ck_assert_uint_eq(one.last.exposed_ns, 6000000);
    test_cp_free(&one);
    test_cp_free(&two);
    test_coo_free(&x);
}
END_TEST

/* The Gram matrix of a start is summed last, by threads that leave when they are to stop: what is
 * there then is no Gram matrix, and nobody may go on with it. */
START_TEST(a_start_that_is_stopped_is_none)
{
    const volatile sig_atomic_t asked = 1;
    const struct ts_tensor t = { .order = 1,
                                 .mode[0].disk.dim = 5 }; /* no rows: nothing else looks */
    const struct ts_init_conf conf = { .tensor = &t, .rank = 3, .threads = 2, .stop = &asked };
    double gram[9];
    struct ts_err err;
    ck_assert_int_eq(ts_init_mode(&conf, 0, gram, &err), TS_ESTOP);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("als");
    TCase *c = tcase_create("als"), *symm = tcase_create("symm");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, fits_are_those_of_the_textbook, 0, 2 * N_SHAPES);
    tcase_add_loop_test(c, planted_components_are_found, 1, 4);
    tcase_add_loop_test(c, more_components_than_there_are, 0, 2);
    tcase_add_loop_test(c, one_nonzero_is_fitted, 0, 4);
    tcase_add_test(c, columns_are_normed_and_it_stops);
    tcase_add_loop_test(c, values_beyond_the_precision_are_refused, 0, N_EXTREMES);
    tcase_add_loop_test(c, a_value_that_is_not_finite_is_named, 0, 2);
    tcase_add_test(c, product_and_rows_in_one_call_are_those_of_two);
    tcase_add_test(c, a_start_that_is_stopped_is_none);
    tcase_add_loop_test(symm, pseudo_inverses_are_right, 0, 40);
    tcase_add_test(symm, zero_matrices_have_zero_inverses);
    tcase_add_test(symm, a_pseudo_inverse_can_be_stopped);
    tcase_set_timeout(symm, 60);
    suite_add_tcase(s, c);
    suite_add_tcase(s, symm);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
