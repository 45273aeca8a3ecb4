/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairs come back in the range of their number, each once, from memory and from a file. */
#include <check.h>
#include <stdlib.h>

#include "source/names/number_pairs.h"
#include "tests/support/run_suite.h"

#define NUMBERS UINT64_C(100003)

static struct ts_err err;
static uint32_t seen[NUMBERS];

struct expected {
    uint64_t first, end;
};

static int take(void *arg, const struct ts_number_pair *pair, uint64_t n, struct ts_err *e)
{
    const struct expected *x = arg;
    (void)e;
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_uint_ge(pair[i].number, x->first);
        ck_assert_uint_lt(pair[i].number, x->end);
        ck_assert_uint_lt(pair[i].value, NUMBERS);
        ck_assert_uint_eq(pair[i].number, pair[i].value * 7919 % NUMBERS / 3 * 3 % NUMBERS);
        seen[pair[i].value]++;
    }
    return 0;
}

START_TEST(pairs_come_back) /* loop test: memory that they fit in, or not */
{
    static const uint64_t bytes[] = { 16 << 20, 1 << 20, 100000, 30000 };
    struct ts_number_pairs *p;
    int rc = ts_number_pairs_new("/tmp", NUMBERS, bytes[_i], NULL, &p, &err);
    uint64_t range, passes = 0;
    ck_assert_msg(rc == 0, "%s", err.text);
    for (uint64_t i = 0; i < NUMBERS; i++) {
        const struct ts_number_pair pair = { i * 7919 % NUMBERS / 3 * 3 % NUMBERS, i };
        ck_assert_int_eq(ts_number_pairs_add(p, pair, &err), 0);
    }
    range = ts_number_pairs_range(p);
    for (; passes < 2; passes++)
        for (uint64_t k = 0; k * range < NUMBERS; k++) {
            struct expected x = { k * range, (k + 1) * range };
            ck_assert_int_eq(ts_number_pairs_read(p, k, take, &x, &err), 0);
        }
    for (uint64_t i = 0; i < NUMBERS; i++) {
        ck_assert_uint_eq(seen[i], passes);
        seen[i] = 0;
    }
    ck_assert_uint_le(range * sizeof(uint64_t), bytes[_i]);
    ts_number_pairs_free(p);
}
END_TEST

START_TEST(too_many_are_refused)
{
    struct ts_number_pairs *p;
    ck_assert_int_eq(ts_number_pairs_new("/tmp", 1 << 30, 1 << 20, NULL, &p, &err), TS_ELIMIT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("number_pairs");
    TCase *t = tcase_create("number_pairs");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, pairs_come_back, 0, 4);
    tcase_add_test(t, too_many_are_refused);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_FORK_GETENV);
}
