/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers are written so that they read back as the same bits, in as few digits as that takes. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/rng.h"
#include "tests/support/run_suite.h"

static const char *f32(float x)
{
    static char text[TS_DECIMAL_CHARS + 1];
    *ts_decimal_f32(text, x) = '\0';
    return text;
}

static const char *f64(double x)
{
    static char text[TS_DECIMAL_CHARS + 1];
    *ts_decimal_f64(text, x) = '\0';
    return text;
}

/* Digits between the first that is not 0 and the last that is not 0. */
static int significant(const char *text)
{
    int n = 0, zeros = 0;
    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text < '0' || *text > '9' || (n == 0 && *text == '0'))
            continue;
        zeros = *text == '0' ? zeros + 1 : 0;
        n++;
    }
    return n - zeros;
}

/* Fewest digits of %e that read back as x. */
static int fewest(double x, int is_single)
{
    char text[40];
    int n = 1;
    for (;; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, x);
        if (is_single ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x)
            return n;
    }
}

/* The digits of a decimal, of at least one, without zeros around them. */
static const char *digits_of(const char *text, char *to)
{
    char *end = to, *last = to;
    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text < '0' || *text > '9' || (end == to && *text == '0'))
            continue;
        *end++ = *text;
        last = *text == '0' ? last : end;
    }
    *last = '\0';
    return to;
}

/* All ways to the digits must give those of %e, which are the nearest: near the ends of the
 * exponents that integers of 128 bits do, near powers of two, with few bits, and of any size. */
START_TEST(digits_are_the_nearest_of_the_fewest)
{
    for (uint64_t i = 0; i < 200000; i++) {
        const uint64_t random = ts_mix(i),
                       exp2 = 1023 - 150 + ts_mix(i + (UINT64_C(1) << 40)) % 220;
        uint64_t bits = exp2 << 52 | random >> 12;
        char text[40], want[40], got[40];
        double x;
        if (i % 4 == 1)
            bits = (exp2 << 52) + (random % 9) - 4;
        if (i % 4 == 2)
            bits = exp2 << 52 | random >> 57 << 45;
        memcpy(&x, &bits, sizeof x);
        if (i % 4 == 3)
            x = (double)(random % 1000000) / (double)(1 + (random >> 40) % 1000);
        snprintf(text, sizeof text, "%.*e", fewest(x, 0) - 1, x);
        ck_assert_str_eq(digits_of(f64(x), got), digits_of(text, want));
        if ((float)x == 0)
            continue;
        snprintf(text, sizeof text, "%.*e", fewest((double)(float)x, 1) - 1, (double)(float)x);
        if ((float)x != nearbyintf((float)x))
            ck_assert_str_eq(digits_of(f32((float)x), got), digits_of(text, want));
    }
}
END_TEST

START_TEST(floats_read_back_in_fewest_digits)
{
    for (uint64_t i = 0; i < 60000; i++) {
        uint32_t bits = (uint32_t)ts_mix(i);
        float x;
        if (i % 3 > 0) /* sizes near 1, and short decimals */
            bits = (bits & 0x83ffffff) + 0x3c000000;
        memcpy(&x, &bits, 4);
        if (i % 3 == 2)
            x = (float)((double)(int)(x * 1000) / 1000);
        if (!isfinite(x))
            continue;
        ck_assert_msg(strtof(f32(x), NULL) == x, "%.9g gives %s", x, f32(x));
        if (x != nearbyintf(x)) /* whole numbers have all their digits */
            ck_assert_msg(significant(f32(x)) == fewest(x, 1), "%.9g gives %s", x, f32(x));
    }
}
END_TEST

START_TEST(doubles_read_back_in_fewest_digits)
{
    for (uint64_t i = 0; i < 60000; i++) {
        uint64_t bits = ts_mix(i);
        double x;
        memcpy(&x, &bits, 8);
        if (i % 3 == 1)
            x = ts_unit(bits) * 200 - 100;
        if (i % 3 == 2)
            x = (double)(bits % 100000000) / 1e5;
        if (!isfinite(x))
            continue;
        ck_assert_msg(strtod(f64(x), NULL) == x, "%.17g gives %s", x, f64(x));
        if (x != nearbyint(x))
            ck_assert_msg(significant(f64(x)) == fewest(x, 0), "%.17g gives %s", x, f64(x));
    }
}
END_TEST

START_TEST(numbers_look_as_a_person_writes_them)
{
    char text[TS_DECIMAL_CHARS + 1];
    ck_assert_str_eq(f32(0.1f), "0.1");
    ck_assert_str_eq(f32(-2.5f), "-2.5");
    ck_assert_str_eq(f32(0), "0");
    ck_assert_str_eq(f32(-0.0f), "-0");
    ck_assert_str_eq(f32(16777216), "16777216");
    ck_assert_str_eq(f32(1e10f), "10000000000");
    ck_assert_str_eq(f32(1e-5f), "0.00001");
    ck_assert_str_eq(f32(1e-6f), "1e-6");
    ck_assert_str_eq(f32(1.5e-7f), "1.5e-7");
    ck_assert_str_eq(f32(1e-45f), "1e-45");
    ck_assert_str_eq(f32(3.4028235e38f), "3.4028235e38");
    ck_assert_str_eq(f64(938.4536), "938.4536");
    ck_assert_str_eq(f64(5e-324), "5e-324");
    ck_assert_str_eq(f64(1.7976931348623157e308), "1.7976931348623157e308");
    ck_assert_str_eq(f64(0.1 + 0.2), "0.30000000000000004");
    ck_assert_str_eq(f64(1e15), "1000000000000000");
    ck_assert_str_eq(f64(1e16), "1e16");
    ck_assert_str_eq(f64(-INFINITY), "-inf");
    *ts_decimal_u64(text, UINT64_MAX) = '\0';
    ck_assert_str_eq(text, "18446744073709551615");
    for (uint64_t x = 0; x < 100000; x += 1 + x / 9) {
        char want[24];
        snprintf(want, sizeof want, "%llu", (unsigned long long)x);
        *ts_decimal_u64(text, x) = '\0';
        ck_assert_str_eq(text, want);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decimal");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, floats_read_back_in_fewest_digits);
    tcase_add_test(tc, doubles_read_back_in_fewest_digits);
    tcase_add_test(tc, digits_are_the_nearest_of_the_fewest);
    tcase_add_test(tc, numbers_look_as_a_person_writes_them);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
