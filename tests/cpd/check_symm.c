/* SPDX-License-Identifier: BSD-3-Clause */
/* Inverses equal those of plain loops bit by bit; eigenvectors and pseudo-inverses are as right as
 * v is, compared with those by Jacobi's rotations, which are slow and right. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/fpmode.h"
#include "base/rng.h"
#include "cpd/rows/symm.h"
#include "tests/support/run_suite.h"

#define AT(a, i, j) ((a)[(size_t)(i)*n + (j)])

static const uint32_t large[] = { 48, 63, 64, 65, 100, 128, 256 };
#define N_SIZES (40 + (int)(sizeof large / sizeof large[0]))

static uint32_t size_of(int i) /* 1 .. 40, and some larger ones */
{
    return i < 40 ? (uint32_t)i + 1 : large[i - 40];
}

static double *square(uint32_t n)
{
    return calloc((size_t)n * n, sizeof(double));
}

static double drawn(uint64_t *state)
{
    return ts_unit(ts_mix(++*state));
}

/* ---- the slow twins ---- */

static double plain_dot(uint32_t n, const double *a, const double *b)
{
    double s[4] = { 0 };
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        s[0] += a[i] * b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* By Cholesky, entry after entry. */
static void plain_inverse(uint32_t n, const double *v, double *ret)
{
    double *l = square(n), *li = square(n);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++) {
            const double s = AT(v, i, j) - plain_dot(j, l + i * n, l + j * n);
            AT(l, i, j) = i == j ? sqrt(s) : s / AT(l, j, j);
        }
    for (uint32_t j = 0; j < n; j++) {
        AT(li, j, j) = 1 / AT(l, j, j);
        for (uint32_t i = j + 1; i < n; i++)
            AT(li, j, i) = -plain_dot(i - j, l + i * n + j, li + j * n + j) / AT(l, i, i);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++)
            AT(ret, i, j) = AT(ret, j, i) = plain_dot(n - i, li + i * n + i, li + j * n + i);
    free(l);
    free(li);
}

/* One-sided Jacobi: rotates rows of g = q v until they are orthogonal, and then sums up q_s g_s' /
 * s^2. */
static void jacobi_pinv(uint32_t n, const double *v, double cut, double *ret)
{
    double *g = square(n), *q = square(n), most = 0;
    int rotated = 1;
    memcpy(g, v, (size_t)n * n * sizeof *g);
    memset(ret, 0, (size_t)n * n * sizeof *ret);
    for (uint32_t i = 0; i < n; i++) {
        AT(q, i, i) = 1;
        most = fmax(most, sqrt(plain_dot(n, v + i * n, v + i * n)));
    }
    for (int sweep = 0; sweep < 60 && rotated; sweep++) {
        rotated = 0;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = i + 1; j < n; j++) {
                const double a = plain_dot(n, g + i * n, g + i * n);
                const double b = plain_dot(n, g + j * n, g + j * n);
                const double d = plain_dot(n, g + i * n, g + j * n);
                const double zeta = (b - a) / (2 * d);
                const double t = copysign(1 / (fabs(zeta) + hypot(1, zeta)), zeta);
                const double c = 1 / hypot(1, t), s = c * t;
                if (!(fabs(d) > 1e-15 * sqrt(a) * sqrt(b)) || sqrt(fmin(a, b)) <= 1e-19 * most)
                    continue;
                for (uint32_t k = 0; k < n; k++) {
                    const double x = AT(g, i, k), y = AT(g, j, k);
                    const double w = AT(q, i, k), z = AT(q, j, k);
                    AT(g, i, k) = c * x - s * y;
                    AT(g, j, k) = s * x + c * y;
                    AT(q, i, k) = c * w - s * z;
                    AT(q, j, k) = s * w + c * z;
                }
                rotated = 1;
            }
    }
    most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = fmax(most, sqrt(plain_dot(n, g + i * n, g + i * n)));
    for (uint32_t k = 0; k < n; k++) {
        const double s = sqrt(plain_dot(n, g + k * n, g + k * n));
        for (uint32_t i = 0; i < n && s > cut * most; i++)
            for (uint32_t j = 0; j < n; j++)
                AT(ret, i, j) += AT(q, k, i) / s * (AT(g, k, j) / s);
    }
    free(g);
    free(q);
}

