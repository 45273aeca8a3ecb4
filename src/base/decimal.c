/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts numbers to text: whole numbers two digits at a time, floats by 128-bit integers or exact
 * float64 arithmetic if the result is certain, otherwise by printf. */
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

/* Returns the number of decimal digits of x. */
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

/* Writes the eight digits of x in pairs, which the processor computes at the same time. */
static inline void put_8_digits(char *to, uint32_t x)
{
    const uint32_t high = x / 10000, low = x % 10000;
    memcpy(to, pairs + 2 * (high / 100), 2);
    memcpy(to + 2, pairs + 2 * (high % 100), 2);
    memcpy(to + 4, pairs + 2 * (low / 100), 2);
    memcpy(to + 6, pairs + 2 * (low % 100), 2);
}

/* Writes the n decimal digits of x. Returns the end. */
static inline char *put_digits(char *at, uint32_t n, uint64_t x)
{
    char *end = at + n, *to = end;
    for (; x >= 100000000; x /= 100000000)
        put_8_digits(to -= 8, (uint32_t)(x % 100000000));
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

char *ts_decimal_u64(char *at, uint64_t x)
{
    return put_digits(at, n_digits(x), x);
}

/* A decimal: digits * 10^exp10. */
struct decimal {
    uint64_t digits;
    int exp10;
};

/* Removes zeros at the end of d, n digits at a time; power is 10^n. */
static inline void drop_zeros(struct decimal *d, uint64_t power, int n)
{
    while (d->digits % power == 0 && d->digits > 0) {
        d->digits /= power;
        d->exp10 += n;
    }
}

static char *put_exponent(char *at, int exponent)
{
    *at++ = 'e';
    if (exponent < 0)
        *at++ = '-';
    return ts_decimal_u64(at, (uint64_t)abs(exponent));
}

/* Writes d, with a point or an exponent if its size requires that. Returns the end. */
static char *put_decimal(char *at, struct decimal d)
{
    int n, point; /* number of digits, and how many of them come before the point */
    char *end;
    drop_zeros(&d, 100000000, 8);
    drop_zeros(&d, 10000, 4);
    drop_zeros(&d, 100, 2);
    drop_zeros(&d, 10, 1);
    n = (int)n_digits(d.digits);
    point = n + d.exp10;
    if (point <= 0 && point >= -4) {
        memcpy(at, "0.0000", 6);
        return put_digits(at + 2 - point, (uint32_t)n, d.digits);
    }
    if (point >= n && point <= 16) {
        end = put_digits(at, (uint32_t)n, d.digits);
        memset(end, '0', (size_t)(point - n));
        return at + point;
    }
    /* the digits before the point are moved below */
    end = put_digits(at + 1, (uint32_t)n, d.digits);
    if (point > 0 && point <= 16) {
        for (int i = 0; i < point; i++)
            at[i] = at[i + 1];
        at[point] = '.';
        return end;
    }
    at[0] = at[1];
    at[1] = '.';
    return put_exponent(n > 1 ? end : at + 1, point - 1);
}

/* A number x scaled by a power of ten: x * 10^power in units of 2^-64, rounded down, and half of
 * the distance from x to its neighbours in the same unit. */
__extension__ typedef unsigned __int128 u128;

struct scaled {
    u128 x, half;
    int power;
};

#define MAX_POWER_OF_5 55 /* the highest power of 5 that fits in 128 bits */

#define FIVES_4(x)  x, 5 * x, 25 * x, 125 * x
#define FIVES_14(x) FIVES_4(x), FIVES_4(625 * x), FIVES_4(390625 * x), 244140625 * x, 1220703125 * x

#define LAST_FIVE 27 /* the highest power of 5 that fits in 64 bits */

static u128 power_of_5(int n)
{
    static const uint64_t power[] = { FIVES_14(UINT64_C(1)), FIVES_14(UINT64_C(6103515625)) };
    const int left = n - LAST_FIVE;
    if (left <= 0)
        return power[n];
    return (u128)power[LAST_FIVE] * power[left <= LAST_FIVE ? left : LAST_FIVE] *
           (left <= LAST_FIVE ? 1 : 5);
}

/* Returns (high * 2^128 + low) / 2^shift, rounded down, if it fits in 128 bits. A negative shift
 * multiplies. */
static u128 shift_right(uint64_t high, u128 low, int shift)
{
    return shift <= 0 ? low << -shift : low >> shift | (u128)high << (128 - shift);
}

/* Scales x > 0 so that it has `digits` digits before the point, or one more. Returns 0 if 128 bits
 * are not enough, and for powers of two, whose lower neighbour is nearer. */
static int scale(double x, int is_single, int digits, struct scaled *ret)
{
    const int unused = is_single ? 29 : 0; /* low bits of the mantissa: not used by float32 */
    uint64_t word, mantissa;
    int exp2, shift;
    u128 five, low, middle;
    memcpy(&word, &x, sizeof word);
    mantissa = (word & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    exp2 = (int)(word >> 52) - 1075; /* x = mantissa * 2^exp2 */
    /* 1233 / 4096 approximates the decimal logarithm of 2, precisely enough for these exponents */
    ret->power = digits - 1 - ((exp2 + 52) * 1233 >> 12);
    shift = -(exp2 + ret->power);
    if (x < 0x1p-126 || mantissa == UINT64_C(1) << 52 || ret->power < 0 ||
        ret->power > MAX_POWER_OF_5 || shift < 0)
        return 0;
    five = power_of_5(ret->power);
    low = (u128)(uint64_t)five * mantissa;
    middle = (five >> 64) * mantissa + (low >> 64);
    ret->x = shift_right((uint64_t)(middle >> 64), middle << 64 | (uint64_t)low, shift - 64);
    ret->half = shift_right(0, five, shift - 63 - unused);
    return 1;
}

#define SLACK 4u /* upper bound of the error from rounding down, in units of 2^-64 */

/* Finds the multiple of `unit` that is nearest to s. Returns 1 and *ret if the multiple reads back
 * as s, that is, if it lies between the midpoints from s to its two neighbours among the floats.
 * Returns 0 if it does not, and -1 if rounding errors would decide. */
static inline int nearest_multiple(const struct scaled *s, uint64_t unit, struct decimal *ret)
{
    const uint64_t whole = (uint64_t)(s->x >> 64), left = whole % unit;
    const u128 below = (u128)left << 64 | (uint64_t)s->x, above = ((u128)unit << 64) - below;
    const u128 near = below < above ? below : above, far = below < above ? above : below;
    if (near > s->half + SLACK)
        return 0;
    if (near + SLACK >= s->half || far - near <= SLACK)
        return -1;
    *ret = (struct decimal){ whole - left + (below < above ? 0 : unit), -s->power };
    return 1;
}

/* Finds the shortest decimal of x > 0: a multiple of the largest possible power of ten between the
 * midpoints from x to its neighbours among the floats. These midpoints are at most 44 apart, for
 * float32 at most 239. So multiples of 100 or 1000 include those of larger powers, whose zeros are
 * dropped later. Returns 0 if rounding errors would decide. */
static int shortest_scaled(double x, int is_single, struct decimal *ret)
{
    struct scaled s;
    int rc = scale(x, is_single, is_single ? 9 : 17, &s) ? 0 : -1;
    if (rc == 0 && is_single)
        rc = nearest_multiple(&s, 1000, ret);
    if (rc == 0)
        rc = nearest_multiple(&s, 100, ret);
    if (rc == 0)
        rc = nearest_multiple(&s, 10, ret);
    if (rc == 0)
        rc = nearest_multiple(&s, 1, ret);
    return rc == 1;
}

/* Whether q, a decimal rounded to float64, is near the midpoint of two neighbouring float32 values.
 * Then the decimal itself may round to the other one of the two. */
static int near_middle(double q)
{
    const uint64_t mask = (UINT64_C(1) << 29) - 1, middle = UINT64_C(1) << 28;
    uint64_t bits;
    memcpy(&bits, &q, sizeof bits);
    return (bits & mask) - (middle - 2) <= 4;
}

/* Finds the shortest decimal of x > 0 by float64 arithmetic. Returns 0 and *ret if the result is
 * certain, otherwise the fewest digits that it may have. Digits (at most 15) and power are exact,
 * so their product or quotient has one rounding, as in a program that reads the text (Clinger, "How
 * to Read Floating Point Numbers Accurately", PLDI 1990). */
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

/* Finds the shortest decimal by printing x with n digits and reading it back, then with more
 * digits. */
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
    if (!shortest_scaled(x, is_single, &d)) {
        n = shortest_exact(x, is_single, &d);
        if (n > 0)
            d = shortest_tried(x, is_single, n);
    }
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
