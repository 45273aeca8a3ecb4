/* SPDX-License-Identifier: BSD-3-Clause */
/* Columns of tests/times.tsv are read as it says, numbers as exact arithmetic on digits reads them,
 * and an ambiguous one is shown with its readings and the settings that decide. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "base/setting.h"
#include "source/text/number_text.h"
#include "source/text/time_bin.h"
#include "source/text/time_text.h"
#include "tests/support/run_suite.h"

#define FIELDS 32u

static struct ts_err err;

/* Cuts text at `mark`; returns how many pieces. */
static uint32_t cut(char *text, char mark, char *piece[FIELDS])
{
    uint32_t n = 0;
    for (char *at = text; at != NULL && n < FIELDS; n++) {
        piece[n] = at;
        at = strchr(at, mark);
        if (at != NULL)
            *at++ = '\0';
    }
    return n;
}

static void check_column(uint32_t line, char *column[])
{
    struct ts_time_look look = { 0 };
    struct ts_time_rule rule = { .said = 1 };
    char *field[FIELDS], *want[FIELDS], why[TS_TIME_SENTENCE];
    const uint32_t n = cut(column[0], '|', field);
    ck_assert_msg(cut(column[3], '|', want) == n, "line %u: not as many readings as fields", line);
    for (uint32_t i = 0; i < n; i++)
        ts_time_look_at(&look, field[i], strlen(field[i]));
    if (strcmp(column[1], "auto") == 0)
        rule = ts_time_look_rule(&look, strcmp(column[2], "days") == 0);
    else
        ck_assert_int_eq(ts_time_unit_parse(column[1], &rule.unit, &err), 0);
    for (uint32_t i = 0; i < n; i++) {
        int64_t at = 0;
        char got[TS_TIME_CHARS];
        const int rc = ts_time_read(&rule, field[i], strlen(field[i]), &at);
        if (rc == 0)
            got[ts_time_write(at, got)] = '\0';
        else
            strcpy(got, rc == TS_TIME_AMBIGUOUS ? "ambiguous" : "none");
        ck_assert_msg(strcmp(got, want[i]) == 0, "line %u: '%s' is %s, expected %s", line, field[i],
                      got, want[i]);
        if (rc == 0)
            continue;
        ts_time_why(&rule, "day", field[i], strlen(field[i]), why);
        ck_assert_msg((strstr(why, " decides") != NULL) == (rc == TS_TIME_AMBIGUOUS), "line %u: %s",
                      line, why);
    }
}

START_TEST(the_table_of_times_holds)
{
    const char *top = getenv("TOP_SRCDIR");
    char path[4096], text[2048], *column[FIELDS];
    uint32_t line = 0, n = 0;
    FILE *f;
    snprintf(path, sizeof path, "%s/tests/times.tsv", top != NULL ? top : ".");
    f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    while (fgets(text, sizeof text, f) != NULL) {
        line++;
        text[strcspn(text, "\n")] = '\0';
        if (text[0] == '#')
            continue;
        ck_assert_msg(cut(text, '\t', column) == 4, "line %u: not 4 columns", line);
        check_column(line, column);
        n++;
    }
    fclose(f);
    ck_assert_uint_gt(n, 40);
}
END_TEST

