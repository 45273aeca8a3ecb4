/* SPDX-License-Identifier: BSD-3-Clause */
/* time_text.c - finds the unit of the times in a column, and converts a time to seconds. */
#include "source/text/time_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/setting.h"
#include "source/text/number_text.h"

#define DAY       INT64_C(86400)
#define EPOCH_DAY INT64_C(719162) /* days from 0001-01-01 to 1970-01-01 */
#define LAST_YEAR 9999
/* from FIRST_CLEAR to LAST_CLEAR, a number is clearly a year, or clearly has the year of a date
 * like 20260131 */
#define FIRST_CLEAR 1900
#define LAST_CLEAR  2100
/* from FIRST_MAYBE to LAST_MAYBE, a number may be a year, or may have the year of a date */
#define FIRST_MAYBE 1000
#define LAST_MAYBE  2999

static const struct {
    const char *name, *words;
    int32_t digits; /* a second is 10^digits of the unit */
    /* numbers with first + 1 .. end digits before the point are clearly in this unit; 0, 0: none */
    int32_t first, end;
} units[TS_TIME_UNITS] = {
    [TS_TIME_S] = { "s", "in seconds since 1970", 0, 0, 10 },
    [TS_TIME_MS] = { "ms", "in milliseconds since 1970", 3, 11, 13 },
    [TS_TIME_US] = { "us", "in microseconds since 1970", 6, 14, 16 },
    [TS_TIME_NS] = { "ns", "in nanoseconds since 1970", 9, 17, 19 },
    [TS_TIME_DATE] = { "date", "as a date of eight digits", 0, 0, 0 },
    [TS_TIME_YEAR] = { "year", "as a year", 0, 0, 0 },
    [TS_TIME_ISO] = { "iso", "as a date of ISO 8601", 0, 0, 0 },
};

int ts_time_unit_parse(const char *name, enum ts_time_unit *ret, struct ts_err *err)
{
    for (uint32_t u = 0; u < TS_TIME_UNITS; u++)
        if (strcmp(name, units[u].name) == 0) {
            *ret = (enum ts_time_unit)u;
            return 0;
        }
    return ts_fail(err, TS_EARG,
                   "'%s' is not a unit of time: expected s, ms, us, ns, date, year or iso", name);
}

const char *ts_time_unit_name(enum ts_time_unit unit)
{
    return units[unit].name;
}

/* ------------------------------------------------------------------ the calendar */

static int is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int64_t ts_time_day(int64_t year, int64_t month, int64_t day)
{
    static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
    const int64_t y = year - 1;
    return 365 * y + y / 4 - y / 100 + y / 400 + before[month - 1] + (month > 2 && is_leap(year)) +
           day - 1;
}

static int days_of_month(int64_t year, int64_t month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return days[month - 1] + (month == 2 && is_leap(year));
}

void ts_time_date(int64_t days, int64_t *year, int64_t *month, int64_t *day)
{
    int64_t y = days / 366 + 1, m = 1;
    while (ts_time_day(y + 1, 1, 1) <= days)
        y++;
    while (m < 12 && ts_time_day(y, m + 1, 1) <= days)
        m++;
    *year = y;
    *month = m;
    *day = days - ts_time_day(y, m, 1) + 1;
}

static int is_date(int64_t year, int64_t month, int64_t day)
{
    return year >= 1 && year <= LAST_YEAR && month >= 1 && month <= 12 && day >= 1 &&
           day <= days_of_month(year, month);
}

size_t ts_time_write(int64_t seconds, char ret[TS_TIME_CHARS])
{
    int64_t year, month, day;
    ts_time_date(seconds / DAY, &year, &month, &day);
    return (size_t)snprintf(
        ret, TS_TIME_CHARS,
        "%04" PRId64 "-%02" PRId64 "-%02" PRId64 "T%02" PRId64 ":%02" PRId64 ":%02" PRId64, year,
        month, day, seconds % DAY / 3600, seconds / 60 % 60, seconds % 60);
}

