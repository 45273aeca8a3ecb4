/* SPDX-License-Identifier: BSD-3-Clause */
/* decimal.h - numbers as text, fast: whole numbers, and the shortest decimal of a float.
 *
 * The shortest decimal is the one with the fewest significant digits that reads back as the same
 * float32 or float64 (of those, the nearest). Whole numbers below 1e15 are written without a
 * point, others with an exponent when that is below -5 or above 15.
 *
 *   owner    the caller's buffer of TS_DECIMAL_CHARS; the text has no NUL at its end
 *   threads  any thread; pure functions
 *   errors   none; numbers that are not finite become "nan", "inf" or "-inf"
 */
#ifndef TS_BASE_DECIMAL_H
#define TS_BASE_DECIMAL_H

#include <stdint.h>

#define TS_DECIMAL_CHARS 32

/* Each function writes a number to `at`, and returns the end of the text. */
char *ts_decimal_u64(char *at, uint64_t x);
char *ts_decimal_f32(char *at, float x);
char *ts_decimal_f64(char *at, double x);

#endif
