/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of blocks of any length are those of the obvious loops, logarithms those of the C
 * library. */
#include <check.h>
#include <float.h>
#include <math.h>

#include "base/rng.h"
#include "cpd/judge/score_block.h"
#include "format/layout.h"
#include "tests/support/run_suite.h"

/* Counts, most of them small, and models above 0 of any size. */
static void draw(uint32_t n, uint64_t seed, double *x, double *m)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t random = ts_mix(seed++);
        x[i] = (double)(random % 7 == 0 ? random >> 9 : random % 4);
        m[i] = ldexp(1 + ts_unit(ts_mix(random)), (int)(random >> 40) % 40 - 20);
    }
}

START_TEST(sums_are_those_of_the_obvious_loop) /* loop test: _i nonzeros */
{
    double x[TS_BLOCK_NNZ], m[TS_BLOCK_NNZ];
    struct ts_score_sums got, want = { 0 };
    double lane[4][4] = { { 0 } };
    const uint32_t n = (uint32_t)_i;
    draw(n, 1, x, m);
    for (uint32_t i = 0; i < n; i++) {
        double *to = lane[i % 4];
        to[0] += x[i];
        to[1] += m[i];
        to[2] += (x[i] - m[i]) * (x[i] - m[i]);
        to[3] += fabs(x[i] - m[i]);
    }
    want.value = (lane[0][0] + lane[1][0]) + (lane[2][0] + lane[3][0]);
    want.model = (lane[0][1] + lane[1][1]) + (lane[2][1] + lane[3][1]);
    want.squares = (lane[0][2] + lane[1][2]) + (lane[2][2] + lane[3][2]);
    want.magnitudes = (lane[0][3] + lane[1][3]) + (lane[2][3] + lane[3][3]);
    ts_score_block(n, x, m, &got);
    ck_assert_uint_eq(got.n, n);
    ck_assert(got.weight == n);
    ck_assert(got.value == want.value);
    ck_assert(got.model == want.model);
    /* a compiler may have fused the products of this loop */
    ck_assert(fabs(got.squares - want.squares) <= 4 * DBL_EPSILON * want.squares);
    ck_assert(got.magnitudes == want.magnitudes);
}
END_TEST

START_TEST(sums_of_logarithms_are_those_of_the_obvious_loop) /* loop test: _i nonzeros */
{
    double x[TS_BLOCK_NNZ], m[TS_BLOCK_NNZ], got;
    long double want = 0, size = 0;
    const uint32_t n = (uint32_t)_i;
    draw(n, 99, x, m);
    for (uint32_t i = 0; i < n; i++) {
        want += x[i] * logl(m[i]);
        size += fabsl(x[i] * logl(m[i]));
    }
    ck_assert(ts_score_logs(n, x, m, &got));
    /* a term has two roundings, its place in a lane at most n / 4 + 3 */
    ck_assert(fabsl(got - want) <= DBL_EPSILON * size * (2 + n / 4.0L + 3));
}
END_TEST

START_TEST(a_logarithm_is_right_to_the_last_bit_but_one)
{
    for (uint64_t i = 0; i < 1000000; i++) {
        const uint64_t random = ts_mix(i);
        double m = ldexp(1 + ts_unit(ts_mix(random)), (int)(random % 2045) - 1022), one = 1, got;
        long double want;
        if (i % 2 == 0) /* near 1 */
            m = 1 + (ts_unit(ts_mix(random)) - 0.5) * pow(2, -(double)(random % 50));
        want = logl(m);
        ck_assert(ts_score_logs(1, &one, &m, &got));
        ck_assert_msg(fabsl(got - want) <= DBL_EPSILON * fabsl(want), "log %a is %a", m, got);
    }
}
END_TEST

START_TEST(what_is_no_count_is_seen_anywhere) /* loop test: _i is its place */
{
    static const double no_count[] = { 0.5, -1, NAN, -0x1p60, 0x1p51 + 0.5 };
    static const double no_model[] = { 0, -1, NAN };
    double x[21], m[21], got;
    draw(21, 5, x, m);
    x[_i] = 0x1p60;
    ck_assert(ts_score_logs(21, x, m, &got));
    for (uint32_t k = 0; k < 5; k++) {
        draw(21, 5, x, m);
        x[_i] = no_count[k];
        ck_assert(!ts_score_logs(21, x, m, &got));
    }
    for (uint32_t k = 0; k < 3; k++) {
        draw(21, 5, x, m);
        x[_i] = 3;
        m[_i] = no_model[k];
        ck_assert(!ts_score_logs(21, x, m, &got));
    }
    for (int negative = 0; negative < 2;
         negative++) { /* 0 log 0 is 0; of a model below 0 there is none */
        double want;
        draw(21, 5, x, m);
        x[_i] = 0;
        ck_assert(ts_score_logs(21, x, m, &want));
        m[_i] = negative ? -0.5 : 0;
        ck_assert_int_eq(ts_score_logs(21, x, m, &got), !negative);
        ck_assert(negative || got == want);
    }
}
END_TEST

START_TEST(a_residual_that_is_reached_is_found_anywhere) /* loop test: _i is its place */
{
    double x[21] = { 0 }, m[21] = { 0 };
    ck_assert(!ts_score_reaches((uint32_t)_i, x, m, 1));
    m[_i] = 1;
    ck_assert(!ts_score_reaches((uint32_t)_i, x, m, 1));
    ck_assert(ts_score_reaches((uint32_t)_i + 1, x, m, 1));
    ck_assert(ts_score_reaches(21, x, m, 1));
    ck_assert(!ts_score_reaches(21, x, m, 1.5));
    x[_i] = NAN;
    ck_assert(!ts_score_reaches(21, x, m, 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("score_block");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, sums_are_those_of_the_obvious_loop, 0, TS_BLOCK_NNZ + 1);
    tcase_add_loop_test(tc, sums_of_logarithms_are_those_of_the_obvious_loop, 0, TS_BLOCK_NNZ + 1);
    tcase_add_test(tc, a_logarithm_is_right_to_the_last_bit_but_one);
    tcase_add_loop_test(tc, what_is_no_count_is_seen_anywhere, 0, 21);
    tcase_add_loop_test(tc, a_residual_that_is_reached_is_found_anywhere, 0, 21);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
