/* SPDX-License-Identifier: BSD-3-Clause */
/* Sentences of failures: whole where they fit, and with both ends where they do not. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/support/run_suite.h"

START_TEST(a_sentence_is_kept_as_it_is)
{
    struct ts_err err;
    ck_assert_int_eq(ts_fail(&err, TS_EFORMAT, "%s: byte %d", "x", 7), TS_EFORMAT);
    ck_assert_int_eq(err.code, TS_EFORMAT);
    ck_assert_int_eq(err.sys, 0);
    ck_assert_str_eq(err.text, "x: byte 7");
    errno = ENOENT;
    ck_assert_int_eq(ts_fail_errno(&err, TS_EIO, "%s: cannot be opened", "x"), TS_EIO);
    ck_assert_int_eq(err.sys, ENOENT);
    ck_assert_str_eq(err.text, "x: cannot be opened: No such file or directory");
    ts_fail(&err, TS_EIO, "again: %s", err.text);
    ck_assert_str_eq(err.text, "again: x: cannot be opened: No such file or directory");
    ck_assert_int_eq(ts_fail(NULL, TS_EIO, "%s", "nobody asks"), TS_EIO);
}
END_TEST

/* Loop test: _i is the length of the path. */
START_TEST(a_long_path_keeps_its_name_and_the_cause)
{
    const size_t n = (size_t)_i;
    char *path = malloc(n + sizeof "/the-name");
    struct ts_err err;
    memset(path, 'd', n);
    path[0] = '/';
    strcpy(path + n, "/the-name");
    errno = EACCES;
    ts_fail_errno(&err, TS_EIO, "%s: cannot be opened", path);
    ck_assert_uint_lt(strlen(err.text), sizeof err.text);
    ck_assert_int_eq(strncmp(err.text, "/dddd", 5), 0);
    if (n <= 12000) { /* no system takes a longer one */
        const char *end = strstr(err.text, "d/the-name: cannot be opened: Permission denied");
        ck_assert_ptr_nonnull(end);
        ck_assert_int_eq(strcmp(end, "d/the-name: cannot be opened: Permission denied"), 0);
    }
    ck_assert_msg((strstr(err.text, "...") != NULL) == (n + 47 > sizeof err.text), "%s", err.text);
    free(path);
}
END_TEST

START_TEST(what_is_left_out_are_whole_characters)
{
    char text[3001];
    struct ts_err err;
    for (size_t shift = 0; shift < 3; shift++) {
        const char *s = err.text;
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 <= 3000; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 3);
        text[3000 - (3000 - shift) % 3] = '\0';
        ts_fail(&err, TS_EIO, "%s", text);
        s += strspn(s, "x");
        while (strncmp(s, "\xe2\x82\xac", 3) == 0)
            s += 3;
        ck_assert_int_eq(strncmp(s, "...", 3), 0);
        s += 3;
        while (strncmp(s, "\xe2\x82\xac", 3) == 0)
            s += 3;
        ck_assert_int_eq(*s, '\0');
    }
}
END_TEST

int main(void)
{
    static const int lengths[] = { 500, 530, 960, 970, 980, 1000, 1024, 4095, 9000, 20000 };
    Suite *suite = suite_create("err");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, a_sentence_is_kept_as_it_is);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        tcase_add_loop_test(tc, a_long_path_keeps_its_name_and_the_cause, lengths[i],
                            lengths[i] + 1);
    tcase_add_test(tc, what_is_left_out_are_whole_characters);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
