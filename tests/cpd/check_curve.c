/* SPDX-License-Identifier: BSD-3-Clause */
/* A column whose neighbours are alike, within bounds or with an l1, meets the conditions of a
 * solution from any start, and is that of coordinate descent to the end. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/rows/curve.h"
#include "tests/support/run_suite.h"

#define MOST 60

static double draw(uint64_t seed, uint64_t i)
{
    return 2 * ts_unit(ts_mix(ts_mix(seed) + i)) - 1;
}

struct problem {
    struct ts_curve curve;
    unsigned char is_row[MOST];
    double c[MOST], x[MOST], scratch[TS_CURVE_SCRATCH * MOST];
};

/* Of sizes from 1 on, and all kinds of bounds; mu up to `most` times g. Some right sides are zeros,
 * so that solutions are, too. */
static void make(struct problem *p, uint64_t seed, double most)
{
    static const double bounds[][2] = { { 0, INFINITY }, { -INFINITY, INFINITY }, { -0.2, 0.3 },
                                        { 0, 0.1 },      { -INFINITY, 0 },        { 0.1, 0.1 },
                                        { -1, -0.05 },   { 0.2, INFINITY } };
    const uint64_t n = seed % 7 == 0 ? 1 + seed % 3 : 1 + (uint64_t)(MOST * ts_unit(ts_mix(seed)));
    const double *b = bounds[seed % (sizeof bounds / sizeof bounds[0])];
    memset(p, 0, sizeof *p);
    p->curve = (struct ts_curve){ .n = n < MOST ? n : MOST,
                                  .is_row = seed / 8 % 2 == 0 ? NULL : p->is_row,
                                  .g = exp(3 * draw(seed, 1000)),
                                  .l1 = seed / 16 % 2 == 0 ? 0 : 0.1,
                                  .lower = b[0],
                                  .upper = b[1],
                                  .c = p->c,
                                  .x = p->x,
                                  .scratch = p->scratch };
    p->curve.mu = p->curve.g * most * ts_unit(ts_mix(seed + 5));
    for (uint64_t i = 0; i < p->curve.n; i++) {
        p->is_row[i] = i == 0 || i + 1 == p->curve.n || draw(seed, 2000 + i) > -0.3;
        p->c[i] =
            p->curve.is_row != NULL && !p->is_row[i] ? 0 : draw(seed, i) + sin(0.3 * (double)i);
        p->c[i] *= seed % 11 == 0 ? 0 : 1;
        p->x[i] = seed % 3 == 0 ? 0 : draw(seed, 3000 + i);
    }
}

static int is_row(const struct problem *p, uint64_t i)
{
    return p->curve.is_row == NULL || p->is_row[i];
}

/* Of the sum without magnitudes. */
static double slope(const struct problem *p, const double *x, uint64_t i)
{
    const struct ts_curve *c = &p->curve;
    double ret = is_row(p, i) ? c->g * x[i] - c->c[i] : 0;
    for (uint64_t k = 2; k < c->n; k++) {
        const double bend = x[k] - 2 * x[k - 1] + x[k - 2];
        ret += c->mu * bend * (k == i || k == i + 2 ? 1 : k == i + 1 ? -2 : 0);
    }
    return ret;
}

static double value(const struct problem *p, const double *x)
{
    const struct ts_curve *c = &p->curve;
    double sum = 0;
    for (uint64_t i = 0; i < c->n; i++) {
        const double bend = i > 1 ? x[i] - 2 * x[i - 1] + x[i - 2] : 0;
        sum += 0.5 * c->mu * bend * bend;
        if (is_row(p, i))
            sum += x[i] * (0.5 * c->g * x[i] - c->c[i]) + c->l1 * fabs(x[i]);
    }
    return sum;
}

/* How far the conditions of a solution are from being met, beside the sizes of what is added up in
 * a slope. */
static double defect(const struct problem *p, const double *x)
{
    const struct ts_curve *c = &p->curve;
    double most = 0, size = 0;
    for (uint64_t i = 0; i < c->n; i++) {
        const double s = slope(p, x, i), l1 = is_row(p, i) ? c->l1 : 0;
        double low = s + (x[i] > 0 ? l1 : -l1), high = s + (x[i] < 0 ? -l1 : l1);
        if (is_row(p, i)) {
            ck_assert(x[i] >= c->lower && x[i] <= c->upper);
            low = x[i] == c->lower ? -INFINITY : low;  /* the slope may be any of 0 or more, */
            high = x[i] == c->upper ? INFINITY : high; /* or of 0 or less */
        }
        most = fmax(most, fmax(low, -high));
        size = fmax(size, fabs(c->c[i]) + (c->g + 16 * c->mu) * fabs(x[i]) + c->l1);
    }
    return size == 0 ? most : most / size;
}

