/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables are read as a slow reader of one character at a time reads them; times fall into the bins
 * that the C library's calendar says; what is wrong is refused where it is. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "source/text/table_text.h"
#include "tests/support/run_suite.h"

#define COLUMNS 4u
#define LINES   400u

static struct ts_err err;

/* ------------------------------------------------------------------ the slow reader */

/* Column `column` of line `line`, from 0, as RFC 4180 has it; blanks around are dropped. */
static void slow_field(const char *text, uint32_t line, uint32_t column, char *ret)
{
    const char *p = text;
    char *at = ret;
    for (; line > 0; p++)
        line -= *p == '\n';
    for (int quoted = 0; column > 0; p++) {
        quoted ^= *p == '"';
        column -= *p == ',' && !quoted;
    }
    while (*p == ' ' || *p == '\t')
        p++;
    if (*p == '"') {
        for (p++; *p != '"' || p[1] == '"'; p++) {
            p += *p == '"';
            *at++ = *p;
        }
    } else {
        while (*p != ',' && *p != '\n' && !(*p == '\r' && p[1] == '\n'))
            *at++ = *p++;
        while (at > ret && (at[-1] == ' ' || at[-1] == '\t'))
            at--;
    }
    *at = '\0';
}

/* A field that says `word`, in one of the ways a program may write it. */
static char *put_field(char *at, const char *word, uint64_t how)
{
    const int must = strpbrk(word, ",\"") != NULL || word[0] == ' ';
    if (how % 5 == 0)
        *at++ = ' ';
    if (must || how % 3 == 0) {
        *at++ = '"';
        for (; *word != '\0'; word++) {
            *at++ = *word;
            if (*word == '"')
                *at++ = '"';
        }
        *at++ = '"';
    } else {
        at = stpcpy(at, word);
    }
    if (how % 7 == 0)
        *at++ = ' ';
    return at;
}

