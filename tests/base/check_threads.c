/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether threads can be had: all of them where nothing limits, fewer under a limit on addresses,
 * and the sentence for that; the text of OMP_STACKSIZE. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/machine/threads.h"
#include "tests/support/run_suite.h"

#define MIB ((size_t)1 << 20)

/* Sanitizers take more addresses than a limit that means anything here leaves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

START_TEST(a_few_can_be_had)
{
    struct ts_err err;
    ck_assert_uint_eq(ts_threads_possible(0, NULL), 1);
    ck_assert_uint_eq(ts_threads_possible(1, NULL), 1);
    ck_assert_uint_eq(ts_threads_possible(16, NULL), 16);
    ck_assert_int_eq(ts_threads_check(16, &err), 0);
}
END_TEST

#ifndef SANITIZED
START_TEST(a_limit_on_addresses_is_seen)
{
    struct rlimit before, limit;
    struct ts_err err = { 0 };
    int why = 0;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = 1024 * MIB;
    setenv("OMP_STACKSIZE", "64M", 1);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ck_assert_uint_lt(ts_threads_possible(40, &why), 20); /* 16 stacks are a gigabyte */
    ck_assert_uint_gt(ts_threads_possible(40, NULL), 4);
    ck_assert_int_eq(why, EAGAIN);
    ck_assert_int_eq(ts_threads_check(40, &err), TS_ENOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "of 40 threads can be started"));
    setenv("OMP_STACKSIZE", "1M", 1);
    ck_assert_uint_eq(ts_threads_possible(40, NULL), 40);
    unsetenv("OMP_STACKSIZE");
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
}
END_TEST
#endif

START_TEST(stack_sizes_are_those_of_openmp)
{
    ck_assert_uint_eq(ts_threads_stack_bytes(NULL), 0);
    ck_assert_uint_eq(ts_threads_stack_bytes(""), 0);
    ck_assert_uint_eq(ts_threads_stack_bytes("512"), 512 << 10);
    ck_assert_uint_eq(ts_threads_stack_bytes(" 65536 B "), 65536);
    ck_assert_uint_eq(ts_threads_stack_bytes("2k"), 2048);
    ck_assert_uint_eq(ts_threads_stack_bytes("3 M"), 3 * MIB);
    ck_assert_uint_eq(ts_threads_stack_bytes("1G"), 1024 * MIB);
    ck_assert_uint_eq(ts_threads_stack_bytes("1T"), 0);
    ck_assert_uint_eq(ts_threads_stack_bytes("1MB"), 0);
    ck_assert_uint_eq(ts_threads_stack_bytes("-1"), 0);
    ck_assert_uint_eq(ts_threads_stack_bytes("99999999999999999999"), 0);
    ck_assert_uint_eq(ts_threads_stack_bytes("18014398509481983G"), 0);
}
END_TEST

START_TEST(little_work_takes_few_threads)
{
    const uint64_t each = UINT64_C(1) << 20;
    unsetenv("OMP_NUM_THREADS");
    ck_assert_uint_eq(ts_threads_worth(16, 0), 1);
    ck_assert_uint_eq(ts_threads_worth(16, each - 1), 1);
    ck_assert_uint_eq(ts_threads_worth(16, each), 2);
    ck_assert_uint_eq(ts_threads_worth(16, 14 * each), 15);
    ck_assert_uint_eq(ts_threads_worth(16, 15 * each), 16);
    ck_assert_uint_eq(ts_threads_worth(16, UINT64_MAX), 16);
    ck_assert_uint_eq(ts_threads_worth(1, UINT64_MAX), 1);
    setenv("OMP_NUM_THREADS", "16", 1);
    ck_assert_uint_eq(ts_threads_worth(16, 0), 16); /* the user has chosen */
    unsetenv("OMP_NUM_THREADS");
}
END_TEST

/* What OMP_NUM_THREADS says is read by OpenMP when a program starts:
 * tests/engine/check_waits.sh. */
START_TEST(small_stacks_are_refused)
{
    static const char *const small[] = { "16K", "64", "128k", "262143B" }, *const enough[] = {
        "256K", "1M", "nonsense", ""
    };
    struct ts_err err = { 0 };
    uint32_t n;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        setenv("OMP_STACKSIZE", small[i], 1);
        ck_assert_int_eq(ts_threads_get(2, 0, &n, &err), TS_ENOMEM);
        ck_assert_ptr_nonnull(strstr(err.text, "OMP_STACKSIZE gives each thread a stack of "));
    }
    for (size_t i = 0; i < sizeof enough / sizeof *enough; i++) {
        setenv("OMP_STACKSIZE", enough[i], 1);
        ck_assert_int_eq(ts_threads_get(2, 0, &n, &err), 0);
    }
    unsetenv("OMP_STACKSIZE");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("threads");
    TCase *t = tcase_create("threads");
    tcase_add_test(t, a_few_can_be_had);
    tcase_add_test(t, little_work_takes_few_threads);
    tcase_add_test(t, small_stacks_are_refused);
#ifndef SANITIZED
    tcase_add_test(t, a_limit_on_addresses_is_seen);
#endif
    tcase_add_test(t, stack_sizes_are_those_of_openmp);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