/* ------------------------------------------------------------------ dates of ISO 8601 */

/* Returns the number in the n digits at p; -1 if they are not n digits. */
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

/* Parses a time of day such as "13:45[:59[.25]]" at *p, in seconds. 60 seconds are allowed: a leap
 * second. */
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

/* Whether a text begins with four digits and '-', as only dates of ISO 8601 do. */
static int begins_iso(const char *p, size_t n)
{
    return n >= 7 && p[4] == '-' && digits(p, p + n, 4) >= 0;
}

static int parse_iso(const char *p, const char *end, int64_t *ret)
{
    const int64_t year = digits(p, end, 4), month = digits(p + 5, end, 2);
    const int by_month = end - p == 7;
    int64_t clock = 0, zone = 0, day = 1;
    if (!by_month)
        day = end - p < 10 || p[7] != '-' ? -1 : digits(p + 8, end, 2);
    if (!is_date(year, month, day))
        return -1;
    p += by_month ? 7 : 10;
    if (p < end) {
        if (*p != 'T' && *p != 't' && *p != ' ')
            return -1;
        p++;
        if (parse_clock(&p, end, &clock) < 0 || parse_zone(p, end, &zone) < 0)
            return -1;
    }
    *ret = ts_time_day(year, month, day) * DAY + clock - zone;
    return 0;
}

/* ------------------------------------------------------------------ times given as numbers */

static int as_date(const struct ts_number *x, int64_t *ret, int64_t *year)
{
    uint64_t v;
    if (!ts_number_whole(x, &v) || v < 10000 || v > UINT64_C(99991231))
        return -1;
    *year = (int64_t)(v / 10000);
    if (!is_date(*year, (int64_t)(v / 100 % 100), (int64_t)(v % 100)))
        return -1;
    *ret = ts_time_day(*year, (int64_t)(v / 100 % 100), (int64_t)(v % 100)) * DAY;
    return 0;
}

static int as_year(const struct ts_number *x, int64_t *ret, int64_t *year)
{
    uint64_t v;
    if (!ts_number_whole(x, &v) || v < 1 || v > LAST_YEAR)
        return -1;
    *year = (int64_t)v;
    *ret = ts_time_day(*year, 1, 1) * DAY;
    return 0;
}

/* Converts a number to seconds, assuming that it is a time in this unit. */
static int as_unit(enum ts_time_unit unit, const struct ts_number *x, int64_t *ret)
{
    int64_t year;
    if (unit == TS_TIME_DATE)
        return as_date(x, ret, &year);
    if (unit == TS_TIME_YEAR)
        return as_year(x, ret, &year);
    if (unit == TS_TIME_ISO || !ts_number_floor(x, units[unit].digits, ret) ||
        *ret > ts_time_day(LAST_YEAR + 1, 1, 1) * DAY || *ret < -EPOCH_DAY * DAY)
        return -1;
    *ret += EPOCH_DAY * DAY;
    return *ret < ts_time_day(LAST_YEAR + 1, 1, 1) * DAY ? 0 : -1;
}

/* Returns the units TS_TIME_DATE and TS_TIME_YEAR, as bits, in which a number is a date of eight
 * digits or a year, from the year `first` to `last`. */
static uint32_t calendar_units(const struct ts_number *x, int64_t first, int64_t last)
{
    int64_t at, year = 0;
    uint32_t found = 0;
    if (as_date(x, &at, &year) == 0 && year >= first && year <= last)
        found |= 1u << TS_TIME_DATE;
    if (as_year(x, &at, &year) == 0 && year >= first && year <= last)
        found |= 1u << TS_TIME_YEAR;
    return found;
}

/* Returns the units of time, as bits, in which a number is clearly meant. A date or year also has
 * the bit of seconds. */
