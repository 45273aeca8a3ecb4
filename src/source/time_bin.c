/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses times and dates, and numbers the bins of a calendar. */
#include "source/time_bin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"

#define DAY          INT64_C(86400)
#define EPOCH_DAY    INT64_C(719162) /* of 1970-01-01, from 0001-01-01 */
#define LAST_YEAR    9999
#define MILLISECONDS 1e11 /* seconds would be the year 5138 */

int ts_time_bin_parse(const char *text, struct ts_time_bin *ret, struct ts_err *err)
{
    static const struct {
        const char *name;
        uint32_t seconds, months;
    } unit[] = { { "s", 1, 0 },     { "m", 60, 0 },     { "min", 60, 0 }, { "h", 3600, 0 },
                 { "d", 86400, 0 }, { "w", 604800, 0 }, { "mo", 0, 1 },   { "y", 0, 12 } };
    uint64_t n = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && n < 1000000000; p++)
        n = 10 * n + (uint64_t)(*p - '0');
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (strcmp(p, unit[i].name) == 0 && n >= 1 && n <= 100000000) {
            ret->seconds = n * unit[i].seconds;
            ret->months = unit[i].months == 0 ? 0 : (uint32_t)n * unit[i].months;
            if (ret->seconds <= UINT64_C(100000) * 365 * 86400 && ret->months <= 120000)
                return 0;
        }
    return ts_fail(
        err, TS_EARG,
        "'%s' is not the width of a bin: expected a number and s, m, h, d, w, mo or y, as "
        "in 7d",
        text);
}

/* Days from 0001-01-01 to a day of the Gregorian calendar, extended to all years. */
static int64_t day_of(int64_t year, int64_t month, int64_t day)
{
    static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
    const int64_t y = year - 1, leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return 365 * y + y / 4 - y / 100 + y / 400 + before[month - 1] + (month > 2 && leap) + day - 1;
}

