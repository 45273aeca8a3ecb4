/* SPDX-License-Identifier: BSD-3-Clause */
/* time_bin.c - finds the bin of a time, and the label of a bin. */
#include "source/text/time_bin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY INT64_C(86400)

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
            ret->rule = (struct ts_time_rule){ TS_TIME_S, 0 };
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

void ts_time_bin_width(const struct ts_time_bin *b, char ret[TS_TIME_WIDTH])
{
    const uint64_t s = b->seconds;
    if (s == 0)
        snprintf(ret, TS_TIME_WIDTH, "%" PRIu32 "%s",
                 b->months % 12 == 0 ? b->months / 12 : b->months,
                 b->months % 12 == 0 ? "y" : "mo");
    else if (s % (uint64_t)DAY == 0)
        snprintf(ret, TS_TIME_WIDTH, "%" PRIu64 "d", s / (uint64_t)DAY);
    else if (s % 60 == 0)
        snprintf(ret, TS_TIME_WIDTH, "%" PRIu64 "%s", s % 3600 == 0 ? s / 3600 : s / 60,
                 s % 3600 == 0 ? "h" : "min");
    else
        snprintf(ret, TS_TIME_WIDTH, "%" PRIu64 "s", s);
}

int ts_time_bin_by_days(const struct ts_time_bin *b)
{
    return b->months > 0 || b->seconds >= (uint64_t)DAY;
}

int ts_time_bin_of(const struct ts_time_bin *b, const char *text, size_t n, uint64_t *ret)
{
    int64_t at = 0, year, month, day;
    const int rc = ts_time_read(&b->rule, text, n, &at);
    if (rc < 0)
        return rc;
    if (b->seconds > 0) {
        *ret = (uint64_t)at / b->seconds;
        return 0;
    }
    ts_time_date(at / DAY, &year, &month, &day);
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
    ts_time_date(at / DAY, &year, &month, &day);
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
