/* SPDX-License-Identifier: BSD-3-Clause */
/* tns_number.h - converts digits to numbers, eight at a time, for the parsers of text. The
 * functions are inline, as most of the time is spent here.
 *
 *   units    none; TS_TEXT_PAD readable bytes must follow the text
 */
#ifndef TS_SOURCE_TNS_NUMBER_H
#define TS_SOURCE_TNS_NUMBER_H

#include <stdint.h>
#include <string.h>

#define TS_EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Returns the number in the digits at p. It reads 8 digits at a time without a branch for each,
 * because the lengths of indices vary, and a mispredicted branch costs more than the conversion.
 * Sets *n_digits (0..16); more digits are left unread. */
static inline uint64_t ts_tns_digits(const char *p, uint32_t *n_digits)
{
    uint64_t w, x, odd, value;
    uint32_t n;
    memcpy(&w, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    x = w ^ TS_EACH_BYTE(0x30);
    odd = ((x + TS_EACH_BYTE(0x76)) | x) &
          TS_EACH_BYTE(0x80); /* the top bit of each byte that is not a digit */
    n = odd == 0 ? 8 : (uint32_t)__builtin_ctzll(odd) / 8;
    *n_digits = n;
    if (n == 0)
        return 0;
    x <<= 64 - 8 * n;
    /* joins digits to numbers of two, then of four, then of all eight digits */
    x = (x & TS_EACH_BYTE(0x0F)) * 2561 >> 8;
    x = (x & UINT64_C(0x00FF00FF00FF00FF)) * 6553601 >> 16;
    value = (x & UINT64_C(0x0000FFFF0000FFFF)) * UINT64_C(42949672960001) >> 32;
    if (n == 8)
        for (; n < 16 && p[n] >= '0' && p[n] <= '9'; n++)
            value = 10 * value + (uint64_t)(p[n] - '0');
    *n_digits = n;
    return value;
}

static const double ts_power_of_ten[] = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };

/* Reads a decimal of at most 15 digits without an exponent. Its digits and the power of ten are
 * exact in float64, so one division rounds once, as strtod does. Returns the end, or NULL for any
 * other text. */
static inline const char *ts_tns_decimal(const char *p, double *ret)
{
    uint32_t n, n_frac = 0;
    const int minus = *p == '-';
    uint64_t digits;
    double x;
    p += minus;
    digits = ts_tns_digits(p, &n);
    if (n == 0 || n > 15)
        return NULL;
    p += n;
    x = (double)digits;
    if (*p == '.') {
        const uint64_t frac = ts_tns_digits(p + 1, &n_frac);
        if (n + n_frac > 15)
            return NULL;
        x = x * ts_power_of_ten[n_frac] + (double)frac; /* exact, as it is below 1e15 */
        x /= ts_power_of_ten[n_frac];
        p += 1 + n_frac;
    }
    *ret = minus ? -x : x;
    return p;
}

#endif
