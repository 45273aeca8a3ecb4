/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of records are those that comparing with each split gives, and records of a range keep
 * their order. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "build/ranks/ranges.h"
#include "build/sort/record.h"
#include "tests/support/run_suite.h"

#define MOST 40u /* ranges */

/* Words of few values, so that many records are splits, or differ from them in their last words
 * alone. */
static void draw(uint64_t *rec, uint64_t n, uint32_t words, uint64_t seed)
{
    for (uint64_t i = 0; i < n * words; i++) {
        const uint64_t x = ts_mix(seed + i);
        rec[i] = x % 5 == 0 ? 0 : x % 5 == 1 ? UINT64_MAX : x % 7 << 61;
    }
}

static uint32_t compared_words;

static int by_words(const void *a, const void *b)
{
    return ts_record_compare(a, b, compared_words);
}

static void check(uint32_t n_ranges, uint32_t words, uint64_t n)
{
    uint64_t split[MOST * TS_RECORD_WORDS], count[MOST] = { 0 }, place[MOST], want[MOST] = { 0 };
    uint64_t *rec = malloc((n + 1) * words * sizeof *rec), at = 0;
    uint64_t *out = malloc((n + 1) * words * sizeof *out);
    uint32_t *range = malloc((n + 1) * sizeof *range);
    struct ts_ranges r;
    draw(rec, n, words, n * 31 + n_ranges);
    draw(split, n_ranges - 1, words, n_ranges);
    compared_words = words;
    qsort(split, n_ranges - 1, words * sizeof *split, by_words);
    ts_ranges_set(&r, split, n_ranges, words);
    ts_ranges_find(&r, rec, n, range, count);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t in = 0;
        while (in + 1 < n_ranges &&
               ts_record_compare(split + (uint64_t)in * words, rec + i * words, words) <= 0)
            in++;
        ck_assert_uint_eq(range[i], in);
        want[in]++;
    }
    for (uint32_t k = 0; k < n_ranges; k++) {
        ck_assert_uint_eq(count[k], want[k]);
        place[k] = at;
        at += count[k];
    }
    ts_ranges_move(&r, rec, n, range, place, out);
    at = 0;
    for (uint32_t k = 0; k < n_ranges; k++) {
        for (uint64_t i = 0; i < n; i++)
            if (range[i] == k)
                ck_assert_int_eq(ts_record_compare(rec + i * words, out + at++ * words, words), 0);
        ck_assert_uint_eq(place[k], at);
    }
    free(rec);
    free(out);
    free(range);
}

START_TEST(ranges_are_those_compared)
{
    static const uint64_t sizes[] = { 0, 1, 7, 511, 512, 513, 3000 };
    for (uint32_t n_ranges = 1; n_ranges <= MOST; n_ranges += n_ranges < 9 ? 1 : 10)
        for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check(n_ranges, (uint32_t)_i, sizes[i]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ranges");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, ranges_are_those_compared, 1, 5);
    suite_add_tcase(s, t);
    return test_run_suite(s, CK_FORK_GETENV);
}