static uint32_t clear_units(const struct ts_number *x)
{
    uint32_t found = calendar_units(x, FIRST_CLEAR, LAST_CLEAR);
    for (uint32_t u = TS_TIME_S; u <= TS_TIME_NS; u++)
        if (x->n > 0 && (u == TS_TIME_S || x->point > units[u].first) && x->point <= units[u].end)
            found |= 1u << u;
    return found;
}

void ts_time_look_at(struct ts_time_look *l, const char *text, size_t n)
{
    struct ts_number x;
    uint32_t found;
    if (begins_iso(text, n) || !ts_number_read(text, n, &x))
        return;
    found = calendar_units(&x, FIRST_MAYBE, LAST_MAYBE);
    l->dates += found >> TS_TIME_DATE & 1;
    l->years += found >> TS_TIME_YEAR & 1;
    found = clear_units(&x);
    l->numbers++;
    l->nonzero += x.n > 0;
    for (uint32_t u = 0; u < TS_TIME_UNITS; u++)
        l->of[u] += found >> u & 1;
}

struct ts_time_rule ts_time_look_rule(const struct ts_time_look *l, int by_days)
{
    struct ts_time_rule r = { l->numbers > 0 && l->nonzero == 0 ? TS_TIME_S : TS_TIME_ISO, 0 };
    uint64_t most = 0;
    for (uint32_t u = TS_TIME_S; u <= TS_TIME_NS; u++)
        if (l->of[u] > most) {
            most = l->of[u];
            r.unit = (enum ts_time_unit)u;
        }
    /* A tenth of dates makes a column one of dates, half of years one of years. Any other number in
     * it is then refused, and the message shows both readings. Of arbitrary times in seconds, fewer
     * than one in 25 look like a date. */
    if (l->numbers > 0 && 10 * l->of[TS_TIME_DATE] >= l->numbers)
        r.unit = TS_TIME_DATE;
    if (l->numbers > 0 && 2 * l->of[TS_TIME_YEAR] >= l->numbers)
        r.unit = by_days ? TS_TIME_YEAR : TS_TIME_ISO;
    if (l->dates == l->numbers || (by_days && l->years == l->numbers))
        r.unit = r.unit == TS_TIME_S ? TS_TIME_ISO : r.unit;
    return r;
}

/* Whether a number has one digit more or fewer than those that are clearly in this unit of time. */
static int is_beside(uint32_t unit, const struct ts_number *x)
{
    return unit <= TS_TIME_NS &&
           (x->point == units[unit].end + 1 || (unit > TS_TIME_S && x->point == units[unit].first));
}

/* Whether a number may be a time in the unit of the column. */
static int fits(const struct ts_time_rule *r, const struct ts_number *x)
{
    const uint32_t found = clear_units(x);
    if (r->unit == TS_TIME_ISO)
        return x->n == 0 ||
               (found == 1u << TS_TIME_S && calendar_units(x, FIRST_MAYBE, LAST_MAYBE) == 0);
    if ((found >> r->unit & 1) != 0)
        return 1;
    return r->unit <= TS_TIME_NS && (x->n == 0 || is_beside(r->unit, x));
}

int ts_time_read(const struct ts_time_rule *r, const char *text, size_t n, int64_t *ret)
{
    struct ts_number x;
    if (begins_iso(text, n))
        return parse_iso(text, text + n, ret) == 0 && *ret >= 0 &&
                       *ret < ts_time_day(LAST_YEAR + 1, 1, 1) * DAY
                   ? 0
                   : TS_TIME_NONE;
    if (!ts_number_read(text, n, &x))
        return TS_TIME_NONE;
    if (!r->said && !fits(r, &x))
        return TS_TIME_AMBIGUOUS;
    return as_unit(r->unit == TS_TIME_ISO && !r->said ? TS_TIME_S : r->unit, &x, ret) == 0
               ? 0
               : TS_TIME_NONE;
}

/* ------------------------------------------------------------------ sentences for messages */

