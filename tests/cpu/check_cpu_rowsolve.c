/* SPDX-License-Identifier: BSD-3-Clause */
/* The row solve equals the obvious matrix products, and its bits do not depend on threads. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/fpmode.h"
#include "base/rng.h"
#include "cpu/rows/rowsolve.h"
#include "tests/support/run_suite.h"

static const uint32_t ranks[] = { 1, 3, 5, 8, 10, 16, 17, 25, 32, 33, 50, 64, 100, 130 };
static const uint64_t sizes[] = { 1, 2, 63, 64, 65, 512, 513, 1003 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])
#define N_SIZES (int)(sizeof sizes / sizeof sizes[0])

static double entry(uint64_t at)
{
    return ts_unit(ts_mix(at)) - 0.5;
}

static struct ts_rowsolve *solver(uint64_t max_rows, uint32_t rank, enum ts_isa isa,
                                  uint32_t threads)
{
    struct ts_rowsolve *s;
    ck_assert_int_eq(ts_rowsolve_new(max_rows, rank, isa, threads, &s, NULL), 0);
    return s;
}

static struct ts_fmat make(uint64_t n, uint32_t rank, enum ts_precision precision, double *m)
{
    struct ts_fmat f;
    ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &f, NULL), 0);
    for (uint64_t i = 0; i < n * rank; i++)
        m[i] = precision == TS_FLOAT32 ? (float)entry(i) : entry(i);
    ts_fmat_put(&f, 0, n, m, 1);
    return f;
}

/* A sum of n products of numbers below 1 is off by at most n^2 / 2 ulps of 1; A is rounded to
 * float32 before gram and inner, in the reference too. */
START_TEST(solve_equals_reference)
{
    const uint32_t rank = ranks[_i / 2 % N_RANKS];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const enum ts_isa isa = (enum ts_isa)(_i / 2 / N_RANKS);
    if (!ts_isa_here(isa))
        return;
    double *w = malloc(rank * rank * sizeof *w), *gram = malloc(rank * rank * sizeof *gram);
    for (uint32_t i = 0; i < rank * rank; i++)
        w[i] = entry(UINT64_C(1) << 40 | i);
    struct ts_rowsolve *s = solver(sizes[N_SIZES - 1], rank, isa, 2); /* one for all sizes */
    for (int k = 0; k < N_SIZES; k++) {
        const uint64_t n = rank > 64 && sizes[k] > 513 ? 555 : sizes[k]; /* more only take longer */
        const double limit = rank + 1.0;
        double *m = malloc(n * rank * sizeof *m), *a = malloc(n * rank * sizeof *a), inner, sum = 0;
        struct ts_fmat f = make(n, rank, precision, m);
        ts_rowsolve_run(s, &f, NULL, &(struct ts_row_update){ .matrix = w },
                        &(struct ts_row_sums){ .gram = gram, .inner = &inner }, NULL, NULL);
        ts_fmat_get(&f, 0, n, a, 1);
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t r = 0; r < rank; r++) {
                double want = 0;
                for (uint32_t q = 0; q < rank; q++)
                    want += m[i * rank + q] * w[q * rank + r];
                ck_assert_double_eq_tol(a[i * rank + r], want,
                                        precision == TS_FLOAT32 ? fabs(want) * FLT_EPSILON + 1e-12
                                                                : rank * limit * 1e-16);
                sum += m[i * rank + r] * a[i * rank + r];
            }
        ck_assert_double_eq_tol(inner, sum, (double)(n * rank) * limit * 1e-15);
        for (uint32_t p = 0; p < rank; p++)
            for (uint32_t q = 0; q < rank; q++) {
                double want = 0;
                for (uint64_t i = 0; i < n; i++)
                    want += a[i * rank + p] * a[i * rank + q];
                ck_assert_double_eq_tol(gram[p * rank + q], want, (double)n * limit * 1e-15);
                ck_assert(gram[p * rank + q] == gram[q * rank + p]);
            }
        ts_fmat_free(&f);
        free(m);
        free(a);
    }
    ts_rowsolve_free(s);
    free(w);
    free(gram);
}
END_TEST

/* Whole groups, and equal parts: of n / 512 groups, few threads take whole ones; of 7 and more,
 * several sum one group. */