START_TEST(a_table_is_read_as_one_character_at_a_time)
{
    static const char *const words[] = { "alice", "bob \"the\" b", "a,b", "\xc3\xa9t\xc3\xa9",
                                         "x",     "\"\"",          ", ,", "7" };
    static char text[LINES * 200 + TS_TEXT_PAD], side[LINES * 200 + TS_TEXT_PAD];
    const struct ts_table_plan plan = {
        .separator = ',', .n_text = 1, .text = { "3" }, .header = 2
    };
    struct ts_tns_rules rules = { .base = 1, .value_bytes = 8 };
    struct ts_tns_header h;
    struct ts_table *t;
    struct ts_batch b;
    uint64_t line = 0;
    char *at = text, want[200], word[32];
    int rc;
    for (uint32_t i = 0; i < LINES; i++) {
        for (uint32_t c = 0; c < COLUMNS; c++) {
            const uint64_t x = ts_mix((uint64_t)_i * 100000 + i * COLUMNS + c);
            if (c == 1 || c == 2)
                snprintf(word, sizeof word, "%s", words[x % (sizeof words / sizeof *words)]);
            else if (c == 0)
                snprintf(word, sizeof word, "%llu", (unsigned long long)(x % 100000 + 1));
            else
                snprintf(word, sizeof word, "%g", (double)(x % 20001 + 1) / 8);
            at = put_field(at, word, x >> 32);
            *at++ = c + 1 < COLUMNS ? ',' : '\n';
        }
        if (i % 4 == 0) {
            at[-1] = '\r';
            *at++ = '\n';
        }
    }
    ck_assert_int_eq(ts_table_new(&plan, &t, &err), 0);
    rc = ts_table_header(t, text, (size_t)(at - text), &h, &line, &err);
    ck_assert_msg(rc == 1, "%s", err.text);
    ck_assert_uint_eq(h.order, 3);
    ck_assert_uint_eq(h.bytes, 0);
    rules.order = 3;
    ck_assert_int_eq(ts_table_mode_field(t, 0), TS_TABLE_NUMBER);
    ck_assert_int_eq(ts_table_mode_field(t, 1), TS_TABLE_NAME);
    ck_assert_int_eq(ts_batch_new(3, ts_table_room(&rules, (size_t)(at - text)), &b, &err), 0);
    ts_batch_clear(&b);
    rc = ts_table_parse(t, side, &rules, text, (size_t)(at - text), &b, &line, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    ck_assert_uint_eq(b.n, LINES);
    ck_assert_uint_eq(b.n_lines, LINES);
    for (uint32_t i = 0; i < LINES; i++) {
        double value;
        slow_field(text, i, 0, want);
        ck_assert_uint_eq(b.index[i * 3] + 1, strtoull(want, NULL, 10));
        for (uint32_t m = 1; m < 3; m++) {
            const uint64_t index = b.index[i * 3 + m];
            slow_field(text, i, m, want);
            ck_assert(index & TS_NAME_UNKNOWN);
            ck_assert_uint_eq(ts_name_length(index), strlen(want));
            ck_assert_int_eq(memcmp(ts_name_text(index, text, side), want, strlen(want)), 0);
        }
        memcpy(&value, &b.value[i], sizeof value);
        slow_field(text, i, 3, want);
        ck_assert_double_eq(value, strtod(want, NULL));
    }
    ts_batch_free(&b);
    ts_table_free(t);
}
END_TEST

/* ------------------------------------------------------------------ columns */

struct columns_case {
    const char *text;
    struct ts_table_plan plan;
    int rc; /* 1, or a failure */
    const char *says;
    uint32_t order;
    const char *name, *value_name; /* of mode 1 */
    int field;                     /* of mode 1 */
};

static const struct columns_case columns[] = {
    { "user,item,rating\nann,x,5\n",
      { .separator = ',' },
      1,
      NULL,
      2,
      "user",
      "rating",
      TS_TABLE_NAME },
    { "1,2,3\n1,2,4\n", { .separator = ',' }, 1, NULL, 2, NULL, NULL, TS_TABLE_NUMBER },
    { "a,b\nc,d\n", { .separator = ',', .value = "none" }, 1, NULL, 2, NULL, NULL, TS_TABLE_NAME },
    { "a,b\nc,d\n", { .separator = ',' }, TS_EARG, "not a number in every line", 0, NULL, NULL, 0 },
    { "u,i,t,r\nx,y,1,5\n",
      { .separator = ',', .n_modes = 2, .mode = { "i", "u" }, .value = "r" },
      1,
      NULL,
      2,
      "i",
      "r",
      TS_TABLE_NAME },
    { "u,i,t,r\nx,y,1,5\n",
      { .separator = ',', .n_modes = 2, .mode = { "i", "u" } },
      TS_EARG,
      "2 columns are no mode",
      0,
      NULL,
      NULL,
      0 },
    { "u,i\nx,y\n",
      { .separator = ',', .n_modes = 2, .mode = { "i", "u" } },
      1,
      NULL,
      2,
      "i",
      NULL,
      TS_TABLE_NAME },
    { "x,y,7\nx,z,8\n",
      { .separator = ',', .n_modes = 2, .mode = { "who", "what" } },
      1,
      NULL,
      2,
      "who",
      NULL,
      TS_TABLE_NAME },
    { "5;9;1\n6;9;1\n",
      { .separator = ';', .n_columns = 2, .column = { "2", "1" } },
      1,
      NULL,
      2,
      NULL,
      NULL,
      TS_TABLE_NUMBER },
    { "u,i\nx,y\n",
      { .separator = ',', .n_modes = 2, .mode = { "i", "w" } },
      TS_EARG,
      "names column 'w'; there are 2: u, i",
      0,
      NULL,
      NULL,
      0 },
    { "x\ty\n",
      { .separator = ',', .value = "none" },
      TS_ELIMIT,
      "a tensor of 1 mode",
      0,
      NULL,
      NULL,
      0 },
    { "u,i,i2\n1,2,3\n",
      { .separator = ',', .n_columns = 2, .column = { "1", "1" }, .value = "none" },
      TS_EARG,
      "named twice",
      0,
      NULL,
      NULL,
      0 },
    { "u,i,v\n",
      { .separator = ',', .header = 1 },
      TS_EFORMAT,
      "nothing behind it",
      0,
      NULL,
      NULL,
      0 },
    { "1,2,3\n1,2,4\n",
      { .separator = ',', .n_bins = 1, .binned = { "5" } },
      TS_EARG,
      "there is no mode '5'",
      0,
      NULL,
      NULL,
      0 },
};

START_TEST(columns_are_found)
{
    const struct columns_case *c = &columns[_i];
    static char text[4096];
    struct ts_tns_header h;
    struct ts_table *t;
    uint64_t line;
    int rc;
    strcpy(text, c->text);
    ck_assert_int_eq(ts_table_new(&c->plan, &t, &err), 0);
    rc = ts_table_header(t, text, strlen(text), &h, &line, &err);
    ck_assert_msg(rc == c->rc, "%d: %s", rc, rc < 0 ? err.text : "");
    if (rc < 0) {
        ck_assert_msg(strstr(err.text, c->says) != NULL, "%s", err.text);
    } else {
        const char *name = ts_table_mode_name(t, 0), *value = ts_table_value_name(t);
        ck_assert_uint_eq(h.order, c->order);
        ck_assert_int_eq(ts_table_mode_field(t, 0), c->field);
        ck_assert(name == NULL ? c->name == NULL : c->name != NULL && strcmp(name, c->name) == 0);
        ck_assert(value == NULL ? c->value_name == NULL
                                : c->value_name != NULL && strcmp(value, c->value_name) == 0);
    }
    ts_table_free(t);
}
END_TEST

static const struct {
    const char *line, *says;
} bad_lines[] = {
    { "1,x,\"y,5\n", "quote that is not closed" },
    { "1,x,\"y\"z,5\n", "behind the closing quote" },
    { "1,x,y\n", "found 3 fields, expected 4" },
    { "1,x,y,5,6\n", "found 5 fields, expected 4" },
    { "q,x,y,5\n", "text 1 takes" },
    { "0,x,y,5\n", "first_index 0" },
    { "1,,y,5\n", "column 2: the field is empty" },
    { "1,x,y,\n", "the value is empty" },
    { "1,x,y,5z\n", "a finite number" },
    { "-1,x,y,5\n", "text 1 takes" },
};

START_TEST(bad_lines_are_refused)
{
    const struct ts_table_plan plan = { .separator = ',', .header = 2 };
    struct ts_tns_rules rules = { .order = 3, .base = 1, .value_bytes = 4 };
    static char text[4096], side[4096];
    struct ts_tns_header h;
    struct ts_table *t;
    struct ts_batch b;
    uint64_t line;
    strcpy(text, "1,a,b,2\n2,c,d,3\n");
    ck_assert_int_eq(ts_table_new(&plan, &t, &err), 0);
    ck_assert_int_eq(ts_table_header(t, text, strlen(text), &h, &line, &err), 1);
    strcat(text, bad_lines[_i].line);
    ck_assert_int_eq(ts_batch_new(3, 100, &b, &err), 0);
    ts_batch_clear(&b);
    ck_assert_int_lt(ts_table_parse(t, side, &rules, text, strlen(text), &b, &line, &err), 0);
    ck_assert_uint_eq(line, 3);
    ck_assert_msg(strstr(err.text, bad_lines[_i].says) != NULL, "%s", err.text);
    ts_batch_free(&b);
    ts_table_free(t);
}
END_TEST

/* ------------------------------------------------------------------ times */

START_TEST(times_fall_into_the_bins_of_the_calendar)
{
    static const char *const widths[] = { "1h", "1d", "7d", "1mo", "1y", "15min", "1w" };
    for (uint64_t i = 0; i < 4000; i++) {
        const time_t at = (time_t)(ts_mix(i) % 6000000000) - 1000000000; /* 1938 to 2128 */
        const char *const width = widths[i % (sizeof widths / sizeof *widths)];
        struct ts_time_bin bin;
        char text[64], label[TS_TIME_LABEL], want[64];
        uint64_t index, again;
        struct tm tm;
        time_t start;
        gmtime_r(&at, &tm);
        ck_assert_int_eq(ts_time_bin_parse(width, &bin, &err), 0);
        snprintf(text, sizeof text, "%lld", (long long)at);
        ck_assert_int_eq(ts_time_bin_of(&bin, text, strlen(text), &index), 0);
        strftime(text, sizeof text, i % 2 == 0 ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M:%S.25",
                 &tm);
        ck_assert_int_eq(ts_time_bin_of(&bin, text, strlen(text), &again), 0);
        ck_assert_uint_eq(index, again);
        switch (i % 7) { /* the start of the bin, by the C library */
        case 0:
        case 5:
            start = at - (tm.tm_min % (i % 7 == 0 ? 60 : 15)) * 60 - tm.tm_sec;
            break;
        case 1:
            start = at - tm.tm_hour * 3600 - tm.tm_min * 60 - tm.tm_sec;
            break;
        case 2:
        case 6:
            start = at - ((tm.tm_wday + 6) % 7) * 86400 - tm.tm_hour * 3600 - tm.tm_min * 60 -
                    tm.tm_sec;
            break;
        default:
            start = at;
            break;
        }
        gmtime_r(&start, &tm);
        strftime(want, sizeof want,
                 i % 7 == 0 || i % 7 == 5 ? "%Y-%m-%dT%H:%M"
                 : i % 7 == 3             ? "%Y-%m"
                 : i % 7 == 4             ? "%Y"
                                          : "%Y-%m-%d",
                 &tm);
        ck_assert_uint_eq(ts_time_bin_label(&bin, index, label), strlen(want));
        ck_assert_str_eq(label, want);
    }
}
END_TEST

START_TEST(what_is_no_time_is_refused)
{
    static const char *const bad[] = { "",
                                       "x",
                                       "2024-13-01",
                                       "2024-02-30",
                                       "2023-02-29",
                                       "2024-05-31T25:00",
                                       "2024-05-31X",
                                       "2024-5-31",
                                       "2024-05-31T10",
                                       "2024-05-31T10:00+99:00",
                                       "1.2.3",
                                       "--5",
                                       "0000-01-01",
                                       "99999999999999999999",
                                       "2024-05-31T10:00:00.",
                                       "inf" };
    static const char *const width[] = { "", "7", "d", "0d", "7x", "-1d", "99999999999d", "1e3s" };
    struct ts_time_bin bin;
    uint64_t index;
    ck_assert_int_eq(ts_time_bin_parse("1d", &bin, &err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(ts_time_bin_of(&bin, bad[i], strlen(bad[i]), &index) < 0, "%s", bad[i]);
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        ck_assert_msg(ts_time_bin_parse(width[i], &bin, &err) == TS_EARG, "%s", width[i]);
    ck_assert_int_eq(ts_time_bin_of(&bin, "2024-02-29T10:00+02:00", 22, &index), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table_text");
    TCase *t = tcase_create("table_text");
    tcase_add_loop_test(t, a_table_is_read_as_one_character_at_a_time, 0, 5);
    tcase_add_loop_test(t, columns_are_found, 0, (int)(sizeof columns / sizeof *columns));
    tcase_add_loop_test(t, bad_lines_are_refused, 0, (int)(sizeof bad_lines / sizeof *bad_lines));
    tcase_add_test(t, times_fall_into_the_bins_of_the_calendar);
    tcase_add_test(t, what_is_no_time_is_refused);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_FORK_GETENV);
}