START_TEST(ambiguous_times_are_shown_with_their_readings)
{
    static const struct {
        struct ts_time_rule rule;
        const char *text, *says;
    } cases[] = {
        { { TS_TIME_DATE, 0 },
          "86400",
          "'86400' is no time as a date of eight digits, like other times of the column, and "
          "1970-01-02T00:00:00 in seconds since 1970; " TS_SET_TIME_UNIT
          " day=s or day=date decides" },
        { { TS_TIME_ISO, 0 },
          "20240131",
          "'20240131' is 1970-08-23T06:15:31 in seconds since 1970, and 2024-01-31 as a date of "
          "eight digits; " TS_SET_TIME_UNIT " day=s or day=date decides" },
        { { TS_TIME_ISO, 0 },
          "2023",
          "'2023' is 1970-01-01T00:33:43 in seconds since 1970, and 2023 as a year; " TS_SET_TIME_UNIT
          " day=s or day=year decides" },
        { { TS_TIME_ISO, 0 },
          "18500101",
          "'18500101' is 1970-08-03T02:55:01 in seconds since 1970, and 1850-01-01 as a date of "
          "eight digits; " TS_SET_TIME_UNIT " day=s or day=date decides" },
        { { TS_TIME_S, 0 },
          "1717200000000",
          "'1717200000000' is no time in seconds since 1970, like other times of the column, and "
          "2024-06-01T00:00:00 in milliseconds since 1970; " TS_SET_TIME_UNIT
          " day=s or day=ms decides" },
        { { TS_TIME_ISO, 0 },
          "50000000000",
          "'50000000000' is 3554-06-09T16:53:20 in seconds since 1970, and 1971-08-02T16:53:20 in "
          "milliseconds since 1970; " TS_SET_TIME_UNIT " day=s or day=ms decides" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[TS_TIME_SENTENCE];
        ts_time_why(&cases[i].rule, "day", cases[i].text, strlen(cases[i].text), why);
        ck_assert_str_eq(why, cases[i].says);
    }
}
END_TEST

/* A number as programs write it, from its digits. */
START_TEST(numbers_are_exact_however_they_are_written)
{
    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t v = ts_mix(i) >> (ts_mix(i + 1000000) % 60 + 2);
        const uint32_t shift = (uint32_t)(ts_mix(i + 2000000) % 10);
        char text[5][80];
        uint64_t scale = 1;
        for (uint32_t s = 0; s < shift; s++)
            scale *= 10;
        snprintf(text[0], sizeof text[0], "%llu", (unsigned long long)v);
        snprintf(text[1], sizeof text[1], "000%llu.000", (unsigned long long)v);
        snprintf(text[2], sizeof text[2], "%llue0", (unsigned long long)v);
        snprintf(text[3], sizeof text[3], "0.%020llue+20", (unsigned long long)v);
        snprintf(text[4], sizeof text[4], "+%llu00E-02", (unsigned long long)v);
        for (uint32_t k = 0; k < 5; k++) {
            struct ts_number x;
            uint64_t got;
            int64_t down;
            char digits[40];
            ck_assert_msg(ts_number_read(text[k], strlen(text[k]), &x), "%s", text[k]);
            ck_assert_msg(ts_number_whole(&x, &got) && got == v, "%s: %llu", text[k],
                          (unsigned long long)got);
            digits[ts_number_digits(&x, digits, sizeof digits - 1)] = '\0';
            ck_assert_str_eq(digits, text[0]);
            ck_assert(ts_number_floor(&x, (int32_t)shift, &down));
            ck_assert_msg(down == (int64_t)(v / scale), "%s by %u", text[k], shift);
            x.minus = 1;
            ck_assert(ts_number_floor(&x, (int32_t)shift, &down));
            ck_assert_msg(down == -(int64_t)((v + scale - 1) / scale), "-%s by %u", text[k], shift);
        }
    }
}
END_TEST

START_TEST(what_is_missing_is_known_and_what_is_a_number_is_not_missing)
{
    static const char *const missing[] = {
        "",     "NaN", "nan",  "NA",   "N/A",  "n/a", "null",    "NULL",    "None",
        "none", "NaT", "<NA>", "-nan", "#N/A", "\\N", "missing", "-1.#IND", "1.#QNAN"
    };
    static const char *const there[] = { "0",   "-",  ".",   "7",      "Nan cy", "n",
                                         "inf", "-1", "1.5", "nankin", "nil",    "?" };
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        ck_assert_msg(ts_number_missing(missing[i], strlen(missing[i])), "%s", missing[i]);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        ck_assert_msg(!ts_number_missing(there[i], strlen(there[i])), "%s", there[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("time_text");
    TCase *t = tcase_create("time_text");
    tcase_add_test(t, the_table_of_times_holds);
    tcase_add_test(t, ambiguous_times_are_shown_with_their_readings);
    tcase_add_test(t, numbers_are_exact_however_they_are_written);
    tcase_add_test(t, what_is_missing_is_known_and_what_is_a_number_is_not_missing);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_FORK_GETENV);
}
