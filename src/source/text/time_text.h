/* SPDX-License-Identifier: BSD-3-Clause */
/* time_text.h - times as text: dates of ISO 8601, dates of eight digits, years, and seconds,
 * milli-, micro- or nanoseconds since 1970.
 *
 * What the numbers of a column are is decided for the column. Unless the user says it, the fields
 * at its start do:
 *
 *   date      eight digits that are a date of 1900 to 2100, as 20240131
 *   year      1900 to 2100, where bins are of a day or more
 *   s         other numbers below 10^10, which is the year 2286, unless all may be dates or years
 *   ms        from 10^11 to 10^13
 *   us        from 10^14 to 10^16
 *   ns        from 10^17 on
 *
 * A number between these ranges belongs to the unit of its column. One that is clearly of another
 * unit is ambiguous, and refused. 0 is the start of 1970 in each of s, ms, us and ns. Dates of ISO
 * 8601 (2024-05-31, 2024-05, 2024-05-31T13:45, with seconds, their decimals, and Z or +hh:mm
 * behind) may stand in any column. Without a zone they are UTC.
 *
 * tests/times.tsv has columns, units and readings. python/tstream reads the same table.
 *
 *   units    seconds since 0001-01-01, of the Gregorian calendar extended to all years
 *   threads  pure
 *   errors   0 or TS_EARG, or as said
 */
#ifndef TS_SOURCE_TIME_TEXT_H
#define TS_SOURCE_TIME_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* ISO: numbers are no times, or, where that is only a guess, clear seconds alone. */
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

/* "s", "ms", "us", "ns", "date", "year", "iso". */
int ts_time_unit_parse(const char *name, enum ts_time_unit *ret, struct ts_err *err);
const char *ts_time_unit_name(enum ts_time_unit unit);

/* The meaning of a column of numbers. said: the user has set it, so nothing is ambiguous. */
struct ts_time_rule {
    enum ts_time_unit unit;
    int said;
};

/* Counts of the fields of a column. All 0: none were seen. */
struct ts_time_look {
    /* of: how many numbers are clearly in this unit */
    uint64_t numbers, nonzero, of[TS_TIME_UNITS];
    uint64_t dates, years; /* numbers that may be dates, or years, among other times */
};
void ts_time_look_at(struct ts_time_look *l, const char *text, size_t n);

/* by_days: bins are of a day or more. */
struct ts_time_rule ts_time_look_rule(const struct ts_time_look *l, int by_days);

/* Reads a field. Returns 0, or one of these codes. */
enum { TS_TIME_NONE = -1, TS_TIME_AMBIGUOUS = -2 };
int ts_time_read(const struct ts_time_rule *r, const char *text, size_t n, int64_t *ret);

/* After a failure: a sentence that says why, with the readings of an ambiguous field; `mode` is
 * what the user calls the mode. Returns ret. */
#define TS_TIME_SENTENCE 512u
const char *ts_time_why(const struct ts_time_rule *r, const char *mode, const char *text, size_t n,
                        char ret[TS_TIME_SENTENCE]);

/* Calendar: days since 0001-01-01 to a date, and back. */
int64_t ts_time_day(int64_t year, int64_t month, int64_t day);
void ts_time_date(int64_t days, int64_t *year, int64_t *month, int64_t *day);

/* "2024-01-31T00:00:00". */
#define TS_TIME_CHARS 32
size_t ts_time_write(int64_t seconds, char ret[TS_TIME_CHARS]);

#endif
