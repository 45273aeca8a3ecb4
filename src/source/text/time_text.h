/* SPDX-License-Identifier: BSD-3-Clause */
/* time_text.h - reads times as text: dates in ISO 8601, dates of eight digits, years, and seconds,
 * milli-, micro- or nanoseconds since 1970.
 *
 * All numbers of a column have the same unit. The user gives it, or the fields at the start of the
 * column decide:
 *
 *   date      eight digits that are a date of 1900 to 2100, as 20240131
 *   year      1900 to 2100, where bins are of a day or more
 *   s         other numbers below 10^10, which is the year 2286, unless all may be dates or years
 *   ms        from 10^11 to 10^13
 *   us        from 10^14 to 10^16
 *   ns        from 10^17 on
 *
 * A number between these ranges belongs to the unit of its column. A number that is clearly in
 * another unit is ambiguous, and refused. 0 is the start of 1970 in each of s, ms, us and ns. Dates
 * of ISO 8601 (2024-05-31, 2024-05, 2024-05-31T13:45, optionally with seconds, their decimals, and
 * Z or +hh:mm) may be in any column. Without a zone they are UTC.
 *
 * tests/times.tsv has columns, units and readings. python/tstream reads the same table.
 *
 *   units    seconds since 0001-01-01, of the Gregorian calendar extended to all years
 *   threads  pure
 *   errors   0 or TS_EARG, or see each function
 */
#ifndef TS_SOURCE_TIME_TEXT_H
#define TS_SOURCE_TIME_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Units of the numbers in a column. TS_TIME_ISO: only dates in ISO 8601 are times. If that is only
 * a guess, numbers that are clearly seconds are, too. */
enum ts_time_unit {
    TS_TIME_S,
    TS_TIME_MS,
    TS_TIME_US,
    TS_TIME_NS,
    TS_TIME_DATE,
    TS_TIME_YEAR,
    TS_TIME_ISO,
    TS_TIME_UNITS
};

/* Convert between units and their names: "s", "ms", "us", "ns", "date", "year", "iso". */
int ts_time_unit_parse(const char *name, enum ts_time_unit *ret, struct ts_err *err);
const char *ts_time_unit_name(enum ts_time_unit unit);

/* The unit of a column of numbers. said 1: the user has set it, so that no number is ambiguous. */
struct ts_time_rule {
    enum ts_time_unit unit;
    int said;
};

/* Counts of the fields in a column; all 0: none was seen. */
struct ts_time_look {
    /* counts of numbers, of numbers other than 0, and of numbers that are clearly in each unit */
    uint64_t numbers, nonzero, of[TS_TIME_UNITS];
    /* counts of numbers that may be dates of eight digits, and that may be years */
    uint64_t dates, years;
};
void ts_time_look_at(struct ts_time_look *l, const char *text, size_t n);

/* Returns the unit of a column that these counts suggest. by_days: bins are at least a day wide. */
struct ts_time_rule ts_time_look_rule(const struct ts_time_look *l, int by_days);

/* Reads a field as seconds. Returns 0, or one of these codes. */
enum { TS_TIME_NONE = -1, TS_TIME_AMBIGUOUS = -2 };
int ts_time_read(const struct ts_time_rule *r, const char *text, size_t n, int64_t *ret);

/* To be called after a failure: writes a message that says why, with the possible meanings of an
 * ambiguous field. `mode` is the mode as the user names it. Returns ret. */
#define TS_TIME_SENTENCE 512u
const char *ts_time_why(const struct ts_time_rule *r, const char *mode, const char *text, size_t n,
                        char ret[TS_TIME_SENTENCE]);

/* Convert between a date and the days since 0001-01-01. */
int64_t ts_time_day(int64_t year, int64_t month, int64_t day);
void ts_time_date(int64_t days, int64_t *year, int64_t *month, int64_t *day);

/* Writes a time as "2024-01-31T00:00:00". Returns the length. */
#define TS_TIME_CHARS 32
size_t ts_time_write(int64_t seconds, char ret[TS_TIME_CHARS]);

#endif
