/* SPDX-License-Identifier: BSD-3-Clause */
/* Formats numbers for people: three significant digits and a unit. */
#include "base/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_SECONDS 1e9 /* the largest time that is printed: some thirty years */

/* Writes three significant digits of 0 <= x < 1024, without an exponent. */
static int three(char *buf, double x)
{
    return snprintf(buf, TS_NUM_CHARS, "%.*f", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x);
}

char *ts_num_bytes(char *buf, uint64_t bytes)
{
    static const char letters[] = "KMGTPE";
    double x = (double)bytes;
    int i = -1;
    while (x >= (i < 0 ? 1024 : 1023.5)) {
        x /= 1024;
        i++;
    }
    if (i < 0)
        snprintf(buf, TS_NUM_CHARS, "%" PRIu64 " B", bytes);
    else
        snprintf(buf + three(buf, x), 8, " %ciB", letters[i]);
    return buf;
}

char *ts_num_count(char *buf, uint64_t n)
{
    char digits[24];
    const int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    char *at = buf;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return buf;
}

char *ts_num_short(char *buf, double x)
{
    static const char letters[] = "kMGTPE";
    int i = -1;
    if (!(fabs(x) < 1e21)) { /* also true if x is NaN */
        snprintf(buf, TS_NUM_CHARS, "%.3g", x);
        return buf;
    }
    while (fabs(x) >= 999.5 && i < 5) {
        x /= 1000;
        i++;
    }
    if (x < 0)
        *buf = '-';
    three(buf + (x < 0), fabs(x));
    if (i >= 0)
        snprintf(buf + strlen(buf), 4, " %c", letters[i]);
    return buf;
}

char *ts_num_duration(char *buf, uint64_t ns)
{
    const uint64_t s = ns / UINT64_C(1000000000) + (ns % UINT64_C(1000000000) >= 500000000);
    if (ns < 1000)
        snprintf(buf, TS_NUM_CHARS, "%" PRIu64 " ns", ns);
    else if (ns < 999500)
        snprintf(buf + three(buf, (double)ns / 1e3), 8, " us");
    else if (ns < 999500000)
        snprintf(buf + three(buf, (double)ns / 1e6), 8, " ms");
    else if (s < 60)
        snprintf(buf + three(buf, (double)ns / 1e9), 8, " s");
    else if (s < 3600)
        snprintf(buf, TS_NUM_CHARS, "%" PRIu64 " min %02" PRIu64 " s", s / 60, s % 60);
    else
        snprintf(buf, TS_NUM_CHARS, "%" PRIu64 " h %02" PRIu64 " min", s / 3600, s % 3600 / 60);
    return buf;
}

char *ts_num_seconds(char *buf, double seconds)
{
    return ts_num_duration(buf, seconds > 0 ? (uint64_t)(fmin(seconds, MOST_SECONDS) * 1e9) : 0);
}

const char *ts_num_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}
