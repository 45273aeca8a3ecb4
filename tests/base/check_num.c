/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for people: three digits, the right unit, nothing like "1024 KiB" at the edges. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/num.h"
#include "tests/support/run_suite.h"

START_TEST(bytes_have_three_digits)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } want[] = {
        { 0, "0 B" },
        { 1023, "1023 B" },
        { 1024, "1.00 KiB" },
        { 1536, "1.50 KiB" },
        { 10230, "9.99 KiB" },
        { 10239, "10.0 KiB" },
        { 1023 * 1024, "1023 KiB" },
        { 1048575, "1.00 MiB" },
        { 64 << 20, "64.0 MiB" },
        { UINT64_MAX, "16.0 EiB" },
    };
    char buf[TS_NUM_CHARS];
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        ck_assert_str_eq(ts_num_bytes(buf, want[i].bytes), want[i].text);
}
END_TEST

START_TEST(counts_have_commas)
{
    char buf[TS_NUM_CHARS];
    ck_assert_str_eq(ts_num_count(buf, 0), "0");
    ck_assert_str_eq(ts_num_count(buf, 999), "999");
    ck_assert_str_eq(ts_num_count(buf, 1000), "1,000");
    ck_assert_str_eq(ts_num_count(buf, 1378268), "1,378,268");
    ck_assert_str_eq(ts_num_count(buf, UINT64_MAX), "18,446,744,073,709,551,615");
}
END_TEST

START_TEST(rates_have_three_digits)
{
    static const struct {
        double x;
        const char *text;
    } want[] = {
        { 0, "0.00" },          { 12.34, "12.3" },     { 999.4, "999" },    { 999.6, "1.00 k" },
        { 12345678, "12.3 M" }, { -4.5e9, "-4.50 G" }, { 1e300, "1e+300" },
    };
    char buf[TS_NUM_CHARS];
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        ck_assert_str_eq(ts_num_short(buf, want[i].x), want[i].text);
}
END_TEST

START_TEST(durations_change_unit)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } want[] = {
        { 0, "0 ns" },
        { 999, "999 ns" },
        { 1000, "1.00 us" },
        { 999499, "999 us" },
        { 999500, "1.00 ms" },
        { 12345678, "12.3 ms" },
        { 999500000, "1.00 s" },
        { 59400000000, "59.4 s" },
        { 59600000000, "1 min 00 s" },
        { 185000000000, "3 min 05 s" },
        { 3599600000000, "1 h 00 min" },
        { UINT64_MAX, "5124095 h 34 min" },
    };
    char buf[TS_NUM_CHARS];
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        ck_assert_str_eq(ts_num_duration(buf, want[i].ns), want[i].text);
}
END_TEST

/* Not numbers, but as small: big blocks are aligned, zero, and end with readable slack. */
START_TEST(big_blocks_hold_what_they_say)
{
    static const size_t sizes[] = { 1, 4096, TS_BIGMEM_HUGE - 1, TS_BIGMEM_HUGE, 5000001 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ts_err err;
        void *addr;
        unsigned char *byte, seen = 0;
        ck_assert_msg(ts_bigmem_new(sizes[i], "a test", &addr, &err) == 0, "%s", err.text);
        byte = addr;
        ck_assert_uint_eq((uintptr_t)addr % (sizes[i] >= TS_BIGMEM_HUGE ? TS_BIGMEM_HUGE : 4096),
                          0);
        ck_assert_uint_ge(ts_bigmem_cost(sizes[i]), sizes[i] + TS_BIGMEM_SLACK);
        for (size_t b = 0; b < sizes[i] + TS_BIGMEM_SLACK; b++)
            seen |= byte[b];
        ck_assert_uint_eq(seen, 0);
        memset(addr, 1, sizes[i]);
        ts_bigmem_free(addr, sizes[i]);
    }
}
END_TEST

START_TEST(too_big_a_block_is_refused)
{
    struct ts_err err;
    void *addr = NULL;
    ck_assert_int_eq(ts_bigmem_new(SIZE_MAX - 10, "a test", &addr, &err), TS_ENOMEM);
    ck_assert_int_eq(ts_bigmem_new((size_t)1 << 60, "factor 2", &addr, &err), TS_ENOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "factor 2"));
    ck_assert_ptr_null(addr);
    ts_bigmem_free(NULL, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("num");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, bytes_have_three_digits);
    tcase_add_test(tc, counts_have_commas);
    tcase_add_test(tc, rates_have_three_digits);
    tcase_add_test(tc, durations_change_unit);
    tcase_add_test(tc, big_blocks_hold_what_they_say);
    tcase_add_test(tc, too_big_a_block_is_refused);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK_GETENV);
}
