/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums over all rows or cells of a model are those of the obvious loops, with the same bits for any
 * threads; they end when they are to; and numbers whose squares leave the range do no harm, or are
 * an error. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "model/kruskal_sums.h"
#include "tests/support/run_suite.h"
#include "tests/support/stop_later.h"

static const uint64_t dims[] = { 3000, 40, 7 };

static double unit(uint64_t *seed)
{
    *seed = ts_mix(*seed);
    return (double)(*seed >> 11) * 0x1p-53;
}

static struct ts_kruskal *drawn(uint32_t rank, enum ts_precision precision)
{
    struct ts_kruskal *k = NULL;
    uint64_t seed = 11;
    ck_assert_int_eq(ts_kruskal_new(3, rank, precision, dims, dims, &k, NULL), 0);
    for (uint32_t r = 0; r < rank; r++)
        k->weight[r] = unit(&seed) - 0.3;
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < dims[m] * rank; i++) {
            const double x = 2 * unit(&seed) - 0.8;
            if (precision == TS_FLOAT32)
                ((float *)k->factor[m])[i] = (float)x;
            else
                ((double *)k->factor[m])[i] = x;
        }
    return k;
}

static double entry(const struct ts_kruskal *k, uint32_t mode, uint64_t i, uint32_t r)
{
    double row[64];
    ts_kruskal_rows(k, mode, i, 1, row);
    return row[r];
}

static long double dot(const struct ts_kruskal *k, uint32_t mode, uint32_t p, uint32_t q)
{
    long double sum = 0;
    for (uint64_t i = 0; i < k->n_rows[mode]; i++)
        sum += (long double)entry(k, mode, i, p) * entry(k, mode, i, q);
    return sum;
}

static long double norm_twin(const struct ts_kruskal *k)
{
    long double sum = 0;
    for (uint32_t p = 0; p < k->rank; p++)
        for (uint32_t q = 0; q < k->rank; q++) {
            long double term = (long double)k->weight[p] * k->weight[q];
            for (uint32_t m = 0; m < k->order; m++)
                term *= dot(k, m, p, q);
            sum += term;
        }
    return sqrtl(sum);
}

static long double total_twin(const struct ts_kruskal *k)
{
    long double sum = 0;
    for (uint32_t r = 0; r < k->rank; r++) {
        long double term = k->weight[r];
        for (uint32_t m = 0; m < k->order; m++) {
            long double column = 0;
            for (uint64_t i = 0; i < k->n_rows[m]; i++)
                column += entry(k, m, i, r);
            term *= column;
        }
        sum += term;
    }
    return sum;
}

static double norm_of(const struct ts_kruskal *k, uint32_t threads)
{
    struct ts_err err = { 0 };
    double ret = NAN;
    ck_assert_msg(ts_kruskal_norm(k, threads, NULL, &ret, &err) == 0, "%s", err.text);
    return ret;
}

static double total_of(const struct ts_kruskal *k, uint32_t threads)
{
    double ret = NAN;
    ck_assert_int_eq(ts_kruskal_total(k, threads, NULL, &ret, NULL), 0);
    return ret;
}

static const uint32_t ranks[] = { 1, 2, 9, 17 };

START_TEST(sums_equal_the_loops_for_any_threads)
{
    struct ts_kruskal *k = drawn(ranks[_i % 4], _i < 4 ? TS_FLOAT64 : TS_FLOAT32);
    const double norm = norm_of(k, 1), total = total_of(k, 1);
    ck_assert_double_eq_tol(norm, (double)norm_twin(k), 1e-11 * norm);
    ck_assert_double_eq_tol(total, (double)total_twin(k), 1e-11 * (fabs(total) + norm));
    for (uint32_t threads = 2; threads < 6; threads++) {
        ck_assert(norm_of(k, threads) == norm);
        ck_assert(total_of(k, threads) == total);
    }
    ts_kruskal_free(k);
}
END_TEST

/* Modes 0 and 1 are scaled against each other, beyond what squares can hold. */
START_TEST(columns_may_be_of_any_size)
{
    const double by[] = { 0x1p600, 0x1p-600, 0x1p900, 0x1p-1000 };
    struct ts_kruskal *k = drawn(4, TS_FLOAT64);
    const double norm = norm_of(k, 2), total = total_of(k, 2);
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t m = 0; m < 2; m++)
            for (uint64_t i = 0; i < dims[m]; i++)
                ((double *)k->factor[m])[i * 4 + r] *= m == 0 ? by[r] : 1 / by[r];
    ck_assert_double_eq_tol(norm_of(k, 2), norm, 1e-12 * norm);
    ck_assert_double_eq_tol(total_of(k, 2), total, 1e-12 * (fabs(total) + norm));
    ts_kruskal_free(k);
}
END_TEST

START_TEST(norms_out_of_range_are_an_error)
{
    struct ts_kruskal *k = drawn(2, TS_FLOAT64);
    struct ts_err err = { 0 };
    double ret;
    k->weight[1] = 1e308;
    ck_assert_int_eq(ts_kruskal_norm(k, 1, NULL, &ret, &err), TS_ELIMIT);
    ck_assert_msg(strstr(err.text, "leaves the range of float64") != NULL, "%s", err.text);
    ck_assert_int_eq(ts_kruskal_total(k, 1, NULL, &ret, &err), 0);
    ck_assert(!isfinite(ret));
    k->weight[1] = 0; /* of weight 0 a component is nothing, however large */
    for (uint64_t i = 0; i < dims[0]; i++)
        ((double *)k->factor[0])[i * 2 + 1] = 1e300;
    ck_assert_int_eq(ts_kruskal_norm(k, 1, NULL, &ret, &err), 0);
    ck_assert_double_eq_tol(ret, (double)norm_twin(k), 1e-12 * ret);
    k->weight[1] = NAN;
    ck_assert_int_eq(ts_kruskal_norm(k, 1, NULL, &ret, &err), TS_ELIMIT);
    ts_kruskal_free(k);
}
END_TEST

/* |M| of 200 components takes seconds: it ends soon after it is asked to. */
START_TEST(a_stop_ends_them)
{
    const uint64_t large[] = { 200000, 200000 };
    struct ts_kruskal *k = NULL;
    struct test_stop stop;
    struct ts_err err = { 0 };
    double ret, gram[4];
    int exponent[2];
    ck_assert_int_eq(ts_kruskal_new(2, 200, TS_FLOAT32, large, large, &k, NULL), 0);
    test_stop_later(&stop, 20000);
    ck_assert_int_eq(ts_kruskal_norm(k, 2, &stop.asked, &ret, &err), TS_ESTOP);
    test_stop_join(&stop);
    ts_kruskal_free(k);
    k = drawn(2, TS_FLOAT64);
    ck_assert_int_eq(ts_kruskal_total(k, 2, &stop.asked, &ret, &err), TS_ESTOP);
    ck_assert_int_eq(ts_kruskal_gram(k, 0, 2, &stop.asked, gram, exponent, &err), TS_ESTOP);
    ts_kruskal_free(k);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kruskal_sums");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, sums_equal_the_loops_for_any_threads, 0, 8);
    tcase_add_test(tc, columns_may_be_of_any_size);
    tcase_add_test(tc, norms_out_of_range_are_an_error);
    tcase_add_test(tc, a_stop_ends_them);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
