/* SPDX-License-Identifier: BSD-3-Clause */
/* The best row within bounds against all choices of which entries are free, and against the
 * conditions of an optimum where these are too many: S of any rank, nearly singular and singular,
 * one bound, two and equal ones. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/rows/bounded_row.h"
#include "cpu/fmat.h"
#include "base/machine/isa.h"
#include "tests/support/run_suite.h"

#define MOST 64u

struct problem {
    uint32_t n, stride;
    double *s, *m, lower, upper;
};

static uint64_t seed;

static double draw(void) /* from -1 to 1 */
{
    return 2 * ts_unit(ts_mix(++seed)) - 1;
}

static double *rows(uint64_t n)
{
    double *p = aligned_alloc(128, n * MOST * sizeof *p);
    ck_assert_ptr_nonnull(p);
    memset(p, 0, n * MOST * sizeof *p);
    return p;
}

/* S = P' P + l2 I of `rank` rows P that have entries of very different sizes where `uneven`; all
 * entries above 0: then most of the solution's signs are mixed. */
static struct problem make(uint32_t n, uint32_t rank, double l2, int uneven, double lower,
                           double upper)
{
    struct problem x = {
        .n = n, .stride = (uint32_t)ts_fmat_stride(n, TS_FLOAT64), .lower = lower, .upper = upper
    };
    double *p = rows(rank + 1);
    if (x.stride < 16)
        x.stride = 16;
    x.s = rows(MOST);
    x.m = rows(1);
    for (uint32_t k = 0; k < rank; k++) {
        const double value = draw();
        for (uint32_t i = 0; i < n; i++) {
            p[k * n + i] = fabs(draw()) * (uneven ? pow(10, -3.0 * i / n) : 1);
            x.m[i] += value * p[k * n + i];
        }
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            double *to = &x.s[i * x.stride + j];
            *to = i == j ? l2 : 0;
            for (uint32_t k = 0; k < rank; k++)
                *to += p[k * n + i] * p[k * n + j];
        }
    free(p);
    return x;
}

static void drop(struct problem *x)
{
    free(x->s);
    free(x->m);
}

static double value_of(const struct problem *x, const double *a)
{
    double sum = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        double sa = 0;
        for (uint32_t j = 0; j < x->n; j++)
            sa += x->s[i * x->stride + j] * a[j];
        sum += a[i] * (sa / 2 - x->m[i]);
    }
    return sum;
}

static void find(const struct problem *x, double tolerance, double *a)
{
    struct ts_gram sum = { .rank = x->n, .stride = x->stride, .s = x->s, .m = x->m };
    double *more = rows(5), *s = rows(MOST), diagonal[MOST];
    struct ts_bounded_row b = {
        .sum = &sum,
        .ops = ts_gram_get(ts_isa_best(), TS_FLOAT64, x->stride),
        .lower = x->lower,
        .upper = x->upper,
        .diagonal = diagonal,
        .cut = 8 * 2.2e-16 * x->n,
        .tolerance = tolerance,
        .s = s,
        .row = { more, more + MOST, more + 2 * MOST, more + 3 * MOST },
    };
    for (uint32_t i = 0; i < x->n; i++)
        diagonal[i] = x->s[i * x->stride + i];
    memcpy(s, x->s, (size_t)x->n * x->stride * sizeof *s);
    b.ops->solve(&sum, s, diagonal, b.cut, a);
    ts_bounded_row_find(&b, a);
    free(more);
    free(s);
}

/* The entries that are free by Gauss' elimination with the largest pivot, all others at a bound; 0
 * where that is singular. */
static int solve_dense(const struct problem *x, const int *side, double *a)
{
    double t[8][9];
    uint32_t free[8], n = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        a[i] = side[i] == 1 ? x->lower : x->upper;
        if (side[i] == 0)
            free[n++] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        t[i][n] = x->m[free[i]];
        for (uint32_t j = 0; j < x->n; j++)
            t[i][n] -= side[j] != 0 ? x->s[free[i] * x->stride + j] * a[j] : 0;
        for (uint32_t j = 0; j < n; j++)
            t[i][j] = x->s[free[i] * x->stride + free[j]];
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t top = k;
        for (uint32_t i = k + 1; i < n; i++)
            top = fabs(t[i][k]) > fabs(t[top][k]) ? i : top;
        for (uint32_t j = 0; j <= n; j++) {
            const double other = t[k][j];
            t[k][j] = t[top][j];
            t[top][j] = other;
        }
        if (t[k][k] == 0)
            return 0;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = n + 1; j-- > k && i != k;)
                t[i][j] -= t[i][k] / t[k][k] * t[k][j];
    }
    for (uint32_t i = 0; i < n; i++)
        a[free[i]] = t[i][n] / t[i][i];
    return 1;
}

