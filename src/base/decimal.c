/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers to text: whole numbers two digits at a time, floats by exact float64 arithmetic where
 * that is certain, else by printf. */
#include "base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"

static const char pairs[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

static const double power_of_10[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
#define MAX_POWER 22 /* the last power of ten that is exact in float64 */

/* Decimal digits of x. */
static inline uint32_t n_digits(uint64_t x)
{
    for (uint32_t n = 1;; n += 4, x /= 10000) {
        if (x < 10)
            return n;
        if (x < 100)
            return n + 1;
        if (x < 1000)
            return n + 2;
        if (x < 10000)
            return n + 3;
    }
}

char *ts_decimal_u64(char *at, uint64_t x)
{
    char *end = at + n_digits(x), *to = end;
    while (x > UINT32_MAX) { /* 64-bit divisions are several times as slow */
        to -= 2;
        memcpy(to, pairs + 2 * (x % 100), 2);
        x /= 100;
    }
    for (uint32_t y = (uint32_t)x;; y /= 100) {
        if (y < 10) {
            if (to > at)
                *--to = (char)('0' + y);
            return end;
        }
        to -= 2;
        memcpy(to, pairs + 2 * (y % 100), 2);
        if (to == at)
            return end;
    }
}

/* A decimal: digits * 10^exp10. */
struct decimal {
    uint64_t digits;
    int exp10;
};

/* Writes d, with a point or an exponent where the size asks for it. */
static char *put_decimal(char *at, struct decimal d)
{
    char text[20];
    int n, point; /* digits, and how many of them come before the point */
    while (d.digits % 10 == 0 && d.digits > 0) {
        d.digits /= 10;
        d.exp10++;
    }
    n = (int)(ts_decimal_u64(text, d.digits) - text);
    point = n + d.exp10;
    if (point > 16 || point < -4) {
        *at++ = text[0];
        if (n > 1) {
            *at++ = '.';
            memcpy(at, text + 1, (size_t)n - 1);
            at += n - 1;
        }
        return at + sprintf(at, "e%d", point - 1);
    }
    if (point <= 0) {
        memcpy(at, "0.0000", 6);
        at += 2 - point;
        memcpy(at, text, (size_t)n);
        return at + n;
    }
    memcpy(at, text, (size_t)(n < point ? n : point));
    if (n <= point) {
        memset(at + n, '0', (size_t)(point - n));
        return at + point;
    }
    at[point] = '.';
    memcpy(at + point + 1, text + point, (size_t)(n - point));
    return at + n + 1;
}

/* Whether q, which is within one rounding of a decimal, is near the middle between two neighbouring
 * float32 values: then the decimal itself may round to the other one. */
static int near_middle(double q)
{
    const uint64_t mask = (UINT64_C(1) << 29) - 1, middle = UINT64_C(1) << 28;
    uint64_t bits;
    memcpy(&bits, &q, sizeof bits);
    return (bits & mask) - (middle - 2) <= 4;
}

/* Finds the shortest decimal of x > 0 by float64 arithmetic where that is certain: 0 and *ret.
 * Otherwise returns the fewest digits that it may have. Digits (at most 15) and power are exact, so
 * their product or quotient has one rounding, as in a program that reads the text (Clinger, "How to
 * Read Floating Point Numbers Accurately", PLDI 1990). */
static int shortest_exact(double x, int is_single, struct decimal *ret)
{
    const int most = is_single ? 9 : 15;
    const int exp10 = (int)floor(log10(x));
    for (int n = 1; n <= most; n++) {
        const int shift = n - 1 - exp10; /* digits = x * 10^shift */
        double digits, back;
        if (shift > MAX_POWER || shift < -MAX_POWER)
            return n;
        digits = nearbyint(shift >= 0 ? x * power_of_10[shift] : x / power_of_10[-shift]);
        back = shift >= 0 ? digits / power_of_10[shift] : digits * power_of_10[-shift];
        if (is_single && (back < 0x1p-126 || near_middle(back)))
            return n;
        if (is_single ? (float)back == (float)x : back == x) {
            *ret = (struct decimal){ (uint64_t)digits, -shift };
            return 0;
        }
    }
    return most + 1;
}

/* The same by printing and reading back, with n digits, then more. */
static struct decimal shortest_tried(double x, int is_single, int n)
{
    struct decimal d = { 0, 0 };
    char text[40];
    const locale_t before = ts_c_locale_enter();
    for (; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, x);
        if (is_single ? ts_strtof(text, NULL) == (float)x : ts_strtod(text, NULL) == x)
            break;
    }
    ts_c_locale_leave(before);
    for (const char *at = text; *at != 'e'; at++)
        if (*at != '.')
            d.digits = 10 * d.digits + (uint64_t)(*at - '0');
    d.exp10 = atoi(strchr(text, 'e') + 1);
    for (const char *at = strchr(text, '.'); at != NULL && at[1] != 'e'; at++)
        d.exp10--;
    return d;
}

static char *put(char *at, double x, int is_single)
{
    struct decimal d;
    int n;
    if (x != x) {
        memcpy(at, "nan", 3);
        return at + 3;
    }
    if (signbit(x)) {
        *at++ = '-';
        x = -x;
    }
    if (isinf(x)) {
        memcpy(at, "inf", 3);
        return at + 3;
    }
    if (x < 1e15 && x == (double)(uint64_t)x)
        return ts_decimal_u64(at, (uint64_t)x);
    n = shortest_exact(x, is_single, &d);
    if (n > 0)
        d = shortest_tried(x, is_single, n);
    return put_decimal(at, d);
}

char *ts_decimal_f32(char *at, float x)
{
    return put(at, x, 1);
}

char *ts_decimal_f64(char *at, double x)
{
    return put(at, x, 0);
}