/* ---- matrices ---- */

/* v := a a', a with n rows and k columns of numbers in [0, 1) - shift. */
static void of_rank(uint32_t n, uint32_t k, double shift, uint64_t seed, double *v)
{
    double *a = malloc(((size_t)n * k + 1) * sizeof *a);
    for (size_t i = 0; i < (size_t)n * k; i++)
        a[i] = drawn(&seed) - shift;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            AT(v, i, j) = 0;
            for (uint32_t l = 0; l < k; l++)
                AT(v, i, j) += a[(size_t)i * k + l] * a[(size_t)j * k + l];
        }
    free(a);
}

/* v := reflection diag(d) reflection, by two of them; exactly symmetric */
static void with_eigenvalues(uint32_t n, const double *d, uint64_t seed, double *v)
{
    double *u = malloc(n * sizeof *u), *p = malloc(n * sizeof *p);
    memset(v, 0, (size_t)n * n * sizeof *v);
    for (uint32_t i = 0; i < n; i++)
        AT(v, i, i) = d[i];
    for (int k = 0; k < 2; k++) {
        double h = 0, up = 0;
        for (uint32_t i = 0; i < n; i++) {
            u[i] = drawn(&seed) - 0.5;
            h += u[i] * u[i] / 2;
        }
        for (uint32_t i = 0; i < n; i++) {
            p[i] = 0;
            for (uint32_t j = 0; j < n; j++)
                p[i] += AT(v, i, j) * u[j] / h;
            up += u[i] * p[i];
        }
        for (uint32_t i = 0; i < n; i++)
            p[i] -= up / (2 * h) * u[i];
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j <= i; j++)
                AT(v, i, j) = AT(v, j, i) = AT(v, i, j) - u[i] * p[j] - p[i] * u[j];
    }
    free(u);
    free(p);
}

enum kind {
    LOW_RANK,   /* of nonnegative numbers, as factors have at first */
    LOW_SIGNED, /* of both signs */
    GRADED,     /* eigenvalues of 1 to 1e-16, a gap where the cut is */
    INDEFINITE, /* some of -1e-15, as rounding makes them */
    EQUAL_ROWS, /* exactly singular: every second row and column as the one before */
    ONES,       /* of rank 1, exactly */
    BLOCKS,     /* rows of zeros between others */
    DIAGONAL,   /* nothing to reduce */
    N_KINDS
};

static void fill(uint32_t n, enum kind kind, uint64_t seed, double *v)
{
    double *d = malloc(n * sizeof *d);
    if (kind == LOW_RANK || kind == LOW_SIGNED || kind == EQUAL_ROWS || kind == BLOCKS)
        of_rank(n, kind < GRADED ? (n + 1) / 2 : n + 2, kind == LOW_RANK ? 0 : 0.4, seed, v);
    for (uint32_t i = 0; i < n; i++) {
        d[i] = pow(10, -16.0 * i / n);
        if (kind == GRADED && d[i] < 1e-9 && d[i] > 1e-11)
            d[i] = 1e-9;
        if (kind == INDEFINITE)
            d[i] = i < n / 2 ? 1 + i : -1e-15 * i;
        if (kind == DIAGONAL)
            d[i] = i % 3 == 1 ? 0 : 1 + drawn(&seed);
    }
    if (kind == GRADED || kind == INDEFINITE)
        with_eigenvalues(n, d, seed, v);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            if (kind == EQUAL_ROWS)
                AT(v, i, j) = rint(1000 * AT(v, i / 2 * 2, j / 2 * 2));
            else if (kind == BLOCKS && (i % 4 == 1 || j % 4 == 1))
                AT(v, i, j) = 0;
            else if (kind == ONES)
                AT(v, i, j) = 1;
            else if (kind == DIAGONAL)
                AT(v, i, j) = i == j ? d[i] : 0;
        }
    free(d);
}