START_TEST(bits_do_not_depend_on_threads)
{
    static const uint32_t threads[] = { 1, 2, 3, 7, 16, 40 };
    static const uint64_t n_rows[] = { 2503, 230, 4096 };
    const uint32_t rank = ranks[_i / 2 % N_RANKS];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const enum ts_isa isa = (enum ts_isa)(_i / 2 / N_RANKS);
    const uint64_t n = n_rows[_i % 3], square = (uint64_t)rank * rank;
    double *w, *m, *got[6], inner[6], *a[6];
    if (!ts_isa_here(isa))
        return;
    w = malloc(square * sizeof *w);
    m = malloc(n * rank * sizeof *m);
    for (uint64_t i = 0; i < square; i++)
        w[i] = entry(UINT64_C(1) << 40 | i);
    for (int t = 0; t < 6; t++) {
        struct ts_fmat f = make(n, rank, precision, m);
        got[t] = malloc(2 * square * sizeof(double));
        a[t] = malloc(n * rank * sizeof(double));
        struct ts_rowsolve *s = solver(n + 1000 * (unsigned)t, rank, isa, threads[t]);
        ts_rowsolve_run(s, &f, NULL, &(struct ts_row_update){ .matrix = w },
                        &(struct ts_row_sums){ .gram = got[t], .inner = &inner[t] }, NULL, NULL);
        ts_rowsolve_run(s, &f, NULL, NULL, &(struct ts_row_sums){ .gram = got[t] + square }, NULL,
                        NULL);
        ts_rowsolve_free(s);
        ts_fmat_get(&f, 0, n, a[t], 1);
        ck_assert(memcmp(got[t], got[t] + square, square * sizeof(double)) == 0);
        ck_assert(memcmp(got[t], got[0], square * sizeof(double)) == 0);
        ck_assert(memcmp(a[t], a[0], n * rank * sizeof(double)) == 0);
        ck_assert(inner[t] == inner[0]);
        ts_fmat_free(&f);
    }
    for (int t = 0; t < 6; t++) {
        free(got[t]);
        free(a[t]);
    }
    free(w);
    free(m);
}
END_TEST

/* Parts of 256 rows where a thread has room for 192: two threads to a group, of which the second
 * cannot solve all of its rows before the first is done. */
START_TEST(rows_wait_in_little_room)
{
    const uint32_t rank = 128;
    const uint64_t n = 10003, square = (uint64_t)rank * rank;
    double *w = malloc(square * sizeof *w), *m = malloc(n * rank * sizeof *m), *got[2], *a[2];
    double inner[2], size[2];
    for (uint64_t i = 0; i < square; i++)
        w[i] = entry(UINT64_C(1) << 40 | i);
    for (int t = 0; t < 2; t++) {
        struct ts_fmat f = make(n, rank, TS_FLOAT32, m);
        struct ts_rowsolve *s = solver(n, rank, ts_isa_best(), t == 0 ? 1 : 40);
        got[t] = malloc(square * sizeof(double));
        a[t] = malloc(n * rank * sizeof(double));
        ts_rowsolve_run(
            s, &f, NULL, &(struct ts_row_update){ .matrix = w },
            &(struct ts_row_sums){ .gram = got[t], .inner = &inner[t], .size = &size[t] }, NULL,
            NULL);
        ts_fmat_get(&f, 0, n, a[t], 1);
        ts_rowsolve_free(s);
        ts_fmat_free(&f);
    }
    ck_assert_mem_eq(got[1], got[0], square * sizeof(double));
    ck_assert_mem_eq(a[1], a[0], n * rank * sizeof(double));
    ck_assert(inner[1] == inner[0] && size[1] == size[0]);
    for (int t = 0; t < 2; t++) {
        free(got[t]);
        free(a[t]);
    }
    free(w);
    free(m);
}
END_TEST

/* Numbers that float32 has and has not, some of them out of its range, all rounded once. */
START_TEST(scaling_rounds_once)
{
    static const double by[] = { 1, 0.5, 3, 1e-3, 0x1p100, 0x1p-130, 1e300, 0, -7, 1.0 / 3 };
    const uint32_t rank = ranks[_i / 2 % N_RANKS];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const enum ts_isa isa = (enum ts_isa)(_i / 2 / N_RANKS);
    double m[1003], got[1003], s[1003];
    if (!ts_isa_here(isa))
        return;
    for (uint32_t from = 0; from < 10; from++)
        for (uint32_t threads = 1; threads < 4; threads++)
            for (int all = 0; all < 2; all++) { /* of one kind, and mixed */
                const uint64_t n = 1003 / rank;
                struct ts_fmat f = make(n, rank, precision, m);
                struct ts_rowsolve *solve = solver(n, rank, isa, threads);
                for (uint32_t r = 0; r < rank; r++)
                    s[r] = by[all ? from : (from + r) % 10];
                for (uint32_t part = 0; part < 3; part++) /* as three ranks do that share it */
                    ts_rowsolve_scale(solve, &f, s, part, 3);
                ts_fmat_get(&f, 0, n, got, 1);
                for (uint64_t i = 0; i < n * rank; i++) {
                    const uint64_t mode = ts_fpmode_flush();
                    volatile double want = m[i] * s[i % rank];
                    if (precision == TS_FLOAT32)
                        want = (float)want;
                    ts_fpmode_restore(mode);
                    ck_assert(got[i] == want);
                }
                ts_rowsolve_free(solve);
                ts_fmat_free(&f);
            }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu_rowsolve");
    TCase *t = tcase_create("cpu_rowsolve");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, solve_equals_reference, 0, 2 * N_RANKS * TS_N_ISA);
    tcase_add_loop_test(t, bits_do_not_depend_on_threads, 0, 2 * N_RANKS * TS_N_ISA);
    tcase_add_test(t, rows_wait_in_little_room);
    tcase_add_loop_test(t, scaling_rounds_once, 0, 2 * N_RANKS * TS_N_ISA);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
