/* SPDX-License-Identifier: BSD-3-Clause */
/* number_text.h - reads numbers as programs write them, exactly: 7, 7.0, 7e0 and 007 are the same
 * number.
 *
 * A number is an optional sign, digits with an optional point, and an optional exponent. It is
 * stored in decimal, because float64 has too few digits for nanoseconds since 1970.
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

/* The number 0.d1 d2 d3 ... x 10^point; neither the first nor the last digit is 0. n, the number of
 * digits, is 0 for the number 0. */
struct ts_number {
    int minus;
    int more; /* 1: the number has nonzero digits after those in `digit` */
    int32_t point;
    uint32_t n;
    uint8_t digit[TS_NUMBER_DIGITS];
};

/* Whether the n bytes of text are a number and nothing else. Sets *ret to the number. */
int ts_number_read(const char *text, size_t n, struct ts_number *ret);

/* Sets *ret to the largest whole number that is at most x * 10^-shift. Returns 0 if int64_t cannot
 * hold it. */
int ts_number_floor(const struct ts_number *x, int32_t shift, int64_t *ret);

/* Whether x is a nonnegative whole number. *ret is x, or UINT64_MAX if uint64_t cannot hold it. */
int ts_number_whole(const struct ts_number *x, uint64_t *ret);

/* Writes the digits of a whole number without point and exponent, at most `room` of them. Returns
 * their number, or 0 if they do not fit. */
size_t ts_number_digits(const struct ts_number *x, char *ret, size_t room);

/* Whether the n bytes of text are what programs write for a missing number: nothing, blanks, NaN,
 * NA, null and the like, in upper or lower case. '-' and '.' do not count: pandas and R read them
 * as text. */
int ts_number_missing(const char *text, size_t n);

#endif