static int days_of_month(int64_t year, int64_t month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    const int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static void date_of(int64_t days, int64_t *year, int64_t *month, int64_t *day)
{
    int64_t y = days / 366 + 1, m = 1;
    while (day_of(y + 1, 1, 1) <= days)
        y++;
    while (m < 12 && day_of(y, m + 1, 1) <= days)
        m++;
    *year = y;
    *month = m;
    *day = days - day_of(y, m, 1) + 1;
}

/* n digits as a number; -1 when they are not digits. */
static int64_t digits(const char *p, const char *end, int n)
{
    int64_t x = 0;
    if (end - p < n)
        return -1;
    for (int i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return -1;
        x = 10 * x + (p[i] - '0');
    }
    return x;
}

/* Parses "13:45[:59[.25]]" at *p to seconds. A minute may have 60 seconds: a leap second. */
static int parse_clock(const char **p, const char *end, int64_t *ret)
{
    const int64_t h = digits(*p, end, 2);
    const int64_t m = h < 0 || end - *p < 5 || (*p)[2] != ':' ? -1 : digits(*p + 3, end, 2);
    int64_t s = 0;
    if (h < 0 || h > 24 || m < 0 || m > 59)
        return -1;
    *p += 5;
    if (*p < end && **p == ':') {
        s = digits(*p + 1, end, 2);
        if (s < 0 || s > 60)
            return -1;
        *p += 3;
        if (*p < end && (**p == '.' || **p == ',')) {
            if (digits(*p + 1, end, 1) < 0)
                return -1;
            for ((*p)++; *p < end && **p >= '0' && **p <= '9';)
                (*p)++;
        }
    }
    *ret = 3600 * h + 60 * m + s;
    return *ret <= DAY ? 0 : -1;
}

static int parse_zone(const char *p, const char *end, int64_t *ret)
{
    int64_t h, m = 0;
    *ret = 0;
    if (p == end || (*p == 'Z' && p + 1 == end))
        return 0;
    if (*p != '+' && *p != '-')
        return -1;
    h = digits(p + 1, end, 2);
    if (h >= 0 && p + 3 < end)
        m = digits(p + 3 + (p[3] == ':'), end, 2);
    if (h < 0 || h > 23 || m < 0 || m > 59 || end - p > 6 ||
        (end - p != 3 && end - p != 5 + (p[3] == ':')))
        return -1;
    *ret = (*p == '-' ? -1 : 1) * (3600 * h + 60 * m);
    return 0;
}

/* Parses a date to seconds since 0001-01-01. */
static int parse_date(const char *p, const char *end, int64_t *ret)
{
    const int64_t year = digits(p, end, 4);
    const int64_t month = year < 1 || end - p < 10 || p[4] != '-' ? -1 : digits(p + 5, end, 2);
    const int64_t day = month < 1 || month > 12 || p[7] != '-' ? -1 : digits(p + 8, end, 2);
    int64_t clock = 0, zone = 0;
    if (day < 1 || day > days_of_month(year, month))
        return -1;
    p += 10;
    if (p < end) {
        if (*p != 'T' && *p != 't' && *p != ' ')
            return -1;
        p++;
        if (parse_clock(&p, end, &clock) < 0 || parse_zone(p, end, &zone) < 0)
            return -1;
    }
    *ret = day_of(year, month, day) * DAY + clock - zone;
    return 0;
}

static int parse_epoch(const char *p, const char *end, int64_t *ret)
{
    char buf[40], *stop;
    double x;
    int any = 0;
    if (end - p >= (long)sizeof buf)
        return -1;
    for (const char *q = p; q < end; q++) {
        if ((*q < '0' || *q > '9') && *q != '.' && !(q == p && *q == '-'))
            return -1;
        any |= *q >= '0' && *q <= '9';
    }
    memcpy(buf, p, (size_t)(end - p));
    buf[end - p] = '\0';
    x = any ? ts_strtod(buf, &stop) : 0;
    if (!any || *stop != '\0')
        return -1;
    if (x >= MILLISECONDS || x <= -MILLISECONDS)
        x /= 1000;
    if (x >= MILLISECONDS || x < -(double)(EPOCH_DAY * DAY))
        return -1;
    *ret = (int64_t)x - (x < 0 && (double)(int64_t)x != x) + EPOCH_DAY * DAY;
    return 0;
}

int ts_time_bin_of(const struct ts_time_bin *b, const char *text, size_t n, uint64_t *ret)
{
    int64_t at = 0, year, month, day;
    const int is_date = n >= 10 && text[4] == '-';
    if ((is_date ? parse_date(text, text + n, &at) : parse_epoch(text, text + n, &at)) < 0 ||
        at < 0 || at / DAY >= day_of(LAST_YEAR + 1, 1, 1))
        return -1;
    if (b->seconds > 0) {
        *ret = (uint64_t)at / b->seconds;
        return 0;
    }
    date_of(at / DAY, &year, &month, &day);
    *ret = (uint64_t)(12 * (year - 1) + month - 1) / b->months;
    return 0;
}

size_t ts_time_bin_label(const struct ts_time_bin *b, uint64_t bin, char ret[TS_TIME_LABEL])
{
    int64_t year, month, day, at;
    if (b->seconds == 0) {
        const uint64_t months = bin * b->months;
        if (b->months % 12 == 0)
            return (size_t)snprintf(ret, TS_TIME_LABEL, "%04" PRIu64, months / 12 + 1);
        return (size_t)snprintf(ret, TS_TIME_LABEL, "%04" PRIu64 "-%02" PRIu64, months / 12 + 1,
                                months % 12 + 1);
    }
    at = (int64_t)(bin * b->seconds);
    date_of(at / DAY, &year, &month, &day);
    at %= DAY;
    if (b->seconds % (uint64_t)DAY == 0)
        return (size_t)snprintf(ret, TS_TIME_LABEL, "%04" PRId64 "-%02" PRId64 "-%02" PRId64, year,
                                month, day);
    return (size_t)snprintf(ret, TS_TIME_LABEL,
                            b->seconds % 60 == 0 ? "%04" PRId64 "-%02" PRId64 "-%02" PRId64
                                                   "T%02" PRId64 ":%02" PRId64
                                                 : "%04" PRId64 "-%02" PRId64 "-%02" PRId64
                                                   "T%02" PRId64 ":%02" PRId64 ":%02" PRId64,
                            year, month, day, at / 3600, at / 60 % 60, at % 60);
}