/* ---- what holds ---- */

START_TEST(inverses_have_the_bits_of_plain_loops)
{
    const uint32_t n = size_of(_i);
    double *v = square(n), *p = square(n), *want = square(n);
    int singular;
    for (uint32_t more = 2; more < 40; more += 12) {
        const uint64_t mode = ts_fpmode_flush();
        of_rank(n, n + more, 0.5, n, v);
        plain_inverse(n, v, want);
        ts_fpmode_restore(mode);
        ck_assert_int_eq(ts_symm_pinv(n, v, TS_SYMM_CUT, NULL, p, &singular, NULL), 0);
        if (!singular)
            ck_assert(memcmp(p, want, (size_t)n * n * sizeof *p) == 0);
        ck_assert(!singular || more < 14);
    }
    free(v);
    free(p);
    free(want);
}
END_TEST

static double norm_of(size_t n, const double *a) /* Frobenius */
{
    double s = 0, most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(a[i]));
    for (size_t i = 0; i < n && most > 0; i++)
        s += a[i] / most * (a[i] / most);
    return most * sqrt(s);
}

/* Each of n reflections and some 2 n rotations of a row adds roundings of a few DBL_EPSILON, which
 * are random: 20 sqrt(n) of them bound the norms, and 4 n would if all were alike. */
START_TEST(eigenvectors_are_orthonormal_and_right)
{
    const uint32_t n = size_of(_i);
    const double by[] = { 1, 1e150, 1e-150, 1e-290 };
    double *v = square(n), *z = square(n), *t = square(n), *d = malloc(n * sizeof *d);
    for (int k = 0; k < N_KINDS * 4; k++) {
        const enum kind kind = (enum kind)(k % N_KINDS);
        double size;
        fill(n, kind, n + 1000 * (unsigned)k, v);
        for (uint32_t i = 0; i < n * n; i++)
            v[i] *= by[k / N_KINDS];
        size = norm_of((size_t)n * n, v);
        ck_assert_int_eq(ts_symm_eigen(n, v, d, z, NULL), 0);
        for (uint32_t i = 0; i < n; i++) /* z z' - 1 */
            for (uint32_t j = 0; j < n; j++)
                AT(t, i, j) = plain_dot(n, z + i * n, z + j * n) - (i == j);
        ck_assert_double_le(norm_of((size_t)n * n, t), 20 * sqrt(n) * DBL_EPSILON * sqrt(n));
        for (uint32_t i = 0; i < n; i++) /* z v - d z */
            for (uint32_t j = 0; j < n; j++)
                AT(t, i, j) = plain_dot(n, z + i * n, v + j * n) - d[i] * AT(z, i, j);
        ck_assert_msg(norm_of((size_t)n * n, t) <= 20 * sqrt(n) * DBL_EPSILON * size,
                      "n %u, kind %d: %g of %g", n, kind, norm_of((size_t)n * n, t), size);
    }
    free(v);
    free(z);
    free(t);
    free(d);
}
END_TEST

/* Errors of e |v| in v are errors of e |v| |p|^2 in its pseudo-inverse p (Wedin 1973, where the
 * rank stays), and both twins make some. */
START_TEST(pseudo_inverses_equal_those_by_jacobi)
{
    const uint32_t n = size_of(_i);
    const double cut = 1e-10;
    double *v = square(n), *p = square(n), *want = square(n), *t = square(n);
    for (int k = 0; k < (n > 200 ? 1 : N_KINDS); k++) { /* Jacobi takes seconds for the largest */
        int singular;
        double size, inverse;
        fill(n, (enum kind)k, n + 77, v);
        ck_assert_int_eq(ts_symm_pinv(n, v, cut, NULL, p, &singular, NULL), 0);
        if (n > 4)
            ck_assert_int_eq(singular, 1);
        jacobi_pinv(n, v, cut, want);
        size = norm_of((size_t)n * n, v);
        inverse = norm_of((size_t)n * n, want);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++) {
                AT(t, i, j) = AT(p, i, j) - AT(want, i, j);
                ck_assert_double_eq(AT(p, i, j), AT(p, j, i));
            }
        ck_assert_msg(norm_of((size_t)n * n, t) <=
                          40 * sqrt(n) * DBL_EPSILON * size * inverse * inverse,
                      "n %u, kind %d: %g of %g", n, k, norm_of((size_t)n * n, t), inverse);
    }
    free(v);
    free(p);
    free(want);
    free(t);
}
END_TEST