static const struct {
    double lower, upper;
} bounds[] = { { 0, INFINITY }, { -INFINITY, 0.1 }, { -0.2, 0.3 }, { 0.1, 2 }, { 0.25, 0.25 } };
#define N_BOUNDS 5

START_TEST(no_choice_is_better)
{
    for (uint32_t k = 0; k < 200; k++) {
        const uint32_t n = 1 + k % 6;
        struct problem x = make(n, 2 * n, 0.01, k % 2, bounds[_i].lower, bounds[_i].upper);
        double a[MOST], other[MOST], scale, best = INFINITY;
        int side[6] = { 0 };
        find(&x, 1e-15, a);
        for (uint32_t i = 0; i < n; i++) {
            ck_assert_double_ge(a[i], x.lower);
            ck_assert_double_le(a[i], x.upper);
        }
        for (uint32_t i = 0;
             i < n;) { /* of each entry: free, at the lower bound, at the upper one */
            int within = solve_dense(&x, side, other);
            for (uint32_t j = 0; j < n; j++)
                within = within && isfinite(other[j]) && other[j] >= x.lower && other[j] <= x.upper;
            if (within && value_of(&x, other) < best)
                best = value_of(&x, other);
            for (i = 0; i < n && ++side[i] == 3; i++)
                side[i] = 0;
        }
        scale = fabs(best) + 1e-3;
        ck_assert_msg(isfinite(best) && value_of(&x, a) <= best + 1e-11 * scale,
                      "%u entries: %g, best is %g", n, value_of(&x, a), best);
        drop(&x);
    }
}
END_TEST

/* Of S that is singular, where coordinate descent finds the row, to what its 500 rounds leave. */
START_TEST(conditions_hold)
{
    static const double l2[] = { 1, 1e-3, 1e-9, 0 };
    for (uint32_t k = 0; k < 120; k++) {
        const uint32_t n = 7 + k % 50, rank = k % 3 == 0 ? n / 2 : 3 * n;
        const double more = l2[k / 3 % 4];
        struct problem x =
            make(n, rank, more, k % 2 && more > 0, bounds[_i].lower, bounds[_i].upper);
        double a[MOST], most = 0;
        find(&x, 1e-15, a);
        for (uint32_t i = 0; i < n; i++)
            most = fabs(x.m[i]) > most ? fabs(x.m[i]) : most;
        for (uint32_t i = 0; i < n; i++) {
            double slope = -x.m[i], off = 0;
            for (uint32_t j = 0; j < n; j++)
                slope += x.s[i * x.stride + j] * a[j];
            ck_assert_double_ge(a[i], x.lower);
            ck_assert_double_le(a[i], x.upper);
            if (a[i] > x.lower && slope > 0)
                off = slope;
            if (a[i] < x.upper && slope < 0)
                off = -slope;
            ck_assert_msg(off <= (rank < n && more < 1e-6 ? 1e-3 : 1e-9) * most,
                          "%u entries, S of rank %u and %g: slope of entry %u is %g beside %g", n,
                          rank, more, i, slope, most);
        }
        drop(&x);
    }
}
END_TEST

/* Columns from 1e-8 to 1e8: those of small entries count as much as others. */
START_TEST(columns_of_any_size)
{
    static const double tolerance[] = { 1e-15, 1e-7 };
    for (uint32_t k = 0; k < 100; k++) {
        const uint32_t n = 2 + k % 40;
        struct problem x = make(n, 2 * n, 0, 0, bounds[_i].lower, bounds[_i].upper);
        double size[MOST], a[MOST];
        for (uint32_t i = 0; i < n; i++)
            size[i] = pow(10, 8 * draw());
        for (uint32_t i = 0; i < n; i++) {
            x.m[i] *= size[i];
            for (uint32_t j = 0; j < n; j++)
                x.s[i * x.stride + j] *= size[i] * size[j];
        }
        find(&x, tolerance[k % 2], a);
        for (uint32_t i = 0; i < n; i++) {
            double slope = -x.m[i], sum = fabs(x.m[i]);
            for (uint32_t j = 0; j < n; j++) {
                slope += x.s[i * x.stride + j] * a[j];
                sum += fabs(x.s[i * x.stride + j] * a[j]);
            }
            ck_assert(a[i] >= x.lower && a[i] <= x.upper);
            ck_assert_msg((slope <= 0 || a[i] == x.lower || slope <= 1e-5 * sum) &&
                              (slope >= 0 || a[i] == x.upper || slope >= -1e-5 * sum),
                          "%u entries: slope of entry %u is %g of parts of %g", n, i, slope, sum);
        }
        drop(&x);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bounded_row");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, no_choice_is_better, 0, N_BOUNDS);
    tcase_add_loop_test(tc, conditions_hold, 0, N_BOUNDS);
    tcase_add_loop_test(tc, columns_of_any_size, 0, N_BOUNDS);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
