/* SPDX-License-Identifier: BSD-3-Clause */
/* run_suite.h - how every program of this folder runs its suite and ends. */
#ifndef TS_TESTS_RUN_SUITE_H
#define TS_TESTS_RUN_SUITE_H

#include <check.h>

/* An assertion that holds leaves no mark. With Check's own, each writes a message to a file, and
 * after the test all are read back, which took most of the time of tests that compare numbers one
 * by one; where a test crashed, the crash itself tells. */
#undef _mark_point
#define _mark_point(file, line) ((void)0)

/* Adds first to end - 1 of a test as a case of its own, so that CK_RUN_CASE picks it: under a slow
 * checker they take long. */
static inline void test_add_some(Suite *suite, const char *name, const TTest *test, int first,
                                 int end)
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, test, first, end);
    suite_add_tcase(suite, tc);
}

static inline void test_add(Suite *suite, const char *name, const TTest *test, int n)
{
    test_add_some(suite, name, test, 0, n);
}

/* Runs and frees the suite; returns the exit status. fork_status is CK_FORK_GETENV (a process for
 * each test, unless the environment says otherwise), or CK_NOFORK where OpenMP threads or a CUDA
 * context are made, which do not survive a fork. */
static inline int test_run_suite(Suite *suite, enum fork_status fork_status)
{
    SRunner *runner = srunner_create(suite);
    int failed;
    srunner_set_fork_status(runner, fork_status);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

#endif
