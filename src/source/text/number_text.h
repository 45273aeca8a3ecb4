/* SPDX-License-Identifier: BSD-3-Clause */
/* number_text.h - numbers as programs write them, read exactly: 7, 7.0, 7e0 and 007 are one number.
 *
 * A number is a sign, digits with a point among them, and an exponent; what is not needed may be
 * left out. It is kept in decimal, because float64 has too few digits for nanoseconds since 1970.
 *
 *   units    none
 *   threads  pure
 *   errors   none: a function says whether the text is such a number
 */
#ifndef TS_SOURCE_NUMBER_TEXT_H
#define TS_SOURCE_NUMBER_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TS_NUMBER_DIGITS 40

/* 0.d1 d2 d3 ... x 10^point, with neither a first nor a last digit 0. n is 0 for the number 0. */
struct ts_number {
    int minus;
    int more; /* there are nonzero digits behind those that are kept */
    int32_t point;
    uint32_t n;
    uint8_t digit[TS_NUMBER_DIGITS];
};

/* Whether the n bytes are a number, and nothing else. */
int ts_number_read(const char *text, size_t n, struct ts_number *ret);

/* The largest whole number that is not above x times 10^-shift. Returns 0 where int64_t does not
 * hold it. */
int ts_number_floor(const struct ts_number *x, int32_t shift, int64_t *ret);

/* Whether x is a whole number of 0 or more; *ret is UINT64_MAX where that does not hold it. */
int ts_number_whole(const struct ts_number *x, uint64_t *ret);

/* Writes the digits of a whole number without point and exponent, at most `room` of them. Returns
 * their number, or 0 if they do not fit. */
size_t ts_number_digits(const struct ts_number *x, char *ret, size_t room);

/* Whether the n bytes are what programs write where a number is missing: nothing, blanks, NaN, NA,
 * null and the like in any case. '-' and '.' are not among them: pandas and R read them as text. */
int ts_number_missing(const char *text, size_t n);

#endif