/* Entry after entry, to the end. */
static void descend(const struct problem *p, double *x)
{
    const struct ts_curve *c = &p->curve;
    double moved = 1, size = 1;
    for (uint32_t k = 0; k < 400000 && moved > 1e-16 * size; k++) {
        moved = size = 0;
        for (uint64_t i = 0; i < c->n; i++) {
            double of[3], to = x[i], q;
            ts_curve_differences(c->n, i, of);
            q = c->mu * of[0] + (is_row(p, i) ? c->g : 0);
            to -= q > 0 ? slope(p, x, i) / q : 0;
            if (is_row(p, i)) {
                to = fabs(to) > c->l1 / q ? to - copysign(c->l1 / q, to) : 0;
                to = fmin(fmax(to, c->lower), c->upper);
            }
            moved = fmax(moved, fabs(to - x[i]));
            size = fmax(size, fabs(to));
            x[i] = to;
        }
    }
}

START_TEST(columns_are_solutions)
{
    struct problem p;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        double before, bends = 0, rough;
        make(&p, seed + 1000 * (uint64_t)_i, _i == 0 ? 1 : _i == 1 ? 1e3 : 1e6);
        ts_curve_begin(&p.curve);
        before = value(&p, p.x);
        rough = ts_curve_solve(&p.curve);
        for (int k = 0; k < 20 && defect(&p, p.x) >= 1e-12; k++) { /* a stiff one from afar */
            ck_assert(_i == 2);
            rough = ts_curve_solve(&p.curve);
        }
        ck_assert_msg(defect(&p, p.x) < 1e-12, "seed %d: %g", (int)seed, defect(&p, p.x));
        ck_assert_double_le(value(&p, p.x), before + 1e-12 * fabs(before));
        for (uint64_t i = 2; i < p.curve.n; i++)
            bends += pow(p.x[i] - 2 * p.x[i - 1] + p.x[i - 2], 2);
        ck_assert_double_le(fabs(rough - bends), 1e-12 * bends);
    }
}
END_TEST

START_TEST(columns_are_those_of_coordinate_descent)
{
    struct problem p;
    for (uint64_t seed = 0; seed < 300; seed++) {
        double x[MOST], size = 1;
        make(&p, seed, 10);
        memcpy(x, p.x, sizeof x);
        ts_curve_begin(&p.curve);
        (void)ts_curve_solve(&p.curve);
        descend(&p, x);
        for (uint64_t i = 0; i < p.curve.n; i++)
            size = fmax(size, fabs(x[i]));
        for (uint64_t i = 0; i < p.curve.n; i++)
            ck_assert_msg(fabs(p.x[i] - x[i]) <= 1e-10 * size,
                          "seed %d, entry %d: %.15g, not %.15g", (int)seed, (int)i, p.x[i], x[i]);
    }
}
END_TEST

/* What is there already is found again, bit for bit or to a rounding, and in a step or two: nothing
 * is drawn. */
START_TEST(a_solution_stays)
{
    struct problem p;
    for (uint64_t seed = 0; seed < 300; seed++) {
        double x[MOST], size = 0;
        make(&p, seed, 100);
        ts_curve_begin(&p.curve);
        (void)ts_curve_solve(&p.curve);
        memcpy(x, p.x, sizeof x);
        ts_curve_begin(&p.curve);
        (void)ts_curve_solve(&p.curve);
        for (uint64_t i = 0; i < p.curve.n; i++)
            size = fmax(size, fabs(x[i]));
        for (uint64_t i = 0; i < p.curve.n; i++)
            ck_assert_double_le(fabs(p.x[i] - x[i]), 1e-11 * size);
    }
}
END_TEST

/* Before a first step, entries without a row are the smoothest ones: the slope there is 0. */
START_TEST(what_is_not_there_is_smooth_from_the_start)
{
    struct problem p;
    for (uint64_t seed = 8; seed < 1000; seed += seed % 8 == 7 ? 9 : 1) {
        make(&p, seed, 100);
        ts_curve_begin(&p.curve);
        for (uint64_t i = 0; i < p.curve.n && p.curve.is_row != NULL; i++)
            if (!is_row(&p, i))
                ck_assert_double_le(fabs(slope(&p, p.x, i)), 1e-11 * p.curve.mu);
    }
}
END_TEST

/* NaN and infinities end, too. */
START_TEST(what_is_not_finite_ends)
{
    struct problem p;
    for (uint64_t seed = 0; seed < 100; seed++) {
        make(&p, seed, 10);
        p.c[seed % p.curve.n] = seed % 2 == 0 ? NAN : INFINITY;
        ts_curve_begin(&p.curve);
        (void)ts_curve_solve(&p.curve);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("curve");
    TCase *c = tcase_create("curve");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, columns_are_solutions, 0, 3);
    tcase_add_test(c, columns_are_those_of_coordinate_descent);
    tcase_add_test(c, a_solution_stays);
    tcase_add_test(c, what_is_not_there_is_smooth_from_the_start);
    tcase_add_test(c, what_is_not_finite_ends);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