/* Of 2 (1 1'), whose pseudo-inverse is 1 1' / (2 n^2), at the ends of the range of float64. */
START_TEST(large_and_small_numbers_are_taken)
{
    const uint32_t n = 9;
    const double by = ldexp(1, 200 * _i);
    double v[81], p[81];
    int singular;
    for (uint32_t i = 0; i < n * n; i++)
        v[i] = 2 * by;
    ck_assert_int_eq(ts_symm_pinv(n, v, TS_SYMM_CUT, NULL, p, &singular, NULL), 0);
    ck_assert_int_eq(singular, 1);
    for (uint32_t i = 0; i < n * n; i++)
        ck_assert_double_eq_tol(p[i] * by, 1.0 / 162, 1e-16);
}
END_TEST

START_TEST(numbers_that_are_not_finite_have_no_inverse)
{
    for (uint32_t n = 1; n < 7; n++)
        for (uint32_t at = 0; at < n; at++) {
            double v[36] = { 0 }, p[36];
            for (uint32_t i = 0; i < n; i++)
                AT(v, i, i) = 1;
            AT(v, at, 0) = AT(v, 0, at) = _i == 0 ? NAN : _i == 1 ? INFINITY : -INFINITY;
            ck_assert_int_eq(ts_symm_pinv(n, v, TS_SYMM_CUT, NULL, p, NULL, NULL), 0);
            for (uint32_t i = 0; i < n * n; i++)
                ck_assert(isnan(p[i]));
        }
}
END_TEST

START_TEST(every_instruction_set_gives_the_same_bits)
{
    const uint32_t n = size_of(_i);
    double *v = square(n), *p = square(n), *q = square(n);
    int one, other;
    for (int k = 0; k <= N_KINDS; k++) {
        if (k == N_KINDS)
            of_rank(n, n + 20, 0.5, 3, v);
        else
            fill(n, (enum kind)k, n + 5, v);
        ck_assert_int_eq(ts_symm_pinv(n, v, TS_SYMM_CUT, NULL, p, &one, NULL), 0);
        ck_assert_int_eq(ts_symm_pinv_portable(n, v, TS_SYMM_CUT, NULL, q, &other, NULL), 0);
        ck_assert_int_eq(one, other);
        ck_assert(memcmp(p, q, (size_t)n * n * sizeof *p) == 0);
        memset(q, 0xff, (size_t)n * n * sizeof *q);
        ck_assert_int_eq(ts_symm_pinv_by(3, n, v, TS_SYMM_CUT, NULL, q, &other, NULL), 0);
        ck_assert_int_eq(one, other);
        ck_assert(memcmp(p, q, (size_t)n * n * sizeof *p) == 0);
    }
    free(v);
    free(p);
    free(q);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("symm");
    TCase *t = tcase_create("symm");
    tcase_set_timeout(t, 120);
#ifndef __FMA__ /* else the compiler may round a sum and a product at once, here or there */
    tcase_add_loop_test(t, inverses_have_the_bits_of_plain_loops, 0, N_SIZES);
    tcase_add_loop_test(t, every_instruction_set_gives_the_same_bits, 0, N_SIZES);
#endif
    tcase_add_loop_test(t, eigenvectors_are_orthonormal_and_right, 0, N_SIZES);
    tcase_add_loop_test(t, pseudo_inverses_equal_those_by_jacobi, 0, N_SIZES);
    tcase_add_loop_test(t, large_and_small_numbers_are_taken, -4, 5);
    tcase_add_loop_test(t, numbers_that_are_not_finite_have_no_inverse, 0, 3);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
