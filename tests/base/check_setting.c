/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings in sentences: a mark becomes what the reader calls it, in whole sentences and in ones
 * that are cut, and nothing else changes. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/setting.h"
#include "tests/support/run_suite.h"

#define LIST                                                                                       \
    TS_SET_RANK TS_SET_PRECISION TS_SET_SWEEPS TS_SET_ACCELERATE TS_SET_NONNEG TS_SET_HOST_MEMORY  \
        TS_SET_GPU_MEMORY TS_SET_GPUS TS_SET_CPU TS_SET_THREADS TS_SET_TRACE TS_SET_OUT            \
            TS_SET_OUTPUT TS_SET_REPLACE TS_SET_RESUME TS_SET_ROWS_USED TS_SET_MEMORY TS_SET_SHARD \
                TS_SET_SIZES TS_SET_BASE TS_SET_FLOAT64 TS_SET_LABELS TS_SET_NAMES                 \
                    TS_SET_NO_DUPLICATES TS_SET_TRANSFORM TS_SET_PARTIAL_MAP TS_SET_FORMAT         \
                        TS_SET_FORMAT_CSV TS_SET_FORMAT_SEMICOLON TS_SET_SEPARATOR TS_SET_COLUMNS  \
                            TS_SET_VALUE TS_SET_HEADER TS_SET_TEXT TS_SET_BIN

static void fields(void)
{
    ts_setting_words(TS_WORDS_FIELDS);
}

START_TEST(a_mark_becomes_what_the_reader_calls_it)
{
    static const char *const want[] = { "no: 3 for rank, dim or first_index 1",
                                        "no: 3 for rank, shape or base 1",
                                        "no: 3 for --rank, --dims or --base 1" };
    struct ts_err err;
    char text[64];
    for (int words = 0; words < 3; words++) {
        ts_setting_words((enum ts_words)words);
        ck_assert_int_eq(ts_fail(&err, TS_EARG,
                                 "no: %d for " TS_SET_RANK ", %s or " TS_SET_BASE " 1", 3,
                                 TS_SET_SIZES),
                         TS_EARG);
        ck_assert_str_eq(err.text, want[words]);
        ts_setting_print(text, sizeof text, "no: %d for %s, " TS_SET_SIZES " or " TS_SET_BASE " 1",
                         3, TS_SET_RANK);
        ck_assert_str_eq(text, want[words]);
    }
}
END_TEST

START_TEST(every_mark_is_known)
{
    struct ts_err err;
    for (int words = 0; words < 3; words++) {
        ts_setting_words((enum ts_words)words);
        ts_fail(&err, TS_EARG, "%s", LIST);
        ck_assert_msg(strchr(err.text, TS_SET_MARK) == NULL, "%s", err.text);
        ck_assert_msg((strstr(err.text, "--rank") != NULL) == (words == TS_WORDS_OPTIONS), "%s",
                      err.text);
    }
}
END_TEST

START_TEST(what_is_no_mark_stays)
{
    static const char *const texts[] = { "plain",
                                         "\x1f",
                                         ("a\x1f"
                                          "rank"),
                                         "\x1frank \x1f",
                                         "\x1f\x1f\x1f",
                                         "/a/\x1fnothing\x1f/b",
                                         "\x1f=\x1f",
                                         "\x1f=A\x1f" };
    char got[64];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ts_setting_write(texts[i], got, sizeof got);
        ck_assert_str_eq(got, texts[i]);
    }
}
END_TEST

/* An option that was typed, or is in a file, has one name for every reader. */
START_TEST(an_option_is_named_for_every_reader)
{
    char got[64];
    for (int words = 0; words < 3; words++) {
        ts_setting_words((enum ts_words)words);
        ts_setting_print(got, sizeof got, "'" TS_SET_OPTION("%s") "' of " TS_SET_OPTION("l2-scale"),
                         "max-time");
        ck_assert_str_eq(got, "'--max-time' of --l2-scale");
    }
    ts_setting_words(TS_WORDS_FIELDS);
}
END_TEST

/* At every length: the start of the sentence, ended, within its room. */
START_TEST(a_sentence_is_cut_where_room_ends)
{
    static const char text[] = "a " TS_SET_HOST_MEMORY " b " TS_SET_NO_DUPLICATES;
    char whole[128];
    ts_setting_write(text, whole, sizeof whole);
    ck_assert_str_eq(whole, "a host_memory b TS_REFUSE_DUPLICATES");
    for (size_t room = 1; room <= strlen(whole) + 2; room++) {
        char *got = malloc(room);
        ck_assert_ptr_nonnull(got);
        ts_setting_write(text, got, room);
        ck_assert_uint_eq(strlen(got), room - 1 < strlen(whole) ? room - 1 : strlen(whole));
        ck_assert(strncmp(got, whole, strlen(got)) == 0);
        free(got);
    }
}
END_TEST

/* Shortened in the middle, as any: no half of a mark is left. */
START_TEST(long_sentences_hold_no_marks)
{
    struct ts_err err;
    char *text = malloc(30000);
    ck_assert_ptr_nonnull(text);
    for (size_t n = 900; n < 1100; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        ts_fail(&err, TS_EARG, "%.290s" TS_SET_HOST_MEMORY " " TS_SET_HOST_MEMORY "%s" TS_SET_RANK,
                text, text + 290);
        ck_assert(strchr(err.text, TS_SET_MARK) == NULL);
        ck_assert(strlen(err.text) < sizeof err.text);
    }
    memset(text, 'x', 29999);
    text[29999] = '\0';
    ts_fail(&err, TS_EARG, TS_SET_RANK "%s" TS_SET_RANK, text);
    ck_assert(strncmp(err.text, "rankx", 5) == 0);
    free(text);
}
END_TEST

START_TEST(rows_come_in_another_order)
{
    static const char *const none[] = { NULL }, *const first[] = { "json", "rank", NULL };
    uint32_t n = 0, last;
    ck_assert_uint_eq(ts_setting_row(none, 0), 0);
    ck_assert_uint_eq(ts_setting_row(none, 5), 5);
    while (ts_setting_row(none, n) != TS_NO_SETTING)
        n++;
    last = n - 1; /* json */
    ck_assert_uint_gt(n, 40);
    ck_assert_uint_eq(ts_setting_row(first, 0), last);
    ck_assert_uint_eq(ts_setting_row(first, 1), 0);
    for (uint32_t i = 2; i < n; i++)
        ck_assert_uint_eq(ts_setting_row(first, i), i - 1);
    ck_assert_uint_eq(ts_setting_row(first, n), TS_NO_SETTING);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("setting");
    TCase *t = tcase_create("setting");
    tcase_add_checked_fixture(t, fields, fields);
    tcase_add_test(t, a_mark_becomes_what_the_reader_calls_it);
    tcase_add_test(t, every_mark_is_known);
    tcase_add_test(t, what_is_no_mark_stays);
    tcase_add_test(t, an_option_is_named_for_every_reader);
    tcase_add_test(t, a_sentence_is_cut_where_room_ends);
    tcase_add_test(t, rows_come_in_another_order);
    tcase_add_test(t, long_sentences_hold_no_marks);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