/* Writes the time that a number means in a unit, with the name of the unit. */
static size_t put_reading(uint32_t unit, const struct ts_number *x, char *ret, size_t room)
{
    char at[TS_TIME_CHARS] = "no time";
    int64_t seconds;
    if (as_unit((enum ts_time_unit)unit, x, &seconds) == 0) {
        ts_time_write(seconds, at);
        if (unit == TS_TIME_DATE || unit == TS_TIME_YEAR)
            at[unit == TS_TIME_DATE ? 10 : 4] = '\0';
    }
    return (size_t)snprintf(ret, room, "%s %s", at, units[unit].words);
}

/* Returns the units, as bits, in which a message shows an ambiguous number, except the unit of its
 * column. */
static uint32_t other_readings(const struct ts_time_rule *r, const struct ts_number *x)
{
    uint32_t found = clear_units(x);
    if (r->unit == TS_TIME_ISO)
        found |= calendar_units(x, FIRST_MAYBE, LAST_MAYBE);
    for (uint32_t u = TS_TIME_S; u <= TS_TIME_NS; u++)
        found |= is_beside(u, x) ? 1u << u : 0;
    if (found == 0)
        found = 1u << (x->n == 0 ? TS_TIME_S : TS_TIME_NS);
    return found & ~(1u << r->unit);
}

static const char *say_ambiguous(const struct ts_time_rule *r, const char *mode, const char *field,
                                 const struct ts_number *x, char ret[TS_TIME_SENTENCE])
{
    const uint32_t others = other_readings(r, x);
    const char *with = "";
    size_t at = (size_t)snprintf(ret, TS_TIME_SENTENCE, "'%s' is ", field);
    if (r->unit != TS_TIME_ISO) {
        at += put_reading(r->unit, x, ret + at, TS_TIME_SENTENCE - at);
        at += (size_t)snprintf(ret + at, TS_TIME_SENTENCE - at, ", like other times of the column");
        with = ", and ";
    }
    for (uint32_t left = others; left != 0 && at < TS_TIME_SENTENCE; left &= left - 1) {
        at += (size_t)snprintf(ret + at, TS_TIME_SENTENCE - at, "%s", with);
        if (at < TS_TIME_SENTENCE)
            at += put_reading((uint32_t)__builtin_ctz(left), x, ret + at, TS_TIME_SENTENCE - at);
        with = ", and ";
    }
    with = "; " TS_SET_TIME_UNIT " ";
    for (uint32_t left = others | (r->unit != TS_TIME_ISO ? 1u << r->unit : 0);
         left != 0 && at < TS_TIME_SENTENCE; left &= left - 1) {
        at += (size_t)snprintf(ret + at, TS_TIME_SENTENCE - at, "%s%s=%s", with, mode,
                               units[__builtin_ctz(left)].name);
        with = " or ";
    }
    if (at < TS_TIME_SENTENCE)
        snprintf(ret + at, TS_TIME_SENTENCE - at, " decides");
    return ret;
}

const char *ts_time_why(const struct ts_time_rule *r, const char *mode, const char *text, size_t n,
                        char ret[TS_TIME_SENTENCE])
{
    struct ts_number x;
    char field[48];
    snprintf(field, sizeof field, "%.*s%s", (int)(n < 40 ? n : 40), text, n > 40 ? "..." : "");
    for (char *p = field; *p != '\0'; p++)
        *p = (unsigned char)*p < ' ' || *p == 127 ? '?' : *p;
    if (!r->said && !begins_iso(text, n) && ts_number_read(text, n, &x) && !fits(r, &x))
        return say_ambiguous(r, mode, field, &x, ret);
    if (r->said)
        snprintf(ret, TS_TIME_SENTENCE, "'%s' is not a time %s, nor a date as in 2024-05-31", field,
                 units[r->unit].words);
    else
        snprintf(ret, TS_TIME_SENTENCE,
                 "'%s' is not a time; expected seconds since 1970, or a date as in 2024-05-31 or "
                 "2024-05-31T13:45",
                 field);
    return ret;
}
