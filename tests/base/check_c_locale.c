/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers are read and written with a point in a program whose locale wants a comma. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/decimal.h"
#include "tests/support/run_suite.h"

START_TEST(reads_and_writes_a_point)
{
    char text[64], *end;
    locale_t before;
    ck_assert_str_eq(localeconv()->decimal_point, ","); /* or nothing is tested */
    ck_assert(ts_strtod("1.5", &end) == 1.5 && *end == '\0');
    ck_assert(ts_strtof("0.1", &end) == 0.1f && *end == '\0');
    snprintf(text, sizeof text, "%.1f", 1.5);
    ck_assert_str_eq(text, "1,5");
    before = ts_c_locale_enter();
    snprintf(text, sizeof text, "%.1f", 1.5);
    ck_assert_str_eq(text, "1.5");
    ts_c_locale_leave(before);
    snprintf(text, sizeof text, "%.1f", 1.5);
    ck_assert_str_eq(text, "1,5");
    *ts_decimal_f64(text, 0.1 + 0.2) = '\0'; /* 17 digits, which are tried by printing */
    ck_assert_str_eq(text, "0.30000000000000004");
}
END_TEST

int main(void)
{
    char dir[] = "/tmp/c_locale.XXXXXX", command[256];
    int made, status = 77;
    Suite *suite = suite_create("c_locale");
    TCase *tc = tcase_create("point");
    if (mkdtemp(dir) == NULL)
        return 77;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2> /dev/null",
             dir);
    made = system(command); /* which warns of this or that */
    (void)made;
    setenv("LOCPATH", dir, 1);
    tcase_add_test(tc, reads_and_writes_a_point);
    suite_add_tcase(suite, tc);
    if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL)
        status = test_run_suite(suite, CK_NOFORK);
    snprintf(command, sizeof command, "rm -r %s", dir);
    made = system(command);
    return status;
}
