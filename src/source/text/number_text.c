/* SPDX-License-Identifier: BSD-3-Clause */
/* number_text.c - converts digits, point and exponent to a decimal number. */
#include "source/text/number_text.h"

#include <string.h>
#include <strings.h>

/* exponents from here on are not read exactly, because no useful number has one */
#define MOST_EXPONENT 100000

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses an exponent such as "e+07" from p to `end`. Returns 0 if it is none. */
static int read_exponent(const char *p, const char *end, int32_t *ret)
{
    int minus = 0;
    int32_t e = 0;
    p++;
    if (p < end && (*p == '+' || *p == '-'))
        minus = *p++ == '-';
    if (p == end)
        return 0;
    for (; p < end; p++) {
        if (!is_digit(*p))
            return 0;
        if (e < MOST_EXPONENT)
            e = 10 * e + (*p - '0');
    }
    *ret = minus ? -e : e;
    return 1;
}

int ts_number_read(const char *text, size_t n, struct ts_number *ret)
{
    const char *p = text, *const end = text + n;
    int any = 0, point = 0;
    int32_t exponent = 0;
    ret->minus = ret->more = 0;
    ret->point = 0;
    ret->n = 0;
    if (p < end && (*p == '+' || *p == '-'))
        ret->minus = *p++ == '-';
    for (; p < end && (is_digit(*p) || (*p == '.' && !point)); p++) {
        if (*p == '.') {
            point = 1;
            continue;
        }
        any = 1;
        if (ret->n > 0 || *p != '0') {
            if (ret->n < TS_NUMBER_DIGITS)
                ret->digit[ret->n++] = (uint8_t)(*p - '0');
            else
                ret->more |= *p != '0';
            ret->point += !point;
        } else {
            ret->point -= point;
        }
    }
    if (!any || (p < end && (*p | 32) != 'e') || (p < end && !read_exponent(p, end, &exponent)))
        return 0;
    ret->point += exponent;
    while (ret->n > 0 && !ret->more && ret->digit[ret->n - 1] == 0)
        ret->n--;
    return 1;
}

int ts_number_floor(const struct ts_number *x, int32_t shift, int64_t *ret)
{
    const int32_t point = x->point - shift; /* number of digits of the result before the point */
    const int rest = x->n > 0 && (x->more || (int32_t)x->n > point);
    uint64_t v = 0;
    *ret = 0;
    if (x->n == 0)
        return 1;
    if (point > 19)
        return 0;
    for (int32_t i = 0; i < point; i++) /* at most 19 digits: uint64_t holds them */
        v = 10 * v + (i < (int32_t)x->n ? x->digit[i] : 0);
    if (v > (uint64_t)INT64_MAX - 1)
        return 0;
    *ret = x->minus ? -(int64_t)v - rest : (int64_t)v;
    return 1;
}

int ts_number_whole(const struct ts_number *x, uint64_t *ret)
{
    int64_t v = 0;
    *ret = 0;
    if (x->n > 0 && (x->minus || x->more || (int32_t)x->n > x->point))
        return 0;
    *ret = ts_number_floor(x, 0, &v) ? (uint64_t)v : UINT64_MAX;
    return 1;
}

size_t ts_number_digits(const struct ts_number *x, char *ret, size_t room)
{
    const size_t n = x->n == 0 ? 1 : (size_t)x->point;
    if (n > room)
        return 0;
    for (size_t i = 0; i < n; i++)
        ret[i] = (char)('0' + (i < x->n ? x->digit[i] : 0));
    return n;
}

int ts_number_missing(const char *text, size_t n)
{
    static const char *const word[] = { "nan",      "na",       "n/a",    "null",    "none",
                                        "nat",      "<na>",     "-nan",   "+nan",    "#n/a",
                                        "#na",      "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan",
                                        "-1.#qnan", "\\n",      "missing" };
    if (n == 0)
        return 1;
    if (is_digit(text[n - 1])) /* nearly all fields that are not missing end in a digit */
        return 0;
    for (; n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'); n--)
        ;
    for (; n > 0 && (*text == ' ' || *text == '\t'); n--)
        text++;
    if (n == 0)
        return 1;
    if (n > 8 || is_digit(text[n - 1]))
        return 0;
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (strlen(word[i]) == n && strncasecmp(word[i], text, n) == 0)
            return 1;
    return 0;
}
